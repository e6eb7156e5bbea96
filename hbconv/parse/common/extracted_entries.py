"""Sparse rows that the host extracts from texts, mappings and lists of labels."""

from __future__ import annotations

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
from hbconv.parse.common.text_columns import text_column
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
    if column is None or column.edits:
        raise step.refuse(None, None, "It must read a column of the input as it comes.")
    return Entries(
        column.schema,
        column.column,
        Extractor(rows, columns, dtype, binary=binary),
    )


def entry_name(step: Step, name: Any) -> Name:
    """Return the name of an entry as plain Python values, or refuse it."""
    plain = name.item() if isinstance(name, np.generic) else name
    if isinstance(plain, tuple):
        return tuple(entry_name(step, part) for part in plain)
    if plain is not None and not isinstance(plain, str | int | float):
        raise step.refuse("vocabulary_", name, "Names must be texts or numbers.")
    return str(plain) if isinstance(plain, str) else plain
