import numpy as np
import pytest
from scoring import assert_identical, assert_same, forest_of, score, threshold_rows
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreeClassifier,
    ExtraTreeRegressor,
)

import hbconv
from hbconv.errors import ConversionError, NotFittedError
from hbconv.parse import parse
from hbconv.parse.common.node_tables import FlatTrees, assemble

RNG = np.random.default_rng(0)
X = RNG.standard_normal((300, 5))
X[:, 4] = RNG.integers(0, 3, 300)
MISSING = np.where(RNG.random(X.shape) < 0.1, np.nan, X)
LABELS = np.array(["ash", "birch", "cedar"])[RNG.integers(0, 3, 300)]
TARGET = np.where(np.isnan(MISSING[:, 0]), 3.0, X[:, 0])

TREE_CLASSIFIERS = [DecisionTreeClassifier, ExtraTreeClassifier]
FOREST_CLASSIFIERS = [RandomForestClassifier, ExtraTreesClassifier]
REGRESSORS = [DecisionTreeRegressor, ExtraTreeRegressor, RandomForestRegressor, ExtraTreesRegressor]
CLASSIFIER_METHODS = ("predict", "predict_proba", "predict_log_proba", "apply")
DTYPES = ["float32", "float64"]


def small(cls, **parameters):
    several = {"n_estimators": 7} if cls.__name__.startswith(("RandomForest", "ExtraTrees")) else {}
    return cls(random_state=0, **several, **parameters)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "labels",
    [LABELS, LABELS == "ash", RNG.integers(-3, 3, 300), RNG.integers(0, 2, 300) * 2.0],
    ids=["text", "bool", "int", "float"],
)
@pytest.mark.parametrize("cls", TREE_CLASSIFIERS + FOREST_CLASSIFIERS)
def test_classifiers_at_their_thresholds(cls, labels, dtype):
    model = small(cls).fit(MISSING, labels)
    rows = threshold_rows(forest_of(parse(model)), dtype, infinite=False)
    assert_same(model, rows, *CLASSIFIER_METHODS)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "targets", [TARGET, np.stack([TARGET, -X[:, 1], X[:, 2] ** 2], axis=1)], ids=["one", "three"]
)
@pytest.mark.parametrize("cls", REGRESSORS)
def test_regressors_at_their_thresholds(cls, targets, dtype):
    model = small(cls).fit(MISSING, targets)
    rows = threshold_rows(forest_of(parse(model)), dtype, infinite=False)
    assert_same(model, rows, "predict", "apply")


@pytest.mark.parametrize(
    "rows",
    [X[:1], np.asfortranarray(X[:7]), X[::2], RNG.integers(-(2**40), 2**40, (9, 5))],
    ids=["one", "fortran", "strided", "int64"],
)
@pytest.mark.parametrize("cls", FOREST_CLASSIFIERS + TREE_CLASSIFIERS)
def test_row_layouts(cls, rows):
    assert_same(small(cls).fit(X, LABELS), rows, *CLASSIFIER_METHODS)


def test_no_rows():
    model = small(RandomForestClassifier).fit(X, LABELS)
    assert score(model, X[:0], "predict_proba").shape == (0, 3)
    assert score(model, X[:0]).dtype == LABELS.dtype


@pytest.mark.parametrize("cls", TREE_CLASSIFIERS + FOREST_CLASSIFIERS)
def test_one_class_and_single_leaves(cls):
    assert_same(small(cls).fit(X, np.zeros(300, int)), X, "predict", "predict_proba", "apply")


@pytest.mark.parametrize(
    "parameters",
    [
        {"ccp_alpha": 0.01},
        {"max_leaf_nodes": 5},
        {"monotonic_cst": [1, 0, -1, 0, 0]},
        {"class_weight": "balanced"},
    ],
    ids=lambda p: next(iter(p)),
)
def test_parameters_of_the_fit(parameters):
    assert_same(
        small(RandomForestClassifier, **parameters).fit(X, LABELS == "ash"), X, *CLASSIFIER_METHODS
    )


@pytest.mark.parametrize(
    "model",
    [DecisionTreeRegressor(criterion="absolute_error"), ExtraTreeClassifier(splitter="best")],
    ids=["median", "best"],
)
def test_missing_values_only_where_the_source_takes_them(model):
    model.fit(X, TARGET > 0)
    takes_nan = model.__sklearn_tags__().input_tags.allow_nan
    if takes_nan:
        assert_same(model, MISSING, "predict")
        return
    with pytest.raises(ValueError, match="Input X contains NaN"):
        model.predict(MISSING)
    with pytest.raises(
        ValueError, match=r"contains NaN, infinity or a value too large for .* \(step"
    ):
        score(model, MISSING)


