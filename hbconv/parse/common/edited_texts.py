"""Texts that a function edits before an encoder, a look-up or a count reads them.

Edits and fillings between the input and what reads the texts are folded into one vocabulary, by
which the host looks each distinct text up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

from hbconv.containers import (
    Codes,
    Columns,
    EditedVocabulary,
    EditText,
    FillObjects,
    Node,
    Schema,
    TextEdit,
)
from hbconv.containers.moved_columns import find_origin

__all__ = ["EditedColumn"]

Raw = str | float | None
_NAN = float("nan")
_NA = "\0NA"
"""Stands for ``pandas.NA``, as in ``FillObjects``."""
_LOSING = frozenset({"pick", "character"})
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
        if isinstance(x, EditText):
            return EditedColumn(before.schema, before.column, (*before.stages, *x.edits))
        fill, replaces_texts = x.fill[position], any(_is_present(v) for v in x.missing)
        if not isinstance(fill, str) or replaces_texts or x.texts_only:
            return None
        stages = (*before.stages, Filling(fill, x.missing))
        return EditedColumn(before.schema, before.column, stages)

    @property
    def is_edited(self) -> bool:
        """Whether any text is another one afterwards."""
        return any(isinstance(stage, TextEdit) for stage in self.stages)

    @property
    def edits(self) -> tuple[TextEdit, ...]:
        """What edits a text that is not missing."""
        return tuple(stage for stage in self.stages if isinstance(stage, TextEdit))

    def apply(self, value: Raw, first: int = 0) -> Raw:
        """Return what the stages from the first on make of a text or a missing value."""
        for stage in self.stages[first:]:
            if isinstance(stage, Filling):
                value = stage.text if _is_among(value, stage.missing) else value
            elif _is_present(value):
                edited = stage.apply(value)
                value = edited if isinstance(edited, str) else _NAN
            elif stage.name == "enclose":
                # Of None and another text pandas makes NaN.
                value = _NAN
        return value

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


def _is_present(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and value not in (_NA, "\0missing")


def _same(x: Any, y: Any) -> bool:
    return bool(x is y or x == y or (x != x and y != y))


def _is_among(value: Raw, values: tuple[Any, ...]) -> bool:
    return any(_same(value, v) for v in values)
