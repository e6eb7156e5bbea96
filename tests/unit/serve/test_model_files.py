"""What is no file among the models is refused by its kind, and not opened."""

from __future__ import annotations

import asyncio
import os
import socket

import pytest

from hbconv.errors import OptionError, StoreError
from hbconv.serve.model_files import Assignment, ModelFile, find_models, fingerprint
from hbconv.serve.processes import supervisor
from hbconv.serve.processes.supervisor import GenerationProcess
from hbconv.serve.settings import Settings


def listening_at(path):
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


KINDS = {
    "is a pipe": os.mkfifo,
    "is a device": lambda path: path.symlink_to("/dev/zero"),
    "is a folder": lambda path: path.mkdir(),
    "is a socket": listening_at,
    "cannot be read: Too many levels of symbolic links": lambda path: path.symlink_to(path),
    "No file": lambda path: path.symlink_to("nothing"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["m.hbc", "m/2.hbc"])
def test_what_is_no_file_is_refused(tmp_path, monkeypatch, kind, name):
    monkeypatch.chdir(tmp_path)  # a socket has a short path
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    KINDS[kind](path.relative_to(tmp_path) if "socket" in kind else path)
    with pytest.raises(OptionError, match=kind):
        find_models([tmp_path])
    before = fingerprint([tmp_path])
    assert kind in before[0][0]
    path.rmdir() if path.is_dir() else path.unlink()
    assert fingerprint([tmp_path]) == ()


def test_a_start_has_a_limit(tmp_path, monkeypatch):
    """A file may become a pipe after it is looked at."""
    os.mkfifo(tmp_path / "m.hbc")
    monkeypatch.setattr(supervisor, "START_SECONDS", 0.1)
    assignment = Assignment((ModelFile("m", "1", tmp_path / "m.hbc"),), (), Settings())

    async def run():
        with socket.create_server(("127.0.0.1", 0)) as listening:
            await GenerationProcess.start(assignment, listening, dict(os.environ))

    with pytest.raises(StoreError, match="not ready within 0 seconds"):
        asyncio.run(run())


def test_a_link_to_another_folder_is_another_state(tmp_path):
    """Which is how models are swapped all at once."""
    for name in ("blue", "green"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "m.hbc").write_bytes(b"PK\3\4 of manifest.json")
    current, following = tmp_path / "current", tmp_path / "next"
    current.symlink_to("blue")
    before = fingerprint([current])
    following.symlink_to("green")
    following.replace(current)
    assert fingerprint([current]) != before
    assert find_models([current])[0].name == "m"
