"""The rate of the log: who sends the same bad request again and again does not fill the disk."""

from __future__ import annotations

import logging
import time

__all__ = ["LogRate", "begin_log"]

MOST_LINES = 10
"""Of one kind in ``PERIOD_SECONDS``."""
PERIOD_SECONDS = 10.0


def begin_log() -> None:
    """Write the log of this process to standard error, few lines of each kind."""
    logging.basicConfig(level=logging.INFO, format="hbconv: %(message)s")
    for handler in logging.getLogger().handlers:
        handler.addFilter(LogRate())


class LogRate(logging.Filter):
    """Lets few warnings and errors of each kind pass: of one line of code.

    The first one of the next period tells how many were left out.
    """

    def __init__(self) -> None:
        super().__init__()
        self._periods: dict[tuple[str, int], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether a record passes."""
        if record.levelno < logging.WARNING:
            return True
        kind, now = (record.pathname, record.lineno), time.monotonic()
        began, count = self._periods.get(kind, (now, 0))
        if now < began + PERIOD_SECONDS:
            self._periods[kind] = began, count + 1
            return count < MOST_LINES
        self._periods[kind] = now, 1
        if count > MOST_LINES:
            record.msg = f"{record.getMessage()} ({count - MOST_LINES} more like it are left out)"
            record.args = ()
        return True
