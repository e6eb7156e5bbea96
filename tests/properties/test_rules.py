"""Every rule, and all together, on random graphs: both sides give the same numbers, and the
result verifies.
"""

import numpy as np
import pytest
from forests import random_forest
from hypothesis import given, settings
from hypothesis import strategies as st

from hbconv.array import Array
from hbconv.backends.reference import evaluate
from hbconv.containers import (
    Affine,
    Cast,
    Columns,
    Compare,
    Concat,
    FindCode,
    Graph,
    Linear,
    Map,
    OneHot,
    Output,
    Schema,
    Select,
    TreeEnsemble,
    verify_graph,
)
from hbconv.lower import lower
from hbconv.optimize import RULES
from hbconv.optimize.fixed_point import simplify
from hbconv.tensor import verify_program

WIDTH = 5


def _constants(draw, width):
    # Exact quarters, some neutral, so that identities and zero weights turn up.
    return np.array(
        draw(
            st.lists(
                st.sampled_from([0.0, 1.0, -0.5, 2.0, 0.25, 3.0]), min_size=width, max_size=width
            )
        )
    )


def _affine(draw, x):
    scale = _constants(draw, x.type.width)
    return Affine.of(
        x, sub=_constants(draw, x.type.width), div=np.where(np.isin(scale, (0.0, 3.0)), 1.0, scale)
    )  # thirds are not exact


def _linear(draw, x):
    outputs = draw(st.integers(1, 3))
    return Linear.of(
        x, _constants(draw, x.type.width * outputs).reshape(-1, outputs), _constants(draw, outputs)
    )


def _select(draw, x):
    return Select(
        x,
        Array(
            np.array(
                draw(st.lists(st.integers(0, x.type.width - 1), min_size=1, max_size=6)), np.int32
            )
        ),
    )


def _one_hot(draw, x):
    columns = draw(st.lists(st.integers(0, x.type.width - 1), min_size=1, max_size=3, unique=True))
    values = Array(np.array([-1.0, 0.0, 1.0, 2.0]))
    codes = tuple(FindCode(Select(x, Array(np.array([c], np.int32))), values) for c in columns)
    return OneHot(Concat(codes) if len(codes) > 1 else codes[0], (4,) * len(codes))


def _trees(draw, x):
    forest = random_forest(
        np.random.default_rng(draw(st.integers(0, 99))),
        n_trees=3,
        n_features=x.type.width,
        max_depth=2,
        n_outputs=1,
    )
    return TreeEnsemble(x, forest)


STEPS = {
    "affine": _affine,
    "linear": _linear,
    "select": _select,
    "one_hot": _one_hot,
    "trees": _trees,
    "tanh": lambda draw, x: Map(x, "tanh"),
    "compare": lambda draw, x: Compare.of(x, "gt", 0.5, "float64"),
    "float": lambda draw, x: Cast(x, "float"),
    "beside": lambda draw, x: Concat((_affine(draw, x), x)),
    "encoded": lambda draw, x: Concat((x, _one_hot(draw, x))),
}


@st.composite
def graphs(draw):
    schema = Schema.matrix(WIDTH)
    x = Columns.of(schema)
    for name in draw(st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=6)):
        if x.type.width < 40:
            x = STEPS[name](draw, x)
    return verify_graph(Graph(schema, {"transform": Output(x)}))


def run(graph, rows):
    lowered = lower(graph)
    verify_program(lowered.program)
    return evaluate(lowered.program, {"x": rows})["transform"]


ROWS = np.round(np.random.default_rng(0).normal(size=(40, WIDTH)) * 2) / 2


@pytest.mark.parametrize(
    "rules", [*([rule] for rule in RULES), RULES], ids=[*(rule.name for rule in RULES), "all"]
)
@settings(max_examples=60, deadline=None)
@given(graph=graphs())
def test_rules_keep_the_answer(rules, graph):
    # Quarters and halves make all products and sums exact, but for tanh: a few ulp of its at most
    # unit values remain.
    after = verify_graph(simplify(graph, rules))
    np.testing.assert_allclose(run(after, ROWS), run(graph, ROWS), rtol=1e-12, atol=1e-12)
    assert after.outputs["transform"].node.type == graph.outputs["transform"].node.type
