"""Failures: what clients and the log are told of them."""

from __future__ import annotations

import logging

from hbconv.errors import HbconvError, InputError, OptionError

__all__ = ["RefusedError", "log_failure", "to_refusal"]

MOST_MESSAGE = 4000
"""Characters of what a client is told: some messages list names."""

_log = logging.getLogger("hbconv.serve")


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
