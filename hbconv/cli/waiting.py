"""Say on standard error what a command waits for, where that takes long.

A terminal is told after a second, and sees the seconds go by. A log keeps every line, so it gets
the first after half a minute.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

__all__ = ["FIRST_SECONDS", "LOG_SECONDS", "waiting"]

FIRST_SECONDS = 1.0
"""What takes less is not worth a line on a terminal."""
LOG_SECONDS = 30.0
"""Between the lines of a log."""


@contextmanager
def waiting(what: str, *, quiet: bool = False) -> Iterator[None]:
    """Tell of work that takes long while the block runs.

    Parameters
    ----------
    what : str
        The work, such as ``"Converting model.txt"``.
    quiet : bool
        Tell nothing.
    """
    if quiet:
        yield
        return
    done = threading.Event()
    tell = _tell_terminal if sys.stderr.isatty() else _tell_log
    teller = threading.Thread(target=tell, args=(what, done), daemon=True)
    teller.start()
    try:
        yield
    finally:
        done.set()
        teller.join()


def _tell_terminal(what: str, done: threading.Event) -> None:
    began = time.monotonic()
    if done.wait(FIRST_SECONDS):
        return
    # The terminal may be closed while the work goes on.
    with suppress(OSError, ValueError):
        while not done.wait(0.1):
            sys.stderr.write(f"\r{what} ... {time.monotonic() - began:.0f} s")
            sys.stderr.flush()
        # To the start of the line, and what stands in it is erased.
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def _tell_log(what: str, done: threading.Event) -> None:
    began = time.monotonic()
    with suppress(OSError, ValueError):
        while not done.wait(LOG_SECONDS):
            print(f"{what}: {time.monotonic() - began:.0f} s so far", file=sys.stderr, flush=True)
