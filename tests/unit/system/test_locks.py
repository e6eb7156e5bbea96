"""Files are locked by whatever the system has, or by nothing."""

from __future__ import annotations

import errno
import sys
from types import SimpleNamespace

import pytest

from hbconv.system.locks import lock_file


@pytest.fixture
def windows(monkeypatch):
    """Take fcntl away, and put a module of Windows in its place, which has one lock."""
    held = []

    def locking(descriptor, mode, size):
        assert (mode, size) == ("without waiting", 1)
        if held:
            raise PermissionError(errno.EACCES, "locked")
        held.append(descriptor)

    module = SimpleNamespace(locking=locking, LK_NBLCK="without waiting")
    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setitem(sys.modules, "msvcrt", module)
    return module


def two_files(folder):
    (folder / "lock").touch()
    return (folder / "lock").open("rb"), (folder / "lock").open("rb")


def test_one_of_two_has_a_lock_until_it_is_closed(tmp_path):
    first, second = two_files(tmp_path)
    with second:
        with first:
            assert lock_file(first.fileno()) is True
            assert lock_file(second.fileno()) is False
        assert lock_file(second.fileno()) is True


@pytest.mark.usefixtures("windows")
def test_windows_has_locks_of_its_own(tmp_path):
    first, second = two_files(tmp_path)
    with first, second:
        assert lock_file(first.fileno()) is True
        assert lock_file(second.fileno()) is False


def test_a_file_system_may_have_none(tmp_path, windows):
    def locking(*_):
        raise OSError(errno.ENOLCK, "no locks")

    windows.locking = locking
    with (tmp_path / "lock").open("wb") as file:
        assert lock_file(file.fileno()) is None


def test_a_system_may_have_none(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setitem(sys.modules, "msvcrt", None)
    with (tmp_path / "lock").open("wb") as file:
        assert lock_file(file.fileno()) is None
