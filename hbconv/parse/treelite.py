"""Models of treelite, in memory and in the files that it writes; no treelite is needed for files.

A checkpoint or a JSON is read into what ``dump_as_json`` gives, then into a forest. Predictions are
those of treelite's general inference (``treelite.gtil``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    Add,
    Affine,
    Cast,
    CategoryCodes,
    Compare,
    Cube,
    GroupSums,
    Map,
    Node,
    Output,
    Pool,
    Quotient,
    TreeEnsemble,
    TreeLeaves,
)
from hbconv.errors import ConversionError, UnsupportedError
from hbconv.parse.common.node_tables import (
    FlatTrees,
    NodeTable,
    assemble,
    category_sizes,
    category_tables,
)
from hbconv.parse.damage import StructReader, decode_json, read_count
from hbconv.parse.registry import parses
from hbconv.parse.step import Step

__all__ = ["StoredModel", "read_checkpoint", "read_treelite_json", "read_trees"]


def _sigmoid(x: Node, model: Mapping[str, Any]) -> Node:
    alpha = float(model["sigmoid_alpha"])
    return Map(x if alpha == 1 else Affine.of(x, mul=alpha), "sigmoid")


def _softmax(x: Node, _: Mapping[str, Any]) -> Node:
    """Round maximum, exponentials and their sum to float32, as the source does for both dtypes."""
    dtype = x.type.dtype
    peak = Cast(Pool(x, (tuple(range(x.type.width)),), "max"), "float32")
    # gtil subtracts the largest score first, in the dtype of the scores.
    parts = Cast(Map(Add((x, Map(Cast(peak, dtype), "neg"))), "exp"), "float32")
    total = Cast(GroupSums(Cast(parts, "float64"), 1), "float32")
    return Quotient((Cast(parts, dtype), Cast(total, dtype)))


_LINKS: dict[str, Callable[[Node, Mapping[str, Any]], Node]] = {
    "exponential": lambda x, _: Map(x, "exp"),
    "exponential_standard_ratio": lambda x, model: Map(
        Affine.of(Map(x, "neg"), div=float(model["ratio_c"])), "exp2"
    ),
    "hinge": lambda x, _: Compare.of(x, "gt", 0.0, x.type.dtype),
    "identity": lambda x, _: x,
    "identity_multiclass": lambda x, _: x,
    "logarithm_one_plus_exp": lambda x, _: Map(Map(x, "exp"), "log1p"),
    "multiclass_ova": _sigmoid,
    "sigmoid": _sigmoid,
    "signed_square": lambda x, _: Map(x, "signed_square"),
    "softmax": _softmax,
}
"""What each postprocessor makes of the scores."""


@parses(
    "treelite.Model",
    "hbconv.parse.treelite.StoredModel",
    features=lambda model: int(model.num_feature),
)
def parse_model(step: Step) -> dict[str, Output]:
    """Sum the leaves in the dtype of the thresholds, then add the base scores."""
    # gtil takes absent entries for NaN, and every other step for 0.
    step.refuse_sparse("takes what a sparse matrix leaves out for missing")
    model = _content(step.estimator)
    link = model["postprocessor"]
    if link not in _LINKS:
        raise step.refuse("postprocessor", link, f"hbconv handles {', '.join(_LINKS)}.")
    if model["num_target"] != 1:
        raise step.refuse("num_target", model["num_target"], "hbconv handles one target.")
    # Leaves of other targets were added to target 0 (1 of 30,000 hostile files). -1 is all targets.
    if others := sorted({*model["target_id"]} - {0, -1}):
        raise ValueError(f"trees of targets {others[:9]}, of one")
    if model["threshold_type"] != model["leaf_output_type"]:
        types = (model["threshold_type"], model["leaf_output_type"])
        raise step.refuse("leaf_output_type", types, "It must be that of the thresholds.")
    return _answers(step, model)


def _content(model: Any) -> Mapping[str, Any]:
    """Return what a model holds, of a file or in memory.

    A model in memory is asked for its checkpoint: its JSON leaves infinite thresholds out.
    """
    # dump_as_json writes infinite thresholds as nothing, by which
    # LightGBM's models split missing values.
    stored = model if isinstance(model, StoredModel) else read_checkpoint(model.serialize_bytes())
    return stored.content


def _answers(step: Step, model: Mapping[str, Any]) -> dict[str, Output]:
    trees = read_trees(model)
    n_classes = int(model["num_class"][0])
    dtype = np.dtype(model["threshold_type"])
    target = np.array(model["class_id"], np.int64)
    x: Node = Cast(step.x, dtype.name)
    if trees.sizes.data.any():
        x = CategoryCodes(x, trees.sizes)
    forest = assemble(
        trees.flat,
        np.zeros(n_classes, dtype),
        strict=trees.strict,
        n_features=x.type.width,
        # -1 is a tree whose leaves are vectors, which add to all classes.
        target=np.maximum(target, 0),
    )
    scores: Node = TreeEnsemble(x, forest)
    if model["average_tree_output"]:
        scores = Affine.of(scores, div=_counts(target, n_classes).astype(dtype))
    scores = Affine.of(scores, add=np.array(model["base_scores"], np.float64).astype(dtype))
    form = Cube((1, n_classes))
    return {
        "predict": Output(_LINKS[model["postprocessor"]](scores, model), form),
        "raw_scores": Output(scores, form),
        "apply": Output(Cast(TreeLeaves(x, forest), dtype.name)),
    }


def _counts(target: npt.NDArray[Any], n_classes: int) -> npt.NDArray[Any]:
    """Return how many trees add to each class; a leaf that is a vector adds to all."""
    counts = np.bincount(target[target >= 0], minlength=n_classes)
    return counts + np.count_nonzero(target < 0)


_CATEGORICAL = "categorical_test_node"
_TESTS = ("numerical_test_node", _CATEGORICAL)
_STRICT = {"<": True, "<=": False}

JsonNode = Mapping[str, Any]


@dataclass(frozen=True)
class TreeliteTrees:
    """The trees of a model.

    Parameters
    ----------
    flat : FlatTrees
    strict : bool
        Whether the tests are ``<`` rather than ``<=``.
    sizes : Array
        Of the container CategoryCodes, which makes what the trees read.
    """

    flat: FlatTrees
    strict: bool
    sizes: Array


def read_trees(model: Mapping[str, Any]) -> TreeliteTrees:
    """Read all trees; a leaf is a number or the numbers of a vector.

    Raises
    ------
    UnsupportedError
        The tests are neither all ``<`` nor all ``<=``.
    ConversionError
        The nodes of a tree are not numbered from 0, or one is neither a leaf nor a test.
    """
    trees = [tree["nodes"] for tree in model["trees"]]
    # Children are named by these numbers, so a gap would send rows to another node.
    if any(node["node_id"] != place for tree in trees for place, node in enumerate(tree)):
        raise ConversionError("The treelite model is damaged: nodes are not numbered from 0.")
    nodes = [node for tree in trees for node in tree]
    _require_kinds(nodes)
    dtype = np.dtype(model["threshold_type"])
    feature = np.array([node.get("split_feature_id", -1) for node in nodes], np.int64)
    numbers = [node.get("threshold", 0.0) for node in nodes]
    default_left = np.array([node.get("default_left", False) for node in nodes], np.bool_)
    table = NodeTable(
        [len(tree) for tree in trees],
        feature,
        np.array(numbers, dtype),
        default_left,
        np.array([node.get("left_child", -1) for node in nodes], np.int64),
        np.array([node.get("right_child", -1) for node in nodes], np.int64),
        _leaves(nodes, dtype),
        None,
    )
    return _with_categories(table, nodes, int(model["num_feature"]), _is_strict(nodes))


def _require_kinds(nodes: Sequence[JsonNode]) -> None:
    """Require that nodes with children are tests; Treelite itself asks for the children alone."""
    for node in nodes:
        if "leaf_value" not in node and node.get("node_type") not in _TESTS:
            raise ConversionError(
                f"The treelite model is damaged: node {node['node_id']} of a tree has children, "
                f"and node_type {node.get('node_type')!r} rather than one of {', '.join(_TESTS)}."
            )


def _leaves(nodes: Sequence[JsonNode], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return the values of each node, zeros at tests."""
    values = [np.atleast_1d(node.get("leaf_value", 0.0)) for node in nodes]
    # Tests have no value, so their width of 1 does not count.
    widths = {len(v) for v, node in zip(values, nodes, strict=True) if "leaf_value" in node}
    if len(widths) > 1:
        raise ConversionError("The treelite model is damaged: its leaves have unequal widths.")
    width = max(widths, default=1)
    padded = [value if len(value) == width else np.zeros(width) for value in values]
    return np.array(padded, dtype).reshape(len(nodes), width)


