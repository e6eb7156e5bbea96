# Two commands do everything on a fresh machine with Python:  make demo   and   make test
