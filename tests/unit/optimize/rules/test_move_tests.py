"""Tests moved to the input decide every row as before, rows made to hurt included."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest
from fitted import available_backends
from forests import AWKWARD, random_forest
from scipy import special
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PowerTransformer

import hbconv
from hbconv.array import Array
from hbconv.containers import (
    Affine,
    Bins,
    BoxCox,
    Cast,
    Clip,
    Codes,
    Column,
    Columns,
    Concat,
    Graph,
    Impute,
    Interpolate,
    IsMissing,
    Map,
    MissingBetween,
    Node,
    NormalQuantile,
    OneHot,
    Output,
    Recode,
    Schema,
    Select,
    Softmax,
    TreeEnsemble,
    TreeLeaves,
    Vocabulary,
    YeoJohnson,
)
from hbconv.errors import InputError
from hbconv.lower import lower
from hbconv.optimize.rule import Declined, Derivation
from hbconv.optimize.rules.move_tests import move_tests
from hbconv.optimize.rules.move_tests.evaluator import Evaluator
from hbconv.tensor.program import evaluate
from hbconv.trees.forest import Forest, Slopes
from hbconv.trees.forest_check import check_forest

WIDTH = 4
VOCABULARY = Vocabulary(("a", "b", "c", "d", "e"), nan=5)


def columns(dtype: str) -> Columns:
    return Columns.of(Schema.matrix(WIDTH, dtype))


def forest_over(x: Node, thresholds: object, seed: int = 0, *, strict: bool = False) -> Forest:
    """Random trees over x, whose thresholds are some of those given."""
    rng = np.random.default_rng(seed)
    forest = random_forest(rng, 6, x.type.width, 5, strict=strict)
    chosen = rng.choice(np.asarray(thresholds, np.float64), forest.n_tests)
    return replace(forest, threshold=Array(chosen))


def graph_of(x: Node, forest: Forest) -> Graph:
    leaf = next(n for n in Graph(None, {"t": Output(x)}).nodes() if isinstance(n, Columns | Codes))
    return Graph(leaf.schema, {"apply": Output(TreeLeaves(x, forest.with_numbered_leaves()))})


def moved(graph: Graph) -> tuple[Graph, Derivation]:
    (derivation,) = (d for d in move_tests(graph) if isinstance(d, Derivation))
    after = derivation.apply(graph)
    check_forest(forest_of(after))
    return after, derivation


def forest_of(graph: Graph) -> Forest:
    return graph.outputs["apply"].node.forest


def leaves(graph: Graph, rows: np.ndarray) -> np.ndarray:
    lowered = lower(graph)
    (name,) = (feed.name for feed in lowered.feeds)
    return evaluate(lowered.program, {name: rows})["apply"]


def hostile(values: object, dtype: str) -> np.ndarray:
    """Values, their neighbours by one and two units in the last place, and awkward ones."""
    if dtype == "int64":
        whole = np.asarray(values, np.float64)
        whole = whole[np.abs(whole) < 2**62].astype(np.int64)
        ends = np.iinfo(np.int64)
        near = [whole + step for step in (-2, -1, 0, 1, 2)]
        return np.concatenate([*near, [0, ends.min, ends.max, 2**53, 2**53 + 1, -(2**53) - 1]])
    with np.errstate(over="ignore"):
        given = np.asarray([*np.ravel(values), *AWKWARD, np.finfo(dtype).max], np.float64)
        near = [given.astype(dtype)]
        for direction in (-np.inf, np.inf):
            once = np.nextafter(near[0], np.array(direction, dtype))
            near += [once, np.nextafter(once, np.array(direction, dtype))]
    return np.concatenate([*near, np.array([np.nan], dtype)])


def rows_of(values: np.ndarray) -> np.ndarray:
    """Rows in which every column holds every value."""
    return np.stack([np.roll(values, 3 * shift) for shift in range(WIDTH)], axis=1)


def assert_equal_leaves(graph: Graph, after: Graph, extra: object = ()) -> None:
    dtype = graph.schema.dtypes[0]
    rows = rows_of(hostile([*forest_of(after).threshold.data, *np.ravel(extra)], dtype))
    np.testing.assert_array_equal(leaves(after, rows), leaves(graph, rows))


SCALES = np.array([2.0, 0.1, 3e5, 7.0])
KNOTS = Array(np.sort(np.random.default_rng(0).normal(0, 2, (WIDTH, 20)).round(1), axis=1))
SHARES = Array(np.broadcast_to(np.linspace(0, 1, 20), (WIDTH, 20)))
NAN = float("nan")

CHAINS = {
    "affine": lambda x: Affine.of(x, sub=[0.3, -2.0, 1e-3, 0.0], div=SCALES),
    "negative": lambda x: Affine.of(x, mul=[-0.7, 2.0, -1e-4, 3.0], add=1.0),
    "imputed": lambda x: Affine.of(Impute(x, Array([0.7, -0.1, 2.0, 0.0])), sub=0.1, div=SCALES),
    "float32": lambda x: Cast(Affine.of(x, div=SCALES), "float32"),
    "clipped": lambda x: Clip.of(Affine.of(x, mul=0.3), -1.0, 1.0),
    "binned": lambda x: Bins(x, Array(np.sort(KNOTS.data[:, :6]))),
    "interpolated": lambda x: Interpolate(x, KNOTS, SHARES),
    "falling": lambda x: Map(Interpolate(x, KNOTS, SHARES), "neg"),
    "indicated": lambda x: Concat(
        (Impute(x, Array(np.zeros(WIDTH))), Cast(IsMissing(x), "float64"))
    ),
    "logarithm": lambda x: Map(Cast(x, "float64"), "log1p"),
    "yeo-johnson": lambda x: YeoJohnson(x, Array([0.5, 0.0, -0.3, 2.1]), Array([1.5, 2.0, 0, 0.4])),
    "selected": lambda x: Affine.of(Select(x, Array([2, 0, 2])), add=1.0),
    "twice": lambda x: Concat((Affine.of(x, add=1.0), Map(Cast(x, "float64"), "exp"))),
}
THRESHOLDS = (-1.5, -0.5, -0.3, -1e-9, -0.0, 0.0, 0.05, 0.25, 0.5, 0.7, 1.0, 1.2, 3.0, 6.0)


@pytest.mark.parametrize("strict", [False, True], ids=["<=", "<"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
@pytest.mark.parametrize("name", CHAINS)
def test_moved_tests_reach_the_same_leaves(name: str, dtype: str, strict: bool):
    x = CHAINS[name](columns(dtype))
    graph = graph_of(x, forest_over(x, THRESHOLDS, strict=strict))
    after, _ = moved(graph)
    assert_equal_leaves(graph, after, [THRESHOLDS, KNOTS.data[0].tolist()[:14]])
    assert not any(isinstance(n, Affine | Map | YeoJohnson | BoxCox) for n in after.nodes())


def test_thresholds_are_the_last_values_that_go_left():
    x = CHAINS["affine"](columns("float64"))
    forest = forest_over(x, THRESHOLDS)
    after, _ = moved(graph_of(x, forest))
    at = np.arange(forest.n_tests)
    for rows, holds in (
        (forest_of(after).threshold.data, True),
        (np.nextafter(forest_of(after).threshold.data, np.inf), False),
    ):
        scaled = evaluate(
            lower(Graph(x.x.schema, {"t": Output(x)})).program,
            {"x": np.tile(rows[:, None], WIDTH)},
        )["t"]
        found = scaled[at, forest.feature.data] <= forest.threshold.data
        np.testing.assert_array_equal(found, np.full(forest.n_tests, holds))


def test_inexact_functions_must_move_and_exact_ones_may():
    for name, required in (("yeo-johnson", True), ("logarithm", True), ("affine", False)):
        x = CHAINS[name](columns("float64"))
        _, derivation = moved(graph_of(x, forest_over(x, THRESHOLDS)))
        assert derivation.required is required


POWERS = Array([0.5, 0.0, -0.3, 2.1])
SCIPYS = {
    "box-cox": (
        lambda x: BoxCox(Cast(x, "float64"), POWERS),
        lambda rows: special.boxcox(rows.astype(np.float64), POWERS.data),
    ),
    "normal quantile": (
        lambda x: NormalQuantile(Clip.of(Cast(x, "float64"), 1e-7, 1 - 1e-7)),
        lambda rows: special.ndtri(np.clip(rows.astype(np.float64), 1e-7, 1 - 1e-7)),
    ),
}
DENSE = np.linspace(-2.5, 2.5, 201)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", SCIPYS)
def test_scipys_functions_are_judged_by_scipy(name: str, dtype: str):
    written, function = SCIPYS[name]
    x = written(columns(dtype))
    forest = forest_over(x, DENSE)
    after, derivation = moved(graph_of(x, forest))
    rows = rows_of(hostile(forest_of(after).threshold.data, dtype))
    with np.errstate(all="ignore"):
        want = forest.with_numbered_leaves().leaves(function(rows))
    np.testing.assert_array_equal(leaves(after, rows), want)
    assert derivation.proof.endswith(
        "thresholds checked around the switch against the source's function"
    )


@pytest.mark.parametrize("name", SCIPYS)
def test_the_reference_judges_where_scipy_is_not_installed(
    name: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sys.modules[BoxCox.__module__], "find_spec", lambda name: None)
    x = SCIPYS[name][0](columns("float64"))
    graph = graph_of(x, forest_over(x, THRESHOLDS, seed=1))
    after, derivation = moved(graph)
    assert_equal_leaves(graph, after)
    assert derivation.proof.endswith("against the reference")


def test_the_proof_counts_tests_by_kind():
    x = CHAINS["twice"](columns("float64"))
    forest = forest_over(x, THRESHOLDS)
    _, derivation = moved(graph_of(x, forest))
    plain = int((forest.feature.data < WIDTH).sum())
    assert derivation.proof == (
        f"to 4 columns: {plain} thresholds monotone by construction, "
        f"{forest.n_tests - plain} thresholds checked around the switch against the reference"
    )


def test_an_imputed_column_gives_its_missing_rows_a_direction():
    x = Impute(columns("float64"), Array([5.0, 5.0, -5.0, -5.0]))
    after, _ = moved(graph_of(x, forest_over(x, [0.0])))
    forest = forest_of(after)
    np.testing.assert_array_equal(forest.default_left.data, forest.feature.data >= 2)


def test_a_number_that_is_imputed_stays_unless_its_tests_agree():
    x = Impute(columns("float64"), Array([0.0, -10.0, 0.0, 0.0]), missing=-9.0)
    graph = graph_of(Affine.of(x, add=0.0, mul=2.0), forest_over(x, [-8.0, 3.0]))
    after, _ = moved(graph)
    assert_equal_leaves(graph, after, [-9.0])
    assert sum(n.type.width for n in after.nodes() if isinstance(n, Impute)) == 3
    assert not any(isinstance(n, Affine) for n in after.nodes())


def test_values_without_a_logarithm_stay_missing():
    x = Map(columns("float64"), "log")
    graph = graph_of(x, forest_over(x, [-3.0, 0.0, 2.0]))
    after, _ = moved(graph)
    assert_equal_leaves(graph, after, [-1.0, -1e-300])
    assert [n.name for n in after.nodes()] == ["columns", "missing_between", "tree_leaves"]


@pytest.mark.parametrize("last", ["one_hot", "recode", "missing", "scaled"])
def test_tests_on_codes_become_sets(last: str):
    codes = Codes(Schema((Column("city", "string"),)), 0, VOCABULARY)
    table = np.array([NAN, 3.0, -1.0, 2.0, 2.0, 7.0, NAN if last == "missing" else 1.0])
    x: Node = OneHot(codes, (5,)) if last == "one_hot" else Recode(codes, (Array(table),))
    x = Affine.of(x, sub=0.5, div=-3.0) if last == "scaled" else x
    graph = graph_of(x, forest_over(x, [-0.5, 0.0, 0.2, 0.5, 2.0]))
    after, derivation = moved(graph)
    rows = np.arange(-1, 6, dtype=np.int32)[:, None]
    np.testing.assert_array_equal(leaves(after, rows), leaves(graph, rows))
    assert forest_of(after).on_category.all()
    assert derivation.proof.endswith("sets of enumerated codes")


@pytest.mark.parametrize(
    ("table", "names"),
    [
        ([-1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0], ["codes", "cast", "tree_leaves"]),
        ([9.0, 3.0, -1.0, 2.0, 2.0, 7.0, 1.0], ["codes", "recode", "tree_leaves"]),
    ],
    ids=["in order", "in another order"],
)
def test_sets_one_in_the_other_become_thresholds_on_ranks(table: list[float], names: list[str]):
    codes = Codes(Schema((Column("city", "string"),)), 0, VOCABULARY)
    twice = Recode(Concat((codes, codes)), (Array(table), Array(np.multiply(table, 3.0))))
    x = Affine.of(twice, mul=2.0)
    graph = graph_of(x, forest_over(x, [-9.0, -2.0, 1.9, 2.0, 4.0, 13.0, 40.0, 99.0]))
    after, derivation = moved(graph)
    rows = np.arange(-1, 6, dtype=np.int32)[:, None]
    np.testing.assert_array_equal(leaves(after, rows), leaves(graph, rows))
    assert forest_of(after).tables is None
    assert [node.name for node in after.nodes()] == names
    assert derivation.proof.endswith("sets of enumerated codes")
    assert not [d for d in move_tests(after) if isinstance(d, Derivation)]


def test_bins_in_several_columns_become_codes():
    bins = Bins(columns("float64"), Array(np.sort(KNOTS.data[:, :5])))
    x = Concat((OneHot(bins, (6,) * WIDTH, None), Affine.of(bins.x, mul=2.0)))
    graph = graph_of(x, forest_over(x, [0.5]))
    after, _ = moved(graph)
    assert_equal_leaves(graph, after, KNOTS.data)
    assert not any(isinstance(n, OneHot | Affine) for n in after.nodes())


def test_sets_of_codes_that_a_forest_has_stay():
    x = columns("float64")
    rng = np.random.default_rng(3)
    forest = random_forest(rng, 4, WIDTH, 4, n_categorical=2)
    listed = np.unique(forest.feature.data[forest.on_category])
    scale = np.where(np.isin(np.arange(WIDTH), listed), 1.0, 2.0)
    graph = graph_of(Affine.of(x, mul=scale), forest)
    after, _ = moved(graph)
    rows = np.tile(np.arange(-3.0, 12.0)[:, None], WIDTH)
    rows[:, listed] = np.abs(rows[:, listed])
    np.testing.assert_array_equal(leaves(after, rows), leaves(graph, rows))


def test_forests_over_one_input_move_together():
    x = CHAINS["affine"](columns("float64"))
    forest = forest_over(x, THRESHOLDS)
    outputs = {"apply": Output(TreeLeaves(x, forest)), "predict": Output(TreeEnsemble(x, forest))}
    after, derivation = moved(Graph(x.x.schema, outputs))
    assert len(derivation.replacements) == 2
    assert after.outputs["predict"].node.forest == forest_of(after)


def test_a_moved_forest_moves_no_further():
    for name, make in CHAINS.items():
        x = make(columns("float64"))
        after, _ = moved(graph_of(x, forest_over(x, THRESHOLDS)))
        assert not [d for d in move_tests(after) if isinstance(d, Derivation)], name


def test_columns_that_cannot_move_stay_computed():
    x = columns("float64")
    mixed = Concat((Affine.of(x, mul=2.0), Map(x, "sin"), Softmax(x)))
    graph = graph_of(mixed, forest_over(mixed, [-0.5, 0.1, 0.5]))
    after, derivation = moved(graph)
    assert_equal_leaves(graph, after)
    assert not derivation.required
    (declined,) = (d for d in move_tests(graph) if isinstance(d, Declined))
    assert declined.reason == "columns 4, 5, 6, 7: it is not known to be monotone"


def test_linear_leaves_read_what_is_computed():
    x = CHAINS["affine"](columns("float64"))
    forest = forest_over(x, THRESHOLDS)
    none = np.zeros(forest.n_leaves + 1, np.int32)
    slopes = Slopes(
        Array(forest.values.data[:, 0]), Array(none), Array.of([], np.int32), Array.of([], float)
    )
    graph = Graph(x.x.schema, {"predict": Output(TreeEnsemble(x, replace(forest, slopes=slopes)))})
    (declined,) = move_tests(graph)
    assert isinstance(declined, Declined)


def test_large_ints_that_are_one_float_stay_apart():
    """Between 2**53 and 2**63 many ints are one float: no threshold may fall between them."""
    x = Affine.of(Cast(columns("int64"), "float64"), sub=2.0**60, div=3.0)
    graph = graph_of(x, forest_over(x, [-50.0, 0.0, 1.0, 42.0]))
    after, _ = moved(graph)
    near = 2**60 + np.arange(-700, 700, 7)
    np.testing.assert_array_equal(leaves(after, rows_of(near)), leaves(graph, rows_of(near)))


LAYERS = (
    "affine", "negative", "imputed", "float32", "clipped", "binned", "interpolated", "falling",
    "logarithm", "yeo-johnson", "number", "between", "beside",
)  # fmt: skip


@pytest.mark.parametrize("seed", range(40))
def test_random_chains_reach_the_same_leaves(seed: int):
    rng = np.random.default_rng(seed)
    dtype = str(rng.choice(["float64", "float32", "int64"]))
    x: Node = columns(dtype)
    for layer in rng.choice(LAYERS, rng.integers(1, 4)):
        if layer == "number":
            x = Impute(Cast(x, "float64"), Array(rng.normal(0, 1, x.type.width)), missing=0.0)
        elif layer == "between":
            x = MissingBetween.of(Cast(x, "float64"), -0.2, 0.3)
        elif layer == "beside":
            x = Select(Concat((x, Affine.of(x, mul=-0.5))), Array([0, 5, 2, 7]))
        else:
            x = CHAINS[str(layer)](x)
    rows = rows_of(hostile(rng.normal(0, 2, 60), dtype))
    graph = Graph(Schema.matrix(WIDTH, dtype), {"t": Output(x)})
    values = evaluate(lower(graph).program, {"x": rows})["t"].astype(np.float64)
    forest = forest_over(x, rng.permutation(values[np.isfinite(values)])[:40], seed)
    graph = graph_of(x, forest)
    after = graph
    for derivation in move_tests(graph):
        after = derivation.apply(after) if isinstance(derivation, Derivation) else after
    assert_equal_leaves(graph, after, rows.ravel()[:200])


@pytest.mark.parametrize("backend", available_backends())
def test_values_that_powers_and_means_put_on_thresholds_reach_the_leaves_of_the_source(
    backend: str,
):
    """Imputed values lie on thresholds, where the last bit of each backend's power would decide."""
    rng = np.random.default_rng(0)
    x = np.round(rng.normal(5, 3, (3000, 6)) ** 3, 2)
    y = (x[:, 0] + x[:, 1] * rng.normal(1, 0.5, 3000) > 200).astype(int)
    x[rng.random(x.shape) < 0.08] = np.nan
    model = make_pipeline(
        SimpleImputer(), PowerTransformer(), HistGradientBoostingClassifier(max_iter=30)
    ).fit(x[:1500], y[:1500])
    converted = hbconv.convert(model, backend=backend)
    raw = model.decision_function(x)
    np.testing.assert_allclose(converted.decision_function(x), raw, rtol=1e-12, atol=1e-12)
    x[7, 3] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        model.predict(x)
    with pytest.raises(InputError, match="infinity"):
        converted.predict(x)


