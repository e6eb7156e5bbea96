"""Functions of one value or of one row: each branch that they can take is run.

A cell stands for the value of a row in a column. Where a branch asks for its truth, the function
runs again for the other answer, and both results are joined by the condition.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from hbconv.containers import ChooseText, Compare, ConstantRows, Map, Node, Not, Relation, TextEdit
from hbconv.containers.text_edits import TESTS_OF_ASCII
from hbconv.parse.tracing.arrays import Traced
from hbconv.parse.tracing.frames import TracedFrame, TracedSeries, series_of
from hbconv.parse.tracing.functions import choose, constant_of, node_of, truth
from hbconv.parse.tracing.made_texts import text_node
from hbconv.parse.tracing.texts import TracedTexts
from hbconv.parse.tracing.trace import MAPS, current_trace, refuse

__all__ = ["CellParts", "TracedCell", "joined_paths"]

_MOST_PATHS = 128
_WAYS = "Write it for whole columns: np.where, np.select, arithmetic, or map of a dict."
_OF_TEXTS = (
    "lower upper title capitalize strip lstrip rstrip zfill replace removeprefix removesuffix"
)
_TESTS = "startswith endswith"
_OF_DATES = (
    "year month day hour minute second microsecond quarter dayofweek day_of_week dayofyear "
    "day_of_year days_in_month is_month_start is_month_end is_leap_year"
)


class _Path:
    """One run of a function: the answers that its branches are given, and those it asked for."""

    def __init__(self, answers: tuple[bool, ...]) -> None:
        self.answers = answers
        self.asked: list[tuple[Node, bool]] = []

    def decide(self, condition: Node) -> bool:
        """Answer a branch: as before, as planned, or with True."""
        for known, answer in self.asked:
            if known == condition:
                return answer
        place = len(self.asked)
        answer = self.answers[place] if place < len(self.answers) else True
        self.asked.append((condition, answer))
        return answer

    def refuse_where(self, condition: Node, why: str) -> None:
        """Refuse rows that come this way and meet a condition."""
        for known, answer in self.asked:
            condition = Relation(known if answer else Not(known), condition, "and")
        current_trace().checks.append((condition, why))


class TracedCell(Traced):
    """The value of a row in a column."""

    leads = True

    def __init__(self, series: TracedSeries, path: _Path) -> None:
        self._series = series
        self._path = path

    def _like(self, series: Any) -> TracedCell:
        return TracedCell(series, self._path)

    def __bool__(self) -> bool:  # type: ignore[override]
        return self._path.decide(truth(self._series.node))

    def length(self) -> TracedCell:
        """Count the characters of a text."""
        return self._like(self.text_places().len())

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: Any
    ) -> TracedCell:
        if method != "__call__" or keywords:
            refuse(f"calls numpy.{ufunc.__name__}.{method} of a value", _WAYS)
        given = [x._series if isinstance(x, TracedCell) else x for x in inputs]
        if ufunc in _DIVISIONS:
            self._require_divisor(given[1])
        return self._like(ufunc(*given))

    def __pow__(self, exponent: Any) -> TracedCell:
        power = self._series**exponent
        far = Compare.of(Map(power.node, "abs"), "eq", np.inf)
        self._path.refuse_where(far, "A power is too large for Python.")
        return self._like(power)

    def __neg__(self) -> TracedCell:
        return self.__array_ufunc__(np.negative, "__call__", self)

    def __abs__(self) -> TracedCell:
        return self._like(abs(self._series))

    def __round__(self, decimals: Any = None) -> TracedCell:
        return refuse("rounds as Python does", "Use .round(2) of the column, as numpy rounds.")

    def _require_divisor(self, divisor: Any) -> None:
        if isinstance(divisor, TracedSeries) and type(divisor) is TracedSeries:
            zero = Compare.of(divisor.node, "eq", 0)
            self._path.refuse_where(zero, "A number is divided by zero, at which Python raises.")

    def isna(self) -> TracedCell:
        """Tell whether it is missing."""
        return self._like(self._series.isna())

    def notna(self) -> TracedCell:
        """Tell whether it is not missing."""
        return self._like(self._series.notna())

    def is_among(self, constants: Any) -> bool:
        """Tell whether it is among constants."""
        return bool(self._like(self._series.isin(list(constants))))

    def found_in(self, table: Any) -> TracedCell:
        """Look it up in a dict, where it is."""
        return self._like(self._series.map(dict(table)))

    def is_instance(self, classes: tuple[Any, ...]) -> bool:
        """Tell whether it is of a class: texts are, where they are not missing."""
        if isinstance(self._series, TracedTexts) and classes == (str,):
            return bool(self.notna())
        if type(self._series) is TracedSeries and {int, float} <= set(classes):
            return True
        return refuse(
            "asks for the type of a value", "Use pd.isna, or isinstance(x, str) of texts."
        )

    def text_places(self) -> Any:
        """Functions of the text that it is; rows that miss it are refused."""
        is_text = isinstance(self._series, TracedTexts)
        texts = self._series.places if is_text else self._series.str
        missing = self._series.isna().node
        self._path.refuse_where(missing, "A missing text is edited, at which Python raises.")
        return texts

    def __getitem__(self, key: Any) -> TracedCell:
        texts = self.text_places()
        if type(key) is int:
            short = texts[key].isna().node
            self._path.refuse_where(short, "A text has fewer characters.")
        return self._like(texts[key])

    def __contains__(self, part: object) -> bool:  # type: ignore[override]
        return bool(self._like(self.text_places().contains(part, na=False, regex=False)))

    def split(self, sep: Any = None, maxsplit: int = -1) -> CellParts:
        """Split a text, for one of its parts."""
        return CellParts(self, self.text_places().split(sep, n=maxsplit, regex=False))

    def count(self, part: str) -> TracedCell:
        """Count a text in it."""
        return self._like(self.text_places().count(part))

    def __getattr__(self, name: str) -> Any:
        if name in _OF_TEXTS.split():
            texts = self.text_places()
            keywords = {"regex": False} if name == "replace" else {}
            return lambda *args: self._like(getattr(texts, name)(*args, **keywords))
        if name in _TESTS.split():
            texts = self.text_places()
            return lambda part: self._like(getattr(texts, name)(part, na=False))
        if name in TESTS_OF_ASCII:
            self.text_places()
            return lambda: self._like(self._series._bool(TextEdit(name), False))
        if name in _OF_DATES.split():
            return self._like(getattr(self._series.dt, name))
        if name == "weekday":
            return lambda: self._like(self._series.dt.dayofweek)
        if name in ("days", "total_seconds"):
            found = getattr(self._series.dt, name)
            return (lambda: self._like(found())) if callable(found) else self._like(found)
        if name.startswith("__"):
            raise AttributeError(name)
        return refuse(f"uses {name} of a value, which hbconv does not follow", _WAYS)


class KnownDict(dict[Any, Any]):
    """A dict of the function, in which values of the rows may be looked up."""

    def __contains__(self, key: object) -> bool:
        return key.is_among(self) if isinstance(key, TracedCell) else super().__contains__(key)

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, TracedCell):
            return super().__getitem__(key)
        if not key.is_among(self):
            raise KeyError(key)
        return key.found_in(self)

    def get(self, key: Any, default: Any = None) -> Any:
        """Look a value up."""
        if not isinstance(key, TracedCell):
            return super().get(key, default)
        return key.found_in(self) if key.is_among(self) else default


class _AmongConstants:
    """A set of the function, among which values of the rows may be."""

    def __contains__(self, key: object) -> bool:
        if isinstance(key, TracedCell):
            return key.is_among(self)
        return super().__contains__(key)  # type: ignore[misc,no-any-return]


class KnownSet(_AmongConstants, set[Any]):
    """A set of the function."""


class KnownFrozenSet(_AmongConstants, frozenset[Any]):
    """A frozenset of the function."""


_DIVISIONS = (np.true_divide, np.floor_divide, np.remainder)


class CellParts:
    """Parts of a text."""

    def __init__(self, cell: TracedCell, parts: Any) -> None:
        self._cell = cell
        self._parts = parts

    def __getitem__(self, place: Any) -> TracedCell:
        part = self._parts[place]
        self._cell._path.refuse_where(part.isna().node, "A text has fewer parts.")
        return self._cell._like(part)

    def length(self) -> TracedCell:
        """Count the parts."""
        return self._cell._like(self._parts.len())


def _operator(ufunc: np.ufunc, *, swapped: bool = False) -> Callable[[Any, Any], Any]:
    def method(self: TracedCell, other: Any) -> TracedCell:
        inputs = (other, self) if swapped else (self, other)
        return self.__array_ufunc__(ufunc, "__call__", *inputs)

    return method


_OPERATORS = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "truediv": np.true_divide,
    "floordiv": np.floor_divide,
    "mod": np.remainder,
}
_COMPARISONS = {
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
}

for _name, _ufunc in _OPERATORS.items():
    setattr(TracedCell, f"__{_name}__", _operator(_ufunc))
    setattr(TracedCell, f"__r{_name}__", _operator(_ufunc, swapped=True))
for _name, _ufunc in _COMPARISONS.items():
    setattr(TracedCell, f"__{_name}__", _operator(_ufunc))


class _Row:
    """A row of a frame, of which values are taken by name."""

    def __init__(self, frame: TracedFrame, path: _Path) -> None:
        self._frame = frame
        self._path = path

    def __getitem__(self, name: Any) -> TracedCell:
        if not isinstance(name, str):
            refuse("takes values of a row by position", "Take them by name: row['a'].")
        if name not in self._frame.nodes:
            raise KeyError(name)
        return TracedCell(series_of(self._frame.nodes[name], name), self._path)

    def __getattr__(self, name: str) -> Any:
        if name in self._frame.nodes and not hasattr(sys.modules["pandas"].Series, name):
            return self[name]
        return refuse(f"uses {name} of a row", "Take values by name: row['a'].")


def _require_no_identity() -> None:
    """Refuse ``value is None``, which no cell can answer: it runs as compiled."""
    for code in current_trace().codes:
        # Comparing with None has jumps of its own: POP_JUMP_IF_NOT_NONE and its like.
        names = {instruction.opname for instruction in dis.get_instructions(code)}
        if any(name == "IS_OP" or name.endswith("_NONE") for name in names):
            refuse(f"compares by 'is' in {code.co_name}", "Use pd.isna(value), or == of constants.")


def joined_paths(run: Callable[[_Path], Any]) -> Node:
    """Run each path, and join what they return by the conditions between them."""
    _require_no_identity()
    paths = 0
    returns_none = False

    def explore(answers: tuple[bool, ...]) -> Node:
        nonlocal paths, returns_none
        paths += 1
        if paths > _MOST_PATHS:
            refuse(f"has more than {_MOST_PATHS} ways through its branches", _WAYS)
        path = _Path(answers)
        result = run(path)
        returns_none |= result is None
        value = _node_of(result)
        taken = tuple(answer for _, answer in path.asked)
        for place in reversed(range(len(answers), len(taken))):
            other = explore((*taken[:place], False))
            value = _chosen(path.asked[place][0], value, other)
        return value

    joined = explore(())
    if returns_none and joined.type.dtype == "string":
        # pandas keeps None among objects, and makes NaN of it among texts.
        refuse("returns None beside texts", "Return a text, or np.nan.")
    return joined


def _chosen(condition: Node, x: Node, y: Node) -> Node:
    """Join what two paths return: numbers, or texts."""
    kinds = {current_trace().kind_of(node) for node in (x, y) if not _is_nothing(node)}
    if "text" not in kinds:
        return choose(condition, x, y)
    if len(kinds) > 1:
        refuse("returns texts for some values and numbers for others", "Return either.")
    return ChooseText(_as_text(x), _as_text(y), condition)


def _is_nothing(node: Node) -> bool:
    return isinstance(node, ConstantRows) and bool(np.isnan(node.values.data).all())


def _as_text(node: Node) -> Node:
    return text_node(np.nan) if _is_nothing(node) else node


def _node_of(value: Any) -> Node:
    if isinstance(value, TracedCell):
        if type(value._series) not in (TracedSeries, TracedTexts):
            refuse("returns a date for a value", "Return its parts.")
        return value._series.node
    if isinstance(value, str):
        return text_node(value)
    if value is None:
        value = np.nan
    if isinstance(value, Traced | list | tuple | dict | TracedFrame | TracedSeries):
        refuse(f"returns {type(value).__name__} for a value", "Return a number.")
    return node_of(constant_of(float(value)))


def _map_cells(series: TracedSeries, func: Any, na_action: Any = None) -> TracedSeries:
    """Apply a function of one value to a column."""
    if isinstance(func, np.ufunc):
        result = func(series)
        node = result.node
    else:
        node = joined_paths(lambda path: func(TracedCell(series, path)))
    if na_action == "ignore":
        missing = series.isna().node
        node = _chosen(missing, node_of(constant_of(np.nan)), node)
    return series_of(node, series.name)


def _map_rows(frame: TracedFrame, func: Any) -> TracedSeries:
    """Apply a function of one row to a frame."""
    return series_of(joined_paths(lambda path: func(_Row(frame, path))), None)


MAPS["cells"], MAPS["rows"] = _map_cells, _map_rows
