"""Functions of one value: those of ``math`` and ``re``, and what ``np.vectorize`` applies.

A match of ``re`` is asked for when it is made: the function goes on with a match, and with None.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from hbconv.containers import Cast, Compare, Map, Node, Relation, TextEdit
from hbconv.parse.tracing.arrays import TracedMatrix, TracedVector, holds_traced, join
from hbconv.parse.tracing.cells import CellParts, TracedCell, joined_paths
from hbconv.parse.tracing.frames import series_of
from hbconv.parse.tracing.functions import convert
from hbconv.parse.tracing.patterns import require_pattern
from hbconv.parse.tracing.trace import refuse

__all__ = ["FUNCTIONS_OF_MATH", "FUNCTIONS_OF_RE", "KnownPattern", "vectorized"]


def _is_infinite(node: Node) -> Node:
    return Compare.of(Map(node, "abs"), "eq", np.inf)


def _of_math(ufunc: np.ufunc, raises: Callable[[Node, Node], Node]) -> Callable[..., TracedCell]:
    """Return a function of one value, where rows at which Python raises are refused."""

    def function(cell: TracedCell) -> TracedCell:
        floats = cell._series.astype(float)
        result = ufunc(floats)
        why = f"math.{ufunc.__name__} raises for a number."
        cell._path.refuse_where(raises(floats.node, result.node), why)
        return cell._like(result)

    return function


def _at_most(limit: float) -> Callable[[Node, Node], Node]:
    return lambda x, _: Compare.of(x, "le", limit)


def _overflows(x: Node, result: Node) -> Node:
    return Relation(_is_infinite(result), Compare.of(x, "lt", np.inf), "and")


FUNCTIONS_OF_MATH: dict[str, Callable[..., TracedCell]] = {
    "exp": _of_math(np.exp, _overflows),
    "log": _of_math(np.log, _at_most(0.0)),
    "log10": _of_math(np.log10, _at_most(0.0)),
    "log1p": _of_math(np.log1p, _at_most(-1.0)),
    "log2": _of_math(np.log2, _at_most(0.0)),
    "sqrt": _of_math(np.sqrt, lambda x, _: Compare.of(x, "lt", 0.0)),
    **{
        ufunc.__name__: _of_math(ufunc, lambda x, _: _is_infinite(x))
        for ufunc in (np.sin, np.cos, np.tan)
    },
    "fabs": lambda cell: abs(cell._like(cell._series.astype(float))),
    "isnan": lambda cell: cell.isna(),
}
"""Functions of ``math`` of one value, by name."""

_WAY_OF_TYPES = "Give otypes=[float]."


def vectorized(
    pyfunc: Any,
    otypes: Any = None,
    doc: Any = None,  # noqa: ARG001
    excluded: Any = None,
    cache: bool = False,  # noqa: ARG001
    signature: Any = None,
) -> Callable[..., Any]:
    """``np.vectorize`` of a function of values, each way through which is run."""
    if excluded or signature is not None:
        refuse("vectorizes by a signature, or without some arguments", "Give it columns alone.")
    dtype = _dtype_of(otypes)

    def call(*args: Any) -> Any:
        matrices = [x for x in args if isinstance(x, TracedMatrix)]
        if not matrices:
            return _applied(pyfunc, args, dtype)
        if len(args) > 1:
            refuse("vectorizes a function of several arrays", "Give it columns.")
        (rows,) = matrices
        columns = (_applied(pyfunc, (rows.column(j),), dtype) for j in range(rows.width))
        return join(list(columns))

    return call


def _dtype_of(otypes: Any) -> str | None:
    if otypes is None or otypes == "":
        return None
    listed = list(otypes)
    name = np.dtype(listed[0]).name if len(listed) == 1 else ""
    if name not in ("float64", "bool"):
        refuse("vectorizes into such types", _WAY_OF_TYPES)
    return name


_DTYPES: dict[type, str] = {bool: "bool", int: "int64", float: "float64"}


def _applied(pyfunc: Any, args: tuple[Any, ...], dtype: str | None) -> TracedVector:
    if any(holds_traced(x) and not isinstance(x, TracedVector) for x in args):
        refuse("vectorizes a function of other than columns", "Give it columns and numbers.")
    kinds: set[type] = set()

    def run(path: Any) -> Any:
        values = [
            TracedCell(series_of(x.node, None), path) if isinstance(x, TracedVector) else x
            for x in args
        ]
        result = pyfunc(*values)
        kinds.add(type(result))
        return result

    node = joined_paths(run)
    if dtype is not None:
        return TracedVector(convert(node, dtype))
    # numpy takes the dtype of what the first row gives.
    if len(kinds) != 1 or not kinds <= _DTYPES.keys():
        refuse("returns values whose dtype the first row decides", _WAY_OF_TYPES)
    return TracedVector(Cast(node, _DTYPES[kinds.pop()]))


_WAY = "Use re.search, match, fullmatch, sub, split(...)[k] or len(re.findall(...))."
_FLAGS = re.IGNORECASE | re.UNICODE


class KnownPattern:
    """The double of a compiled pattern.

    Parameters
    ----------
    real : re.Pattern
    """

    def __init__(self, real: re.Pattern[str]) -> None:
        self._real = real

    def _marked(self, *, consumes: bool = False) -> str:
        """Return the pattern as edits of texts read it."""
        pattern = self._real.pattern
        if not isinstance(pattern, str) or self._real.flags & ~_FLAGS:
            refuse("uses a pattern with such flags", "Use re.IGNORECASE alone.")
        require_pattern(pattern, consumes=consumes)
        if not self._real.flags & re.IGNORECASE:
            return pattern
        if not pattern.isascii():
            refuse("looks for letters beyond ASCII in any case", "Give all their forms.")
        return f"(?i){pattern}"

    def _found(self, cell: TracedCell, name: str, found: str) -> _CellMatch | None:
        """Return a match where there is one: the path asks for it."""
        texts = cell.text_places()
        held = texts._series._bool(TextEdit(name, (self._marked(),)), False)
        matches = bool(cell._like(held))
        return _CellMatch(cell, found, self._real) if matches else None

    def search(self, string: Any, *limits: int) -> Any:
        """Look for a match anywhere."""
        if not _is_of_rows(string, limits):
            return self._real.search(string, *limits)
        return self._found(string, "search", self._marked())

    def match(self, string: Any, *limits: int) -> Any:
        """Look for a match at the beginning."""
        if not _is_of_rows(string, limits):
            return self._real.match(string, *limits)
        return self._found(string, "match", self._anchored("^(?:{})"))

    def fullmatch(self, string: Any, *limits: int) -> Any:
        """Match a whole text."""
        if not _is_of_rows(string, limits):
            return self._real.fullmatch(string, *limits)
        return self._found(string, "fullmatch", self._anchored(r"^(?:{})\Z"))

    def _anchored(self, around: str) -> str:
        mark = "(?i)" if self._real.flags & re.IGNORECASE else ""
        return mark + around.replace("{}", self._marked().removeprefix(mark))

    def findall(self, string: Any, *limits: int) -> Any:
        """Return all matches, which are counted."""
        if not _is_of_rows(string, limits):
            return self._real.findall(string, *limits)
        return _CellMatches(string, self._marked(consumes=True))

    def sub(self, repl: Any, string: Any, count: int = 0) -> Any:
        """Replace matches by a plain text."""
        if not _is_of_rows(string):
            return self._real.sub(repl, string, count)
        if not isinstance(repl, str) or "\\" in repl:
            refuse("replaces by what is matched", "Replace by a plain text.")
        string.text_places()
        edit = TextEdit("substitute", (self._marked(consumes=True), repl, max(count, 0)))
        return string._like(string._series._edited(edit))

    def split(self, string: Any, maxsplit: int = 0) -> Any:
        """Split a text, for one of its parts."""
        if not _is_of_rows(string):
            return self._real.split(string, maxsplit)
        if self._real.groups:
            refuse("splits by a pattern with groups", "Write (?:...) for them.")
        texts = string.text_places()
        parts = _PartsBetween(texts._series, self._marked(consumes=True), max(maxsplit, 0))
        return CellParts(string, parts)

    @property
    def pattern(self) -> Any:
        """The pattern as a text."""
        return self._real.pattern

    def __getattr__(self, name: str) -> NoReturn:
        refuse(f"uses {name} of a pattern", _WAY)


def _is_of_rows(string: Any, limits: tuple[int, ...] = ()) -> bool:
    if not isinstance(string, TracedCell):
        return False
    if limits:
        refuse("looks in a part of a text", "Take the part first: text[2:].")
    return True


class _CellMatch:
    """A match in the text of a row."""

    def __init__(self, cell: TracedCell, pattern: str, real: re.Pattern[str]) -> None:
        self._cell = cell
        self._pattern = pattern
        self._real = real

    def group(self, *groups: Any) -> Any:
        """Return the text of a group, of the whole match without one."""
        found = [self._group(group) for group in groups or (0,)]
        return found[0] if len(found) == 1 else tuple(found)

    def groups(self) -> tuple[Any, ...]:
        """Return the texts of all groups."""
        return tuple(self._group(place + 1) for place in range(self._real.groups))

    def _group(self, group: Any) -> TracedCell:
        place = self._real.groupindex.get(group) if isinstance(group, str) else group
        if type(place) is not int or not 0 <= place <= self._real.groups:
            raise IndexError("no such group")
        part = self._cell._series._edited(TextEdit("extract", (self._pattern, place)))
        why = "A group of a pattern takes no part in a match, where Python has None."
        self._cell._path.refuse_where(part.isna().node, why)
        return self._cell._like(part)

    __getitem__ = _group

    def __getattr__(self, name: str) -> NoReturn:
        refuse(f"uses {name} of a match", "Use .group().")


class _CellMatches(CellParts):
    """All matches in the text of a row."""

    def __init__(self, cell: TracedCell, pattern: str) -> None:
        cell.text_places()
        self._matched = cell
        self._pattern = pattern

    def __getitem__(self, place: Any) -> TracedCell:
        return refuse("takes one of all matches", "Use re.search(...).group().")

    def __bool__(self) -> bool:
        found = self._matched._series._bool(TextEdit("search", (self._pattern,)), False)
        return bool(self._matched._like(found))

    def length(self) -> TracedCell:
        """Count the matches."""
        count = self._matched._series._number(TextEdit("count_matches", (self._pattern,)))
        return self._matched._like(count)


class _PartsBetween:
    """Parts of texts, between matches of a pattern."""

    def __init__(self, series: Any, pattern: str, most: int) -> None:
        self._series = series
        self._arguments = (pattern, most)

    def __getitem__(self, place: Any) -> Any:
        if type(place) is not int:
            refuse("takes several parts of a text", "Take one: re.split(...)[0].")
        pattern, most = self._arguments
        return self._series._edited(TextEdit("pick_between", (pattern, place, most)))

    def __getattr__(self, name: str) -> NoReturn:
        refuse(f"uses {name} of parts of texts", "Take one: re.split(...)[0].")


def compiled(pattern: Any, flags: Any = 0) -> KnownPattern:
    """``re.compile``."""
    if isinstance(pattern, KnownPattern):
        return pattern
    if isinstance(pattern, TracedCell):
        refuse("looks for a pattern that the rows hold", _WAY)
    return KnownPattern(re.compile(pattern, flags))


def _of_module(name: str) -> Callable[..., Any]:
    def function(pattern: Any, string: Any, flags: Any = 0) -> Any:
        return getattr(compiled(pattern, flags), name)(string)

    return function


def _sub(pattern: Any, repl: Any, string: Any, count: int = 0, flags: Any = 0) -> Any:
    return compiled(pattern, flags).sub(repl, string, count)


def _split(pattern: Any, string: Any, maxsplit: int = 0, flags: Any = 0) -> Any:
    return compiled(pattern, flags).split(string, maxsplit)


FUNCTIONS_OF_RE: dict[str, Callable[..., Any]] = {
    **{name: _of_module(name) for name in ("search", "match", "fullmatch", "findall")},
    "compile": compiled,
    "escape": re.escape,
    "split": _split,
    "sub": _sub,
}
"""Functions of the module ``re`` by name."""
