"""treelite: what is refused by name, and what is damaged."""

from __future__ import annotations

import json

import numpy as np
import pytest
import treelite
from treelite.model_builder import Metadata, ModelBuilder, PostProcessorFunc, TreeAnnotation

import hbconv
from hbconv.errors import UnsupportedError
from hbconv.parse.treelite import _node, read_treelite_json, read_trees

ROWS = np.array([[0.5], [1.0], [1.5], [np.nan]], np.float32)


def _stump(
    operator: str, postprocessor: str = "identity", threshold: float = 1.0
) -> treelite.Model:
    builder = ModelBuilder(
        threshold_type="float32",
        leaf_output_type="float32",
        metadata=Metadata(
            num_feature=1,
            task_type="kRegressor",
            average_tree_output=False,
            num_target=1,
            num_class=[1],
            leaf_vector_shape=(1, 1),
        ),
        tree_annotation=TreeAnnotation(num_tree=1, target_id=[0], class_id=[0]),
        postprocessor=PostProcessorFunc(name=postprocessor),
        base_scores=[0.25],
    )
    builder.start_tree()
    builder.start_node(0)
    builder.numerical_test(
        feature_id=0, threshold=threshold, default_left=True, opname=operator, left_child_key=1,
        right_child_key=2,
    )  # fmt: skip
    builder.end_node()
    for key, value in ((1, -2.0), (2, 3.0)):
        builder.start_node(key)
        builder.leaf(value)
        builder.end_node()
    builder.end_tree()
    return builder.commit()


@pytest.mark.parametrize("operator", ["<", "<="])
def test_a_value_on_the_threshold_goes_as_in_the_source(operator: str) -> None:
    """Both comparisons, and a missing value."""
    model = _stump(operator)
    found = hbconv.convert(model, "reference").predict(ROWS)
    np.testing.assert_array_equal(found, treelite.gtil.predict(model, ROWS))


def test_refuses_trees_of_a_target_that_there_is_not() -> None:
    """Treelite adds their leaves to numbers beside its answer."""
    content = json.loads(_stump("<").dump_as_json())
    content["target_id"] = [2048]
    with pytest.raises(hbconv.errors.ConversionError, match=r"trees of targets \[2048\], of one"):
        hbconv.convert(read_treelite_json(json.dumps(content).encode()))


def test_refuses_other_comparisons() -> None:
    """A forest holds one of two comparisons."""
    with pytest.raises(UnsupportedError, match="comparison_op"):
        hbconv.convert(_stump(">"), "reference")


def test_nodes_must_be_numbered_from_zero() -> None:
    """A damaged model ends in a named error."""
    with pytest.raises(hbconv.errors.ConversionError, match="numbered from 0"):
        read_trees({"trees": [{"nodes": [{"node_id": 3, "leaf_value": 1.0}]}]})


def test_refuses_leaves_that_have_children() -> None:
    """Treelite takes such a node for a test, without a comparison."""
    content = json.loads(_stump("<").dump_as_json())
    root = content["trees"][0]["nodes"][0]
    content["trees"][0]["nodes"][0] = {**root, "node_type": "leaf_node", "threshold": None}
    with pytest.raises(hbconv.errors.ConversionError, match="node 0 of a tree has children"):
        read_trees(content)


@pytest.mark.parametrize(("kind", "left"), [(0, 1), (1, -1), (2, -1)])
def test_kinds_and_children_of_a_checkpoint_agree(kind: int, left: int) -> None:
    """A damaged node ends in a named error, whatever Treelite takes it for."""
    with pytest.raises(hbconv.errors.ConversionError, match="node 0 of a tree is a"):
        _node({"kind": [kind], "left": [left]}, 0)


@pytest.mark.parametrize("threshold", [np.inf, -np.inf])
@pytest.mark.parametrize("operator", ["<", "<="])
def test_infinite_thresholds_are_read_from_memory(operator: str, threshold: float) -> None:
    """LightGBM splits missing from present by them, and JSON has no number for them."""
    model = _stump(operator, threshold=threshold)
    assert '"threshold": ,' in model.dump_as_json().replace("\n", "")
    rows = np.array([[-np.inf], [-1.0], [np.finfo(np.float32).max], [np.inf], [np.nan]], np.float32)
    found = hbconv.convert(model, "reference").predict(rows)
    np.testing.assert_array_equal(found, treelite.gtil.predict(model, rows))
