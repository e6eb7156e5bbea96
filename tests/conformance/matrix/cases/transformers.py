"""Transformers with functions of their own: interpolation, powers, quantiles, splines, encoders of targets and labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matrix.case import Case
from matrix.data import fit_rows, fit_table, rows, table_rows, target, with_missing
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer
from sklearn.isotonic import IsotonicRegression
from sklearn.preprocessing import (
    LabelBinarizer,
    MultiLabelBinarizer,
    PowerTransformer,
    QuantileTransformer,
    SplineTransformer,
    TargetEncoder,
)
from sklearn.tree import DecisionTreeRegressor


def fit(estimator: Any, y: str | None = None) -> Callable[[], Any]:
    """Return a function that fits the estimator on all columns."""
    return lambda: estimator.fit(fit_rows(), None if y is None else target(y))


def one_column(n: int) -> np.ndarray:
    """One hostile column, as IsotonicRegression takes it."""
    return rows(n)[:, 2:3]


def inside(n: int) -> np.ndarray:
    """The same, held to the range it was fitted on."""
    seen = fit_rows()[:, 2].astype(np.float32)
    return np.clip(one_column(n).astype(np.float32), seen.min(), seen.max()).astype(np.float64)


def isotonic(x_dtype: str = "float64", **settings: Any) -> Callable[[], Any]:
    """Return a function that fits an isotonic regression on one column."""
    return lambda: IsotonicRegression(**settings).fit(
        fit_rows()[:, 2].astype(x_dtype), target("value")
    )


def isotonics() -> Iterator[Case]:
    """Isotonic regressions: each rule for values out of bounds."""
    case = partial(Case, "sklearn.isotonic.IsotonicRegression", kind="elementwise", rows=one_column)
    yield case("clip", isotonic(out_of_bounds="clip"))
    yield case("missing", isotonic(out_of_bounds="nan", increasing=False))
    yield case("refused", isotonic("float32", out_of_bounds="raise"), rows=inside)
    yield case("float32", isotonic("float32", out_of_bounds="clip", y_min=-3.0))
    yield case("one threshold", lambda: IsotonicRegression().fit([1.0, 1.0], [2.0, 4.0]))


def powers() -> Iterator[Case]:
    """Powers."""
    case = partial(Case, "sklearn.preprocessing.PowerTransformer", rows=partial(rows, large=30.0))
    yield case("yeo-johnson", fit(PowerTransformer()))
    yield case("not scaled", fit(PowerTransformer(standardize=False)))
    yield case("powers of 0 and 2", fit_lambdas([0.0, 2.0, 1e-17, 2 - 1e-17, 1.0, -1.5, 3.0, 0.5]))
    yield case("box-cox", fit_positive(PowerTransformer(method="box-cox")), rows=positive)
    yield case(
        "box-cox, not scaled",
        fit_positive(PowerTransformer(method="box-cox", standardize=False)),
        rows=positive,
    )


def positive(n: int) -> np.ndarray:
    """Rows of positive numbers."""
    return np.abs(rows(n, large=30.0)) + 0.5


def fit_positive(estimator: Any) -> Callable[[], Any]:
    """Return a function that fits the estimator on positive numbers."""
    return lambda: estimator.fit(np.abs(fit_rows()) + 0.5)


def fit_lambdas(lambdas: list[float]) -> Callable[[], Any]:
    """Return a function that makes a transformer of the given powers."""

    def make() -> Any:
        estimator = PowerTransformer(standardize=False).fit(fit_rows())
        estimator.lambdas_ = np.array(lambdas)
        return estimator

    return make


def quantiles() -> Iterator[Case]:
    """Quantiles."""
    case = partial(Case, "sklearn.preprocessing.QuantileTransformer", kind="elementwise")
    yield case("uniform", fit(QuantileTransformer(n_quantiles=20)))
    yield case("normal", fit(QuantileTransformer(n_quantiles=200, output_distribution="normal")))
    yield case(
        "normal, few quantiles",
        fit(QuantileTransformer(n_quantiles=3, output_distribution="normal")),
    )
    yield case(
        "missing values", lambda: QuantileTransformer(n_quantiles=50).fit(with_missing(fit_rows()))
    )
    yield case("constant columns", lambda: QuantileTransformer(n_quantiles=5).fit(np.zeros((9, 8))))


def within(n: int) -> np.ndarray:
    """Rows well within those fitted on."""
    return 0.9 * fit_rows()[np.arange(n) % 200] + 0.1 * fit_rows().mean(axis=0)


def splines() -> Iterator[Case]:
    """Splines: each rule for values beyond the knots."""
    case, moderate = (
        partial(Case, "sklearn.preprocessing.SplineTransformer"),
        partial(rows, large=30.0),
    )
    yield case("constant", fit(SplineTransformer()))
    yield case(
        "linear, quantiles", fit(SplineTransformer(4, extrapolation="linear", knots="quantile"))
    )
    yield case(
        "linear, of degree 2", fit(SplineTransformer(4, 2, extrapolation="linear", order="F"))
    )
    yield case(
        "continue",
        fit(SplineTransformer(extrapolation="continue", include_bias=False)),
        rows=moderate,
    )
    yield case("periodic", fit(SplineTransformer(6, extrapolation="periodic")))
    yield case(
        "periodic, sparse",
        fit(SplineTransformer(6, 2, extrapolation="periodic", sparse_output=True)),
    )
    yield case(
        "two knots", fit(SplineTransformer(2, 2, knots=np.linspace(-1, 1, 2)[:, None].repeat(8, 1)))
    )
    yield case("missing values", fit(SplineTransformer(handle_missing="zeros")))
    yield case("steps", fit(SplineTransformer(5, 0, extrapolation="continue", sparse_output=True)))
    yield case("refused", fit(SplineTransformer(extrapolation="error")), rows=within)


def counts(n: int) -> np.ndarray:
    """Two columns of whole numbers, some of them never seen."""
    return np.random.default_rng(n).integers(0, 9, (n, 2)).astype(np.float64)


def seen(n: int) -> np.ndarray:
    """One column of two whole numbers."""
    return counts(n)[:, :1] % 2


def flags(n: int) -> np.ndarray:
    """Three columns of zeros and ones."""
    return np.random.default_rng(n).integers(0, 2, (n, 3)).astype(np.float64)


def fit_colours(y: str, **settings: Any) -> Callable[[], Any]:
    """Return a function that fits a target encoder on two text columns, one of them with missing values."""
    return lambda: TargetEncoder(random_state=0, **settings).fit(colours(fit_table()), target(y))


def colours(table: pd.DataFrame) -> pd.DataFrame:
    """Two text columns."""
    return table[["colour", "size"]].replace("S", None)


def encoders() -> Iterator[Case]:
    """Encoders of targets and of labels."""
    case, table = (
        partial(Case, "sklearn.preprocessing.TargetEncoder", kind="elementwise"),
        lambda n: colours(table_rows(n)),
    )
    yield case(
        "regression",
        lambda: TargetEncoder(random_state=0).fit(fit_rows()[:, [0, 4]], target("value")),
        rows=counts,
    )
    yield case("binary, missing values", fit_colours("two_text"), rows=table)
    yield case("classes, smooth", fit_colours("three_text", smooth=3.0), rows=table)
    case = partial(Case, "sklearn.preprocessing.LabelBinarizer", kind="elementwise")
    yield case(
        "six classes",
        lambda: LabelBinarizer(neg_label=-1, pos_label=2).fit(np.arange(6)),
        rows=lambda n: counts(n)[:, :1],
    )
    yield case(
        "sparse",
        lambda: LabelBinarizer(sparse_output=True).fit(np.arange(3)),
        rows=lambda n: counts(n)[:, :1],
    )
    yield case(
        "two classes, 0 for the second",
        lambda: LabelBinarizer(neg_label=-1, pos_label=0).fit([0, 1]),
        rows=seen,
    )
    yield case(
        "one class", lambda: LabelBinarizer().fit([4, 4]), rows=lambda n: np.full((n, 1), 4.0)
    )
    yield case(
        "several labels", lambda: LabelBinarizer(neg_label=-3).fit(flags(9).astype(int)), rows=flags
    )


def label_sets(n: int) -> np.ndarray:
    """Sets of labels, some of them empty, some labels never seen and some met twice."""
    rng = np.random.default_rng(n)
    made = np.empty(n, dtype=object)
    made[:] = [
        tuple(rng.choice(["red", "green", "blue", "mauve"], rng.integers(0, 4))) for _ in range(n)
    ]
    return made


def label_set_encoders() -> Iterator[Case]:
    """Sets of labels as zeros and ones."""
    case = partial(
        Case, "sklearn.preprocessing.MultiLabelBinarizer", kind="elementwise", rows=label_sets
    )
    yield case("dense", lambda: MultiLabelBinarizer().fit([{"red", "blue"}, {"green"}]))
    yield case(
        "sparse, in another order",
        lambda: MultiLabelBinarizer(classes=["red", "blue"], sparse_output=True).fit([["blue"]]),
    )


def some_missing(n: int) -> np.ndarray:
    """Rows with missing values in the odd columns."""
    return with_missing(rows(n, large=30.0))


def impute(**settings: Any) -> Callable[[], Any]:
    """Return a function that fits an iterative imputer."""
    return lambda: IterativeImputer(**{"max_iter": 3, "random_state": 0, **settings}).fit(
        with_missing(fit_rows())
    )


def imputers() -> Iterator[Case]:
    """Iterative imputers."""
    case = partial(Case, "sklearn.impute.IterativeImputer", rows=some_missing)
    yield case("ridge", impute())
    yield case(
        "bounds, indicator, neighbours",
        impute(
            min_value=-1,
            max_value=[2.0] * 8,
            add_indicator=True,
            n_nearest_features=3,
            skip_complete=True,
        ),
    )
    yield case(
        "trees",
        impute(
            estimator=DecisionTreeRegressor(max_depth=3),
            initial_strategy="median",
            imputation_order="random",
        ),
    )
    yield case("no rounds", impute(max_iter=0, initial_strategy="most_frequent"))
    yield case("an empty column, kept", lambda: fit_empty(keep_empty_features=True))
    yield case("an empty column", fit_empty)


def fit_empty(**settings: Any) -> Any:
    """Fit an iterative imputer on rows of which one column holds nothing."""
    x = with_missing(fit_rows())
    x[:, 2] = np.nan
    return IterativeImputer(max_iter=2, initial_strategy="median", **settings).fit(x)


CASES = (
    *isotonics(),
    *powers(),
    *quantiles(),
    *splines(),
    *encoders(),
    *label_set_encoders(),
    *imputers(),
)
