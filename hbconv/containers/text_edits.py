"""Edits of texts: what a source makes of a raw text before it looks it up, counts it or tests it.

They are methods of Python's ``str``. The host applies them once to each distinct text of a column,
and the program is given what comes out as a code (``EditedVocabulary``).
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from hbconv.containers.vocabulary import CodeTable, Vocabulary
from hbconv.errors import InputError

__all__ = ["EDITS", "ENDS", "LOW_BITS", "SCALES", "TESTS_OF_ASCII", "EditedVocabulary", "TextEdit"]

Argument = str | int | None


def _pick(text: str, separator: str | None, place: int, most: int = -1) -> str | None:
    """Return one of the parts between separators; None where there are fewer."""
    parts = text.split(separator, most)
    return parts[place] if -len(parts) <= place < len(parts) else None


def _pick_from_end(text: str, separator: str | None, place: int, most: int = -1) -> str | None:
    """Return one of the parts, where splitting begins at the end."""
    parts = text.rsplit(separator, most)
    return parts[place] if -len(parts) <= place < len(parts) else None


def _character(text: str, place: int) -> str | None:
    return text[place] if -len(text) <= place < len(text) else None


def _slice(text: str, start: int | None, stop: int | None, step: int | None = None) -> str:
    return text[start:stop:step]


def _strip(text: str, characters: str | None = None) -> str:
    return text.strip(characters)


def _lstrip(text: str, characters: str | None = None) -> str:
    return text.lstrip(characters)


def _rstrip(text: str, characters: str | None = None) -> str:
    return text.rstrip(characters)


def _replace(text: str, old: str, new: str, most: int = -1) -> str:
    return text.replace(old, new, most)


def _zfill(text: str, width: int) -> str:
    return text.zfill(width)


def _enclose(text: str, before: str, after: str) -> str:
    return before + text + after


def _removeprefix(text: str, prefix: str) -> str:
    return text.removeprefix(prefix)


def _removesuffix(text: str, suffix: str) -> str:
    return text.removesuffix(suffix)


def _length(text: str) -> int:
    return len(text)


def _count(text: str, part: str) -> int:
    return text.count(part)


def _find(text: str, part: str) -> int:
    return text.find(part) + 1


def _contains(text: str, part: str) -> int:
    return part in text


def _startswith(text: str, prefix: str) -> int:
    return text.startswith(prefix)


def _endswith(text: str, suffix: str) -> int:
    return text.endswith(suffix)


def _count_parts(text: str, separator: str | None, most: int = -1) -> int:
    return len(text.split(separator, most))


def _is_float(text: str) -> int:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_int(text: str) -> int:
    try:
        int(text)
    except ValueError:
        return False
    return True


_DIGITS = re.compile(r"[ \t\n\r]*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?[ \t\n\r]*")
"""Numbers as Python and pandas read them, but for their last bits."""
_INFINITE = re.compile(r"\s*[+-]?inf(inity)?\s*", re.IGNORECASE)
_MOST_DIGITS = 15
_MOST_POWER = 22


def _is_numeric(text: str) -> int:
    """Tell whether pandas reads a number, the very one that Python reads.

    Raises
    ------
    InputError
        pandas rounds the number otherwise, or has a name for it.
    """
    found = _DIGITS.fullmatch(text)
    if found is None and not _INFINITE.fullmatch(text) and "\0" not in text:
        return False
    digits = re.sub("[^0-9]", "", found.group(1)).lstrip("0") if found else "?" * 99
    fraction = len(found.group(1).partition(".")[2]) if found else 0
    power = int(found.group(2)[1:]) if found and found.group(2) else 0
    # An integer below 10**15 times or by a power of ten up to 10**22 is rounded once.
    if len(digits) <= _MOST_DIGITS and abs(power - fraction) <= _MOST_POWER:
        return True
    raise InputError(
        f"The text {text[:50]!r} is a number that pandas may read otherwise than Python. Write it "
        f"with at most {_MOST_DIGITS} digits."
    )


def _test_of_ascii(test: Callable[[str], bool]) -> Callable[..., int]:
    """Return a test of all characters, on which Python and Arrow agree in ASCII."""

    def tell(text: str) -> int:
        if text.isascii() and _SEPARATORS.isdisjoint(text):
            return test(text)
        raise InputError(
            f"The text {text[:50]!r} holds characters beyond ASCII, of which Python and Arrow may "
            "tell other kinds, and pandas uses either. Replace them before."
        )

    return tell


def _float_high(text: str) -> int:
    return _parts(text)[0]


def _float_low(text: str) -> int:
    return _parts(text)[1]


def _float_scale(text: str) -> int:
    return _parts(text)[2]


LOW_BITS = 26
"""Bits of the low half of a whole number of 53."""
LEAST_EXPONENT = -1074
"""Exponent of the smallest float64."""
SCALES = (
    *(math.ldexp(1.0, exponent) for exponent in range(LEAST_EXPONENT, 972)),
    math.inf, -0.0, math.nan,
)  # fmt: skip
"""What a whole number of 53 bits is multiplied by: each float64 is such a product, exactly."""


@lru_cache(maxsize=4096)
def _parts(text: str) -> tuple[int, int, int]:
    """Return the high and the low half of a whole number, and a place in ``SCALES``.

    Their product is the number that Python reads in a text: NaN where it reads none.
    """
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    infinite, negative_zero, missing = (len(SCALES) - back for back in (3, 2, 1))
    if math.isnan(number):
        return 0, 1, missing
    if math.isinf(number):
        return (0, 1, infinite) if number > 0 else (-1, (1 << LOW_BITS) - 1, infinite)
    if number == 0 and math.copysign(1.0, number) < 0:
        return 0, 1, negative_zero
    fraction, exponent = math.frexp(number)
    place = max(exponent - 53 - LEAST_EXPONENT, 0)
    # Of a denormal number the last bits are zeros, which the scale lacks.
    whole = int(math.ldexp(fraction, exponent - place - LEAST_EXPONENT))
    return whole >> LOW_BITS, whole & ((1 << LOW_BITS) - 1), place


def _lower(text: str) -> str:
    return text.lower()


def _upper(text: str) -> str:
    return text.upper()


def _title(text: str) -> str:
    return text.title()


def _capitalize(text: str) -> str:
    return text.capitalize()


_CASES = frozenset({"lower", "upper", "title", "capitalize"})
_WELL_KNOWN = re.compile(
    "[\0-\u0148\u014a-\u017f\u0300-\u0344\u0346-\u036f\u0370-\u0379\u037b-\u03a1\u03a4-\u052f\u0590-\u05ff\u2010-\u2027"
    "\u20a0-\u20bf\u3000-\u9fff\uac00-\ud7a3\U0001f300-\U0001f64f]*"
)
"""Texts of whose characters the case is the same in all tables of Unicode since 2020."""


def _require_case(text: str, case: str) -> str:
    """Return the text itself where Python and Arrow agree on its case.

    Python may make two characters of one ("ß" to "SS"), and looks at its place (final sigma).
    """
    if case not in _CASES or text.isascii():
        return text
    simple = _WELL_KNOWN.fullmatch(text) is not None and not any(
        len(c.lower()) > 1 or len(c.upper()) > 1 or c.title() != c.upper() or c in "\u00aa\u00ba"
        for c in text
        if case != "lower" or c.lower() != c
    )
    if simple:
        return text
    raise InputError(
        f"The text {text[:50]!r} has another {case} in Python than in Arrow, and pandas uses "
        "either, as it stores the column. Replace such letters before."
    )


_SEPARATORS = frozenset("\x0b\x1c\x1d\x1e\x1f")
"""ASCII that Python alone takes for space."""


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> tuple[re.Pattern[str], frozenset[str]]:
    """Return a pattern, and what it holds of which Python and Arrow may differ."""
    doubtful = frozenset(re.findall(r"\\([dDwWsSbB])|([$])", pattern))
    marks = {mark.lower() for pair in doubtful for mark in pair if mark}
    ignores_case = re.compile(pattern).flags & re.IGNORECASE
    return re.compile(pattern), frozenset(marks | ({"i"} if ignores_case else set()))


def _differs(text: str, marks: frozenset[str]) -> bool:
    """Tell whether Python and Arrow may read a text otherwise: Arrow's classes are of ASCII."""
    if "$" in marks and text.endswith("\n"):
        return True
    if "s" in marks and not _SEPARATORS.isdisjoint(text):
        return True
    if text.isascii():
        return False
    others = [c for c in text if not c.isascii()]
    return bool(
        marks & {"i", "w", "b"}
        or ("d" in marks and any(c.isdecimal() for c in others))
        or ("s" in marks and any(c.isspace() for c in others))
    )


