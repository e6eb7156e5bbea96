"""Texts that a function edits before an encoder, a look-up or a count reads them.

Edits and fillings between the input and what reads the texts are folded into one vocabulary, by
which the host looks each distinct text up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

import numpy as np

from hbconv.array import Array
from hbconv.containers import (
    Add,
    Affine,
    Cast,
    Choose,
    ChooseText,
    ChosenText,
    Codes,
    Columns,
    EditedVocabulary,
    EditText,
    FillObjects,
    FindCode,
    IsOtherDtype,
    JoinText,
    Node,
    NumberText,
    Recode,
    Schema,
    TextEdit,
)
from hbconv.containers.moved_columns import columns_of, find_origin

__all__ = ["EDITS_OF_NUMBERS", "EditedColumn", "edited_text", "follow_text", "text_codes"]

Raw = str | float | None
_NAN = float("nan")
_NA = "\0NA"
"""Stands for ``pandas.NA``, as in ``FillObjects``."""
_LOSING = frozenset({"pick", "character", "extract", "pick_between", "pick_from_end"})
"""Edits that may make a missing text of one that is there."""


@dataclass(frozen=True)
class Filling:
    """A text in the place of missing values."""

    text: str
    missing: tuple[Any, ...]


@dataclass(frozen=True)
class EditedColumn:
    """A column of texts of the input, with what edits it, in order.

    Parameters
    ----------
    schema : Schema
    column : int
    stages : tuple of TextEdit or Filling
    """

    schema: Schema
    column: int
    stages: tuple[TextEdit | Filling, ...] = ()

    @staticmethod
    def of(x: Node, position: int = 0) -> EditedColumn | None:
        """Follow a column back to the input; None where other steps are on the way."""
        x, position = find_origin(x, position)
        if isinstance(x, Columns):
            return EditedColumn(x.schema, x.columns[position])
        if not isinstance(x, FillObjects | EditText):
            return None
        before = EditedColumn.of(x.x, position)
        if before is None:
            return None
        stages = _stages(x, position)
        if stages is None:
            return None
        return EditedColumn(before.schema, before.column, (*before.stages, *stages))

    @property
    def edits(self) -> tuple[TextEdit, ...]:
        """What edits a text that is not missing."""
        return tuple(stage for stage in self.stages if isinstance(stage, TextEdit))

    def apply(self, value: Raw, first: int = 0) -> Raw:
        """Return what the stages from the first on make of a text or a missing value."""
        return _apply(self.stages[first:], value)

    @property
    def lost(self) -> list[Raw]:
        """What becomes of texts that an edit loses, each of these once."""
        found: list[Raw] = []
        for place, stage in enumerate(self.stages):
            if isinstance(stage, TextEdit) and stage.name in _LOSING:
                value = self.apply(_NAN, place + 1)
                found += [] if _is_among(value, tuple(found)) else [value]
        return found

    def codes(self, places: Mapping[Any, int], *end: TextEdit, missing: int = -1) -> Node | None:
        """Return the code of each text: its place, or what the last edit makes of it.

        Parameters
        ----------
        places : mapping
            Codes by text, which are 0, 1, ... in order; None and NaN may be among them.
        end : TextEdit
            An edit that makes a number.
        missing : int
            Code of a missing text that is not among them.

        Returns
        -------
        Codes or None
            None where two edits lose texts that are filled otherwise, or the places of texts are
            not in order.
        """
        lost = self.lost or [self.apply(_NAN)]
        if len(lost) > 1:
            return None

        def code(value: Raw) -> int:
            if _is_present(value):
                return int(end[0].apply(value) or 0) if end else places.get(value, -1)
            return next((place for v, place in places.items() if _same(v, value)), missing)

        texts = tuple(text for text in places if _is_present(text))
        if [places[text] for text in texts] != list(range(len(texts))):
            return None
        vocabulary = EditedVocabulary(
            texts,
            none=code(self.apply(None)),
            nan=code(self.apply(_NAN)),
            na=code(self.apply(_NA)),
            only_texts=True,
            edits=(*self.edits, *end),
            lost=code(lost[0]),
        )
        return Codes(self.schema, self.column, vocabulary)


def _stages(x: FillObjects | EditText, position: int) -> tuple[TextEdit | Filling, ...] | None:
    """Return what a node does to the texts of a column; None where it fills otherwise."""
    if isinstance(x, EditText):
        return x.edits
    fill, replaces_texts = x.fill[position], any(_is_present(v) for v in x.missing)
    if not isinstance(fill, str) or replaces_texts or x.texts_only:
        return None
    return (Filling(fill, x.missing),)


def _apply(stages: Sequence[TextEdit | Filling], value: Raw) -> Raw:
    for stage in stages:
        if isinstance(stage, Filling):
            value = stage.text if _is_among(value, stage.missing) else value
        elif _is_present(value):
            edited = stage.apply(value)
            value = edited if isinstance(edited, str) else _NAN
        elif stage.name == "enclose":
            # Of None and another text pandas makes NaN.
            value = _NAN
    return value


def text_codes(
    x: Node, position: int, places: Mapping[Any, int], *end: TextEdit, missing: int = -1
) -> Node | None:
    """Return the code of each text of a column, of the input or made of places in tables.

    The arguments are those of ``EditedColumn.codes``.
    """
    return _codes(follow_text(x, position), places, end, missing)


def follow_text(x: Node, position: int = 0) -> Node:
    """Return what made a column of texts, where edits behind it are done before it.

    A choice of two texts that is edited becomes a choice of two edited texts.
    """
    x, _ = find_origin(columns_of(x, [position]), 0)
    if not isinstance(x, FillObjects | EditText):
        return x
    maker = follow_text(x.x)
    stages = _stages(x, 0)
    if isinstance(maker, ChosenText) and stages is not None:
        edited = [_apply(stages, _NAN if text is None else text) for text in maker.texts]
        return replace(maker, texts=tuple(t if isinstance(t, str) else None for t in edited))
    if isinstance(x, EditText) and isinstance(maker, EditText) and isinstance(maker.x, NumberText):
        return replace(maker, edits=(*maker.edits, *x.edits))
    if isinstance(maker, ChooseText):
        first, second = (follow_text(replace(x, x=part)) for part in maker.parts)
        return replace(maker, x=first, y=second)
    if isinstance(maker, JoinText) and isinstance(x, EditText) and _encloses(stages):
        befores, afters = zip(*(stage.arguments for stage in x.edits), strict=True)
        before = EditText(maker.x, (TextEdit("enclose", ("".join(befores[::-1]), "")),))
        after = EditText(maker.y, (TextEdit("enclose", ("", "".join(afters))),))
        return JoinText(before, after)
    return replace(x, x=maker)


def edited_text(x: FillObjects | EditText, value: Raw) -> Raw:
    """Return what a node makes of a text or a missing value; of one that it fills otherwise, it."""
    return _apply(_stages(x, 0) or (), value)


def _encloses(stages: Sequence[TextEdit | Filling] | None) -> bool:
    return stages is not None and all(
        isinstance(stage, TextEdit) and stage.name == "enclose" for stage in stages
    )


def _codes(
    x: Node, places: Mapping[Any, int], end: tuple[TextEdit, ...], missing: int
) -> Node | None:
    if isinstance(x, ChosenText):
        of_missing = next((p for v, p in places.items() if _same(v, _NAN)), missing)
        codes = [of_missing if t is None else _code_of(t, places, end) for t in x.texts]
        return Recode(x.x, (Array(np.array(codes, np.int32)),))
    if isinstance(x, ChooseText):
        first, second = (_codes(part, places, end, missing) for part in x.parts)
        return None if first is None or second is None else Choose(x.condition, first, second)
    if isinstance(x, JoinText):
        return None if end else _joined_codes(x, places, missing)
    if isinstance(x, FillObjects) and isinstance(x.x, JoinText):
        filled = edited_text(x, _NAN)
        known = {text: place for text, place in places.items() if _is_present(text)}
        of_missing = places.get(filled, -1)
        return None if end else _joined_codes(x.x, {**known, _NAN: of_missing}, of_missing)
    if isinstance(x, NumberText) or (isinstance(x, EditText) and isinstance(x.x, NumberText)):
        return None if end else _number_codes(x, places)
    column = EditedColumn.of(x)
    return None if column is None else column.codes(places, *end, missing=missing)


_EXACT_INTS = 2**53
EDITS_OF_NUMBERS = frozenset({"zfill", "enclose"})
"""Edits of the texts of numbers behind which each number still has a text of its own."""


def _number_codes(x: NumberText | EditText, places: Mapping[Any, int]) -> Node | None:
    """Look numbers up in place of their texts: ints and floats have others.

    1. Find the number whose edited text each known text is, once for ints and once for floats.
    2. Look up the numbers of both, and take the place by the dtype of the rows.
    """
    edits = x.edits if isinstance(x, EditText) else ()
    numbers = x.x if isinstance(x, EditText) else x
    if not isinstance(numbers, NumberText) or {e.name for e in edits} - EDITS_OF_NUMBERS:
        return None
    # 1.
    known: list[dict[float, int]] = [
        {
            float(number): place
            for text, place in places.items()
            if _is_present(text) and (number := number_of_text(text, edits, kind)) is not None
        }
        for kind in (int, float)
    ]
    # 2.
    values = sorted({*known[0], *known[1]}) or [0.0]
    found = FindCode(Cast(numbers.x, "float64"), (Array(np.array(values)),))
    ints, floats = (
        Recode(found, (Array(np.array([-1, *(k.get(v, -1) for v in values)], np.int32)),))
        for k in known
    )
    return Choose(IsOtherDtype(numbers.x, "float"), ints, floats)


def number_of_text(text: str, edits: Sequence[TextEdit], kind: type) -> float | None:
    """Return the int or float that Python writes so, before edits that keep numbers apart.

    Examples
    --------
    >>> number_of_text("k07", (TextEdit("zfill", (2,)), TextEdit("enclose", ("k", ""))), int)
    7
    >>> number_of_text("7.0", (), int) is None, number_of_text("7.0", (), float)
    (True, 7.0)
    """
    inner = text
    for edit in reversed(edits):
        if edit.name == "enclose":
            before, after = map(str, edit.arguments)
            inner = inner.removeprefix(before).removesuffix(after)
    try:
        number: float = kind(inner)
    except (ValueError, OverflowError):
        return None
    # Such rows are refused: no look-up tells them from others.
    is_taken = number == number and abs(number) < _EXACT_INTS if kind is int else number == number
    if not is_taken or repr(number) == "-0.0" or _apply(edits, repr(number)) != text:
        return None
    return number


def _code_of(text: str, places: Mapping[Any, int], end: tuple[TextEdit, ...]) -> int:
    return int(end[0].apply(text) or 0) if end else places.get(text, -1)


MOST_PAIRS = 1 << 20
"""Entries of the table of both parts of joined texts."""


def _joined_codes(x: JoinText, places: Mapping[Any, int], missing: int) -> Node | None:
    """Look up both parts of each known text, and the place of the pair.

    1. Cut each known text wherever both parts are possible.
    2. Look up the parts; a missing one has the code behind all others.
    3. Number the pairs, and look their numbers up.
    """
    # 1.
    cuts = {
        (text[:at], text[at:]): place
        for text, place in places.items()
        if _is_present(text)
        for at in range(len(text) + 1)
        if _may_be(x.x, text[:at]) and _may_be(x.y, text[at:])
    }
    firsts, seconds = (dict.fromkeys(cut[side] for cut in cuts) for side in (0, 1))
    n_firsts, n_seconds = len(firsts) + 2, len(seconds) + 2
    if n_firsts * n_seconds > MOST_PAIRS:
        return None
    # 2.
    first_codes, second_codes = (
        text_codes(part, 0, _with_missing(known), missing=len(known))
        for part, known in ((x.x, firsts), (x.y, seconds))
    )
    if first_codes is None or second_codes is None:
        return None
    # 3.
    table = np.full((n_firsts, n_seconds), -1, np.int32)
    first_places, second_places = ({t: j + 1 for j, t in enumerate(k)} for k in (firsts, seconds))
    for (first, second), place in cuts.items():
        table[first_places[first], second_places[second]] = place
    table[-1] = table[:, -1] = next((p for v, p in places.items() if _same(v, _NAN)), missing)
    number = Affine.of(Cast(first_codes, "float64"), mul=float(n_seconds), add=float(n_seconds))
    pair = Cast(Add((number, Cast(second_codes, "float64"))), "int32")
    return Recode(pair, (Array(table.ravel()),))


def _with_missing(known: Mapping[str, Any]) -> dict[Any, int]:
    places: dict[Any, int] = {text: place for place, text in enumerate(known)}
    return {**places, **dict.fromkeys((None, _NAN, _NA), len(known))}


def _may_be(x: Node, text: str) -> bool:
    """Tell whether a column of texts may hold a text; if not known, it may."""
    x = follow_text(x)
    if isinstance(x, ChosenText):
        return text in x.texts
    if isinstance(x, ChooseText):
        return any(_may_be(part, text) for part in x.parts)
    if not (isinstance(x, EditText) and x.edits[-1].name == "enclose"):
        return True
    before, after = map(str, x.edits[-1].arguments)
    fits = len(text) >= len(before) + len(after)
    return fits and text.startswith(before) and text.endswith(after)


def _is_present(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and value not in (_NA, "\0missing")


def _same(x: Any, y: Any) -> bool:
    return bool(x is y or x == y or (x != x and y != y))


def _is_among(value: Raw, values: tuple[Any, ...]) -> bool:
    return any(_same(value, v) for v in values)
