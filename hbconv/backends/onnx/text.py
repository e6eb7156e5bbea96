"""Text in the graph: columns to codes on the way in, codes to labels on the way out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hbconv.containers import Hashes
from hbconv.errors import BackendError

if TYPE_CHECKING:
    from hbconv.backends.onnx.writer import GraphWriter
    from hbconv.containers import Codes, Vocabulary

__all__ = ["encode", "labels", "texts"]

MISSING = {"None": "none", "nan": "nan"}
"""The text that ONNX Runtime's Python makes of each missing object, and its vocabulary field."""


def encode(w: GraphWriter, name: str, codes: Codes) -> str:
    """Write the int32 codes of the text input of that name."""
    column = codes.schema.columns[codes.column].name
    if isinstance(codes.vocabulary, Hashes):
        raise BackendError(
            f"Column {column!r} holds categories of which the model kept hashes alone, "
            "and ONNX has no operator that hashes text. Use Model."
        )
    keys = texts(codes.vocabulary, column)
    encoded = w.ml_node(
        "LabelEncoder",
        name,
        keys_strings=list(keys),
        values_int64s=list(keys.values()),
        default_int64=-1,
    )
    return w.cast(encoded, "int32")


def texts(vocabulary: Vocabulary, column: str) -> dict[str, int]:
    """Return texts and their codes.

    ONNX has no missing text, so texts stand for the missing values that the vocabulary knows: the
    empty text, if None and NaN have one code, and those that ONNX Runtime's Python writes for
    missing objects. A category of the same text takes precedence.

    Examples
    --------
    >>> from hbconv.containers import Vocabulary
    >>> texts(Vocabulary(("a", "b"), nan=2), "city")
    {'a': 0, 'b': 1, 'nan': 2, '': 2}
    >>> texts(Vocabulary(("a", "b")), "city")
    {'a': 0, 'b': 1}
    """
    if not vocabulary.is_text:
        raise BackendError(
            f"Column {column!r} holds objects of several types, which ONNX cannot compare. "
            "Use Model, or make them all text before fitting."
        )
    keys = {value: int(code) for value, code in zip(*vocabulary.texts, strict=True)}
    known = {getattr(vocabulary, field) for field in MISSING.values()} - {-1}
    for text, field in MISSING.items():
        if getattr(vocabulary, field) != -1:
            keys.setdefault(text, getattr(vocabulary, field))
    if len(known) == 1:
        keys.setdefault("", *known)
    lost = [code for code in known if code not in keys.values()]
    if lost:
        raise BackendError(
            f"Text column {column!r} has missing values, and categories named as every text that "
            "could stand for them in ONNX. Rename those."
        )
    return keys or {"": -1}


def labels(classes: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return class labels in a dtype that ONNX holds: text, int32, int64, float or bool."""
    if classes.dtype.kind == "O":
        kinds = {type(label) for label in classes.tolist()}
        if len(kinds) != 1 or not kinds <= {str, int, float, bool}:
            raise BackendError(
                f"ONNX cannot hold the class labels {classes.tolist()[:5]}: "
                "they must all be text, or all numbers."
            )
        classes = np.array(classes.tolist())
    if classes.dtype.kind in "iu" and classes.dtype != np.int32:
        return classes.astype(np.int64)
    if classes.dtype.kind == "U" or classes.dtype.name in ("int32", "float32", "float64", "bool"):
        return classes
    raise BackendError(
        f"ONNX cannot hold class labels of dtype {classes.dtype}. "
        "Encode them before fitting (LabelEncoder)."
    )
