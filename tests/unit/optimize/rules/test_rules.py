"""Where rules apply, and where they must not."""

from dataclasses import replace

import numpy as np
import pytest
from forests import random_forest
from sklearn.feature_selection import SelectKBest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MinMaxScaler,
    PowerTransformer,
    QuantileTransformer,
    SplineTransformer,
)

from hbconv.array import Array
from hbconv.containers import (
    Affine,
    Cast,
    Clip,
    Column,
    Columns,
    Concat,
    Graph,
    Linear,
    Map,
    Output,
    Polynomial,
    Schema,
    Select,
    Softmax,
    TreeEnsemble,
)
from hbconv.optimize import optimize
from hbconv.optimize.rule import MAX_ROUNDS
from hbconv.optimize.rules.push_selection import inject_selection, push_selection
from hbconv.optimize.rules.remove_identity import remove_identity
from hbconv.parse import parse

SCHEMA = Schema.matrix(4)
X = Columns.of(SCHEMA)


def pick(x, *columns):
    return Select(x, Array(np.array(columns, np.int32)))


def optimized(node):
    return optimize(Graph(SCHEMA, {"transform": Output(node)})).graph.outputs["transform"].node


def test_selection_reaches_the_leaf_through_one_to_one_containers():
    node = optimized(pick(Map(Affine.of(X, sub=[1.0, 2.0, 3.0, 4.0]), "exp"), 3, 1))
    assert node == Map(
        Affine.of(Columns(SCHEMA, Array(np.array([3, 1], np.int32))), sub=[4.0, 2.0]), "exp"
    )


def test_selection_is_cut_at_a_concatenation_and_drops_unread_parts():
    node = optimized(pick(Concat((Map(X, "exp"), Map(X, "log"), Map(X, "sqrt"))), 1, 8))
    assert [n.name for n in Graph(SCHEMA, {"t": Output(node)}).nodes()] == [
        "columns",
        "map",
        "columns",
        "map",
        "concat",
    ]
    assert node.xs[1].function == "sqrt"


def test_inputs_that_a_selection_weaves_together_are_computed_once_each():
    """The stages of two classes are 1,000 columns, each selected from the other input in turn."""
    woven = Concat((Map(X, "exp"), Map(X, "log"), Map(X, "sqrt")))
    assert push_selection(pick(woven, *np.arange(12).reshape(3, 4).T.ravel())) is None
    some = push_selection(pick(woven, 8, 1, 9, 1))
    assert some == pick(Concat((pick(Map(X, "exp"), 1), pick(Map(X, "sqrt"), 0, 1))), 1, 0, 2, 0)
    assert push_selection(some) is None


def test_selection_is_absorbed_by_linear_outputs():
    assert optimized(pick(Linear.of(X, np.arange(8.0).reshape(4, 2)), 1)).weights.shape == (4, 1)


def test_selection_is_blocked_by_what_mixes_columns():
    assert push_selection(pick(Softmax(X), 0)) is None


@pytest.mark.parametrize(
    "before",
    [
        PowerTransformer("box-cox"),
        PowerTransformer(),
        QuantileTransformer(n_quantiles=9, output_distribution="normal"),
        MinMaxScaler(clip=True),
        SplineTransformer(n_knots=3),
    ],
    ids=lambda transformer: type(transformer).__name__,
)
def test_selection_passes_transformers_of_columns(before):
    rows = np.random.default_rng(0).lognormal(size=(40, 4))
    source = make_pipeline(before, SelectKBest(k=1)).fit(rows, rows[:, 2] > 1)
    graph = optimize(parse(source).for_rows(sparse=False)).graph
    leaves = [n for n in graph.nodes() if not n.inputs]
    assert [leaf.columns for leaf in leaves] == [(2,)]


def test_a_cast_is_kept_where_its_input_counts_as_less():
    schema = Schema((Column("n", "int64", weak_int=True), Column("x", "float32")))
    number, x = (Columns(schema, Array.of([j], "int32")) for j in range(2))
    graph = Graph(schema, {"t": Output(Concat((Cast(number, "int64"), x)))})
    assert optimize(graph).graph.outputs["t"].node.type == graph.outputs["t"].node.type