def _pattern_for(text: str, pattern: str) -> re.Pattern[str]:
    """Return a pattern for a text that Python and Arrow read alike.

    Raises
    ------
    InputError
        They may differ.
    """
    compiled, marks = _compiled(pattern)
    if _differs(text, marks):
        raise InputError(
            f"The text {text[:50]!r} may match {pattern[:50]!r} otherwise in Python than in Arrow, "
            "and pandas uses either, as it stores the column. Use [0-9], [A-Za-z] or [ ] in it."
        )
    return compiled


def _pick_between(text: str, pattern: str, place: int, most: int = 0) -> str | None:
    """Return one of the parts between matches of a pattern; None where there are fewer."""
    parts = _pattern_for(text, pattern).split(text, most)
    return parts[place] if -len(parts) <= place < len(parts) else None


def _extract(text: str, pattern: str, group: int) -> str | None:
    """Return a group of the first match; None where there is none."""
    found = _pattern_for(text, pattern).search(text)
    return None if found is None else found.group(group)


def _substitute(text: str, pattern: str, new: str, most: int = 0) -> str:
    return _pattern_for(text, pattern).sub(lambda _: new, text, count=most)


def _search(text: str, pattern: str) -> int:
    return _pattern_for(text, pattern).search(text) is not None


def _match(text: str, pattern: str) -> int:
    return _pattern_for(text, pattern).match(text) is not None


