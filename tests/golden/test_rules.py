"""What each rule makes of a few nodes, as text."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from forests import random_forest

from hbconv.array import Array
from hbconv.containers import (
    Affine,
    Bins,
    BoxCox,
    Cast,
    CastLike,
    Clip,
    Codes,
    Columns,
    Concat,
    ConstantRows,
    Impute,
    Linear,
    LookupSum,
    Map,
    Node,
    Normalize,
    OneHot,
    Polynomial,
    Recode,
    Schema,
    Select,
    Softmax,
    SplineBasis,
    TreeEnsemble,
    TreeLeaves,
    Vocabulary,
    show_rule,
)
from hbconv.optimize import RULES
from hbconv.optimize.rule import NodeRule

SCHEMA = Schema.table(["age", "fare", "city", "carrier"])
X = Columns(SCHEMA, Array(np.array([0, 1], np.int32)))
CITY, CARRIER = (Codes(SCHEMA, i, Vocabulary(("a", "b", "c"))) for i in (2, 3))
TERMS = Array(np.array([[0, -1], [1, -1], [0, 1]], np.int32))
ENCODED = OneHot(Concat((CITY, CARRIER)), (3, 3))
WEIGHTS = Array(np.arange(8.0).reshape(4, 2))
SCALED = Affine.of(X, sub=[1.0, 2.0], div=[2.0, 4.0])


def pick(x: Node, *columns: int) -> Node:
    return Select(x, Array(np.array(columns, np.int32)))


GROUPS = (Array.of([-1, 0, 1, 0], "int32"), Array.of([0, -1, -1, 1], "int32"))
GROUPED = Recode(Concat((CITY, CARRIER)), GROUPS)
SUMMED = (Array(np.arange(3.0)[:, None]), Array(np.arange(3.0, 6.0)[:, None]))
MISSING = random_forest(np.random.default_rng(1), n_trees=2, n_features=2)
FILLED = Impute(X, Array([7.0, 8.0]))
WIDE = LookupSum(Recode(CITY, (Array.of([-1, *[0] * 9], "int32"),)), (Array(np.ones((2, 99))),))

EXAMPLES: dict[str, tuple[Node, ...]] = {
    "fold_codes": (
        LookupSum(GROUPED, SUMMED), Recode(GROUPED, GROUPS), WIDE,
        Recode(Recode(CITY, (Array([0.0, 1.0, 2.0, 3.0]),)), GROUPS[:1]),
    ),
    "remove_identity": (
        pick(X, 0, 1), pick(X, 1, 0), Affine.of(X, sub=0.0, div=1.0),
        Affine.of(X, sub=0.0, div=2.0), Concat((X,)),
        Cast(X, "float64"), Cast(X, "float32"), CastLike(X, Cast(pick(X, 0), "float32")),
    ),
    "push_selection": (
        pick(X, 1), pick(pick(X, 1, 0), 1), pick(SCALED, 1), pick(Map(X, "exp"), 0),
        pick(Impute(X, Array([7.0, 8.0])), 1), pick(Concat((X, SCALED)), 0, 3),
        pick(Bins(X, Array([[0.0, 1.0], [5.0, np.nan]])), 1), pick(Polynomial(X, TERMS), 2),
        pick(Linear.of(X, np.arange(4.0).reshape(2, 2)), 1),
        pick(Clip.of(X, [0.0, 1.0], 9.0), 1), pick(BoxCox(X, Array([0.5, 2.0])), 1),
        pick(SplineBasis(X, Array([[0.0, 1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0]]), 1), 2, 3),
        pick(ENCODED, 0, 1, 2), pick(ENCODED, 1, 4, 5), pick(Normalize(X, "l2"), 0),
        pick(Softmax(X), 0),
    ),
    "drop_constants": (
        Linear.of(pick(X, 0), [0.0], 5.0), Linear.of(X, [0.0, 1.0]),
        LookupSum(Concat((CITY, CARRIER)), (Array(np.ones((4, 2))), WEIGHTS)),
        LookupSum(CITY, (Array(np.ones((4, 1))),)), LookupSum(CARRIER, (WEIGHTS,)),
    ),
    "drop_directions": (
        TreeEnsemble(FILLED, MISSING), TreeLeaves(Affine.of(Cast(FILLED, "float32"), sub=[1.0, 2.0]), MISSING),
        TreeEnsemble(X, MISSING), TreeEnsemble(Affine.of(FILLED, mul=[0.0, 1.0]), MISSING),
        TreeEnsemble(Impute(X, Array([7.0, np.nan])), MISSING),
    ),
    "fold_affine_into_affine": (Affine.of(SCALED, mul=3.0), Affine.of(Map(X, "exp"), mul=3.0)),
    "flatten_concat": (
        Concat((Concat((Map(X, "exp"), X)), X, Concat((Map(X, "sqrt"), X)))), Concat((Map(X, "exp"), X)),
    ),
    "join_selections": (
        Concat((pick(Softmax(X), 1), pick(Softmax(X), 0), X)), Concat((pick(Softmax(X), 1), X)),
    ),
    "inject_selection": (
        Linear.of(X, [0.0, 2.0]), Linear.of(X, [1.0, 2.0]), Linear.of(X, [0.0, 0.0], 5.0),
        Polynomial(X, Array(np.array([[1, 1]], np.int32))),
        ConstantRows(SCALED, Array([1.0])), ConstantRows(X, Array([1.0])),
    ),
}  # fmt: skip


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_rule(
    rule: NodeRule,
    golden: Callable[[str], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A change of what a rule makes of a node shows in the diff of a text file."""
    for node in EXAMPLES[rule.name]:
        show_rule(rule.function, node)
    golden(capsys.readouterr().out)
