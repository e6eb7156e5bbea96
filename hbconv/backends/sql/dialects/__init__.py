"""Dialects: what each database says in a way of its own, one a file."""

from __future__ import annotations

from hbconv.backends.sql.dialects.base import Dialect
from hbconv.backends.sql.dialects.postgres import PostgreSQL
from hbconv.backends.sql.dialects.spark import Spark
from hbconv.backends.sql.dialects.sqlite import SQLite
from hbconv.names import unknown

__all__ = ["find_dialect"]

_DIALECTS = {dialect.name: dialect for dialect in (Dialect(), PostgreSQL(), Spark(), SQLite())}


def find_dialect(name: str) -> Dialect:
    """Return the dialect of that name, or raise OptionError with the nearest names."""
    if name not in _DIALECTS:
        raise unknown("dialect", name, tuple(_DIALECTS))
    return _DIALECTS[name]
