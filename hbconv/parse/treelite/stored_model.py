"""Read models that Treelite wrote, without Treelite: its checkpoints and its JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hbconv.errors import ConversionError, UnsupportedError
from hbconv.parse.damage import StructReader, decode_json, read_count

__all__ = ["StoredModel", "read_checkpoint", "read_treelite_json"]

_TYPES = {2: "float32", 3: "float64"}
_OPERATORS = {0: "", 1: "==", 2: "<", 3: "<=", 4: ">", 5: ">="}
_KINDS = {0: "leaf", 1: "numerical_test_node", 2: "categorical_test_node"}
_BEFORE = 3
_VERSION = 4


@dataclass(frozen=True, eq=False)
class StoredModel:
    """A model of a file.

    Parameters
    ----------
    content : mapping
        What ``treelite.Model.dump_as_json`` gives of the model.
    """

    content: Mapping[str, Any]

    @property
    def num_feature(self) -> int:
        """Number of columns."""
        return int(self.content["num_feature"])


def read_treelite_json(data: bytes) -> StoredModel:
    """Read what ``treelite.Model.dump_as_json`` wrote."""
    return _model(decode_json(data), len(data))


def _model(content: Mapping[str, Any], n_bytes: int) -> StoredModel:
    read_count("num_feature", content["num_feature"], n_bytes)
    for n_classes in content["num_class"]:
        read_count("num_class", n_classes, n_bytes)
    return StoredModel(content)


def read_checkpoint(data: bytes) -> StoredModel:
    """Read what ``treelite.Model.serialize`` of Treelite 4 wrote.

    The form is that of Treelite's page "Serialization Format v4", with each field of the nodes
    as an array of its own.

    Raises
    ------
    UnsupportedError
        Another version of Treelite wrote the file.
    ConversionError
        The file is none, or it is damaged.
    """
    reader = StructReader(data, "The checkpoint")
    version = reader.number("<i4")
    if version not in (_BEFORE, _VERSION):
        raise ConversionError("The file is no checkpoint of Treelite: it begins with no version.")
    if version == _BEFORE:
        hint = "Load it with Treelite 4, and serialize it anew."
        raise UnsupportedError("Treelite checkpoint", "", "version", version, hint)
    reader.numbers("<i4", 2)
    content = _header(reader)
    leaf = np.dtype(content["leaf_output_type"])
    threshold = np.dtype(content["threshold_type"])
    trees = [_tree(reader, threshold, leaf) for _ in range(content.pop("num_tree"))]
    if reader.at != len(data):
        raise ConversionError("The checkpoint is damaged: bytes are left behind its last tree.")
    return _model({**content, "trees": trees}, len(data))


def _require_no_extension(reader: StructReader) -> None:
    """Refuse fields that later versions may add."""
    if reader.number("<i4"):
        hint = "Treelite 4.8 writes none. Load the model with Treelite and convert that."
        raise UnsupportedError("Treelite checkpoint", "", "extension slots", "used", hint)


def _header(reader: StructReader) -> dict[str, Any]:
    """Read the types, the number of trees, and what holds for all of them."""
    threshold = _TYPES[reader.number("u1")]
    leaf = _TYPES[reader.number("u1")]
    content = {
        "threshold_type": threshold,
        "leaf_output_type": leaf,
        "num_tree": reader.number("<u8"),
        "num_feature": reader.number("<i4"),
        "average_tree_output": _averages(reader),
        "num_target": reader.number("<i4"),
        "num_class": reader.array("<i4").tolist(),
        "leaf_vector_shape": reader.array("<i4").tolist(),
        "target_id": reader.array("<i4").tolist(),
        "class_id": reader.array("<i4").tolist(),
        "postprocessor": reader.text(),
        "sigmoid_alpha": reader.number("<f4"),
        "ratio_c": reader.number("<f4"),
        "base_scores": reader.array("<f8").tolist(),
        "attributes": reader.text(),
    }
    _require_no_extension(reader)
    return content


def _averages(reader: StructReader) -> bool:
    """Read whether trees are averaged, behind the kind of task, which changes no answer."""
    reader.number("u1")
    return bool(reader.number("u1"))


def _tree(reader: StructReader, threshold: np.dtype[Any], leaf: np.dtype[Any]) -> dict[str, Any]:
    """Read one tree; what was counted in training changes no answer and is left out."""
    size = reader.number("<i4")
    reader.number("u1")
    fields: dict[str, str | np.dtype[Any]] = {
        "kind": "i1", "left": "<i4", "right": "<i4", "feature": "<i4", "default_left": "u1",
        "leaf": leaf, "threshold": threshold, "operator": "i1", "right_listed": "u1",
        "vector": leaf, "vector_begin": "<u8", "vector_end": "<u8",
        "list": "<u4", "list_begin": "<u8", "list_end": "<u8",
        "data_count": "<u8", "has_count": "u1", "sum_hess": "<f8", "has_hess": "u1",
        "gain": "<f8", "has_gain": "u1",
    }  # fmt: skip
    table = {name: reader.array(kind) for name, kind in fields.items()}
    _require_no_extension(reader)
    _require_no_extension(reader)
    rows = {name: column.tolist() for name, column in table.items()}
    for name in ("vector", "list"):
        _require_own_parts(rows, name)
    return {"nodes": [_node(rows, place) for place in range(size)]}


def _node(table: Mapping[str, list[Any]], place: int) -> dict[str, Any]:
    kind = _KINDS[table["kind"][place]]
    if (kind == "leaf") != (table["left"][place] == -1):
        raise ConversionError(
            f"The checkpoint is damaged: node {place} of a tree is a {kind} by its kind, but its "
            "left child says otherwise. Write the model anew with Treelite."
        )
    if kind == "leaf":
        return {"node_id": place, "leaf_value": _leaf_value(table, place)}
    node = {
        "node_id": place,
        "node_type": kind,
        "split_feature_id": table["feature"][place],
        "default_left": bool(table["default_left"][place]),
        "left_child": table["left"][place],
        "right_child": table["right"][place],
    }
    if kind == "numerical_test_node":
        operator = _OPERATORS[table["operator"][place]]
        return {**node, "threshold": table["threshold"][place], "comparison_op": operator}
    listed = _part(table, "list", place)
    right = bool(table["right_listed"][place])
    return {**node, "category_list": listed, "category_list_right_child": right}


def _leaf_value(table: Mapping[str, list[Any]], place: int) -> Any:
    """Return the vector of a leaf where it has one, else its number."""
    return _part(table, "vector", place) or table["leaf"][place]


def _require_own_parts(table: Mapping[str, list[Any]], name: str) -> None:
    """Refuse nodes that share parts of a list: a small file would make a large model."""
    bounds = zip(table[f"{name}_begin"], table[f"{name}_end"], strict=True)
    if sum(max(end - begin, 0) for begin, end in bounds) > len(table[name]):
        raise ConversionError(f"The checkpoint is damaged: its nodes share a {name}.")


def _part(table: Mapping[str, list[Any]], name: str, place: int) -> list[Any]:
    """Return a node's own part of a list that all nodes of a tree share."""
    if not table[f"{name}_begin"]:
        return []
    begin = table[f"{name}_begin"][place]
    end = table[f"{name}_end"][place]
    if not begin <= end <= len(table[name]):
        raise ConversionError(f"The checkpoint is damaged: the {name} of node {place} is cut off.")
    return table[name][begin:end]
