"""Derived products on random graphs of linear containers, on rows that hurt: both sides on the
reference, within the bound that the derivation was accepted with.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hbconv.array import Array
from hbconv.backends.reference import evaluate
from hbconv.containers import (
    Add,
    Affine,
    Cast,
    Columns,
    Concat,
    FindCode,
    Graph,
    GroupSums,
    Linear,
    Map,
    Node,
    OneHot,
    Output,
    Polynomial,
    RowDot,
    Schema,
    Select,
    verify_graph,
)
from hbconv.lower import lower
from hbconv.optimize import RULES
from hbconv.optimize.rule import Derivation, simplify
from hbconv.optimize.rules.derive_linear import derive_linear

WIDTH = 4
CENTRES = np.array([0.5, -3.0, 1e3, 1e6])
SPREADS = np.array([1.0, 0.25, 2.0, 10.0])


def _rows(dtype: str) -> np.ndarray:
    """Centres, rows about them, zeros of both signs, denormals, and rows far from all."""
    rng = np.random.default_rng(0)
    about = CENTRES + SPREADS * rng.normal(size=(12, WIDTH))
    tiny = np.array([5e-324, -5e-324, 2.2e-308, 1e-45])
    rows = [CENTRES[None], about, np.zeros((1, WIDTH)), -np.zeros((1, WIDTH)), tiny[None]]
    return np.concatenate([*rows, CENTRES + 1e3 * SPREADS * rng.normal(size=(4, WIDTH))]).astype(
        dtype
    )


def _numbers(draw: st.DrawFn, size: int) -> np.ndarray:
    seed = draw(st.integers(0, 2**20))
    rng = np.random.default_rng(seed)
    return rng.normal(size=size) * rng.integers(0, 3, size)


def _scaled(draw: st.DrawFn, x: Node, dtype: str) -> Node:
    if x.type.width == WIDTH and isinstance(x, Columns):
        shift = draw(st.sampled_from([0.0, 0.5, -1.0]))
        return Affine.of(x, sub=CENTRES + shift * SPREADS, div=SPREADS)
    return Affine.of(x, mul=_numbers(draw, x.type.width), add=_numbers(draw, x.type.width))


def _linear(draw: st.DrawFn, x: Node, dtype: str) -> Node:
    outputs = draw(st.integers(1, 3))
    weights = _numbers(draw, x.type.width * outputs).reshape(-1, outputs).astype(dtype)
    return Linear.of(x, weights, _numbers(draw, outputs).astype(dtype))


def _select(draw: st.DrawFn, x: Node, dtype: str) -> Node:
    columns = draw(st.lists(st.integers(0, x.type.width - 1), min_size=1, max_size=6))
    return Select(x, Array.of(columns, np.int32))


def _union(draw: st.DrawFn, x: Node, dtype: str) -> Node:
    return Concat((_linear(draw, x, dtype), _scaled(draw, x, dtype), _select(draw, x, dtype)))


def _vote(draw: st.DrawFn, x: Node, dtype: str) -> Node:
    return Affine.of(Add((_sum(draw, x, dtype), _sum(draw, x, dtype))), div=2.0)


def _sum(draw: st.DrawFn, x: Node, dtype: str) -> Node:
    return Linear.of(x, _numbers(draw, x.type.width).astype(dtype))


def _squares(draw: st.DrawFn, x: Node, dtype: str) -> Node:
    return GroupSums(Map(Concat((_scaled(draw, x, dtype), _scaled(draw, x, dtype))), "square"), 2)


def _products(draw: st.DrawFn, x: Node, dtype: str) -> Node:
    columns = st.integers(-1, x.type.width - 1)
    terms = draw(st.lists(st.tuples(columns, columns), min_size=1, max_size=6))
    table = np.array([sorted(term, reverse=True) for term in terms], np.int32)
    return Affine.of(Polynomial(x, Array(table)), mul=_numbers(draw, len(terms)))


def _lengths(draw: st.DrawFn, x: Node, dtype: str) -> Node:
    outputs = draw(st.sampled_from([2, 4]))
    weights = _numbers(draw, x.type.width * outputs).reshape(-1, outputs).astype(dtype)
    return GroupSums(Map(Linear.of(x, weights), "square"), 2)


def _encoded(draw: st.DrawFn, x: Node, dtype: str) -> Node:
    chosen = Select(Columns.of(_schema(x)), Array.of([0], np.int32))
    codes = FindCode(chosen, (Array(np.array([-1.0, 0.0, 0.5])),))
    return Concat((x, OneHot(codes, (3,), dtype)))


def _schema(x: Node) -> Schema:
    return next(
        n.schema for n in Graph(Schema.matrix(0), {"": Output(x)}).nodes() if isinstance(n, Columns)
    )


STEPS = {
    "cast": lambda draw, x, dtype: Cast(x, "float"),
    "encoded": _encoded,
    "length": lambda draw, x, dtype: RowDot(x, x),
    "lengths": _lengths,
    "linear": _linear,
    "products": _products,
    "scaled": _scaled,
    "select": _select,
    "squares": _squares,
    "tanh": lambda draw, x, dtype: Map(x, "tanh"),
    "union": _union,
    "vote": _vote,
}


@st.composite
def graphs(draw: st.DrawFn, dtype: str) -> Graph:
    schema = Schema.matrix(WIDTH, dtype)
    x: Node = _scaled(draw, Columns.of(schema), dtype)
    for name in draw(st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=5)):
        if x.type.width < 30:
            x = STEPS[name](draw, x, dtype)
    return verify_graph(Graph(schema, {"transform": Output(_linear(draw, x, dtype))}))


def run(graph: Graph, rows: np.ndarray) -> np.ndarray:
    return evaluate(lower(graph).program, {"x": rows})["transform"].astype(np.float64)


def largest(graph: Graph, rows: np.ndarray) -> np.ndarray:
    """Return the largest magnitude that each row meets: tanh hides an overflow before it."""
    outputs = {str(i): Output(node) for i, node in enumerate(graph.nodes())}
    found = evaluate(lower(Graph(graph.schema, outputs)).program, {"x": rows})
    return np.max([np.abs(v.astype(np.float64)).max(axis=1) for v in found.values()], axis=0)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-10), ("float32", 2e-5)])
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_derivations_keep_the_answer(dtype: str, tolerance: float, data: st.DataObject) -> None:
    graph = simplify(data.draw(graphs(dtype)), RULES)
    rows = _rows(dtype)
    before = run(graph, rows)
    finite = largest(graph, rows) < 1e30  # chains of squares overflow float32
    for derivation in derive_linear(graph):
        if not isinstance(derivation, Derivation):
            continue
        after = verify_graph(derivation.apply(graph))
        assert after.outputs["transform"].node.type == graph.outputs["transform"].node.type
        got = run(simplify(after, RULES), rows)[finite]
        scale = np.maximum(1.0, np.abs(before[finite]).max(axis=0, initial=1.0))
        assert np.all(np.abs(got - before[finite]) <= tolerance * scale)
