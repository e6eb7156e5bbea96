"""Random graphs whose numbers are few bits long, so that sums are exact in any order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from forests import random_forest
from hypothesis import strategies as st

from hbconv.array import Array
from hbconv.backends.reference import evaluate
from hbconv.containers import (
    Add,
    Affine,
    Bins,
    Cast,
    CastLike,
    Choose,
    Clip,
    Column,
    Columns,
    Compare,
    Concat,
    ConstantRows,
    FindCode,
    Graph,
    Impute,
    IsMissing,
    Linear,
    LookupSum,
    Map,
    Maximum,
    MissingBetween,
    Node,
    OneHot,
    Output,
    Polynomial,
    Recode,
    Schema,
    Select,
    Together,
    TreeEnsemble,
    TreeLeaves,
    YeoJohnson,
    verify_graph,
)
from hbconv.lower import lower
from hbconv.tensor import verify_program
from hbconv.trees.forest import Forest

__all__ = ["WIDTH", "graphs", "rows_for", "run"]

Draw = st.DrawFn
WIDTH = 5
DTYPES = ("float64", "float32", "int64")
KNOWN = Array([-1.0, 0.0, 1.0, 2.0])
WIDEST = 40
"""A graph grows no wider than by one step from here."""


@st.composite
def graphs(draw: Draw) -> Graph:
    """Draw a graph of one to seven steps and one to three outputs, which share nodes."""
    dtypes = draw(st.lists(st.sampled_from(DTYPES), min_size=WIDTH, max_size=WIDTH))
    schema = Schema(tuple(Column(f"x{i}", d) for i, d in enumerate(dtypes)))
    nodes: list[Node] = [Columns.of(schema)]
    for name in draw(st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=7)):
        read = nodes[-1] if draw(st.booleans()) else draw(st.sampled_from(nodes))
        if read.type.width < WIDEST:
            nodes.append(STEPS[name](draw, read))
    outputs = {"predict": nodes[-1]}
    for name in ("transform", "decision_function")[: draw(st.integers(0, 2))]:
        shared = draw(st.sampled_from(nodes))
        outputs[name] = _select(draw, shared) if draw(st.booleans()) else shared
    return verify_graph(Graph(schema, {name: Output(node) for name, node in outputs.items()}))


def rows_for(graph: Graph, n: int = 40) -> npt.NDArray[np.float64]:
    """Halves around zero, of both signs; whole numbers in the columns of ints."""
    rows = np.round(np.random.default_rng(0).normal(size=(n, WIDTH)) * 2) / 2
    ints = np.array([dtype == "int64" for dtype in graph.schema.dtypes])
    return np.where(ints, np.floor(rows), rows)


def run(graph: Graph, rows: npt.NDArray[np.float64]) -> dict[str, npt.NDArray[np.generic]]:
    """Answer by the reference, after the program was verified."""
    lowered = lower(graph)
    verify_program(lowered.program)
    feeds = {
        feed.name: rows[:, list(feed.columns)].astype(feed.dtype)  # type: ignore[union-attr]
        for feed in lowered.feeds
    }
    return evaluate(lowered.program, feeds)


def _constants(draw: Draw, width: int) -> npt.NDArray[np.float64]:
    """Exact quarters, some neutral, so that identities and zero weights turn up."""
    numbers = st.sampled_from([0.0, 1.0, -0.5, 2.0, 0.25, 3.0])
    return np.array(draw(st.lists(numbers, min_size=width, max_size=width)))


def _rounded(x: Node) -> Node:
    """Quarters within 8: what is not exact, or grows, has few bits again."""
    quarters = Affine.of(Map(Affine.of(x, mul=4.0), "rint"), div=4.0)
    return Clip.of(quarters, -8.0, 8.0)


def _affine(draw: Draw, x: Node) -> Node:
    width = x.type.width
    scale = _constants(draw, width)
    exact = np.where(np.isin(scale, (0.0, 3.0)), 1.0, scale)  # thirds are not
    return Affine.of(x, sub=_constants(draw, width), div=exact)


def _linear(draw: Draw, x: Node) -> Node:
    outputs = draw(st.integers(1, 3))
    weights = _constants(draw, x.type.width * outputs).reshape(-1, outputs)
    if draw(st.integers(0, 4)) == 0:
        weights = np.zeros_like(weights)
    return Linear.of(x, weights, _constants(draw, outputs))


def _select(draw: Draw, x: Node) -> Node:
    places = st.integers(0, x.type.width - 1)
    return Select(x, Array.of(draw(st.lists(places, min_size=1, max_size=6)), np.int32))


def _codes(draw: Draw, x: Node) -> Node:
    columns = draw(st.lists(st.integers(0, x.type.width - 1), min_size=1, max_size=3, unique=True))
    codes = tuple(FindCode(Select(x, Array.of([c], np.int32)), (KNOWN,)) for c in columns)
    return Concat(codes) if len(codes) > 1 else codes[0]


def _one_hot(draw: Draw, x: Node) -> Node:
    codes = _codes(draw, x)
    return OneHot(codes, (len(KNOWN),) * codes.type.width)


def _tables(draw: Draw, x: Node) -> Node:
    codes = _codes(draw, x)
    equal = draw(st.booleans())
    made = [_constants(draw, len(KNOWN) + 1) for _ in range(codes.type.width)]
    tables = [np.full_like(t, t[0]) if equal and i == 0 else t for i, t in enumerate(made)]
    if draw(st.booleans()):
        return Recode(codes, tuple(map(Array, tables)))
    return LookupSum(codes, tuple(Array(t[:, None]) for t in tables))


def _forest(draw: Draw, x: Node) -> Forest:
    """Draw a forest of scalar or vector leaves; the numbers in its leaves are quarters."""
    outputs = draw(st.integers(1, 3))
    forest = random_forest(
        np.random.default_rng(draw(st.integers(0, 99))),
        n_trees=4,
        n_features=x.type.width,
        max_depth=2,
        n_outputs=outputs,
        vector=outputs > 1 and draw(st.booleans()),
        strict=draw(st.booleans()),
        awkward=0.7,
    )
    return _quarters(forest)


def _quarters(forest: Forest) -> Forest:
    """Round the numbers that are added up, so that sums are exact."""
    values, start = (Array(np.round(a.data * 4) / 4) for a in (forest.values, forest.start))
    return replace(forest, values=values, start=start)


def _float(x: Node) -> Node:
    return Cast(x, "float")


def _trees(draw: Draw, x: Node) -> Node:
    return TreeEnsemble(_float(x), _forest(draw, x))


def _one_class(draw: Draw, x: Node) -> Node:
    return _select(draw, _trees(draw, x))


def _leaves(draw: Draw, x: Node) -> Node:
    return _select(draw, TreeLeaves(_float(x), _forest(draw, x)))


def _impute(draw: Draw, x: Node) -> Node:
    width = x.type.width
    missing = MissingBetween.of(_float(x), 0.5, 1.0)
    filled = Impute(missing, Array(_constants(draw, width)))
    return Concat((filled, IsMissing(missing))) if draw(st.booleans()) else filled


def _yeo_johnson(draw: Draw, x: Node) -> Node:
    powers = (Array(_constants(draw, x.type.width)) for _ in range(2))
    return _rounded(CastLike(YeoJohnson(_rounded(x), *powers), x))


def _bins(draw: Draw, x: Node) -> Node:
    edges = np.sort(_constants(draw, x.type.width * 3).reshape(-1, 3), axis=1)
    return Bins(x, Array(edges))


def _polynomial(draw: Draw, x: Node) -> Node:
    factors = st.integers(-1, x.type.width - 1)
    terms = draw(st.lists(st.tuples(factors, factors), min_size=1, max_size=6))
    return Polynomial(_rounded(x), Array.of(terms, np.int32))


def _clip(draw: Draw, x: Node) -> Node:
    low = _constants(draw, x.type.width)
    return Clip.of(x, np.where(low == 0, -np.inf, low), np.where(low == 0, np.inf, low + 1))


def _choose(draw: Draw, x: Node) -> Node:
    other = ConstantRows(x, Array(_constants(draw, x.type.width)))
    return Choose(Compare.of(x, "lt", 0.5), _float(x), other)


def _several(draw: Draw, x: Node) -> Node:
    combine = draw(st.sampled_from((Add, Maximum)))
    return combine((_linear(draw, x), Select(x, Array.of([0], np.int32)), _linear(draw, x))[:2])


def _siblings(draw: Draw, x: Node) -> Node:
    """Draw the same arithmetic on several columns that are computed at once."""
    whole = Together(_float(x))
    places = draw(st.lists(st.integers(0, x.type.width - 1), min_size=2, max_size=3))
    columns = [Select(whole, Array.of([place], np.int32)) for place in places]
    return Concat(tuple(_rounded(Affine.of(c, add=_constants(draw, 1))) for c in columns))


def _forests(draw: Draw, x: Node) -> Node:
    """Draw forests of scalar leaves over the same columns."""
    count = draw(st.integers(2, 3))
    made = [random_forest(np.random.default_rng(seed), 2, x.type.width, 2) for seed in range(count)]
    return Concat(tuple(TreeEnsemble(_float(x), _quarters(forest)) for forest in made))


def _heads(draw: Draw, x: Node) -> Node:
    return Concat(tuple(_linear(draw, x) for _ in range(draw(st.integers(2, 3)))))


STEPS: dict[str, Callable[[Draw, Node], Node]] = {
    "affine": _affine,
    "linear": _linear,
    "select": _select,
    "one_hot": _one_hot,
    "tables": _tables,
    "trees": _trees,
    "one_class": _one_class,
    "leaves": _leaves,
    "impute": _impute,
    "yeo_johnson": _yeo_johnson,
    "bins": _bins,
    "polynomial": _polynomial,
    "clip": _clip,
    "choose": _choose,
    "several": _several,
    "tanh": lambda draw, x: _rounded(Map(_rounded(x), "tanh")),
    "compare": lambda draw, x: Compare.of(x, "gt", 0.5, "float64"),
    "float": lambda draw, x: _float(x),
    "together": lambda draw, x: _select(draw, Together(x)),
    "siblings": _siblings,
    "forests": _forests,
    "beside": lambda draw, x: Concat((_affine(draw, x), x)),
    "encoded": lambda draw, x: _linear(draw, Concat((x, _one_hot(draw, x)))),
    "rescaled": lambda draw, x: _affine(draw, _affine(draw, x)),
    "scaled": lambda draw, x: _linear(draw, _affine(draw, x)),
    "projected": lambda draw, x: _linear(draw, _linear(draw, x)),
    "heads": lambda draw, x: _heads(draw, _linear(draw, _affine(draw, x))),
}
"""Steps that a graph may have, each made from the node that it reads."""
