"""Temporary files stand in memory or in a folder, and a message says what to do without either."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

import pytest

from hbconv.errors import OptionError
from hbconv.system.temporary import (
    folder_of_temporaries,
    memory_file,
    scratch_path,
    temporary_folder,
)

IN_MEMORY = pytest.mark.skipif(
    not hasattr(os, "memfd_create"), reason="only Linux has files in memory"
)
PLACES = [pytest.param("memory", marks=IN_MEMORY), "folder"]


@pytest.fixture(params=PLACES)
def place(request, monkeypatch):
    """Have files in memory, or none."""
    if request.param == "folder":
        monkeypatch.delattr(os, "memfd_create", raising=False)
    return request.param


@pytest.fixture
def nowhere(monkeypatch):
    """Take away every folder for temporary files."""

    def fail():
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", fail)


def test_what_others_write_to_a_path_is_read(place):
    with scratch_path("notes.txt") as path:
        path.write_text("first, and long")
        path.write_text("second")
        assert path.read_text() == "second"
        assert (path.name == "notes.txt") == (place == "folder")
    assert not path.exists()


@pytest.mark.usefixtures("place")
def test_errors_of_the_block_pass():
    with pytest.raises(FileNotFoundError, match="of the caller"), scratch_path("notes.txt"):
        raise FileNotFoundError(errno.ENOENT, "of the caller")


@IN_MEMORY
@pytest.mark.usefixtures("nowhere")
def test_memory_needs_no_folder():
    with scratch_path("notes.txt") as path:
        path.write_text("written")
        assert path.read_text() == "written"


@IN_MEMORY
def test_no_path_comes_twice():
    """A loader returns the former library for a path that it knows."""
    paths = []
    for _ in range(3):
        with memory_file("kernel.so") as file:
            paths.append(file.path)
            Path(file.path).write_bytes(b"data")
            assert os.pread(file.descriptor, 9, 0) == b"data"
    assert len(set(paths)) == 3


@IN_MEMORY
def test_files_that_must_not_be_executed_are_made_so(monkeypatch):
    """As with vm.memfd_noexec=2, which wants the flag 8."""
    real = os.memfd_create

    def create(name, flags):
        if not flags & 8:
            raise PermissionError(errno.EACCES, "executable file in memory")
        return real(name, flags)

    monkeypatch.setattr(os, "memfd_create", create)
    with memory_file("kernel.so") as file:
        assert Path(file.path).stat().st_mode & 0o111 == 0


@IN_MEMORY
def test_a_system_without_proc_gives_a_folder(monkeypatch):
    real = Path.stat

    def stat(path, **how):
        if str(path).startswith("/proc/"):
            raise FileNotFoundError(errno.ENOENT, "no /proc")
        return real(path, **how)

    monkeypatch.setattr(Path, "stat", stat)
    with scratch_path("notes.txt") as path:
        assert path.name == "notes.txt"


@pytest.mark.usefixtures("nowhere")
def test_no_folder_is_an_error_that_says_what_to_set():
    for ask in (folder_of_temporaries, lambda: temporary_folder().__enter__()):
        with pytest.raises(OptionError, match=r"No usable temporary directory .* TMPDIR"):
            ask()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EFBIG])
def test_a_full_folder_is_an_error_that_says_what_to_set(number):
    with pytest.raises(OptionError, match="TMPDIR") as caught, temporary_folder() as folder:
        raise OSError(number, os.strerror(number), str(folder))
    assert not folder.exists()
    assert str(folder) in str(caught.value)
