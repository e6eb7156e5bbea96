"""Failures: what clients are told of them, and what the log is.

Who sends the same bad request again and again does not fill the disk with the log.
"""

from __future__ import annotations

import logging
import time

from hbconv.errors import HbconvError, InputError, OptionError

__all__ = ["LogRate", "RefusedError", "begin_log", "log_failure", "to_refusal"]

MOST_MESSAGE = 4000
"""Characters of what a client is told: some messages list names."""

_log = logging.getLogger("hbconv.serve")

MOST_LINES = 10
"""Of one kind in ``PERIOD_SECONDS``."""
PERIOD_SECONDS = 10.0


class RefusedError(Exception):
    """A request is not answered.

    Parameters
    ----------
    status : int
        The status of HTTP.
    name : str
        The kind of error: a class of ``hbconv.errors``, or a word for what the server refuses.
    message : str
        What is wrong, and what to do.
    headers : tuple of pairs of bytes
        Of the answer over HTTP.
    """

    def __init__(
        self, status: int, name: str, message: str, headers: tuple[tuple[bytes, bytes], ...] = ()
    ) -> None:
        super().__init__(f"{name}: {message:.{MOST_MESSAGE}}")
        self.status = status
        self.name = name
        self.headers = headers


def to_refusal(error: Exception) -> RefusedError:
    """Return what a client is told of an error.

    Rows and options that do not fit are the client's to fix. Whatever else fails is the server's,
    and only messages of hbconv's own errors leave it: others may hold secrets.
    """
    if isinstance(error, RefusedError):
        return error
    if isinstance(error, InputError | OptionError):
        return RefusedError(400, type(error).__name__, str(error))
    if isinstance(error, HbconvError):
        return RefusedError(500, type(error).__name__, str(error))
    if isinstance(error, TimeoutError):
        return RefusedError(504, "Timeout", "The answer took longer than the server allows.")
    return RefusedError(500, "Internal", "The server failed. Its log says why.")


def log_failure(error: Exception) -> None:
    """Log what is the server's to fix, with its trace; a request that takes too long has none."""
    if isinstance(error, TimeoutError):
        _log.warning("A request took longer than the server allows")
    elif to_refusal(error).status >= 500 and not isinstance(error, RefusedError):
        _log.error("A request failed", exc_info=error)


def begin_log() -> None:
    """Write the log of this process to standard error, few lines of each kind."""
    logging.basicConfig(level=logging.INFO, format="hbconv: %(message)s")
    # A filter of a logger does not see the records of its children; one of a handler does.
    for handler in logging.getLogger().handlers:
        handler.addFilter(LogRate())


class LogRate(logging.Filter):
    """Lets few warnings and errors of each kind pass: of one line of code.

    The first one of the next period reports how many were left out.
    """

    def __init__(self) -> None:
        super().__init__()
        self._periods: dict[tuple[str, int], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether a record passes."""
        if record.levelno < logging.WARNING:
            return True
        # By line of code, not by text: a text may hold a name that a client chose.
        kind, now = (record.pathname, record.lineno), time.monotonic()
        began, count = self._periods.get(kind, (now, 0))
        if now < began + PERIOD_SECONDS:
            self._periods[kind] = began, count + 1
            return count < MOST_LINES
        self._periods[kind] = now, 1
        if count > MOST_LINES:
            # The text is formatted here, so the arguments must not be applied to it again.
            record.msg = f"{record.getMessage()} ({count - MOST_LINES} more like it are left out)"
            record.args = ()
        return True
