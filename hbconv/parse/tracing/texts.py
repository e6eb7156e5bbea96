"""Columns of texts that record: what ``.str`` makes of them, and what is found in them.

A column counts as text where the function uses ``.str``, or adds a text to it. The edits become
part of the vocabulary by which the host looks texts up.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from hbconv.array import Array
from hbconv.containers import (
    Affine,
    Cast,
    Choose,
    ChooseText,
    ChosenText,
    Compare,
    Concat,
    ConstantRows,
    EditText,
    JoinText,
    Node,
    Not,
    Relation,
    TextEdit,
    TextNumber,
)
from hbconv.containers.text_edits import TESTS_OF_ASCII
from hbconv.parse.common.edited_texts import text_codes
from hbconv.parse.tracing.frames import TracedFrame, TracedSeries, series_of
from hbconv.parse.tracing.functions import apply_ufunc
from hbconv.parse.tracing.known_categories import KnownCategories, codes_among, look_up
from hbconv.parse.tracing.labels import is_text
from hbconv.parse.tracing.made_texts import (
    TEXTS,
    choose_texts,
    is_of_number,
    require_edits,
    text_node,
)
from hbconv.parse.tracing.patterns import require_pattern
from hbconv.parse.tracing.trace import SERIES, current_trace, refuse

__all__ = ["TracedTexts"]

_WAYS = "Use lower, strip, split, slices, replace, contains, len, or map of a dict."
_PATTERN = frozenset(".^$*+?{}[]\\|()")
_MISSING = -1
_IS_MISSING = "A text is missing, and pandas answers by how it stores texts: give na=False."
_EXACT = 2.0**53


class TracedTexts(TracedSeries):
    """A column of texts."""

    def _edited(self, *edits: TextEdit) -> TracedSeries:
        require_edits(self.node, edits)
        return self.like(EditText(self.node, edits))

    def _ended(self, end: TextEdit) -> Node:
        """Return what an edit makes of each text, -1 of a missing one."""
        codes = text_codes(self.node, 0, {}, end, missing=_MISSING)
        if codes is None:
            return refuse(
                "tests or counts texts that are joined, or filled in part",
                "Do it with each column before it is joined or edited.",
            )
        return codes

    def _number(self, end: TextEdit, less: float = 0.0) -> TracedSeries:
        codes = self._ended(end)
        nothing = ConstantRows(current_trace().x, Array([np.nan]))
        number = Cast(codes, "float64")
        found = Affine.of(number, sub=less) if less else number
        chosen = Choose(Compare.of(codes, "ge", 0), found, nothing)
        return self.like(current_trace().made_whole(chosen))

    def _bool(self, end: TextEdit, na: Any) -> TracedSeries:
        codes = self._ended(end)
        if na is not None and not isinstance(na, bool):
            refuse("fills tests of texts by other than a bool", "Give na=False.")
        if na is None:
            current_trace().checks.append((Compare.of(codes, "lt", 0), _IS_MISSING))
        # A missing text has -1.
        return self.like(Compare.of(codes, "ne" if na else "ge", 0 if na else 1))

    @property
    def places(self) -> _TextPlaces:
        """Functions of texts, where missing ones are looked after."""
        return _TextPlaces(self)

    @property
    def str(self) -> _TextPlaces:
        """Functions of texts."""
        if _loses(self.node):
            # Of rows that all miss the part pandas makes numbers, which have no .str.
            current_trace().checks.append((self.isna().node, _HAS_NO_PART))
        return _TextPlaces(self)

    @property
    def dtype(self) -> NoReturn:
        """Its dtype, which is that of the rows."""
        refuse("asks for the type of a column of texts", "Name the columns.")

    def to_numpy(self, dtype: Any = None) -> Any:
        """Return the texts as an array, of which texts are chosen and compared."""
        if dtype is not None:
            refuse("converts an array of texts", _WAYS)
        return TracedTexts(self.node)

    def isna(self) -> TracedSeries:
        """Tell which are missing."""
        return self.like(Compare.of(self._ended(TextEdit("length")), "lt", 0))

    def notna(self) -> TracedSeries:
        """Tell which are not missing."""
        return self.like(Not(self.isna().node))

    isnull, notnull = isna, notna

    def fillna(self, value: Any) -> TracedSeries:
        """Fill missing texts with another, or with those of another column."""
        if isinstance(value, str):
            return super().fillna(value)
        return self.mask(self.isna(), value)

    def where(self, cond: Any, other: Any = np.nan) -> TracedSeries:
        """Keep texts where a condition holds."""
        return self.like(choose_texts(cond, self, other))

    def mask(self, cond: Any, other: Any = np.nan) -> TracedSeries:
        """Replace texts where a condition holds."""
        return self.like(choose_texts(cond, other, self))

    def replace(self, to_replace: Any, value: Any = None) -> TracedSeries:
        """Replace texts by others, or all of them by numbers."""
        keys = to_replace if isinstance(to_replace, list | tuple) else [to_replace]
        pairs = to_replace if isinstance(to_replace, dict) else dict.fromkeys(keys, value)
        if not pairs or not all(isinstance(text, str) for text in pairs):
            refuse("replaces texts by this", "Replace them by a dict of texts.")
        codes = codes_among(self.node, list(pairs))
        if all(isinstance(v, str) for v in pairs.values()):
            new = ChosenText(codes, (None, *pairs.values()))
            return self.like(ChooseText(new, self.node, Compare.of(codes, "ge", 0)))
        why = "A text is not replaced by a number, as others are."
        current_trace().checks.append((Compare.of(codes, "lt", 0), why))
        return self.like(look_up(self.node, pairs, [np.nan]))

    def astype(self, dtype: Any, **keywords: Any) -> TracedSeries:
        """Read numbers, as Python does."""
        if isinstance(dtype, KnownCategories):
            return super().astype(dtype)
        if not keywords and dtype in TEXTS:
            current_trace().checks.append((self.isna().node, "A missing text is made one."))
            return self
        name = None if dtype in ("object", "category") else np.dtype(dtype).name
        if keywords or name not in ("float64", "int64"):
            way = "Convert them to float, int, str or pd.CategoricalDtype([...])."
            refuse(f"converts texts to {dtype}", way)
        checks = current_trace().checks
        readable = self._ended(TextEdit("is_float" if name == "float64" else "is_int"))
        checks.append((Compare.of(readable, "eq", 0), "A text that is no number is read as one."))
        parts = [self._ended(TextEdit(p)) for p in ("float_high", "float_low", "float_scale")]
        number = TextNumber(Concat(tuple(parts)))
        if name == "float64":
            return self.like(number)
        checks.append((Compare.of(readable, "lt", 0), "A missing text is read as an int."))
        far = Relation(Compare.of(number, "ge", _EXACT), Compare.of(number, "le", -_EXACT), "or")
        checks.append((far, "An int in a text is beyond 2**53."))
        return self.like(Cast(number, "int64"))

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: Any, *inputs: Any, out: Any = None, **keywords: Any
    ) -> Any:
        if ufunc is np.add and len(inputs) == 2 and all(map(is_text, inputs)):
            series = [x for x in inputs if isinstance(x, TracedSeries)]
            if len(series) == 2:
                _require_joinable(series)
                names = {x.name for x in series}
                joined = JoinText(*map(text_node, inputs))
                return series_of(joined, names.pop() if len(names) == 1 else None)
        if any(isinstance(x, TracedSeries) and x is not self for x in inputs):
            refuse("compares two columns of texts", "Compare each with constants.")
        if method != "__call__" or keywords or out is not None:
            refuse(f"calls numpy.{ufunc.__name__} of texts", _WAYS)
        others = [x for x in inputs if x is not self]
        if len(others) == 1 and isinstance(others[0], str):
            if ufunc is np.add:
                before, after = ("", others[0]) if inputs[0] is self else (others[0], "")
                return self._edited(TextEdit("enclose", (before, after)))
            return self._compare_text(ufunc, others[0])
        return refuse(f"computes {ufunc.__name__} of texts", _WAYS)

    def _refuse_method(self, *_: object, **__: object) -> NoReturn:
        refuse("calls this method of a column of texts", _WAYS)

    clip = abs = between = _refuse_method


def _require_joinable(series: list[Any]) -> None:
    """Refuse rows that miss a text beside one of a number: pandas joins none among objects."""
    of_numbers = [is_of_number(x.node) for x in series]
    for x, is_number in zip(series, of_numbers, strict=True):
        if any(of_numbers) and not is_number and not isinstance(x.node, JoinText):
            why = "A missing text is joined with the text of a number."
            current_trace().checks.append((x.isna().node, why))


def _loses(node: Node) -> bool:
    """Tell whether an edit makes missing texts of some that are there."""
    edits = node.edits if isinstance(node, EditText) else ()
    return any(
        edit.name in ("extract", "pick_between")
        or (edit.name in ("pick", "pick_from_end") and edit.arguments[1] not in (0, -1))
        for edit in edits
    )


_HAS_NO_PART = "A text lacks the part that is edited, and pandas edits no rows that all lack it."


class _TextPlaces:
    """``.str`` of a column of texts."""

    def __init__(self, series: TracedTexts) -> None:
        self._series = series

    def __getattr__(self, name: str) -> Any:
        real = sys.modules["pandas"].Series.str
        if name.startswith("__") or not hasattr(real, name):
            raise AttributeError(f"'StringMethods' object has no attribute {name!r}")
        return refuse(f"calls .str.{name}, which hbconv does not follow", _WAYS)

    def _edited(self, name: str, *arguments: Any) -> TracedSeries:
        edit = TextEdit(name, arguments)
        if edit.misfit:
            refuse(edit.misfit, _WAYS)
        return self._series._edited(edit)

    def cat(self, others: Any = None, sep: Any = None, na_rep: Any = None) -> TracedSeries:
        """Join with another column."""
        if not isinstance(others, TracedSeries) or not is_text(others):
            refuse("joins texts of rows, or of other than a column", "Give one column of texts.")
        before: Any = self._series if na_rep is None else self._series.fillna(na_rep)
        after: Any = others if na_rep is None else others.fillna(na_rep)
        joined = (before + sep if sep else before) + after
        return self._series.like(joined.node)

    def replace(
        self, pat: Any, repl: Any = None, n: int = -1, case: Any = None, regex: bool = False
    ) -> TracedSeries:
        """Replace a plain text, or what matches a pattern."""
        if case is not None or not isinstance(repl, str) or (regex and "\\" in repl):
            refuse("replaces by what is matched", "Replace by a plain text.")
        if regex and _PATTERN & set(pat):
            require_pattern(pat, consumes=True)
            return self._edited("substitute", pat, repl, max(n, 0))
        _require_plain(pat, regex=False)
        return self._edited("replace", pat, repl, n)

    def __getitem__(self, key: Any) -> TracedSeries:
        if isinstance(key, slice):
            return self._edited("slice", key.start, key.stop, key.step)
        return self._edited("character", key)

    def get(self, i: int) -> TracedSeries:
        """Return one character."""
        return self[i]

    def slice(self, start: Any = None, stop: Any = None, step: Any = None) -> TracedSeries:
        """Return some of the characters."""
        return self._edited("slice", start, stop, step)

    def split(
        self, pat: str | None = None, *, n: int = -1, expand: bool = False, regex: Any = None
    ) -> Any:
        """Split, for one of the parts."""
        # pandas reads a longer text as a pattern, unless it is told.
        if pat is not None and (len(pat) != 1 or regex):
            _require_plain(pat, regex=regex is not False)
        parts = _TextParts(self._series, pat or None, n or -1)
        return PartColumns(parts) if expand else parts

    def rsplit(self, pat: str | None = None, *, n: int = -1, expand: bool = False) -> Any:
        """Split from the end, for one of the parts."""
        if pat is not None:
            _require_plain(pat, regex=False)
        parts = _TextParts(self._series, pat or None, n or -1, pick="pick_from_end")
        return PartColumns(parts) if expand else parts

    def len(self) -> TracedSeries:
        """Count the characters."""
        return self._series._number(TextEdit("length"))

    def count(self, pat: str) -> TracedSeries:
        """Count a plain text, or what matches a pattern."""
        if isinstance(pat, str) and _PATTERN & set(pat):
            require_pattern(pat, consumes=True)
            return self._series._number(TextEdit("count_matches", (pat,)))
        _require_plain(pat, regex=False)
        return self._series._number(TextEdit("count", (pat,)))

    def find(self, sub: str) -> TracedSeries:
        """Return where a text begins, -1 where it is not."""
        return self._series._number(TextEdit("find", (sub,)), less=1.0)

    def contains(
        self, pat: str, case: bool = True, flags: int = 0, na: Any = None, regex: bool = True
    ) -> TracedSeries:
        """Tell whether a plain text or a match of a pattern is inside."""
        if flags:
            refuse("looks for a pattern with flags", "Give case=False.")
        if not case or (regex and isinstance(pat, str) and _PATTERN & set(pat)):
            return self._matches("search", pat if regex else re.escape(pat), na, case=case)
        _require_plain(pat, regex=False)
        return self._series._bool(TextEdit("contains", (pat,)), na)

    def match(self, pat: str, case: bool = True, flags: int = 0, na: Any = None) -> TracedSeries:
        """Tell whether a text begins with a match of a pattern."""
        if flags:
            refuse("looks for a pattern with flags", "Give case=False.")
        return self._matches("match", pat, na, case=case)

    def fullmatch(
        self, pat: str, case: bool = True, flags: int = 0, na: Any = None
    ) -> TracedSeries:
        """Tell whether a whole text matches a pattern."""
        if flags:
            refuse("looks for a pattern with flags", "Give case=False.")
        return self._matches("fullmatch", pat, na, case=case)

    def _matches(self, name: str, pattern: str, na: Any, *, case: bool) -> TracedSeries:
        require_pattern(pattern)
        if not case and not pattern.isascii():
            refuse("looks for letters beyond ASCII in any case", "Give all their forms.")
        marked = pattern if case else f"(?i){pattern}"
        return self._series._bool(TextEdit(name, (marked,)), na)

    def extract(self, pat: str, flags: int = 0, expand: bool = True) -> Any:
        """Return the groups of the first match of a pattern, each as a column."""
        if flags:
            refuse("extracts by a pattern with flags", "Leave flags= out.")
        compiled = require_pattern(pat)
        groups = [self._edited("extract", pat, j + 1) for j in range(compiled.groups)]
        names = {place: name for name, place in compiled.groupindex.items()}
        if not groups:
            refuse("extracts by a pattern without groups", "Put brackets around a part of it.")
        if len(groups) == 1 and not expand:
            return groups[0].rename(names.get(1, self._series.name))
        found = {names.get(j + 1, j): group.node for j, group in enumerate(groups)}
        return TracedFrame(found)

    def startswith(self, pat: str, na: Any = None) -> TracedSeries:
        """Tell whether a text is at the beginning."""
        return self._tested("startswith", pat, na)

    def endswith(self, pat: str, na: Any = None) -> TracedSeries:
        """Tell whether a text is at the end."""
        return self._tested("endswith", pat, na)

    def _tested(self, name: str, pat: Any, na: Any) -> TracedSeries:
        first, *others = (
            self._series._bool(TextEdit(name, (p,)), na)
            for p in (pat if isinstance(pat, tuple) else (pat,))
        )
        for other in others:
            first = first.like(apply_ufunc(np.logical_or, [first.node, other.node]))
        return first


def _require_plain(text: Any, *, regex: bool) -> None:
    if not isinstance(text, str) or (regex and _PATTERN & set(text)):
        refuse("looks for a pattern", "Give a plain text, and regex=False.")


class PartColumns:
    """Parts of texts as columns: pandas makes as many as the rows need.

    Rows of fewer parts than are asked for are refused: pandas has no column where all lack it.
    """

    def __init__(self, parts: _TextParts) -> None:
        self._parts = parts

    def __getitem__(self, place: Any) -> TracedSeries:
        if type(place) is not int or place < 0:
            refuse("takes several columns of parts", _ONE_PART)
        part = self._parts[place]
        if place:
            current_trace().checks.append((part.isna().node, _HAS_NO_PART))
        return part.rename(place)

    def columns_for(self, count: int) -> list[TracedSeries]:
        """Return the columns that so many names are given."""
        n_parts = self._parts.len()
        other = Compare.of(n_parts.node, "ne", float(count))
        current_trace().checks.append((other, "A text has other parts than names are given."))
        return [self[place] for place in range(count)]

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__") or not hasattr(sys.modules["pandas"].DataFrame, name):
            raise AttributeError(f"'DataFrame' object has no attribute {name!r}")
        self.refuse()

    def refuse(self, *_: object) -> NoReturn:
        """Refuse whatever else is done with them."""
        refuse("splits texts into as many columns as the rows need", _ONE_PART)

    __setitem__ = __iter__ = __contains__ = __len__ = __array__ = __bool__ = refuse


_ONE_PART = "Take one: .str.split('-').str[0]; or name them all: df[['a', 'b']] = ..."


class _TextParts:
    """Parts of texts, between separators."""

    def __init__(
        self, series: TracedTexts, separator: str | None, most: int, pick: str = "pick"
    ) -> None:
        self._pick = pick
        self._series = series
        self._separator = separator
        self._most = most

    def __getitem__(self, place: Any) -> TracedSeries:
        if type(place) is not int:
            refuse("takes several parts of a text", "Take one: .str.split('-').str[0].")
        return self._series._edited(TextEdit(self._pick, (self._separator, place, self._most)))

    def get(self, i: int) -> TracedSeries:
        """Return one of the parts."""
        return self[i]

    def len(self) -> TracedSeries:
        """Count the parts."""
        return self._series._number(TextEdit("count_parts", (self._separator, self._most)))

    def __getattr__(self, name: str) -> Any:
        if name == "str":
            return self
        return refuse(f"uses {name} of parts of texts", "Take one: .str.split('-').str[0].")


def _method(name: str, n_arguments: int, *, cased: bool = False) -> Callable[..., TracedSeries]:
    def method(self: _TextPlaces, *args: Any, **keywords: Any) -> TracedSeries:
        given = (*args, *keywords.values())
        if len(given) > n_arguments or len(keywords) > 1:
            refuse(f"calls .str.{name} with arguments that hbconv does not follow", _WAYS)
        if cased:
            # Arrow, in which pandas may store texts, has another case of some letters.
            return self._series._edited(TextEdit("require_case", (name,)), TextEdit(name))
        return self._edited(name, *given)

    return method


for _name in ("lower", "upper", "title", "capitalize"):
    setattr(_TextPlaces, _name, _method(_name, 0, cased=True))


def _test(name: str) -> Callable[..., TracedSeries]:
    def method(self: _TextPlaces) -> TracedSeries:
        return self._series._bool(TextEdit(name), None)

    return method


for _name in TESTS_OF_ASCII:
    setattr(_TextPlaces, _name, _test(_name))
for _name in ("strip", "lstrip", "rstrip", "removeprefix", "removesuffix", "zfill"):
    setattr(_TextPlaces, _name, _method(_name, 1))

SERIES["text"] = TracedTexts
