"""The log: one line a record, for people or as JSON, on standard error of each process.

All of it goes through Python's ``logging``: ``hbconv.serve`` says what the server does, and
``hbconv.access`` has a line for each request. A line of both kinds has the fields of ``extra``.

Who sends the same bad request again and again does not fill the disk with warnings.
"""

from __future__ import annotations

import json
import logging
import re
import time
import warnings
from functools import lru_cache
from typing import Any

from hbconv.serve.settings import Settings

__all__ = ["JsonLines", "LogRate", "TextLines", "begin_log", "log_access"]

_access = logging.getLogger("hbconv.access")
MOST_REASON = 500
"""Characters of a reason that a line has: some messages list names, and clients choose some."""

MOST_LINES = 10
"""Of one kind in ``PERIOD_SECONDS``."""
PERIOD_SECONDS = 10.0


def begin_log(settings: Settings) -> None:
    """Write the log of this process to standard error, as the settings say.

    A process that has handlers already routes the log by itself.
    """
    _access.disabled = not settings.access_log
    if logging.getLogger().handlers:
        return
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if settings.log_format == "json" else TextLines())
    # A filter of a logger does not see the records of its children; one of a handler does.
    handler.addFilter(LogRate())
    logging.basicConfig(level=settings.log_level.upper(), handlers=[handler])
    # A warning is a line of the log, without the line of source that gave it.
    warnings.formatwarning = lambda message, category, *_, **__: f"{category.__name__}: {message}"
    logging.captureWarnings(capture=True)
    # No line has them.
    logging.logThreads = logging.logMultiprocessing = False


def log_access(
    request: str,
    status: str,
    seconds: float,
    *,
    rows: int | None,
    model: str,
    version: str,
    id: str,  # noqa: A002
    error: str,
) -> None:
    """Log a request that is answered.

    Parameters
    ----------
    request : str
        Its method and path.
    status : str
        What it was answered by.
    seconds : float
    rows : int, optional
        How many it has.
    model, version, id : str
        Empty where it has none.
    error : str
        Why it is refused.
    """
    if not _access.isEnabledFor(logging.INFO):
        return
    fields: dict[str, object] = {
        "rows": rows,
        "ms": round(seconds * 1000, 3),
        "model": model,
        "version": version,
        "id": id,
        "error": error[:MOST_REASON],
    }
    known = {name: value for name, value in fields.items() if value not in (None, "")}
    _access.info("%s %s", request, status, extra={"fields": known})


class TextLines(logging.Formatter):
    """Writes time, level, logger, message, and fields as ``name=value``.

    Examples
    --------
    >>> record = logging.LogRecord("hbconv.access", logging.INFO, "", 0, "GET / 200", (), None)
    >>> record.fields = {"ms": 0.25, "error": "a b"}
    >>> TextLines().format(record)[25:]
    'INFO hbconv.access: GET / 200 ms=0.25 error="a b"'
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return a line; a trace follows on lines of its own."""
        fields = "".join([f" {name}={_word(value)}" for name, value in _fields(record).items()])
        level, message = record.levelname, _one_line(record.getMessage())
        line = f"{_time(record)} {level} {record.name}: {message}{fields}"
        return line if record.exc_info is None else f"{line}\n{_trace(self, record)}"


class JsonLines(logging.Formatter):
    """Writes an object: time, level, logger, message, process, and the fields of the record.

    Examples
    --------
    >>> record = logging.LogRecord("hbconv.access", logging.INFO, "", 0, "GET / 200", (), None)
    >>> record.fields = {"ms": 0.25}
    >>> line = json.loads(JsonLines().format(record))
    >>> line["level"], line["logger"], line["message"], line["ms"]
    ('INFO', 'hbconv.access', 'GET / 200', 0.25)
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return a line; a trace is a field."""
        line = {
            "time": _time(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage().strip(),
            "process": record.process,
            **_fields(record),
        }
        if record.exc_info is not None:
            line["trace"] = _trace(self, record)
        return json.dumps(line, default=str)


def _time(record: logging.LogRecord) -> str:
    """Return the time of a record, to the millisecond, at UTC."""
    return f"{_second(int(record.created))}.{int(record.msecs):03d}Z"


@lru_cache(4)
def _second(second: int) -> str:
    # Lines of one second share it.
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    return getattr(record, "fields", {})


def _trace(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    return formatter.formatException(record.exc_info) if record.exc_info else ""


def _one_line(text: str) -> str:
    """Return a text without ends of lines: a client may have chosen a part of it."""
    text = text.strip()
    return text if text.isprintable() else json.dumps(text)[1:-1].replace('\\"', '"')


def _word(value: object) -> str:
    """Return a value as it stands in a line: in quotes where it is no plain word."""
    text = str(value)
    return text if _PLAIN(text) else json.dumps(text)


_PLAIN = re.compile(r"[!#-<>-~]+").fullmatch
"""Whether a text is printable ASCII without blanks, quotes and signs of equality."""


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