def _fullmatch(text: str, pattern: str) -> int:
    return _pattern_for(text, pattern).fullmatch(text) is not None


def _count_matches(text: str, pattern: str) -> int:
    return sum(1 for _ in _pattern_for(text, pattern).finditer(text))


_OF_PATTERNS = frozenset({"extract", "substitute", "search", "match", "fullmatch"})
_OF_PATTERNS |= {"count_matches", "pick_between"}

TESTS_OF_ASCII = (
    *("isdigit", "isdecimal", "isnumeric", "isalpha", "isalnum"),
    *("isspace", "isupper", "islower", "istitle"),
)
"""Methods of ``str`` that test all characters."""

EDITS: dict[str, Callable[..., str | None]] = {
    "lower": _lower, "upper": _upper, "title": _title, "capitalize": _capitalize,
    "strip": _strip, "lstrip": _lstrip, "rstrip": _rstrip,
    "removeprefix": _removeprefix, "removesuffix": _removesuffix, "require_case": _require_case,
    "replace": _replace, "zfill": _zfill, "enclose": _enclose, "slice": _slice, "pick": _pick,
    "character": _character, "extract": _extract, "substitute": _substitute,
    "pick_between": _pick_between, "pick_from_end": _pick_from_end,
}  # fmt: skip
"""Functions of a text that make another; None is a missing one."""
ENDS: dict[str, Callable[..., int]] = {
    "length": _length, "count": _count, "find": _find, "count_parts": _count_parts,
    "is_float": _is_float, "is_int": _is_int, "float_high": _float_high, "float_low": _float_low,
    "float_scale": _float_scale, "is_numeric": _is_numeric,
    **{name: _test_of_ascii(getattr(str, name)) for name in TESTS_OF_ASCII},
    "contains": _contains, "startswith": _startswith, "endswith": _endswith,
    "search": _search, "match": _match, "fullmatch": _fullmatch, "count_matches": _count_matches,
}  # fmt: skip
"""Functions of a text that make a number of it, or a test: 1 where it holds, else 0.

``find`` counts the characters up to where a part begins, itself included: 0 where there is none.
The three parts of a float are those that ``TextNumber`` joins.
"""

_FUNCTIONS: dict[str, Callable[..., str | int | None]] = {**EDITS, **ENDS}
_MOST_EDITS = 64
_WIDEST = 4096
"""Characters that an edit may add in one place; a file may hold any number."""
_LONGEST = 1 << 24
"""Characters of an edited text, since edits of a file may make it longer and longer."""