def _is_strict(nodes: Sequence[JsonNode]) -> bool:
    operators = sorted({node["comparison_op"] for node in nodes if "comparison_op" in node})
    # A forest compares in one way: by < or by <=.
    if len(operators) > 1 or not set(operators) <= _STRICT.keys():
        hint = "hbconv handles models whose tests are all < or all <=."
        raise UnsupportedError("treelite.Model", "", "comparison_op", operators, hint)
    return _STRICT[operators[0]] if operators else False


def _with_categories(
    table: NodeTable, nodes: Sequence[JsonNode], n_features: int, strict: bool
) -> TreeliteTrees:
    """Write the category table of each test on categories."""
    tests = [i for i, node in enumerate(nodes) if node.get("node_type") == _CATEGORICAL]
    lists = [np.array(nodes[i]["category_list"], np.int64) for i in tests]
    right = np.array([nodes[i]["category_list_right_child"] for i in tests], np.bool_)
    set_of = np.full(len(nodes), -1)
    set_of[tests] = np.arange(len(tests))
    counts = np.array([len(categories) for categories in lists], np.int64)
    tables = category_tables(
        set_of,
        counts,
        np.concatenate(lists) if lists else np.zeros(0, np.int64),
        listed_left=~np.repeat(right, counts),
        nan_left=table.default_left[tests],
        other_left=right,
    )
    largest = np.array([categories.max(initial=-1) for categories in lists], np.int64)
    sizes = category_sizes(n_features, table.feature[tests], largest)
    flat = NodeTable(**{**vars(table), "tables": tables}).split()
    return TreeliteTrees(flat, strict, sizes)


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
        # Version 3 has another layout, and Treelite 4 reads it.
        hint = "Load it with Treelite 4, and serialize it again."
        raise UnsupportedError("Treelite checkpoint", "", "version", version, hint)
    # The minor and the patch version are read past.
    reader.numbers("<i4", 2)
    content = _header(reader)
    leaf = np.dtype(content["leaf_output_type"])
    threshold = np.dtype(content["threshold_type"])
    trees = [_tree(reader, threshold, leaf) for _ in range(content.pop("num_tree"))]
    # Fields that a later version appends would be left out in silence.
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
    # Treelite asks for the child and hbconv for the kind, so the two
    # must agree (1 of 30,000 hostile files).
    if (kind == "leaf") != (table["left"][place] == -1):
        raise ConversionError(
            f"The checkpoint is damaged: node {place} of a tree is a {kind} by its kind, but its "
            "left child says otherwise. Write the model again with Treelite."
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
