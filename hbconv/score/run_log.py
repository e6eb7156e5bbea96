"""A log of runs: a line of JSON for each, whether it was done or failed."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from hbconv.errors import OptionError

__all__ = ["log_run"]

MARK = "hbconv"
"""The first key of a line, which tells such a log from other files of JSON lines."""


@contextmanager
def log_run(path: str | None) -> Iterator[dict[str, Any]]:
    """Give a dict for the facts of a run, and add them to a log as a line when the run ends.

    The line also has the version, the start in UTC, the seconds, and the status: done, failed with
    the error, or stopped by a signal.

    Parameters
    ----------
    path : str, optional
        The log; nothing is written without it.

    Raises
    ------
    OptionError
        The file is there, and holds something else.
    """
    facts: dict[str, Any] = {}
    if path is None:
        yield facts
        return
    from hbconv import __version__

    _require_log(path)
    began = time.perf_counter()
    line = {MARK: __version__, "started": datetime.now(UTC).isoformat(timespec="seconds")}
    status: dict[str, Any] = {"status": "done"}
    try:
        yield facts
    except Exception as error:
        status = {"status": "failed", "error": str(error)}
        raise
    except BaseException:
        status = {"status": "stopped"}
        raise
    finally:
        line |= {"wall_seconds": round(time.perf_counter() - began, 3)} | status | facts
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line, default=str) + "\n")


def _require_log(path: str) -> None:
    """Refuse a file that holds something else: a table, a model, or the answers."""
    # A pipe such as /dev/stderr can be written to, and holds nothing.
    if not os.path.isfile(path) or not os.path.getsize(path):
        return
    with open(path, "rb") as file:
        first = file.readline(1 << 20)
    if not first.startswith(f'{{"{MARK}": '.encode()):
        raise OptionError(f"--summary {path} holds something else than runs. Name another file.")
