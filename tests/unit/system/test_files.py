"""Files appear whole or not at all; of two writers one wins, and what the dead left is swept."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from hbconv.system.files import appearing, appearing_new, lock_file, scratch, sweep

DIES = """
import os, sys
from hbconv.system.files import appearing, scratch
with scratch(sys.argv[1]) as one, appearing(sys.argv[1] + "/notes.txt") as other:
    one.write_text("half"), other.write_text("half")
    os._exit(9)
"""


@pytest.fixture
def no_links(monkeypatch):
    """A file system that knows no second name of a file."""

    def refuse(*_):
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuse)


class TestNew:
    @pytest.mark.parametrize("links", ["links", "no_links"])
    def test_takes_a_free_name(self, tmp_path, request, links):
        if links == "no_links":
            request.getfixturevalue(links)
        with appearing_new(tmp_path / "o.txt") as temporary:
            temporary.write_text("whole")
        assert [path.name for path in tmp_path.iterdir()] == ["o.txt"]
        assert (tmp_path / "o.txt").read_text() == "whole"

    @pytest.mark.parametrize("links", ["links", "no_links"])
    @pytest.mark.parametrize("there", ["file", "dangling link", "folder"])
    def test_replaces_nothing(self, tmp_path, request, there, links):
        """What appears while the file is written stays as it is."""
        if links == "no_links":
            request.getfixturevalue(links)
        target = tmp_path / "o.txt"
        make = {
            "file": lambda: target.write_text("another's"),
            "folder": target.mkdir,
            "dangling link": lambda: target.symlink_to("nowhere"),
        }
        with pytest.raises(FileExistsError), appearing_new(target):
            make[there]()
        assert [path.name for path in tmp_path.iterdir()] == ["o.txt"]
        assert there != "file" or target.read_text() == "another's"
        assert target.is_symlink() == (there == "dangling link")


class TestSweep:
    def test_removes_what_the_dead_left_alone(self, tmp_path):
        """Others that live are writing in the same folder, and files of others have like names."""
        others = [".hbconv-notes", ".hbconv-a1b2c3d4.txt", ".o.csv.a1b2c3d4"]
        for name in others:
            (tmp_path / name).touch()
        ran = subprocess.run([sys.executable, "-c", DIES, tmp_path], check=False)
        assert ran.returncode == 9
        assert len(list(tmp_path.iterdir())) == len(others) + 2
        with appearing(tmp_path / "b.txt") as one, scratch(tmp_path) as other:
            sweep(tmp_path)
            assert one.exists()
            assert other.exists()
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*others, "b.txt"])

    def test_follows_no_link(self, tmp_path):
        (tmp_path / "precious").write_text("mine")
        (tmp_path / ".hbconv-a1b2c3d4").symlink_to("precious")
        sweep(tmp_path)
        assert (tmp_path / "precious").read_text() == "mine"

    def test_needs_no_folder(self, tmp_path):
        sweep(tmp_path / "none")

    def test_of_a_file_that_is_begun_lets_it_begin_again(self, tmp_path, monkeypatch):
        """Between its making and its lock, another process may take a file for a dead one's."""
        made = os.open
        swept = []

        def make(path, flags, *mode):
            found = made(path, flags, *mode)
            if not swept and flags & os.O_CREAT:
                swept.append(Path(path))
                sweep(tmp_path)
            return found

        monkeypatch.setattr(os, "open", make)
        with appearing(tmp_path / "o.txt") as temporary:
            temporary.write_text("whole")
        assert not swept[0].exists()
        assert (tmp_path / "o.txt").read_text() == "whole"


@pytest.mark.parametrize("at", ["open", "lock_file"])
def test_a_signal_right_behind_the_making_of_a_file_leaves_none(at, tmp_path, monkeypatch):
    """As that of a closed terminal, which may come before anything knows of the file."""
    owner = "os" if at == "open" else "hbconv.system.files"
    made = os.open if at == "open" else (lambda _: True)

    def interrupted(*given):
        made(*given)
        assert len(list(tmp_path.iterdir())) == 1
        raise KeyboardInterrupt

    monkeypatch.setattr(f"{owner}.{at}", interrupted)
    with pytest.raises(KeyboardInterrupt), scratch(tmp_path):
        pass
    monkeypatch.undo()
    assert list(tmp_path.iterdir()) == []


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
