"""Sparse rows that the host extracts from texts, mappings and lists of labels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from hbconv.containers import Entries, Node, Schema
from hbconv.containers.extractors import (
    Buckets,
    Extractor,
    Mappings,
    Name,
    Pairs,
    Terms,
    Texts,
    Tokens,
)
from hbconv.parse.common.text_columns import BLANK, NA, UNKNOWN, TextColumn, text_column
from hbconv.parse.step import Step

__all__ = ["entry_name", "extracted_entries", "item_column"]


def item_column(_: Any) -> Schema:
    """Return the schema of an estimator that iterates over its input."""
    return Schema.items()


def extracted_entries(
    step: Step,
    rows: Texts | Mappings | Pairs | Tokens,
    columns: Terms | Buckets,
    dtype: str,
    *,
    binary: bool,
) -> Node:
    """Extract sparse rows from the one column that the step reads as it comes."""
    column = text_column(step.x, 0) if step.x.type.width == 1 else None
    read = None if column is None else _read(rows, column)
    if column is None or read is None:
        raise step.refuse(None, None, "It must read a column of the input as it comes.")
    return Entries(
        column.schema,
        column.column,
        Extractor(read, columns, dtype, binary=binary),
    )


def _read(
    rows: Texts | Mappings | Pairs | Tokens, column: TextColumn
) -> Texts | Mappings | Pairs | Tokens | None:
    """Return how rows are read behind the steps that edit the column; None where they are not."""
    if not column.edits:
        return rows
    return _emptied(rows, column) if isinstance(rows, Texts) else None


def _emptied(texts: Texts, column: TextColumn) -> Texts | None:
    """Return how documents are cut where steps before make some of them empty.

    None where a step changes a document to another one.
    """
    missing = {column.filled(value) for value in (None, float("nan"), NA)}
    changed = {text: column.filled(text) for text in (*column.markers, UNKNOWN)}
    empty = tuple(text for text, made in changed.items() if made == "" and isinstance(text, str))
    others = {text for text, made in changed.items() if made not in ("", text)}
    if missing != {""} or others:
        return None
    blank = column.filled(BLANK) == ""
    return replace(texts, empty=empty, missing_is_empty=True, blank_is_empty=blank)


def entry_name(step: Step, name: Any) -> Name:
    """Return the name of an entry as plain Python values, or refuse it."""
    plain = name.item() if isinstance(name, np.generic) else name
    if isinstance(plain, tuple):
        return tuple(entry_name(step, part) for part in plain)
    if plain is not None and not isinstance(plain, str | int | float):
        raise step.refuse("vocabulary_", name, "Names must be texts or numbers.")
    return str(plain) if isinstance(plain, str) else plain
