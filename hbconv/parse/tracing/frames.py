"""Frames and series that record: what a function of tables sees in place of a frame of pandas.

Each column keeps its own type. A frame of the function's own may be written to; the argument may
not.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from hbconv.array import Array
from hbconv.containers import (
    Columns,
    Compare,
    FillObjects,
    Impute,
    IsMissing,
    Node,
    Not,
)
from hbconv.parse.tracing.arrays import Traced, TracedMatrix, TracedVector, operand_of
from hbconv.parse.tracing.frame_columns import (
    OTHER_ROWS,
    ColumnPlaces,
    FrameColumns,
    TracedIndex,
    by_name,
    unique_columns,
)
from hbconv.parse.tracing.functions import (
    Operand,
    apply_ufunc,
    choose,
    clip,
    constant_of,
    convert,
    node_of,
)
from hbconv.parse.tracing.known_categories import (
    KnownCategories,
    category_column,
    codes_among,
    look_up,
)
from hbconv.parse.tracing.labels import TracedLabels
from hbconv.parse.tracing.made_texts import TEXTS, number_text, text_node
from hbconv.parse.tracing.trace import (
    ALONE,
    MAPS,
    SERIES,
    Kind,
    RowCount,
    current_trace,
    is_iso_date,
    is_moment,
    refuse,
    terms_of,
)

__all__ = ["TracedFrame", "TracedSeries", "column_of", "series_of", "unique_columns"]

_LOOP = "Write it for whole columns: np.where, np.select, arithmetic, or map of a dict."
_REDUCING = (
    "sum mean median max min std var quantile mode nunique unique value_counts idxmax idxmin "
    "shift diff rank rolling expanding ewm cumsum cumprod cummax cummin pct_change ffill bfill "
    "interpolate sort_values groupby describe corr sample head tail drop_duplicates duplicated "
    "dropna transform agg"
)
"""Methods that look at other rows, or leave some out."""
_OF_POLARS = "with_columns with_row_index select lazy hstack collect_schema to_pandas"
_FRAMES = "hbconv follows frames of pandas: write df.assign(...), or convert the steps behind it."


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


class TracedSeries(TracedVector):
    """A column of a frame."""

    leads = True

    def __init__(self, node: Node, name: Any = None) -> None:
        super().__init__(node)
        self.name = name

    def __getattr__(self, name: str) -> Any:
        return _unknown(name, "Series")

    def like(self, node: Node) -> TracedSeries:
        """Return other values under the same name."""
        return series_of(node, self.name)

    @property
    def dt(self) -> Any:
        """Parts of dates: the column is read as such from the beginning."""
        return self._learn(terms_of(self.node), "date").dt

    def _learn(self, nodes: Sequence[Node], kind: Kind) -> Any:
        if not all(isinstance(node, Columns) for node in nodes):
            refuse(f"uses numbers as {kind}s")
        return current_trace().learn(nodes, kind)

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **keywords: Any
    ) -> Any:
        if any(isinstance(x, TracedFrame) for x in inputs):
            refuse("computes with a frame and a series", "Take the columns one by one.")
        series = [x for x in inputs if isinstance(x, TracedSeries)]
        leader = next((x for x in series if type(x) is not TracedSeries), self)
        if leader is not self:
            return leader.__array_ufunc__(ufunc, method, *inputs, out=out, **keywords)
        if any(map(is_moment, inputs)):
            self._learn(terms_of(self.node), "date")
        if out is not None:
            refuse("writes into a series", "Assign it: df['a'] = values.")
        names = {x.name for x in series}
        texts = [x for x in inputs if _is_text(x)]
        if texts and ufunc is np.add:
            self._learn([self.node], "text")
        if texts and ufunc not in (np.equal, np.not_equal) and is_iso_date(texts[0]):
            self._learn([self.node], "date")
        if texts:
            return self._compare_text(ufunc, texts[0])
        arrays = [x.to_numpy() if isinstance(x, TracedSeries) else x for x in inputs]
        first = next(x for x in arrays if isinstance(x, TracedVector))
        result = TracedVector.__array_ufunc__(first, ufunc, method, *arrays, **keywords)
        # pandas drops the name where two differ.
        return TracedSeries(result.node, names.pop() if len(names) == 1 else None)

    def _compare_text(self, ufunc: np.ufunc, text: str) -> TracedSeries:
        if ufunc not in (np.equal, np.not_equal):
            refuse(f"computes {ufunc.__name__} of a text", "Compare texts by == and !=.")
        same = Compare.of(codes_among(self.node, [text]), "ge", 0)
        return self.like(same if ufunc is np.equal else Not(same))

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of what is computed; that of a column of the rows is theirs."""
        if isinstance(self.node, Columns | FillObjects):
            refuse("asks for the type of a column", "Name the columns that hold numbers.")
        return super().dtype

    def __getitem__(self, key: Any) -> Any:
        return refuse("takes some of the rows", ALONE)

    def _assign(self, key: Any, value: Any) -> None:  # noqa: ARG002
        refuse("writes into a series", "Use s.where(condition, other), and assign it.")

    def to_numpy(self, dtype: Any = None) -> TracedVector:
        """Return the values as an array."""
        return TracedVector(self.node if dtype is None else convert(self.node, dtype))

    @property
    def values(self) -> TracedVector:
        """The values as an array."""
        return self.to_numpy()

    def to_frame(self, name: Any = None) -> TracedFrame:
        """Return a frame of this column."""
        return TracedFrame({self.name if name is None else name: self.node})

    def rename(self, name: Any) -> TracedSeries:
        """Return the same values under another name."""
        return series_of(self.node, name)

    def copy(self, deep: Any = True) -> TracedSeries:  # noqa: ARG002
        """Return itself: it is never written to."""
        return self

    def astype(self, dtype: Any, **keywords: Any) -> TracedSeries:
        """Convert numbers."""
        if isinstance(dtype, KnownCategories):
            return self.like(category_column(self.node, dtype))
        if not keywords and dtype in TEXTS:
            return self.like(number_text(self.node))
        if keywords or dtype in ("category", "object", object):
            refuse(f"converts to {dtype}", "Convert to numbers, or to pd.CategoricalDtype([...]).")
        return self.like(convert(self.node, dtype))

    def isna(self) -> TracedSeries:
        """Tell which values are missing."""
        return self.like(IsMissing(self.node))

    def notna(self) -> TracedSeries:
        """Tell which values are not missing."""
        return self.like(Not(IsMissing(self.node)))

    isnull, notnull = isna, notna

    def fillna(self, value: Any) -> TracedSeries:
        """Fill missing values with a number, a text or another series."""
        if _is_text(value):
            return self.like(FillObjects(self.node, (value,), (None, float("nan"), "\0NA")))
        if isinstance(value, TracedSeries | TracedVector):
            return self.like(choose(IsMissing(self.node), value.node, self.node))
        constant = constant_of(value)
        return self.like(Impute(self.node, Array(constant.values.astype(np.float64))))

    def pow(self, other: Any) -> TracedSeries:
        """Raise to a power, as the operator does."""
        return self**other  # type: ignore[no-any-return]

    def round(self, decimals: int = 0) -> TracedSeries:
        """Round to decimals."""
        rounded: Any = np.round(TracedVector(self.node), decimals)
        return self.like(rounded.node)

    def combine_first(self, other: Any) -> TracedSeries:
        """Fill missing values by those of another series."""
        return self.fillna(other)

    def clip(self, lower: Any = None, upper: Any = None) -> TracedSeries:
        """Bound the numbers."""
        bounds = [None if bound is None else operand_of(bound) for bound in (lower, upper)]
        if any(isinstance(bound, Node) for bound in bounds):
            refuse("clips by columns", "Use np.minimum(np.maximum(x, low), high).")
        return self.like(clip(self.node, *bounds))

    def abs(self) -> TracedSeries:
        """Return sizes."""
        return self.like(apply_ufunc(np.absolute, [self.node]))

    def where(self, cond: Any, other: Any = np.nan) -> TracedSeries:
        """Keep values where a condition holds."""
        if _is_text(other):
            self._learn([self.node], "text")
        return self.like(choose(_operand(cond), self.node, _operand(other)))

    def mask(self, cond: Any, other: Any = np.nan) -> TracedSeries:
        """Replace values where a condition holds."""
        return self.like(choose(_operand(cond), _operand(other), self.node))

    def between(self, left: Any, right: Any, inclusive: str = "both") -> TracedSeries:
        """Tell which values lie between two others."""
        above = self >= left if inclusive in ("both", "left") else self > left
        below = self <= right if inclusive in ("both", "right") else self < right
        return self.like(apply_ufunc(np.logical_and, [above.node, below.node]))

    def isin(self, values: Any) -> TracedSeries:
        """Tell which values are among constants."""
        listed = list(values)
        if not listed:
            refuse("looks among no values", "Give a list of constants.")
        return self.like(Compare.of(codes_among(self.node, listed), "ge", 0))

    def map(self, arg: Any, na_action: Any = None) -> TracedSeries:
        """Look values up in a dict, or apply a function to each."""
        arg = by_name(arg)
        if not isinstance(arg, Mapping):
            return MAPS["cells"](self, arg, na_action)  # type: ignore[no-any-return]
        return self.like(look_up(self.node, arg, [np.nan]))

    def apply(self, func: Any, args: Any = (), **keywords: Any) -> TracedSeries:
        """Apply a function to each value."""
        is_plain = not args and not keywords
        return self.map(func if is_plain else lambda value: func(value, *args, **keywords))

    def replace(self, to_replace: Any, value: Any = None) -> TracedSeries:
        """Replace numbers."""
        keys = to_replace if isinstance(to_replace, list | tuple) else [to_replace]
        pairs = to_replace if isinstance(to_replace, Mapping) else dict.fromkeys(keys, value)
        if all(map(_is_text, pairs)):
            return self._learn([self.node], "text").replace(to_replace, value)  # type: ignore[no-any-return]
        if any(_is_text(v) for pair in pairs.items() for v in pair):
            refuse("replaces numbers by texts", "Use map of a dict.")
        result = self.node
        for old, new in pairs.items():
            number = constant_of(float(new))
            is_old = (
                IsMissing(self.node)
                if old != old
                else apply_ufunc(np.equal, [self.node, constant_of(old)])
            )
            result = choose(is_old, number, result)
        return self.like(result)


