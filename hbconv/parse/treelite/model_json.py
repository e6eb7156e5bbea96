"""Read the nodes of a treelite model from its own JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.errors import ConversionError, UnsupportedError
from hbconv.parse.common.node_tables import FlatTrees, NodeTable, category_sizes, category_tables

__all__ = ["TreeliteTrees", "read_trees"]

_CATEGORICAL = "categorical_test_node"
_TESTS = ("numerical_test_node", _CATEGORICAL)
_STRICT = {"<": True, "<=": False}

Node = Mapping[str, Any]


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


def _require_kinds(nodes: Sequence[Node]) -> None:
    """Require that nodes with children are tests; Treelite itself asks for the children alone."""
    for node in nodes:
        if "leaf_value" not in node and node.get("node_type") not in _TESTS:
            raise ConversionError(
                f"The treelite model is damaged: node {node['node_id']} of a tree has children, "
                f"and node_type {node.get('node_type')!r} rather than one of {', '.join(_TESTS)}."
            )


def _leaves(nodes: Sequence[Node], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return the values of each node, zeros at tests."""
    values = [np.atleast_1d(node.get("leaf_value", 0.0)) for node in nodes]
    widths = {len(v) for v, node in zip(values, nodes, strict=True) if "leaf_value" in node}
    if len(widths) > 1:
        raise ConversionError("The treelite model is damaged: its leaves have unequal widths.")
    width = max(widths, default=1)
    padded = [value if len(value) == width else np.zeros(width) for value in values]
    return np.array(padded, dtype).reshape(len(nodes), width)


def _is_strict(nodes: Sequence[Node]) -> bool:
    operators = sorted({node["comparison_op"] for node in nodes if "comparison_op" in node})
    if len(operators) > 1 or not set(operators) <= _STRICT.keys():
        hint = "hbconv handles models whose tests are all < or all <=."
        raise UnsupportedError("treelite.Model", "", "comparison_op", operators, hint)
    return _STRICT[operators[0]] if operators else False


def _with_categories(
    table: NodeTable, nodes: Sequence[Node], n_features: int, strict: bool
) -> TreeliteTrees:
    """Write the category table of each test on categories."""
    tests = [i for i, node in enumerate(nodes) if node.get("node_type") == _CATEGORICAL]
    lists = [np.array(nodes[i]["category_list"], np.int64) for i in tests]
    right = np.array([nodes[i]["category_list_right_child"] for i in tests], np.bool_)
    set_of = np.full(len(nodes), -1)
    set_of[tests] = np.arange(len(tests))
    counts = np.array([len(own) for own in lists], np.int64)
    tables = category_tables(
        set_of,
        counts,
        np.concatenate(lists) if lists else np.zeros(0, np.int64),
        listed_left=~np.repeat(right, counts),
        nan_left=table.default_left[tests],
        other_left=right,
    )
    largest = np.array([own.max(initial=-1) for own in lists], np.int64)
    sizes = category_sizes(n_features, table.feature[tests], largest)
    flat = NodeTable(**{**vars(table), "tables": tables}).split()
    return TreeliteTrees(flat, strict, sizes)