def test_columns_are_evaluated_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """An evaluation computes all columns, so as many evaluations as columns would be quadratic."""
    asked: list[int] = []

    def at(self: Evaluator, which: np.ndarray, keys: np.ndarray) -> np.ndarray:
        asked.append(len(which))
        return ask(self, which, keys)

    ask = Evaluator.at
    monkeypatch.setattr(Evaluator, "at", at)
    counts = []
    for width in (3, 40):
        asked.clear()
        schema = Schema.matrix(width)
        scaled = Affine.of(Columns.of(schema), div=np.arange(1.0, width + 1))
        forest = random_forest(np.random.default_rng(0), n_features=width, n_trees=width)
        node = TreeEnsemble(scaled, forest)
        assert next(iter(move_tests(Graph(schema, {"predict": Output(node)}))), None) is not None
        counts.append(len(asked))
    # A guess off by one takes a few more looks, however many columns there are.
    assert max(counts) < 20


def test_a_cast_is_not_bisected(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last float64 that rounds to a float32 is known, and two looks confirm it."""
    looks: list[int] = []
    ask = Evaluator.at

    def at(self: Evaluator, which: np.ndarray, keys: np.ndarray) -> np.ndarray:
        looks.append(len(which))
        return ask(self, which, keys)

    monkeypatch.setattr(Evaluator, "at", at)
    edges = np.array([0.0, -0.0, 1e-46, -1e-46, 1e-40, 1.0, np.pi, 3.4028235e38, 1e39, -1e39])
    around = np.nextafter(edges, [[-np.inf], [np.inf]]).ravel()
    forest = random_forest(np.random.default_rng(0), n_features=2, n_trees=40)
    thresholds = np.resize(np.append(edges, around), forest.n_tests)
    forest = replace(forest, threshold=Array(thresholds), tables=None)
    schema = Schema.matrix(2)
    node = TreeLeaves(Cast(Columns.of(schema), "float32"), forest)
    (derivation,) = (
        d for d in move_tests(Graph(schema, {"apply": Output(node)})) if isinstance(d, Derivation)
    )
    moved = derivation.replacements[node]
    rows = np.stack([np.append(edges, around), np.append(edges, around)[::-1]], axis=1)
    with np.errstate(over="ignore", under="ignore"):
        expected = forest.leaves(rows.astype(np.float32))
    assert np.array_equal(moved.forest.leaves(rows), expected)
    # The ends of the pieces, and then one side of the guess, both sides, and no more.
    assert len(looks) <= 4
