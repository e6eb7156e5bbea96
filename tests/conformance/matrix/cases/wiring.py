"""Meta-estimators: pipelines, unions, columns, searches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import lightgbm
import numpy as np
from matrix.case import Case
from matrix.data import fit_rows, fit_table, table_rows, target, with_missing
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.ensemble import RandomForestClassifier
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    HalvingRandomSearchCV,
    RandomizedSearchCV,
)
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    StandardScaler,
)


def fit(estimator: Any, y: str | None = None, *, missing: bool = False) -> Callable[[], Any]:
    """Return a function that fits the estimator on numbers."""
    x = with_missing(fit_rows()) if missing else fit_rows()
    return lambda: estimator.fit(x, None if y is None else target(y))


def fit_mixed(estimator: Any, y: str | None = None) -> Callable[[], Any]:
    """Return a function that fits the estimator on numbers and text."""
    return lambda: estimator.fit(fit_table(), None if y is None else target(y))


def encode(numbers: Any) -> ColumnTransformer:
    """Return a transformer of number columns and one-hot text columns."""
    text = OneHotEncoder(handle_unknown="ignore")
    return ColumnTransformer(
        [
            ("numbers", numbers, ["count", "decimal", "normal", "skewed"]),
            ("text", text, ["colour", "size"]),
        ]
    )


def pipelines() -> Iterator[Case]:
    """Pipelines."""
    name = "sklearn.pipeline.Pipeline"
    yield Case(
        name,
        "scale, logistic",
        fit(make_pipeline(StandardScaler(), LogisticRegression()), "three_text"),
    )
    long = make_pipeline(SimpleImputer(), MinMaxScaler(), SelectKBest(k=4), LogisticRegression())
    yield Case(name, "impute, scale, select, logistic", fit(long, "two", missing=True))
    yield Case(
        name,
        "pca, forest",
        fit(
            make_pipeline(
                PCA(3, random_state=0), RandomForestClassifier(5, max_depth=3, random_state=0)
            ),
            "two_text",
        ),
    )
    yield Case(
        name, "passthrough", fit(Pipeline([("scale", StandardScaler()), ("none", "passthrough")]))
    )
    impute_scale = make_pipeline(SimpleImputer(), StandardScaler())
    booster = lightgbm.LGBMClassifier(n_estimators=5, num_leaves=7, verbosity=-1, n_jobs=1)
    yield Case(
        name,
        "table, logistic",
        fit_mixed(make_pipeline(encode(impute_scale), LogisticRegression()), "two_text"),
        rows=table_rows,
    )
    yield Case(
        name,
        "table, boosting",
        fit_mixed(
            make_pipeline(encode("passthrough").set_output(transform="default"), booster), "three"
        ),
        rows=table_rows,
    )


def columns() -> Iterator[Case]:
    """ColumnTransformer by names, positions, slices, masks and selectors."""
    case = partial(Case, "sklearn.compose.ColumnTransformer", kind="elementwise")
    yield case(
        "positions, remainder",
        fit(
            ColumnTransformer(
                [("a", StandardScaler(), [2, 0]), ("b", MinMaxScaler(), [-1])],
                remainder="passthrough",
            )
        ),
    )
    yield case(
        "slice, mask, drop",
        fit(
            ColumnTransformer(
                [
                    ("a", StandardScaler(), slice(1, 4)),
                    ("b", "drop", [0]),
                    ("c", "passthrough", np.arange(8) == 5),
                ]
            )
        ),
    )
    yield case(
        "remainder estimator",
        fit(ColumnTransformer([("a", "passthrough", [1])], remainder=MinMaxScaler())),
    )
    yield case("names", fit_mixed(encode(SimpleImputer())), rows=table_rows)
    by_type = [
        ("n", SimpleImputer(), make_column_selector(dtype_include="number")),
        ("t", ordinal(), make_column_selector(dtype_exclude="number")),
    ]
    yield case("selectors", fit_mixed(ColumnTransformer(by_type)), rows=table_rows)


def ordinal() -> OrdinalEncoder:
    """Return an encoder that takes unknown text."""
    return OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)


def unions() -> Iterator[Case]:
    """FeatureUnion and FunctionTransformer."""
    name = "sklearn.pipeline.FeatureUnion"
    yield Case(
        name,
        "pca, scale",
        fit(FeatureUnion([("pca", PCA(2, random_state=0)), ("scale", StandardScaler())])),
    )
    parts = [
        ("a", make_pipeline(StandardScaler(), TruncatedSVD(2, random_state=0))),
        ("b", "passthrough"),
        ("c", "drop"),
    ]
    yield Case(name, "weights, pipeline", fit(FeatureUnion(parts, transformer_weights={"a": 2.0})))
    case = partial(Case, "sklearn.preprocessing.FunctionTransformer", kind="elementwise")
    yield case("identity", fit(FunctionTransformer()))
    for function in (np.log1p, np.sqrt, np.exp, np.abs, np.tanh, np.square):
        yield case(function.__name__, fit(FunctionTransformer(function)))


def searches() -> Iterator[Case]:
    """Searches, which answer as their best estimator."""
    name = "sklearn.model_selection.{}".format
    yield Case(
        name("GridSearchCV"),
        "logistic",
        fit(GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2), "three_text"),
    )
    yield Case(
        name("GridSearchCV"),
        "pca",
        fit(GridSearchCV(PCA(random_state=0), {"n_components": [2, 3]}, cv=2)),
    )
    mixed = make_pipeline(encode(SimpleImputer()), LogisticRegression())
    yield Case(
        name("GridSearchCV"),
        "table",
        fit_mixed(GridSearchCV(mixed, {"logisticregression__C": [0.1]}, cv=2), "two"),
        rows=table_rows,
    )
    alphas = {"alpha": [0.1, 1.0]}
    yield Case(
        name("RandomizedSearchCV"),
        "ridge",
        fit(RandomizedSearchCV(Ridge(), alphas, n_iter=2, cv=2, random_state=0), "value"),
    )
    for search in (HalvingGridSearchCV, HalvingRandomSearchCV):
        yield Case(
            name(search.__name__),
            "ridge",
            fit(search(Ridge(), alphas, cv=2, random_state=0), "value"),
            same_as="GridSearchCV",
        )


CASES = (*pipelines(), *columns(), *unions(), *searches())
