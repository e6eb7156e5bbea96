"""Where converters of pipelines and of estimators around others are known to answer wrongly, or
not at all.
"""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    RandomForestClassifier,
    StackingClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import hbconv
from hbconv.errors import OptionError, UnsupportedError

RNG = np.random.default_rng(0)
X = RNG.standard_normal((100, 4))
VALUE = X[:, 0] - X[:, 1]
BACKENDS = ("reference", "torch")


def assert_agrees(model, rows=X):
    for backend in BACKENDS:
        report = hbconv.verify(model, hbconv.convert(model, backend=backend), rows)
        assert report.ok, str(report)


@pytest.mark.parametrize(
    "labels",
    [np.digitize(VALUE, [-1, 0, 1]), np.where(VALUE > 0, 1, 2)],
    ids=["four classes", "labels 1 and 2"],
)
@pytest.mark.parametrize("settings", [{}, {"max_features": 0.5}], ids=str)
@pytest.mark.parametrize(
    "member", [DecisionTreeClassifier(max_depth=3), LogisticRegression()], ids=["tree", "linear"]
)
def test_bagging_of_several_classes_of_any_labels_over_some_columns(labels, settings, member):
    assert_agrees(
        BaggingClassifier(member, n_estimators=3, random_state=0, **settings).fit(X, labels)
    )


def test_bagging_of_regressors_over_some_columns():
    assert_agrees(BaggingRegressor(n_estimators=3, max_features=0.5, random_state=0).fit(X, VALUE))


@pytest.mark.parametrize("stack_method", ["auto", "predict_proba"])
def test_stacking_of_two_classes_drops_the_first_probability(stack_method):
    members = [
        ("a", LogisticRegression()),
        ("b", RandomForestClassifier(3, max_depth=2, random_state=0)),
    ]
    model = StackingClassifier(members, cv=2, stack_method=stack_method).fit(X, VALUE > 0)
    assert_agrees(model)
    assert hbconv.convert(model, backend="reference").transform(X).shape == (100, 2)


def test_a_union_that_contains_a_pipeline():
    assert_agrees(
        FeatureUnion(
            [("a", make_pipeline(StandardScaler(), PCA(2))), ("b", make_pipeline(MinMaxScaler()))]
        ).fit(X)
    )


def test_a_union_whose_parts_read_rows_that_nobody_changed():
    """PCA and scaler read the same rows, and the caller's array stays as it was."""
    model = FeatureUnion([("a", PCA(2)), ("b", StandardScaler())]).fit(X)
    rows = X.astype(np.float32)
    before = rows.copy()
    first = hbconv.convert(model, backend="torch").transform(rows)
    np.testing.assert_array_equal(rows, before)
    np.testing.assert_array_equal(hbconv.convert(model, backend="torch").transform(rows), first)
    assert_agrees(model, rows)


@pytest.mark.parametrize(
    "columns",
    [[True, False, True, False], np.array([True, False, True, False]), [-1, 0], slice(-2, None)],
    ids=str,
)
@pytest.mark.parametrize("remainder", ["drop", "passthrough"])
def test_columns_by_mask_and_by_negative_positions(columns, remainder):
    assert_agrees(ColumnTransformer([("a", StandardScaler(), columns)], remainder=remainder).fit(X))


@pytest.mark.parametrize(
    "misspelt",
    [
        {"bakend": "torch"},
        {"backend": "toch"},
        {"strategy": "gem"},
        {"tree_ops": "nativ"},
        {"precision": "exakt"},
    ],
    ids=str,
)
def test_misspelt_options_are_refused(misspelt):
    with pytest.raises(
        (OptionError, TypeError),
        match=next(iter(misspelt)) if "bakend" in misspelt else next(iter(misspelt.values())),
    ):
        hbconv.convert(StandardScaler().fit(X), **misspelt)


def test_the_function_of_a_transformer_is_applied_or_refused():
    assert_agrees(
        make_pipeline(FunctionTransformer(np.exp), LogisticRegression()).fit(X, VALUE > 0)
    )
    with pytest.raises(UnsupportedError, match=r"FunctionTransformer with func="):
        hbconv.convert(
            make_pipeline(FunctionTransformer(lambda x: x - x[0]), LogisticRegression()).fit(
                X, VALUE > 0
            )
        )


def test_columns_of_a_mapping_are_found_by_their_names():
    table = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    model = StackingClassifier(
        [("a", LogisticRegression()), ("b", DecisionTreeClassifier(max_depth=2))], cv=2
    ).fit(table, VALUE > 0)
    converted = hbconv.convert(model, backend="reference")
    np.testing.assert_array_equal(
        converted.predict(dict(table[["d", "b", "a", "c"]])), model.predict(table)
    )


def test_several_targets_keep_their_shape():
    model = MultiOutputRegressor(DecisionTreeRegressor(max_depth=2)).fit(
        X, np.stack([VALUE, X[:, 2]], axis=1)
    )
    for backend in ("reference", "torch", "onnx"):
        assert hbconv.convert(model, backend=backend).predict(X).shape == (100, 2)
    assert_agrees(model)