def series_of(node: Node, name: Any) -> TracedSeries:
    """Return a column as what it holds."""
    return SERIES[current_trace().kind_of(node)](node, name)  # type: ignore[no-any-return]


def _texts(series: TracedSeries) -> Any:  # no method: its name would hide the type
    return series._learn([series.node], "text").str


setattr(TracedSeries, "str", property(_texts))  # noqa: B010
SERIES["number"] = TracedSeries


def _operator(ufunc: np.ufunc, *, swapped: bool = False) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        return ufunc(other, self) if swapped else ufunc(self, other)

    return method


_NAMED: dict[str, np.ufunc] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.true_divide,
    "truediv": np.true_divide,
    "floordiv": np.floor_divide,
    "mod": np.remainder,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
"""Methods of series that are operators."""

for _name, _ufunc in _NAMED.items():
    setattr(TracedSeries, _name, _operator(_ufunc))
    if _name in ("add", "sub", "mul", "truediv"):
        # No column of a frame changes with a series that was taken of it.
        setattr(TracedSeries, f"__i{_name}__", _operator(_ufunc))
    if _name in ("add", "sub", "mul", "div", "truediv", "floordiv", "mod"):
        setattr(TracedSeries, f"r{_name}", _operator(_ufunc, swapped=True))


def _unknown(name: str, kind: str) -> Any:
    """Refuse an attribute that the real one has, and lack it otherwise."""
    if kind == "Frame" and name in _OF_POLARS.split():
        refuse(f"calls {name} as of a frame of polars", _FRAMES)
    real = getattr(sys.modules["pandas"], "DataFrame" if kind == "Frame" else kind)
    shown = "DataFrame" if kind == "Frame" else kind
    if name.startswith("__") or not hasattr(real, name):
        raise AttributeError(f"{shown!r} object has no attribute {name!r}")
    if name in _REDUCING.split():
        refuse(f"calls {shown}.{name}", OTHER_ROWS)
    return refuse(f"calls {shown}.{name}, which hbconv does not follow", _LOOP)


