"""Operators of ``ai.onnx.ml`` on categories, labels and maps."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import Check, Compare, FindCode, Node, OneHot, Recode
from hbconv.parse.onnx.operator import OnnxOperator, operator
from hbconv.parse.onnx.texts import text_codes
from hbconv.parse.onnx.values import LabelTensor, MapList, RowTensor, TextTensor, Value

__all__: list[str] = []

ML = "ai.onnx.ml"

Numbers = npt.NDArray[Any]


def _positions(op: OnnxOperator, value: Value, known: Numbers) -> tuple[Node, tuple[int, ...], int]:
    """Return the position of each entry among the known values, -1 for others."""
    if isinstance(value, TextTensor):
        node = text_codes(op, value, [known.tolist()] * value.width)
        return node, value.dims, value.axis
    if isinstance(value, LabelTensor):
        place = {v: i for i, v in enumerate(known.tolist())}
        codes = [place.get(v, -1) for v in value.table.data.tolist()]
        return value.recoded(np.array(codes, np.int32)), value.dims, value.axis
    x = op.rows()
    if known.dtype.kind == "U":
        raise op.refuse("keys", known.tolist()[:3], f"The input holds {x.dtype}.")
    return _found(x, known), x.dims, x.axis


def _found(x: RowTensor, known: Numbers) -> Node:
    """Return the position of numbers among known ones, which need not ascend."""
    order = np.argsort(known, kind="stable")
    ascending = known[order]
    node: Node = FindCode(x.node, (Array(ascending),) * x.width)
    if np.array_equal(order, np.arange(len(order))):
        return node
    return Recode(node, (Array(np.append(-1, order).astype(np.int32)),) * x.width)


@operator("OneHotEncoder", domain=ML)
def read_one_hot(op: OnnxOperator) -> RowTensor:
    """Write 1 at the position of the category; a new last axis holds the categories.

    Unknown ones are zeros, or refused where ``zeros`` is 0.
    """
    texts = op.texts("cats_strings")
    known = np.array(texts) if texts else op.numbers("cats_int64s", "int64")
    if not len(known) or len(set(known.tolist())) != len(known):
        raise op.damaged("has no categories, or one twice")
    value = op.value()
    if isinstance(value, RowTensor) and value.dtype.startswith("float"):
        value = value.cast("int64")
        node, dims, axis = _found(value, known), value.dims, value.axis
    else:
        node, dims, axis = _positions(op, value, known)
    if not op.get("zeros", 1):
        told = f"OneHotEncoder (node {op.name!r:.100}) reads a category that it does not know."
        op.checks.append(Check(Compare.of(node, "lt", 0), told, op.name))
    hot = OneHot(node, (len(known),) * node.type.width, "float32")
    return RowTensor((*dims, len(known)), axis, hot)


@operator("LabelEncoder", domain=ML)
def read_label_encoder(op: OnnxOperator) -> LabelTensor:
    """Map known values to others, and all else to a default."""
    if "classes_strings" in op.attributes:
        return _encoded_classes(op)
    keys, values = _list(op, "keys"), _list(op, "values")
    if keys is None or values is None or len(keys) != len(values):
        raise op.damaged("has keys and values of other lengths")
    default = _default(op, values)
    return _mapped(op, keys, np.append(values, default))


def _list(op: OnnxOperator, name: str) -> Numbers | None:
    texts = op.texts(f"{name}_strings")
    if texts:
        return np.array(texts)
    for kind, dtype in (("int64s", "int64"), ("floats", "float32")):
        if f"{name}_{kind}" in op.attributes:
            return op.numbers(f"{name}_{kind}", dtype)
    tensor = op.get(f"{name}_tensor")
    if tensor is None:
        return None
    found = np.asarray(tensor).ravel()
    return found.astype(str) if found.dtype.kind == "O" else found


def _default(op: OnnxOperator, values: Numbers) -> Numbers:
    tensor = op.get("default_tensor")
    if tensor is not None:
        found = np.asarray(tensor).ravel()
        return found.astype(str) if found.dtype.kind == "O" else found.astype(values.dtype)
    if values.dtype.kind == "U":
        return np.array([op.get("default_string", "_Unused")])
    if values.dtype.kind == "i":
        return np.array([op.get("default_int64", -1)], values.dtype)
    return np.array([op.get("default_float", -0.0)], values.dtype)


def _mapped(op: OnnxOperator, keys: Numbers, table: Numbers) -> LabelTensor:
    """Return the entry of the table at each key's position; the last is for all else.

    Of equal keys the first counts.
    """
    _, first = np.unique(keys, return_index=True)
    kept = np.sort(first)
    if keys.dtype.kind == "f" and op.opset < 4:
        kept = kept[~np.isnan(keys[kept])]  # before opset 4 NaN is no key to onnxruntime
    node, dims, axis = _positions(op, op.value(), keys[kept])
    codes = np.append(len(table) - 1, kept).astype(np.int32)
    recoded = Recode(node, (Array(codes),) * node.type.width)
    return LabelTensor(dims, axis, recoded, Array(table))


def _encoded_classes(op: OnnxOperator) -> LabelTensor:
    """Map texts to their positions, or positions to texts."""
    classes = np.array(op.texts("classes_strings"))
    value = op.value()
    if isinstance(value, TextTensor) or (
        isinstance(value, LabelTensor) and value.table.data.dtype.kind == "U"
    ):
        return _mapped(op, classes, np.append(np.arange(len(classes)), op.get("default_int64", -1)))
    table = np.append(classes, op.get("default_string", "_Unused"))
    return _mapped(op, np.arange(len(classes)), table)


@operator("CategoryMapper", domain=ML)
def read_category_mapper(op: OnnxOperator) -> LabelTensor:
    """Map texts to ints, or ints to texts."""
    texts = np.array(op.texts("cats_strings"))
    ints = op.numbers("cats_int64s", "int64")
    if len(texts) != len(ints):
        raise op.damaged(f"has {len(texts)} texts for {len(ints)} ints")
    value = op.value()
    if isinstance(value, RowTensor):
        return _mapped(op, ints, np.append(texts, op.get("default_string", "_Unused")))
    return _mapped(op, texts, np.append(ints, op.get("default_int64", -1)))


@operator("ZipMap", domain=ML)
def read_zip_map(op: OnnxOperator) -> MapList:
    """Name the columns: each row is a dict."""
    x = op.matrix()
    texts = op.texts("classlabels_strings")
    keys = np.array(texts) if texts else op.numbers("classlabels_int64s", "int64")
    if len(keys) != x.width or len(set(keys.tolist())) != len(keys):
        raise op.damaged(f"names {len(keys)} columns of {x.width}, or two alike")
    return MapList(x, Array(keys))
