"""Tree operators answer as onnxruntime, on rows made of their thresholds."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx_trees as trees
import pytest

import hbconv

onnxruntime = pytest.importorskip("onnxruntime")


def ask(model: Any, rows: Any) -> list[Any]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return list(session.run(None, {"X": rows}))


def require_as_runtime(model: Any, rows: Any, backend: str = "reference", size: float = 0) -> None:
    expected = ask(model, rows)
    found = hbconv.convert(model, backend=backend).run(None, {"X": rows})
    for a, b in zip(expected, found, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(b, a, rtol=size, atol=size)


@pytest.mark.parametrize("mode", trees.MODES)
def test_each_mode(mode: str):
    model = trees.regressor(1, modes=(mode,))
    require_as_runtime(model, trees.rows())


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_mixed_modes(seed: int, dtype: str):
    model = trees.regressor(seed, dtype, n_targets=2)
    require_as_runtime(model, trees.rows(dtype), size=0 if dtype == "float32" else 1e-7)


@pytest.mark.parametrize("backend", ["tvm", "torch"])
def test_mixed_modes_on_backends(backend: str):
    require_as_runtime(trees.regressor(3), trees.rows(), backend)


@pytest.mark.parametrize("function", ["SUM", "AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize("n_targets", [1, 3])
def test_aggregates(function: str, n_targets: int):
    base = np.linspace(-1, 1, n_targets).astype(np.float32).tolist()
    options = {"aggregate_function": function, "base_values": base}
    model = trees.regressor(7, n_targets=n_targets, **options)
    require_as_runtime(model, trees.rows(), size=1e-6)


@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"])
def test_transforms(transform: str):
    model = trees.classifier(5, 4, lambda tree: [tree % 4], 0.01, post_transform=transform)
    require_as_runtime(model, trees.rows(), size=1e-5)


@pytest.mark.parametrize("base", [[], [0.1, -0.2, 0.3]])
def test_three_classes(base: list[float]):
    options = {"base_values": base} if base else {}
    for targets in (lambda tree: [tree % 3], lambda _: range(3), lambda tree: [tree % 2]):
        require_as_runtime(trees.classifier(2, 3, targets, **options), trees.rows(), size=1e-6)


@pytest.mark.parametrize(
    ("low", "target", "base", "transform"),
    [*itertools.product([-1, 0.01], [0, 1], [[], [0.25]], ["NONE", "LOGISTIC", "SOFTMAX"])],
)
def test_two_classes_of_one_score(low: float, target: int, base: list[float], transform: str):
    options = {"base_values": base} if base else {}
    model = trees.classifier(9, 2, lambda _: [target], low, post_transform=transform, **options)
    require_as_runtime(model, trees.rows(), size=1e-6)


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
@pytest.mark.parametrize("base", [[], [0.25], [0.1, 0.25]])
def test_two_classes_of_two_scores(transform: str, base: list[float]):
    options = {"base_values": base} if base else {}
    model = trees.classifier(4, 2, lambda _: range(2), post_transform=transform, **options)
    require_as_runtime(model, trees.rows(), size=1e-6)


@pytest.mark.parametrize("function", range(4))
def test_sets_of_opset_5(function: int):
    model = trees.ensemble(2, aggregate_function=function)
    if function > 1:
        with pytest.raises(hbconv.UnsupportedError, match="Give every leaf the same targets"):
            hbconv.convert(model)
        return
    require_as_runtime(model, trees.rows(), size=1e-6)


DAMAGE = {
    "a cycle": ("nodes_truenodeids", 0, 0),
    "a child that is not there": ("nodes_truenodeids", 0, 10**9),
    "a negative child": ("nodes_falsenodeids", 0, -4),
    "a feature that is not there": ("nodes_featureids", 0, 99),
    "a negative feature": ("nodes_featureids", 0, -1),
    "a mode that is none": ("nodes_modes", 0, "BRANCH_NEAR"),
    "a node twice": ("nodes_nodeids", 1, 0),
    "a target that is not there": ("target_ids", 0, 5),
    "a leaf that is not there": ("target_nodeids", 0, 10**6),
    "a weight that is no number": ("target_weights", 0, float("nan")),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_trees_end_in_an_error(damage: str):
    name, place, value = DAMAGE[damage]
    model = trees.regressor(1)
    (attribute,) = (a for a in model.graph.node[0].attribute if a.name == name)
    values = attribute.strings or attribute.ints or attribute.floats
    values[place] = value.encode() if isinstance(value, str) else value
    with pytest.raises(hbconv.ConversionError):
        hbconv.convert(model)


@pytest.mark.parametrize("name", [a for a in trees.nodes(0, 1) if a != "nodes_hitrates"])
def test_lists_of_other_lengths_end_in_an_error(name: str):
    model = trees.regressor(1)
    (attribute,) = (a for a in model.graph.node[0].attribute if a.name == name)
    values = attribute.strings or attribute.ints or attribute.floats
    del values[-1]
    with pytest.raises(hbconv.ConversionError):
        hbconv.convert(model)


@pytest.mark.parametrize("n_targets", [1, 2])
def test_weights_of_one_leaf_and_target(n_targets: int):
    """Of a single target onnxruntime reads the first; of several it adds them up."""
    model = trees.regressor(4, n_targets=n_targets)
    for attribute in model.graph.node[0].attribute:
        if attribute.name.startswith("target_"):
            attribute.ints.extend(attribute.ints)
            attribute.floats.extend([value / 3 for value in attribute.floats])
    require_as_runtime(model, trees.rows(), size=1e-6)


SETS = ([30, 0], [31, 0], [-1, 0, 2], [64])


@pytest.mark.parametrize("members", SETS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sets_and_fractions(members: list[int], dtype: str):
    """onnxruntime cuts fractions off, unless all members are 0 to 30."""
    model = trees.ensemble(3, members=members, dtype=dtype)
    values = np.concatenate([np.add.outer(members, [-0.5, 0, 0.5]).ravel(), [-0.0, np.nan, np.inf]])
    rows = np.random.default_rng(1).choice(values, (200, trees.N_FEATURES)).astype(dtype)
    require_as_runtime(model, rows, size=1e-6)


def test_a_leaf_without_weight_and_a_column_that_is_not_there():
    model = trees.regressor(2)
    for attribute in model.graph.node[0].attribute:
        if attribute.name == "target_nodeids":
            attribute.ints[0] = attribute.ints[1]
    with pytest.raises(hbconv.ConversionError, match="a leaf without a weight"):
        hbconv.convert(model)
    model = trees.regressor(2)
    for attribute in model.graph.node[0].attribute:
        if attribute.name == "nodes_featureids":
            attribute.ints[0] = trees.N_FEATURES
    with pytest.raises(hbconv.ConversionError, match="reads column 3 of 3"):
        hbconv.convert(model)