@pytest.mark.parametrize("value", [np.inf, -np.inf, 1e39])
@pytest.mark.parametrize("cls", [RandomForestRegressor, DecisionTreeRegressor])
def test_values_beyond_float32_are_refused(cls, value):
    model = small(cls).fit(X, TARGET)
    rows = X[:3].copy()
    rows[1, 2] = value
    with (
        pytest.raises(ValueError, match="infinity or a value too large"),
        np.errstate(over="ignore"),
    ):
        model.predict(rows)
    with pytest.raises(ValueError, match="infinity or a value too large"):
        score(model, rows)


SEVERAL = {
    "text": np.stack([LABELS, np.where(X[:, 0] > 0, "x", "lengthy"), np.full(300, "same")], axis=1),
    "object": np.stack([LABELS, np.where(X[:, 0] > 0, "x", "lengthy")], axis=1).astype(object),
    "int": RNG.integers(-1, 3, (300, 3)),
    "float": RNG.integers(0, 2, (300, 2)) * 2.0,
    "bool": np.stack([X[:, 0] > 0, X[:, 1] > 0, LABELS == "ash"], axis=1),
}


@pytest.mark.parametrize("labels", SEVERAL.values(), ids=SEVERAL)
@pytest.mark.parametrize("cls", TREE_CLASSIFIERS + FOREST_CLASSIFIERS)
def test_several_outputs_of_a_classifier(cls, labels):
    model = small(cls, max_depth=6).fit(MISSING, labels)
    converted = hbconv.convert(model, backend="reference")
    for method in CLASSIFIER_METHODS:
        with np.errstate(divide="ignore"):
            assert_identical(getattr(converted, method)(MISSING), getattr(model, method)(MISSING))


@pytest.mark.parametrize("rows", [MISSING, MISSING[:1]], ids=["many", "one"])
@pytest.mark.parametrize(
    "parameters",
    [{}, {"max_leaf_nodes": 6}, {"min_samples_leaf": 300}, {"ccp_alpha": 0.02}],
    ids=["full", "best", "stump", "pruned"],
)
@pytest.mark.parametrize("cls", TREE_CLASSIFIERS + FOREST_CLASSIFIERS + REGRESSORS)
def test_decision_paths(cls, parameters, rows):
    model = small(cls, **parameters).fit(
        MISSING, LABELS if cls in TREE_CLASSIFIERS + FOREST_CLASSIFIERS else TARGET
    )
    assert_identical(
        hbconv.convert(model, backend="reference").decision_path(rows), model.decision_path(rows)
    )


def test_decision_paths_of_no_rows():
    paths, first_node = hbconv.convert(
        small(RandomForestClassifier).fit(X, LABELS), backend="reference"
    ).decision_path(X[:0])
    assert paths.shape == (0, first_node[-1])


def test_sparse_rows_hold_no_missing_values():
    """The source reads NaN in arrays alone."""
    model = make_pipeline(OneHotEncoder(), small(RandomForestClassifier)).fit(X[:, 4:], LABELS)
    assert all(
        "NaN" in check.message for check in parse(model).checks if "RandomForest" in check.message
    )


def test_unfitted():
    with pytest.raises(NotFittedError, match=r"RandomForestClassifier .* is not fitted"):
        parse(RandomForestClassifier())


def test_leaves_stand_left_to_right():
    forest = forest_of(parse(small(RandomForestRegressor).fit(X, TARGET)))
    for tree, root in enumerate(forest.roots.data):
        seen = list(leaves_below(forest, root))
        assert seen == list(range(forest.first_leaf.data[tree], forest.first_leaf.data[tree + 1]))


def leaves_below(forest, child):
    if child < 0:
        yield ~child
        return
    yield from leaves_below(forest, forest.left.data[child])
    yield from leaves_below(forest, forest.right.data[child])


def flat(left, right, roots=(0,), leaves=3):
    tests = len(left)
    numbers = (np.array(part, dtype=np.int64) for part in (left, right, roots))
    return FlatTrees(
        np.zeros(tests, int),
        np.zeros(tests),
        np.zeros(tests, bool),
        *numbers,
        np.arange(leaves, dtype=float)[:, None],
        np.arange(leaves),
    )


def test_assemble_drops_leaves_nothing_reaches():
    forest = assemble(flat([~2, ~0], [1, ~3], leaves=4), np.zeros(1), strict=False, n_features=1)
    assert forest.leaf_id.data.tolist() == [2, 0, 3]
    np.testing.assert_array_equal(forest.values.data[:, 0], [2.0, 0.0, 3.0])
    assert (forest.left.data.tolist(), forest.right.data.tolist()) == ([~0, ~1], [1, ~2])


@pytest.mark.parametrize(
    "trees",
    [
        flat([0], [~0]),
        flat([~0], [~0]),
        flat([~0, ~1], [~2, ~0]),
        flat([5], [~0]),
        flat([~7], [~0]),
        flat([1, 0], [~0, ~1]),
    ],
    ids=["loop", "shared leaf", "unreached test", "no such test", "no such leaf", "cycle"],
)
def test_assemble_refuses_what_is_no_tree(trees):
    with pytest.raises(ConversionError, match="do not form trees"):
        assemble(trees, np.zeros(1), strict=False, n_features=1)
