"""What is compiled for: the machine, and how a program is cut for it."""
