"""Text in the graph: columns to codes on the way in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hbconv.interface.text import text_codes

if TYPE_CHECKING:
    from hbconv.backends.onnx.writer import GraphWriter
    from hbconv.containers import Codes

__all__ = ["MISSING", "encode"]

MISSING = {"None": "none", "nan": "nan"}
"""The text that ONNX Runtime's Python makes of each missing object, and its vocabulary field."""


def encode(w: GraphWriter, name: str, codes: Codes) -> str:
    """Write the int32 codes of the text input of that name."""
    column = codes.schema.columns[codes.column].name
    keys = text_codes(codes.vocabulary, column, MISSING) or {"": -1}
    encoded = w.ml_node(
        "LabelEncoder",
        name,
        keys_strings=list(keys),
        values_int64s=list(keys.values()),
        default_int64=-1,
    )
    return w.cast(encoded, "int32")
