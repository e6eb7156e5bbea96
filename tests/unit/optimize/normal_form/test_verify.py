"""The judge finds false identities, roundings and wrong answers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hbconv.array import Array
from hbconv.containers import (
    Add,
    Affine,
    Columns,
    Concat,
    Graph,
    Linear,
    LookupSum,
    Map,
    Node,
    Output,
    Schema,
)
from hbconv.optimize.normal_form.derive import DerivationJudge, Probe
from hbconv.optimize.normal_form.expand import LinearPart, Region
from hbconv.optimize.normal_form.zeros import ScalerZeros

SCHEMA = Schema.matrix(3)
X = Columns.of(SCHEMA)
SCALED = Affine.of(X, sub=[1.0, 2.0, 3.0], div=[2.0, 4.0, 5.0])
WEIGHTS = np.array([1.0, -2.0, 3.0])
ROOT = Linear.of(SCALED, WEIGHTS, 0.5)
FOLDED = Linear.of(X, WEIGHTS / [2, 4, 5], 0.5 - np.sum(WEIGHTS * [0.5, 0.5, 0.6]))


def judge(root: Node) -> DerivationJudge:
    part = LinearPart(Graph(SCHEMA, {"t": Output(root)}))
    region = Region.below((root,), part, frozenset())
    return DerivationJudge(region, Probe.of(region, ScalerZeros.of(region)), (root,))


def test_the_folded_product_is_accepted() -> None:
    assert judge(ROOT).refuse(ROOT, FOLDED) == ""


@pytest.mark.parametrize("change", [1e-13, 1e-6, 1.0])
@pytest.mark.parametrize("column", [0, 1, 2])
def test_a_changed_weight_is_no_identity(column: int, change: float) -> None:
    weights = FOLDED.weights.data.copy()
    weights[column] += change
    changed = replace(FOLDED, weights=Array(weights))
    assert "not the same polynomial" in judge(ROOT).refuse(ROOT, changed)


def test_a_changed_bias_is_no_identity() -> None:
    changed = replace(FOLDED, bias=Array(FOLDED.bias.data + 1e-12))
    assert "not the same polynomial" in judge(ROOT).refuse(ROOT, changed)


def test_a_square_is_no_product() -> None:
    root = Add((ROOT, Linear.of(Map(X, "square"), [1.0, 0.0, 0.0])))
    assert "not the same polynomial" in judge(root).refuse(root, FOLDED)


def test_terms_that_cancel_round_too_much() -> None:
    """The same polynomial, with 1e9 added and taken away again."""
    large = Linear.of(X, FOLDED.weights.data, FOLDED.bias.data + 1e9)
    assert "rounding" in judge(ROOT).refuse(ROOT, Affine.of(large, sub=1e9))


def test_another_dtype_is_refused() -> None:
    single = Linear.of(Columns(SCHEMA, X.indices, "float32"), np.ones(3, np.float32))
    assert "dtype" in judge(ROOT).refuse(ROOT, single)


def test_an_answer_of_the_reference_that_differs_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Had lowering another meaning than the derivation, no algebra would tell."""
    judged = judge(ROOT)
    monkeypatch.setattr(Linear, "lower", lambda node, b, x: b.matmul(x, b.constant(node.weights)))
    assert "reference" in judged.refuse(ROOT, FOLDED)


def test_codes_are_drawn_from_all_that_a_table_knows() -> None:
    codes = Columns(Schema.matrix(1, "int64"), Array(np.array([0], np.int32)))
    root = LookupSum(codes, (Array(np.arange(3.0)[:, None]),))
    graph = Graph(codes.schema, {"t": Output(Linear.of(Concat((root, root)), np.ones(2)))})
    region = Region.below(graph.output_roots, LinearPart(graph), frozenset())
    probe = Probe.of(region, ScalerZeros.of(region))
    assert set(np.unique(probe.codes[codes])) == {-1.0, 0.0, 1.0}
