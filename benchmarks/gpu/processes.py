"""Run a command within a time limit; what it started is killed with it, wherever it went."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import IO
from uuid import uuid4

__all__ = ["ROOT", "Ended", "find_paths", "python", "run_limited"]

ROOT = Path(__file__).parents[2]
FOLDERS = (".", "strategies", "datasets", "tests", "tests/support")
LOOK_SECONDS = 0.1
KILL_SECONDS = 5.0
"""How long processes may take to die; one that a driver holds is left to it."""
SAID_BYTES = 3000
"""The end of what a command writes: it may write without end."""


@dataclass(frozen=True)
class Ended:
    """How a command ended.

    Attributes
    ----------
    status : int or None
        None where it was killed for its limit.
    seconds : float
    said : str
        The end of its output and errors.
    """

    status: int | None
    seconds: float
    said: str


def find_paths() -> list[str]:
    """Return the folders of the source tree that are imported from."""
    return [str(ROOT / folder) for folder in FOLDERS]


def run_limited(
    words: Sequence[str],
    seconds: float,
    look: Callable[[], None] = lambda: None,
    environment: Mapping[str, str] = {},
) -> Ended:
    """Run a command for some seconds at most, and call a function now and then meanwhile.

    A mark in the environment tells what belongs to it: processes of other groups and sessions too.
    """
    mark = f"HBCONV_LIMITED_{uuid4().hex}"
    began = time.monotonic()
    process = subprocess.Popen(
        words, cwd=ROOT, env={**_environment(mark), **environment}, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    said = bytearray()
    assert process.stdout is not None
    reader = Thread(target=_keep_end, args=(process.stdout, said), daemon=True)
    reader.start()
    try:
        while process.poll() is None and time.monotonic() - began < seconds:
            look()
            time.sleep(LOOK_SECONDS)
        status = process.poll()
    finally:
        _kill(mark)
    taken = time.monotonic() - began
    with suppress(subprocess.TimeoutExpired):
        process.wait(KILL_SECONDS)
    reader.join(1)
    look()
    return Ended(status, round(taken, 1), bytes(said).decode(errors="replace"))


def _environment(mark: str) -> dict[str, str]:
    paths = [*find_paths(), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), mark: "1"}


def _keep_end(pipe: IO[bytes], said: bytearray) -> None:
    """Read all that is written, and keep its end."""
    with pipe:
        while block := os.read(pipe.fileno(), 1 << 16):
            said += block
            del said[:-SAID_BYTES]


def _kill(mark: str) -> None:
    """Kill all processes that carry a mark, until none is left."""
    until = time.monotonic() + KILL_SECONDS
    while (found := list(_marked(mark))) and time.monotonic() < until:
        for number in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(number, signal.SIGKILL)
        time.sleep(0.01)


def _marked(mark: str) -> Iterator[int]:
    """Yield the processes whose environment holds a mark."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark.encode() in (folder / "environ").read_bytes():
                yield int(folder.name)


def python(*words: str) -> list[str]:
    """Return the command that runs a module by this Python."""
    return [sys.executable, "-m", *words]