def _refusing(name: str) -> Callable[[Any], Any]:
    return lambda _: _unknown(name, "Series")


for _name in (*_REDUCING.split(), "ravel", "flatten", "squeeze", "reshape", "fill", "T", "argmax"):
    setattr(TracedSeries, _name, property(_refusing(_name)))


def _operand(value: Any) -> Operand:
    if isinstance(value, TracedFrame) or _is_text(value):
        refuse("chooses among texts or frames", "Choose among numbers.")
    operand: Operand = operand_of(value)
    return operand


class TracedFrame(FrameColumns):
    """A frame: columns by name, each a node."""

    leads = True
    ndim = 2

    def __getattr__(self, name: str) -> Any:
        # Of a column that is named as an attribute of frames, pandas gives the attribute.
        if name in self.nodes and not hasattr(sys.modules["pandas"].DataFrame, name):
            return self[name]
        return _unknown(name, "Frame")

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "columns" and not self.is_argument:
            self.__dict__["nodes"] = unique_columns(list(value), self.nodes.values())
            return
        if name not in self.nodes:
            refuse(f"sets the attribute {name} of a frame", "Assign a column: df['a'] = values.")
        self[name] = value

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: Any) -> Any:
        inputs = tuple(self._of_columns(x) for x in inputs)
        others = [x for x in inputs if not isinstance(x, TracedFrame | dict)]
        if method != "__call__" or keywords or not all(np.ndim(x) == 0 for x in others):
            refuse(f"calls numpy.{ufunc.__name__} of a frame and arrays", "Take single columns.")
        frames = [x for x in inputs if isinstance(x, TracedFrame)]
        if any(list(frame.nodes) != list(self.nodes) for frame in frames):
            refuse("computes with frames of other columns", "Take single columns.")
        columns = {
            name: ufunc(*(x[name] if isinstance(x, TracedFrame | dict) else x for x in inputs)).node
            for name in self.nodes
        }
        return TracedFrame(columns)

    def _of_columns(self, value: Any) -> Any:
        """Return a constant series as a number for each column, and others as they are."""
        numbers = by_name(value)
        if numbers is not value and list(numbers) != list(self.nodes):
            refuse("computes with a series of other names than its columns", "Name them alike.")
        return numbers

    def __array_function__(self, function: Any, types: Any, args: Any, keywords: Any) -> Any:
        return TracedVector.__array_function__(self, function, types, args, keywords)  # type: ignore[arg-type]

    @property
    def columns(self) -> Any:
        """The names."""
        return sys.modules["pandas"].Index(list(self.nodes))

    @property
    def index(self) -> TracedIndex:
        """Its index, for another frame."""
        return TracedIndex()

    @property
    def loc(self) -> ColumnPlaces:
        """Its columns by name."""
        return ColumnPlaces(self, by_name=True)

    @property
    def iloc(self) -> ColumnPlaces:
        """Its columns by position."""
        return ColumnPlaces(self, by_name=False)

    @property
    def shape(self) -> tuple[RowCount, int]:
        """Its shape."""
        return RowCount(), len(self.nodes)

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        return iter(list(self.nodes))

    def __contains__(self, name: object) -> bool:  # type: ignore[override]
        return name in self.nodes

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, Traced | slice):
            return refuse("takes some of the rows", ALONE)
        names = [key] if not isinstance(key, list) else key
        if hasattr(key, "tolist"):
            names, key = key.tolist(), list(key)
        for name in names:
            if name not in self.nodes:
                raise KeyError(name)
        if isinstance(key, list):
            return TracedFrame(unique_columns(names, [self.nodes[name] for name in names]))
        return series_of(self.nodes[key], key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._require_own("writes into its argument, which changes the rows of the caller")
        keys = key if isinstance(key, list) else [key]
        if not all(map(_is_text, keys)):
            refuse("writes into some of the rows", "Use np.where or s.where for whole columns.")
        parts = _parts(value, len(keys)) if isinstance(key, list) else [value]
        self.nodes.update({n: column_of(part) for n, part in zip(keys, parts, strict=True)})

    def __delitem__(self, key: Any) -> None:
        self.pop(key)

    def pop(self, name: Any) -> TracedSeries:
        """Take a column away."""
        self._require_own("takes a column away from its argument")
        return series_of(self.nodes.pop(name), name)

    def copy(self, deep: bool = True) -> TracedFrame:  # noqa: ARG002
        """Return a frame of its own."""
        return TracedFrame(self.nodes)

    def assign(self, **columns: Any) -> TracedFrame:
        """Return a frame with columns more."""
        new = self.copy()
        for name, value in columns.items():
            new[name] = value(new) if callable(value) else value
        return new

    def pipe(self, func: Any, *args: Any, **keywords: Any) -> Any:
        """Call a function of the frame."""
        return func(self, *args, **keywords)

    def where(self, cond: Any, other: Any = np.nan) -> TracedFrame:
        """Keep values where a condition holds, of a column or of a frame of the same columns."""
        return self._choose(cond, lambda column, held: column.where(held, other))

    def mask(self, cond: Any, other: Any = np.nan) -> TracedFrame:
        """Replace values where a condition holds, of a column or a frame of the same columns."""
        return self._choose(cond, lambda column, held: column.mask(held, other))

    def _choose(self, cond: Any, choose_column: Callable[[Any, Any], Any]) -> TracedFrame:
        if isinstance(cond, TracedSeries):
            return self._each(lambda column: choose_column(column, cond))
        if not isinstance(cond, TracedFrame) or list(cond.nodes) != list(self.nodes):
            refuse("chooses by other columns", "Choose in a column: df['a'].where(condition).")
        return self._each(lambda column: choose_column(column, cond[column.name]))

    def apply(self, func: Any, axis: Any = 0) -> Any:
        """Apply a function to each column, or to each row."""
        if axis in (0, "index"):
            return self._each(func)
        return MAPS["rows"](self, func)

    @property
    def values(self) -> TracedMatrix:
        """An array of all columns."""
        return self.to_numpy()


_OPERATORS = "add sub mul truediv floordiv mod and or xor lt le gt ge eq ne neg abs invert"
for _name in _OPERATORS.split():
    for _method in (f"__{_name}__", f"__r{_name}__"):
        if hasattr(TracedVector, _method):
            setattr(TracedFrame, _method, getattr(TracedVector, _method))


def _parts(value: Any, count: int) -> list[Any]:
    """Return the columns of what is assigned to several names."""
    if hasattr(value, "columns_for"):
        return list(value.columns_for(count))
    if isinstance(value, TracedFrame):
        return [value[name] for name in value]
    if isinstance(value, TracedMatrix):
        return [value.column(place) for place in range(value.width)]
    return [value] * count


def column_of(value: Any) -> Node:
    """Return what is assigned to a column."""
    if isinstance(value, TracedFrame) and len(value.nodes) == 1:
        column: Node = next(iter(value.nodes.values()))
        return column
    if isinstance(value, TracedMatrix) and value.width == 1:
        return value.node
    if isinstance(value, TracedVector):
        return value.node
    if isinstance(value, TracedLabels) or _is_text(value):
        return text_node(value)
    if isinstance(value, Traced) or np.ndim(value):
        refuse("assigns what is no column", "Assign columns, numbers and texts.")
    return node_of(constant_of(value))