def test_zero_weights_are_injected_down_to_the_input():
    scaler = Affine.of(X, sub=[1.0, 2.0, 3.0, 4.0], div=np.full(4, 2.0))
    node = optimized(Linear.of(scaler, [0.0, 10.0, 0.0, 0.0]))
    assert node.x == Columns(SCHEMA, Array(np.array([1], np.int32)))
    assert node.bias[0] == -10.0


def test_a_model_of_zeros_keeps_one_column_for_the_rows():
    assert inject_selection(Linear.of(X, np.zeros(4), 7.0)).x.type.width == 1
    assert inject_selection(Linear.of(pick(X, 2), np.zeros(1), 7.0)) is None


def test_no_column_is_selected_from_none():
    none = pick(X)
    assert inject_selection(Linear.of(none, np.zeros((0, 2)))) is None
    assert inject_selection(Polynomial(none, Array(np.zeros((1, 0), np.int32)))) is None
    forest = random_forest(np.random.default_rng(0), n_trees=1, n_features=1, max_depth=0)
    constant = replace(forest, n_features=0)
    assert inject_selection(TreeEnsemble(none, constant)) is None


def test_features_no_tree_reads_are_dropped():
    forest = random_forest(
        np.random.default_rng(0), n_trees=1, n_features=4, max_depth=1, n_outputs=1
    )
    node = optimized(TreeEnsemble(X, forest))
    assert node.x.columns == tuple(forest.used_features)
    assert node.forest.n_features == len(forest.used_features)


def test_terms_of_a_polynomial_that_nothing_weighs_are_never_multiplied():
    terms = Array(np.array([[0, -1], [1, -1], [1, 3], [2, 2]], np.int32))
    node = optimized(Linear.of(Polynomial(X, terms), [0.0, 0.0, 2.0, 0.0]))
    assert node.x.x.columns == (1, 3)
    assert node.x.terms == Array(np.array([[0, 1]], np.int32))


def test_nothing_is_rounded_anew_before_a_threshold():
    forest = random_forest(
        np.random.default_rng(0), n_trees=2, n_features=1, max_depth=3, n_outputs=1
    )
    scaler = Affine.of(X, sub=[1.0, 2.0, 3.0, 4.0])
    names = [
        n.name
        for n in Graph(
            SCHEMA, {"t": Output(optimized(TreeEnsemble(Linear.of(scaler, np.ones(4)), forest)))}
        ).nodes()
    ]
    assert names == ["columns", "affine", "linear", "tree_ensemble"]


def test_identity_keeps_the_dtype():
    ints = Columns.of(Schema.matrix(4, "int64"))
    assert remove_identity(Affine.of(ints, mul=np.ones(4))) == Cast(ints, "float")
    assert remove_identity(pick(X, 1, 0, 2, 3)) is None
    assert remove_identity(Clip.of(ints, -np.inf, np.inf)) == Cast(ints, "float")
    assert remove_identity(Clip.of(X, -np.inf, 1e300)) is None


def test_equal_steps_are_computed_once():
    graph = optimize(
        Graph(SCHEMA, {"t": Output(Concat((Map(X, "exp"), Map(Columns.of(SCHEMA), "exp"))))})
    ).graph
    assert [n.name for n in graph.nodes()] == ["columns", "map", "concat"]


def test_a_chain_longer_than_the_rounds_is_optimized_as_far_as_they_go():
    x = X
    for _ in range(MAX_ROUNDS + 20):
        x = Map(x, "tanh")
    chain = Graph(SCHEMA, {"t": Output(pick(x, 1))})
    after = optimize(chain).graph
    assert after.outputs["t"].node.type == chain.outputs["t"].node.type
    names = [node.name for node in after.nodes()]
    assert names.index("select") == len(names) - MAX_ROUNDS - 1  # it moved past one a round
