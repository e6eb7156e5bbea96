"""Places in frames that record: ``loc``, ``iloc`` and ``index``, as far as they name columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from hbconv.parse.tracing.arrays import Traced, TracedVector
from hbconv.parse.tracing.trace import ALONE, refuse

__all__ = ["ColumnPlaces", "TracedIndex"]

_ROWS = "takes some of the rows"


class TracedIndex(Traced):
    """The index of a frame, of which only another frame may be made."""

    def __getattr__(self, name: str) -> Any:
        return refuse(f"looks at DataFrame.index ({name})", ALONE)


class ColumnPlaces:
    """``df.loc`` or ``df.iloc`` of a frame that records.

    Parameters
    ----------
    frame : TracedFrame
    by_name : bool
        Columns are found by their names, else by their positions.
    """

    def __init__(self, frame: Any, *, by_name: bool) -> None:
        self._frame = frame
        self._by_name = by_name

    def __getitem__(self, key: Any) -> Any:
        rows, columns = self._split(key)
        if not _is_all(rows):
            refuse(_ROWS, ALONE)
        return self._frame[self._names(columns)]

    def __setitem__(self, key: Any, value: Any) -> None:
        rows, columns = self._split(key)
        found = self._names(columns)
        for name in found if isinstance(found, list) else [found]:
            if _is_all(rows):
                self._frame[name] = value
                continue
            if not isinstance(rows, TracedVector):
                refuse(_ROWS, ALONE)
            if name not in self._frame.nodes:
                self._frame[name] = np.nan
            self._frame[name] = self._frame[name].mask(rows, value)

    def _split(self, key: Any) -> tuple[Any, Any]:
        if not isinstance(key, tuple) or len(key) != 2:
            refuse(_ROWS, ALONE)
        rows, columns = key
        return rows, columns

    def _names(self, columns: Any) -> Any:
        """Return the name of a column, or those of several."""
        names = list(self._frame.nodes)
        if self._by_name and not isinstance(columns, slice):
            return columns
        if self._by_name:
            if columns.step is not None:
                refuse("takes every so many columns", "Name them.")
            first = 0 if columns.start is None else names.index(columns.start)
            last = len(names) if columns.stop is None else names.index(columns.stop) + 1
            return names[first:last]
        places = np.arange(len(names))[columns]
        return [names[j] for j in places] if np.ndim(places) else names[int(places)]


def _is_all(rows: Any) -> bool:
    return isinstance(rows, slice) and rows == slice(None)
