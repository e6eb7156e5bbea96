"""XGBoost's old binary files, which versions before 3.1 wrote, in the form of its JSON.

They are structs of C++ one after another: parameters, the names of objective and booster, trees.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hbconv.parse.common.struct_reader import StructReader

__all__ = ["read_old_binary"]

_LEARNER = np.dtype([
    ("base_score", "<f4"), ("num_feature", "<u4"), ("num_class", "<i4"), ("has_attributes", "<i4"),
    ("has_metrics", "<i4"), ("major_version", "<u4"), ("minor_version", "<u4"),
    ("num_target", "<u4"), ("boost_from_average", "<i4"), ("reserved", "<i4", 25),
])  # fmt: skip
_TREES = np.dtype([("num_trees", "<i4"), ("num_parallel_tree", "<i4"), ("reserved", "<i4", 38)])
_TREE = np.dtype([
    ("num_roots", "<i4"), ("num_nodes", "<i4"), ("reserved", "<i4", 3),
    ("size_leaf_vector", "<i4"), ("more", "<i4", 31),
])  # fmt: skip
_NODE = np.dtype([
    ("parent", "<i4"), ("left", "<i4"), ("right", "<i4"), ("split", "<u4"), ("value", "<f4"),
])  # fmt: skip
_STATISTICS = np.dtype([
    ("gain", "<f4"), ("hessian", "<f4"), ("weight", "<f4"), ("leaves", "<i4"),
])  # fmt: skip
_LINEAR_BYTES = 136
_DEFAULT_LEFT = 1 << 31
_WITH_VECTORS = 2
"""Since this version no list of leaf vectors follows a tree."""


def read_old_binary(data: bytes) -> Mapping[str, Any]:
    """Return the ``learner`` that the JSON of the same model holds, as far as predictions need it.

    Raises
    ------
    ConversionError
        The file is damaged.
    """
    reader = StructReader(data.removeprefix(b"binf"), "The XGBoost model")
    param = reader.record(_LEARNER)
    objective = reader.text()
    name = reader.text()
    return {
        "learner_model_param": {key: str(param[key]) for key in _LEARNER.names or ()},
        "objective": {"name": objective},
        "gradient_booster": {"name": name, **_booster(reader, name, int(param["major_version"]))},
    }


def _booster(reader: StructReader, name: str, version: int) -> dict[str, Any]:
    if name == "gblinear":
        reader.numbers("u1", _LINEAR_BYTES)
        return {"model": {"weights": reader.array("<f4"), "boosted_rounds": "1"}}
    model = _trees(reader, version)
    if name == "dart":
        return {"gbtree": {"model": model}, "weight_drop": reader.array("<f4")}
    return {"model": model}


def _trees(reader: StructReader, version: int) -> dict[str, Any]:
    param = reader.record(_TREES)
    count = int(param["num_trees"])
    trees = [_tree(reader, version) for _ in range(count)]
    return {
        "trees": trees,
        "tree_info": reader.numbers("<i4", count),
        "gbtree_model_param": {"num_parallel_tree": str(max(param["num_parallel_tree"], 1))},
    }


def _tree(reader: StructReader, version: int) -> dict[str, Any]:
    param = reader.record(_TREE)
    nodes = reader.numbers(_NODE, int(param["num_nodes"]))
    statistics = reader.numbers(_STATISTICS, int(param["num_nodes"]))
    if param["size_leaf_vector"] and version < _WITH_VECTORS:
        reader.array("<f4")
    return {
        "tree_param": {"size_leaf_vector": "0"},
        "left_children": nodes["left"],
        "right_children": nodes["right"],
        "split_indices": nodes["split"] % _DEFAULT_LEFT,
        "default_left": nodes["split"] >= _DEFAULT_LEFT,
        "split_conditions": nodes["value"],
        "sum_hessian": statistics["hessian"],
    }