@dataclass(frozen=True)
class TextEdit:
    """One edit: an entry of ``EDITS`` or ``ENDS``, and its arguments behind the text.

    Examples
    --------
    >>> TextEdit("pick", ("-", 1)).apply("a-b"), TextEdit("zfill", (3,)).apply("7")
    ('b', '007')
    >>> TextEdit("pick", ("-", 2)).apply("a-b") is None, TextEdit("length").apply("abc")
    (True, 3)
    """

    name: str
    arguments: tuple[Argument, ...] = ()

    @property
    def ends(self) -> bool:
        """Whether it makes a number."""
        return self.name in ENDS

    @property
    def has_pattern(self) -> bool:
        """Whether its first argument is a regular expression."""
        return self.name in _OF_PATTERNS

    @property
    def misfit(self) -> str | None:
        """Why it is none; None where it is one."""
        if self.name not in _FUNCTIONS:
            return f"edits texts by {self.name:.50}, which is none"
        try:
            bound = inspect.signature(_FUNCTIONS[self.name]).bind("", *self.arguments)
        except TypeError:
            return f"edits texts by {self.name} with {len(self.arguments)} arguments"
        parameters = inspect.signature(_FUNCTIONS[self.name]).parameters
        fits = all(
            _fits(value, str(parameters[name].annotation))
            for name, value in bound.arguments.items()
        )
        if not fits:
            return f"edits texts by {self.name} with arguments of other types"
        return self._misfit_of_pattern if self.name in _OF_PATTERNS else None

    @property
    def _misfit_of_pattern(self) -> str | None:
        try:
            n_groups = re.compile(str(self.arguments[0])).groups
        except (re.error, RecursionError, OverflowError):
            return f"edits texts by {self.name} with a pattern that is none"
        group = self.arguments[1] if self.name == "extract" else 0
        is_there = isinstance(group, int) and 0 <= group <= n_groups
        return None if is_there else "extracts a group that its pattern lacks"

    def apply(self, text: str) -> str | int | None:
        """Edit a text.

        Raises
        ------
        InputError
            The edited text is too long.
        """
        value = _FUNCTIONS[self.name](text, *self.arguments)
        if isinstance(value, str) and len(value) > _LONGEST:
            raise InputError(
                f"A text of {len(text):,} characters grows beyond {_LONGEST:,} by {self.name}. "
                "Pass shorter texts."
            )
        return value


def _fits(value: Argument, annotation: str) -> bool:
    """Whether an argument has a type of an annotation, and adds no more than a text may."""
    if value is None:
        return "None" in annotation
    if isinstance(value, str):
        return "str" in annotation and len(value) <= _WIDEST
    return "int" in annotation and type(value) is int and abs(value) <= _WIDEST


@dataclass(frozen=True)
class EditedVocabulary(Vocabulary):
    """Known texts and their codes, where a text is edited first.

    If the last edit makes a number, that is the code, and ``values`` are empty. A text of which an
    edit makes a missing one has the code ``lost``, or else that of NaN.

    Parameters
    ----------
    edits : tuple of TextEdit
        They follow one another. Only the last may make a number.
    lost : int, optional

    Examples
    --------
    >>> known = EditedVocabulary(("a", "b"), nan=2, edits=(TextEdit("strip"), TextEdit("lower")))
    >>> [known.codes[value] for value in (" A", "b", "c", float("nan"))]
    [0, 1, -1, 2]
    >>> EditedVocabulary((), edits=(TextEdit("length"),)).codes["abc"]
    3
    """

    edits: tuple[TextEdit, ...] = field(default=(), kw_only=True)
    lost: int | None = field(default=None, kw_only=True)

    @cached_property
    def codes(self) -> CodeTable:
        """Codes by raw value; texts are edited each time, since most may differ."""
        return _EditedCodes(self)

    @property
    def counts(self) -> bool:
        """Whether the codes are numbers that the last edit makes."""
        return bool(self.edits) and self.edits[-1].ends

    @property
    def misfit(self) -> str | None:
        """Why the edits are none; None where they are some."""
        if len(self.edits) > _MOST_EDITS or any(edit.ends for edit in self.edits[:-1]):
            return "edits texts too often, or behind a number"
        if self.counts and self.values:
            return "looks up a number of a text"
        return next((edit.misfit for edit in self.edits if edit.misfit), None)

    def code_of_text(self, text: str) -> int:
        """Return the code of a raw text."""
        value: str | int | None = text
        for edit in self.edits:
            if not isinstance(value, str):
                break
            value = edit.apply(value)
        if value is None:
            return self.nan if self.lost is None else self.lost
        return self._places.get(value, -1) if isinstance(value, str) else int(value)

    @cached_property
    def _places(self) -> dict[object, int]:
        return {value: code for code, value in enumerate(self.values)}

    def __str__(self) -> str:
        edits = ", ".join(edit.name for edit in self.edits)
        return edits if self.counts else f"{len(self.values)} categories by {edits}"


class _EditedCodes(CodeTable):
    def __init__(self, vocabulary: EditedVocabulary) -> None:
        # No value is known before it is edited.
        none, nan, na = vocabulary.none, vocabulary.nan, vocabulary.na
        super().__init__(Vocabulary((), none, nan, na, only_texts=vocabulary.only_texts))
        self._vocabulary = vocabulary
        self._code_of_text = vocabulary.code_of_text

    def __missing__(self, value: object) -> int:
        if isinstance(value, str):
            return self._code_of_text(value)
        return super().__missing__(value)
