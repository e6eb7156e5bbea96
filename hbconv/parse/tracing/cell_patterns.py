"""The module ``re`` in functions of one value: patterns on the text of a row.

A match is asked for when it is made: the function goes on with a match, and again with None.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NoReturn

from hbconv.containers import TextEdit
from hbconv.parse.tracing.cells import CellParts, TracedCell
from hbconv.parse.tracing.patterns import require_pattern
from hbconv.parse.tracing.trace import refuse

__all__ = ["FUNCTIONS_OF_RE", "KnownPattern"]

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
