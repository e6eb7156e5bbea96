"""What a frame that records does to columns: names, places, values, and numbers of each row."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from hbconv.array import Array
from hbconv.containers import Add, Cast, Columns, Impute, IsMissing, Node, Not, Quotient, Relation
from hbconv.parse.tracing.arrays import Traced, TracedMatrix, TracedVector, join
from hbconv.parse.tracing.functions import constant_of, node_of, truth
from hbconv.parse.tracing.trace import ALONE, SERIES, current_trace, refuse

__all__ = ["OTHER_ROWS", "ColumnPlaces", "FrameColumns", "TracedIndex", "by_name", "unique_columns"]


OTHER_ROWS = "Its answer for a row depends on the other rows. Compute it when fitting."


class FrameColumns(Traced):
    """A frame of columns by name, each a node."""

    nodes: dict[Any, Node]
    is_argument: bool

    def __init__(self, nodes: Mapping[Any, Node], *, is_argument: bool = False) -> None:
        self.__dict__["nodes"] = dict(nodes)
        self.__dict__["is_argument"] = is_argument

    def __getitem__(self, key: Any) -> Any:
        raise NotImplementedError

    def _each(self, function: Callable[[Any], Any]) -> Self:
        return type(self)({name: function(self[name]).node for name in self.nodes})

    def _as_asked(self, result: Self, inplace: bool) -> Self | None:
        """Return a result, or take it over as pandas does with ``inplace=True``."""
        if not inplace:
            return result
        self._require_own("writes into its argument, which changes the rows of the caller")
        self.__dict__["nodes"] = result.nodes
        return None

    def _require_own(self, what: str) -> None:
        if self.is_argument:
            refuse(what, "Begin with df = df.copy().")

    # Names.

    def drop(
        self, labels: Any = None, axis: Any = 0, columns: Any = None, inplace: bool = False
    ) -> Self | None:
        """Return a frame without some columns."""
        dropped = columns if columns is not None else labels
        if columns is None and axis not in (1, "columns"):
            refuse("drops rows", ALONE)
        listed = [dropped] if isinstance(dropped, str) else list(dropped)
        self._require_columns(listed)
        kept = {name: node for name, node in self.nodes.items() if name not in listed}
        return self._as_asked(type(self)(kept), inplace)

    def filter(
        self, items: Any = None, like: Any = None, regex: Any = None, axis: Any = None
    ) -> Self:
        """Return the columns of some names."""
        if axis not in (None, 1, "columns"):
            refuse("takes some of the rows", ALONE)
        if items is not None:
            return type(self)({name: self.nodes[name] for name in items if name in self.nodes})
        pattern = re.compile(regex if like is None else re.escape(like))
        return type(self)({n: node for n, node in self.nodes.items() if pattern.search(str(n))})

    def select_dtypes(self, include: Any = None, exclude: Any = None) -> Self:
        """Return the columns of some kinds, as they were in the rows given at conversion."""
        kinds = {name: _kind_of(name, node) for name, node in self.nodes.items()}
        kept, left = _kinds_named(include), _kinds_named(exclude)
        names = [n for n, kind in kinds.items() if (kept is None or kind in kept)]
        names = [n for n in names if left is None or kinds[n] not in left]
        return type(self)({name: self.nodes[name] for name in names})

    def reindex(
        self, labels: Any = None, columns: Any = None, axis: Any = None, fill_value: Any = np.nan
    ) -> Self:
        """Return some columns in another order, and a constant for those that are not there."""
        listed = columns if columns is not None else labels
        if columns is None and axis not in (1, "columns"):
            refuse("orders rows", ALONE)
        names = list(listed)
        found = [self.nodes.get(name) or node_of(constant_of(fill_value)) for name in names]
        return type(self)(unique_columns(names, found))

    def _require_columns(self, names: Any) -> None:
        for name in names:
            if name not in self.nodes:
                raise KeyError(name)

    def insert(self, loc: int, column: Any, value: Any) -> None:
        """Put a new column at a place."""
        self._require_own("writes into its argument, which changes the rows of the caller")
        names = list(self.nodes)
        names.insert(loc, column)
        self[column] = value
        self.__dict__["nodes"] = unique_columns(names, [self.nodes[name] for name in names])

    def rename(self, columns: Any, inplace: bool = False) -> Self | None:
        """Return the same columns under other names."""
        new = [
            columns.get(n, n) if isinstance(columns, Mapping) else columns(n) for n in self.nodes
        ]
        return self._as_asked(type(self)(unique_columns(new, self.nodes.values())), inplace)

    def add_prefix(self, prefix: str) -> Self | None:
        """Return the same columns under longer names."""
        return self.rename(lambda name: f"{prefix}{name}")

    def add_suffix(self, suffix: str) -> Self | None:
        """Return the same columns under longer names."""
        return self.rename(lambda name: f"{name}{suffix}")

    # Values.

    def fillna(self, value: Any, inplace: bool = False) -> Self | None:
        """Fill missing values, of all columns or of those of a dict."""
        value = by_name(value)
        if not isinstance(value, Mapping):
            return self._as_asked(self._each(lambda column: column.fillna(value)), inplace)
        filled = self._each(lambda c: c.fillna(value[c.name]) if c.name in value else c)
        return self._as_asked(filled, inplace)

    def astype(self, dtype: Any) -> Self:
        """Convert columns."""
        if not isinstance(dtype, Mapping):
            return self._each(lambda column: column.astype(dtype))
        return self._each(lambda c: c.astype(dtype[c.name]) if c.name in dtype else c)

    def isna(self) -> Self:
        """Tell which values are missing."""
        return self._each(lambda column: column.isna())

    isnull = isna

    def notna(self) -> Self:
        """Tell which values are not missing."""
        return self._each(lambda column: column.notna())

    def clip(self, lower: Any = None, upper: Any = None) -> Self:
        """Bound the numbers."""
        return self._each(lambda column: column.clip(lower, upper))

    def round(self, decimals: Any = 0) -> Self:
        """Round to decimals, of all columns or of those of a dict."""
        if not isinstance(decimals, Mapping):
            return self._each(lambda column: column.round(decimals))
        return self._each(lambda c: c.round(decimals[c.name]) if c.name in decimals else c)

    def pow(self, other: Any) -> Self:
        """Raise to a power."""
        return self._each(lambda column: column**other)

    def __pow__(self, exponent: Any) -> Self:
        return self.pow(exponent)

    def abs(self) -> Self:
        """Return sizes."""
        return self._each(abs)

    def to_numpy(self, dtype: Any = None) -> TracedMatrix:
        """Return an array of all columns."""
        if any(current_trace().kind_of(node) == "narrow" for node in self.nodes.values()):
            refuse("makes an array of narrow ints", "Convert them first: df.astype(float).")
        matrix = join([TracedVector(node) for node in self.nodes.values()])
        return matrix if dtype is None else matrix.astype(dtype)

    # A number of each row.

    def sum(self, axis: Any = 0, skipna: bool = True) -> Any:
        """Add the columns of each row, without missing values."""
        self._need_columns_axis(axis)
        return _column(_sum(list(self.nodes.values()), skipna=skipna))

    def mean(self, axis: Any = 0, skipna: bool = True) -> Any:
        """Return the mean of each row, without missing values."""
        self._need_columns_axis(axis)
        nodes = [Cast(node, "float64") for node in self.nodes.values()]
        present = _sum([Cast(Not(IsMissing(node)), "float64") for node in nodes], skipna=False)
        count = present if skipna else node_of(constant_of(float(len(nodes))))
        return _column(Quotient((_sum(nodes, skipna=skipna), count)))

    def max(self, axis: Any = 0, skipna: bool = True) -> Any:
        """Return the largest number of each row."""
        return self._reduced(axis, np.nanmax if skipna else np.max)

    def min(self, axis: Any = 0, skipna: bool = True) -> Any:
        """Return the smallest number of each row."""
        return self._reduced(axis, np.nanmin if skipna else np.min)

    def std(self, axis: Any = 0, skipna: bool = True, ddof: int = 1) -> Any:
        """Return the standard deviation of each row."""
        return self._reduced(axis, np.nanstd if skipna else np.std, ddof=ddof)

    def var(self, axis: Any = 0, skipna: bool = True, ddof: int = 1) -> Any:
        """Return the variance of each row."""
        return self._reduced(axis, np.nanvar if skipna else np.var, ddof=ddof)

    def dot(self, other: Any) -> Any:
        """Return the product with the constants of a vector."""
        if np.ndim(other) != 1 or by_name(other) is not other:
            refuse("multiplies by other than one vector", "Give an array of shape (n_columns,).")
        product: Any = self.to_numpy() @ np.asarray(other)
        return _column(product.node)

    def _reduced(self, axis: Any, statistic: Callable[..., Any], **keywords: Any) -> Any:
        self._need_columns_axis(axis)
        return _column(statistic(self.to_numpy(), axis=1, **keywords).node)

    def any(self, axis: Any = 0) -> Any:
        """Tell whether a column of each row holds."""
        return self._combined(axis, "or")

    def all(self, axis: Any = 0) -> Any:
        """Tell whether all columns of each row hold."""
        return self._combined(axis, "and")

    def _combined(self, axis: Any, relation: str) -> Any:
        self._need_columns_axis(axis)
        first, *others = map(truth, self.nodes.values())
        for other in others:
            first = Relation(first, other, relation)
        return _column(first)

    def _need_columns_axis(self, axis: Any) -> None:
        if axis not in (1, "columns"):
            refuse("reduces the rows", OTHER_ROWS)
        if not self.nodes:
            refuse("reduces rows without columns")


_KINDS_BY_NAME = {
    "number": "number", "bool": "bool", "boolean": "bool", "object": "text", "str": "text",
    "string": "text", "category": "category", "datetime": "date", "datetime64": "date",
    "datetime64[ns]": "date",
}  # fmt: skip
"""Kinds of columns by the names of types that take all of one."""


def _kinds_named(types: Any) -> set[str] | None:
    if types is None:
        return None
    listed = types if isinstance(types, list | tuple) else [types]
    names = [t if isinstance(t, str) else getattr(t, "__name__", "") for t in listed]
    unknown = [name for name in names if name not in _KINDS_BY_NAME]
    if unknown:
        refuse(f"selects columns of type {unknown[0]!r}", "Name the columns, or use 'number'.")
    return {_KINDS_BY_NAME[name] for name in names}


def _kind_of(name: Any, node: Node) -> str:
    """Return what a column holds: as computed, or as the rows tell that were given."""
    trace = current_trace()
    if node in trace.categories:
        return "category"
    if not isinstance(node, Columns):
        is_bool = node.type.dtype == "bool"
        return "bool" if is_bool else trace.kind_of(node)
    kind = trace.given.get(node.columns[0], "")
    if not kind:
        refuse(f"asks for the type of column {name!r}", "Give rows: convert(..., sample=X[:5]).")
    return kind


def _column(node: Node) -> Any:
    return SERIES["number"](node, None)


def _sum(nodes: Sequence[Node], *, skipna: bool) -> Node:
    numbers = [Cast(n, "int64") if n.type.dtype == "bool" else n for n in nodes]
    zero = Array(np.zeros(1))
    filled = [Impute(n, zero) for n in numbers] if skipna else numbers
    return Add(tuple(filled)) if len(filled) > 1 else filled[0]


def unique_columns(names: Sequence[Any], nodes: Any) -> dict[Any, Node]:
    """Return columns by name, of which no two are one."""
    if len(set(names)) < len(names):
        refuse("makes two columns of one name", "Give each column a name of its own.")
    return dict(zip(names, nodes, strict=True))


def by_name(value: Any) -> Any:
    """Return a constant series as a dict, and others as they are."""
    is_series = type(value).__name__ == "Series" and hasattr(value, "to_dict")
    return value.to_dict() if is_series else value


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
