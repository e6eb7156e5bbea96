"""Merged models on every backend: forests with the same bits, products within the tolerance."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from forests import hostile_rows, random_forest
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier

from hbconv.array import Array
from hbconv.backends import find_backend
from hbconv.containers import Affine, Columns, Graph, Node, Output, Schema, Select, TreeEnsemble
from hbconv.lower import lower
from hbconv.optimize import RULES
from hbconv.optimize.plan import make_plan
from hbconv.optimize.rule import Derivation, simplify
from hbconv.optimize.rules.merge_elementwise import merge_elementwise
from hbconv.optimize.rules.merge_forests import merge_forests
from hbconv.optimize.rules.merge_linears import merge_linears
from hbconv.parse import parse
from hbconv.target import Target

BACKENDS = ("reference", "torch", "onnx", "tvm")
RNG = np.random.default_rng(0)
SCHEMA = Schema.matrix(4)
X = Columns.of(SCHEMA)


def merged(graph: Graph) -> Graph:
    for rule in (merge_forests, merge_linears, merge_elementwise):
        for derivation in rule(graph):
            if isinstance(derivation, Derivation):
                graph = simplify(derivation.apply(graph), RULES)
    return graph


def answers(graph: Graph, backend: str, rows: npt.NDArray[Any]) -> dict[str, npt.NDArray[Any]]:
    """Compile a graph and run it."""
    target = Target(backend)
    compiler = find_backend(backend)
    lowered = lower(make_plan(graph, target, compiler).apply(graph))
    artifact = compiler.emit(compiler.prepare(lowered.program, target), target)
    return dict(artifact.run({lowered.feeds[0].name: rows}))


def members(node: Node, **options: Any) -> TreeEnsemble:
    forest = random_forest(RNG, n_features=node.type.width, missing="left", **options)
    return TreeEnsemble(node, forest)


def graph_of(kind: str) -> Graph:
    """Return forests of one comparison or of both, of other outputs and columns."""
    scaled = Affine.of(X, sub=[1.0, 2.0, 3.0, 4.0])
    few = Affine.of(Select(X, Array.of([3, 0], "int32")), sub=[4.0, 1.0])
    strict = {"strict": True} if kind == "mixed" else {}
    nodes = [members(scaled, n_outputs=3), members(few, **strict), members(scaled, awkward=0.0)]
    return Graph(SCHEMA, {f"f{i}": Output(node) for i, node in enumerate(nodes)})


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", ["plain", "mixed"])
def test_forests_have_the_same_bits(backend, kind):
    before = graph_of(kind)
    after = merged(before)
    (forest,) = (n for n in after.nodes() if isinstance(n, TreeEnsemble))
    edges = hostile_rows(RNG, forest.forest, n=200) + np.array([1.0, 2.0, 3.0, 4.0])
    rows = np.concatenate([edges, RNG.standard_normal((100, 4))])
    want = answers(before, "reference", rows)
    for name, values in answers(after, backend, rows).items():
        np.testing.assert_array_equal(values, want[name])


@pytest.mark.parametrize("backend", BACKENDS)
def test_products_and_what_follows_stay_within_the_tolerance(backend):
    rows = RNG.standard_normal((120, 4))
    source = OneVsRestClassifier(LogisticRegression()).fit(rows, np.arange(120) % 3)
    graph = parse(source).only("predict_proba")
    after = merged(simplify(graph, RULES))
    assert sum(n.name == "linear" for n in after.nodes()) == 1
    assert sum(n.name == "map" for n in after.nodes()) == 1
    values = answers(after, backend, rows)["predict_proba"]
    np.testing.assert_allclose(values, source.predict_proba(rows), rtol=1e-12)
