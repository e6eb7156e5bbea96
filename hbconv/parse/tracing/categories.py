"""Columns whose categories the function knows, the dummies of them, and their codes.

``astype(pd.CategoricalDtype([...]))``, ``pd.Categorical(s, categories=[...])`` and ``pd.cut`` with
labels make such columns. Dummies of other texts depend on the rows, until ``reindex`` names them.
Codes are narrow ints: they may be returned, and not computed with. pandas computes with such ints
in their own dtype, where sums and products overflow.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from hbconv.containers import Cast, Compare, Node
from hbconv.parse.common.edited_texts import text_codes
from hbconv.parse.tracing.frame_columns import by_name, unique_columns
from hbconv.parse.tracing.frames import TracedFrame, TracedSeries, series_of
from hbconv.parse.tracing.functions import constant_of, convert, narrowed, node_of
from hbconv.parse.tracing.known_categories import (
    CategoryColumn,
    KnownCategories,
    category_column,
    known_categories,
)
from hbconv.parse.tracing.trace import SERIES, current_trace, refuse

__all__ = ["get_dummies", "make_categorical"]


_WAY = (
    "Give the categories: df['a'].astype(pd.CategoricalDtype([...])), or name the columns behind "
    "it: pd.get_dummies(...).reindex(columns=[...], fill_value=0)."
)


def make_categorical(
    values: Any, categories: Any = None, ordered: Any = None, dtype: Any = None
) -> Any:
    """``pd.Categorical`` of a column, by given categories."""
    known = dtype if isinstance(dtype, KnownCategories) else known_categories(categories, ordered)
    if not isinstance(values, TracedSeries):
        refuse("makes categories of other than a column", "Give a column: df['a'].")
    return _Categorical(category_column(values.node, known), None)


class _Categorical(TracedSeries):
    """What ``pd.Categorical`` makes: its codes are no part of ``.cat``."""

    @property
    def codes(self) -> Any:
        """Places of the categories, -1 for others."""
        return self.cat.codes


@dataclass
class _Encoding:
    """A column that becomes dummies.

    Parameters
    ----------
    node : Node
    beginning : str
        Of the names of its dummies.
    found : CategoryColumn or None
        Its categories, where the function knows them.
    """

    node: Node
    beginning: str
    found: CategoryColumn | None


@dataclass
class _Options:
    dtype: Any
    with_missing: bool
    drops_first: bool

    def converted(self, dummy: Node) -> Node:
        """Return a dummy in its dtype."""
        made: Any = series_of(dummy, None)
        return dummy if self.dtype is None else made.astype(self.dtype).node


def get_dummies(
    data: Any,
    prefix: Any = None,
    prefix_sep: str = "_",
    dummy_na: bool = False,
    columns: Any = None,
    sparse: bool = False,
    drop_first: bool = False,
    dtype: Any = None,
) -> Any:
    """``pd.get_dummies``: a column for each category."""
    if sparse or not isinstance(prefix_sep, str):
        refuse("makes sparse dummies, or separates names by several texts", _WAY)
    options = _Options(dtype, bool(dummy_na), bool(drop_first))
    if isinstance(data, TracedSeries):
        beginning = "" if prefix is None else f"{prefix}{prefix_sep}"
        return _dummies({}, [_encoding(data.node, beginning)], options)
    if not isinstance(data, TracedFrame) or isinstance(columns, str):
        refuse("makes dummies of this", "Give a column, or a frame and columns=[...].")
    if columns is None and not (prefix is None or isinstance(prefix, str)):
        refuse("names a beginning for each column of texts", "Say which: columns=[...].")
    names = _texts_of(data) if columns is None else list(columns)
    data._require_columns(names)
    prefixes = _prefixes(prefix, names)
    encodings = [
        _encoding(data.nodes[name], f"{first}{prefix_sep}")
        for name, first in zip(names, prefixes, strict=True)
    ]
    others = {name: node for name, node in data.nodes.items() if name not in names}
    return _dummies(others, encodings, options)


def _texts_of(frame: TracedFrame) -> list[Any]:
    """Return the columns of texts and of categories, as far as the rows tell that were given."""
    computed = current_trace().categories
    chosen = frame.select_dtypes(include=["object", "category"])
    return [name for name in frame if name in chosen.nodes or frame.nodes[name] in computed]


def _prefixes(prefix: Any, names: list[Any]) -> list[Any]:
    prefix = by_name(prefix)
    if prefix is None:
        return names
    if isinstance(prefix, Mapping):
        return [prefix[name] for name in names]
    listed = [prefix] * len(names) if isinstance(prefix, str) else list(prefix)
    if len(listed) != len(names):
        raise ValueError(f"Length of 'prefix' ({len(listed)}) did not match {len(names)} columns")
    return listed


def _encoding(node: Node, beginning: str) -> _Encoding:
    return _Encoding(node, beginning, current_trace().categories.get(node))


def _dummies(others: dict[Any, Node], encodings: list[_Encoding], options: _Options) -> Any:
    known: list[tuple[Any, Node]] = list(others.items())
    for encoding in encodings:
        if encoding.found is not None:
            known += _known_dummies(encoding, encoding.found, options)
    columns = unique_columns([name for name, _ in known], [node for _, node in known])
    unknown = [encoding for encoding in encodings if encoding.found is None]
    if not unknown:
        return TracedFrame(columns)
    if options.drops_first:
        refuse("drops the first category, which depends on the rows", _WAY)
    return UnnamedDummies(columns, unknown, options)


def _known_dummies(
    encoding: _Encoding, found: CategoryColumn, options: _Options
) -> list[tuple[Any, Node]]:
    levels = list(found.known.categories)
    # pandas writes no beginning where none is asked for: the categories are the names.
    names = [f"{encoding.beginning}{level}" for level in levels] if encoding.beginning else levels
    places = list(range(len(levels)))
    if options.with_missing:
        names, places = [*names, f"{encoding.beginning}{np.nan}"], [*places, -1]
    dummies = [options.converted(Compare.of(found.codes, "eq", place)) for place in places]
    first = 1 if options.drops_first else 0
    return list(zip(names, dummies, strict=True))[first:]


@dataclass
class UnnamedDummies:
    """Dummies of texts that the rows decide, of which ``reindex`` takes those of some names."""

    _columns: dict[Any, Node]
    _encodings: list[_Encoding]
    _options: _Options

    def reindex(
        self, labels: Any = None, columns: Any = None, axis: Any = None, fill_value: Any = np.nan
    ) -> TracedFrame:
        """Return the columns of some names: a dummy of a text that is not there is 0."""
        listed: Iterable[Any] = columns if columns is not None else labels
        if columns is None and axis not in (1, "columns"):
            refuse("orders rows", "Name columns: reindex(columns=[...], fill_value=0).")
        if isinstance(fill_value, bool | int | float | np.number) and fill_value == 0:
            names = list(listed)
            return TracedFrame(unique_columns(names, [self._column(name) for name in names]))
        return refuse("leaves columns NaN where the rows lack a text", "Give fill_value=0.")

    def _column(self, name: Any) -> Node:
        if not isinstance(name, str):
            refuse("names dummies by other than texts", _WAY)
        sources = [e for e in self._encodings if name.startswith(e.beginning)]
        if len(sources) + (name in self._columns) > 1:
            refuse(f"may make two columns of the name {name!r}", "Give each column a prefix=.")
        if name in self._columns:
            return self._columns[name]
        if not sources:
            return node_of(constant_of(0))
        return self._options.converted(self._dummy(sources[0], name))

    def _dummy(self, encoding: _Encoding, name: str) -> Node:
        text = name.removeprefix(encoding.beginning)
        if self._options.with_missing and text == str(np.nan):
            refuse("makes a dummy of missing texts, and one of the text 'nan'", _WAY)
        _learn_texts(encoding.node)
        codes = text_codes(encoding.node, 0, {text: 0})
        if codes is None:
            refuse("makes dummies of texts that are joined, or filled in part", _WAY)
        return Compare.of(codes, "eq", 0)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__") or not hasattr(sys.modules["pandas"].DataFrame, name):
            raise AttributeError(f"'DataFrame' object has no attribute {name!r}")
        self.refuse()

    def refuse(self, *_: object) -> NoReturn:
        """Refuse whatever else is done with them."""
        refuse("makes a dummy of each text that is among the rows", _WAY)

    __getitem__ = __setitem__ = __iter__ = __contains__ = __len__ = __array__ = refuse
    __add__ = __mul__ = __bool__ = refuse


def _learn_texts(node: Node) -> None:
    """Require a column of texts: numbers have dummies that the dtype of the rows names."""
    trace = current_trace()
    place = node.columns[0] if hasattr(node, "columns") else -1
    if trace.given.get(place, "text") not in ("text", ""):
        refuse(f"makes dummies of a column of {trace.given[place]}s", _WAY)
    if trace.kind_of(node) != "text":
        trace.learn([node], "text")


def _codes_of(series: Any) -> Node:
    found = current_trace().categories.get(series.node)
    if found is None:
        refuse("uses .cat of categories that depend on the rows", _WAY)
    codes: Node = found.codes
    return codes


class _CategoryPlaces:
    """``.cat`` of a column of known categories."""

    def __init__(self, series: TracedSeries) -> None:
        self._series = series
        self._codes = _codes_of(series)

    @property
    def codes(self) -> TracedSeries:
        """Places of the categories, -1 for others; pandas keeps them in the least int."""
        return series_of(narrowed(self._codes), None)

    @property
    def categories(self) -> Any:
        """The categories."""
        return current_trace().categories[self._series.node].known.categories

    def __getattr__(self, name: str) -> NoReturn:
        refuse(f"uses .cat.{name}, which hbconv does not follow", "Use .cat.codes.")


setattr(TracedSeries, "cat", property(_CategoryPlaces))  # noqa: B010


_WIDEN = "Convert them first: s.astype(int)."
_COMPARISONS = (
    *(np.less, np.less_equal, np.greater, np.greater_equal),
    *(np.equal, np.not_equal),
)


class NarrowInts(TracedSeries):
    """A column of int8 or its like."""

    def _widened(self) -> TracedSeries:
        return TracedSeries(self.node, self.name)

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **keywords: Any
    ) -> Any:
        if ufunc not in _COMPARISONS or method != "__call__" or keywords or out is not None:
            refuse("computes with narrow ints, which overflow", _WIDEN)
        given: Any = [x._widened() if isinstance(x, NarrowInts) else x for x in inputs]
        return ufunc(*given)

    def astype(self, dtype: Any, **keywords: Any) -> TracedSeries:
        """Convert to wider numbers."""
        if keywords:
            refuse("converts narrow ints with options", _WIDEN)
        # A node of its own, which is of no narrow kind.
        wide: Node = Cast(Cast(self.node, "float64"), "int64")
        return self.like(convert(wide, dtype))

    def _refuse_method(self, *_: object, **__: object) -> NoReturn:
        refuse("computes with narrow ints, which overflow", _WIDEN)

    to_numpy = fillna = clip = abs = where = mask = replace = _refuse_method


SERIES["narrow"] = NarrowInts
