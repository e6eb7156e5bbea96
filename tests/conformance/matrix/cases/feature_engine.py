"""Transformers of feature-engine: numbers, imputers, encoders."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pandas as pd
from feature_engine import (
    discretisation,
    encoding,
    imputation,
    outliers,
    scaling,
    selection,
    transformation,
)
from matrix.case import Case
from matrix.data import WIDTH, fit_rows, fit_table, rows, table_rows, target
from matrix.fitting import Entries, fit, missing_rows
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier


def _seen(n: int) -> pd.DataFrame:
    return table_rows(n).replace({"mauve": "red"})


def _fit_encoding(encoder: Any, y: str = "flag") -> Callable[[], Any]:
    return lambda: encoder.fit(fit_table(), target(y))


def encoders() -> Iterator[Case]:
    """Each encoder, and what becomes of a colour never seen."""
    name = "feature_engine.encoding.{}".format
    seen = partial(Entries, rows=_seen)
    odd = partial(Entries, rows=table_rows)
    ordinal = partial(encoding.OrdinalEncoder, encoding_method="arbitrary")
    yield odd(name("OrdinalEncoder"), "unseen as a number", _fit_encoding(ordinal(unseen="encode")))
    yield seen(name("OrdinalEncoder"), "unseen refused", _fit_encoding(ordinal(unseen="raise")))
    yield odd(name("CountFrequencyEncoder"), "NaN", _fit_encoding(encoding.CountFrequencyEncoder()))
    shares = encoding.CountFrequencyEncoder(encoding_method="frequency", unseen="encode")
    yield odd(name("CountFrequencyEncoder"), "shares", _fit_encoding(shares))
    yield odd(
        name("MeanEncoder"), "smooth", _fit_encoding(encoding.MeanEncoder(smoothing=3.0), "value")
    )
    yield odd(name("WoEEncoder"), "NaN", _fit_encoding(encoding.WoEEncoder()))
    rare = encoding.RareLabelEncoder(tol=0.3, n_categories=2, variables=["colour"])
    chain = make_pipeline(rare, encoding.OneHotEncoder())
    yield odd(name("RareLabelEncoder"), "before an encoder", _fit_encoding(chain))
    yield odd(name("OneHotEncoder"), "all", _fit_encoding(encoding.OneHotEncoder()))
    yield odd(name("OneHotEncoder"), "top", _fit_encoding(encoding.OneHotEncoder(top_categories=2)))


_ENCODING = (*encoders(),)


NUMBERS = ["count", "decimal", "normal", "skewed"]


def _numbers(n: int) -> pd.DataFrame:
    return table_rows(n)[NUMBERS]


def missing_text(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with every fifth colour missing."""
    colours = [None if i % 5 == 2 else c for i, c in enumerate(table["colour"])]
    return table.assign(colour=pd.Series(colours, table.index, dtype=object))


def _texts(n: int) -> pd.DataFrame:
    return missing_text(table_rows(n))


def _fit_imputation(transformer: Any) -> Callable[[], Any]:
    return lambda: transformer.fit(fit_table()[NUMBERS])


def imputers() -> Iterator[Case]:
    """Numbers of a frame and of an array, and text before an encoder."""
    case = partial(Entries, rows=_numbers)
    name = "feature_engine.imputation.{}".format
    yield case(name("MeanMedianImputer"), "frame", _fit_imputation(imputation.MeanMedianImputer()))
    array = fit(imputation.MeanMedianImputer(imputation_method="mean"), missing=True)
    yield Entries(name("MeanMedianImputer"), "array", array, rows=missing_rows)
    some = imputation.ArbitraryNumberImputer(arbitrary_number=-7, variables=["decimal"])
    yield case(name("ArbitraryNumberImputer"), "one column", _fit_imputation(some))
    yield case(name("EndTailImputer"), "frame", _fit_imputation(imputation.EndTailImputer()))
    chain = make_pipeline(imputation.CategoricalImputer(), encoding.MeanEncoder(unseen="encode"))
    fitted = partial(chain.fit, missing_text(fit_table()), target("value"))
    yield Entries(name("CategoricalImputer"), "before an encoder", fitted, rows=_texts)


_IMPUTATION = (*imputers(),)


NAMES = [f"c{i}" for i in range(WIDTH)]


def _frame(n: int) -> pd.DataFrame:
    return pd.DataFrame(rows(n, large=300.0), columns=NAMES)


def _positive(n: int) -> pd.DataFrame:
    """Rows of positive numbers, of which none is so small that its square is zero."""
    return (_frame(n).abs() + 0.25).clip(upper=50.0)


def _fit_numbers(transformer: Any, *, positive: bool = False) -> Callable[[], Any]:
    x = pd.DataFrame(fit_rows(), columns=NAMES)
    return lambda: transformer.fit(x.abs() + 0.25 if positive else x)


def numbers() -> Iterator[Case]:
    """Intervals, caps, functions, and columns that are left out."""
    frame = partial(Entries, rows=_frame)
    positive = partial(Entries, rows=_positive)
    d = "feature_engine.discretisation.{}".format
    width = partial(discretisation.EqualWidthDiscretiser, bins=4)
    yield frame(d("EqualWidthDiscretiser"), "frame", _fit_numbers(width()))
    yield Entries(d("EqualWidthDiscretiser"), "array", fit(width()))
    frequency = discretisation.EqualFrequencyDiscretiser(q=5, variables=["c2", "c5"])
    yield frame(d("EqualFrequencyDiscretiser"), "some columns", _fit_numbers(frequency))
    geometric = discretisation.GeometricWidthDiscretiser(bins=4, variables=["c5"])
    yield frame(d("GeometricWidthDiscretiser"), "frame", _fit_numbers(geometric))
    o = "feature_engine.outliers.{}".format
    both = outliers.Winsorizer(capping_method="gaussian", tail="both", fold=1.5)
    yield frame(o("Winsorizer"), "both tails", _fit_numbers(both))
    capped = outliers.ArbitraryOutlierCapper(
        max_capping_dict={"c1": 1}, min_capping_dict={"c5": -2}
    )
    yield frame(o("ArbitraryOutlierCapper"), "two columns", _fit_numbers(capped))
    t = "feature_engine.transformation.{}".format
    yield positive(
        t("LogTransformer"), "e", _fit_numbers(transformation.LogTransformer(), positive=True)
    )
    ten = transformation.LogTransformer(base="10", variables=["c1"])
    yield positive(t("LogTransformer"), "10", _fit_numbers(ten, positive=True))
    reciprocal = transformation.ReciprocalTransformer()
    yield positive(t("ReciprocalTransformer"), "frame", _fit_numbers(reciprocal, positive=True))
    for exponent in (0.5, 2, 1.5):
        power = transformation.PowerTransformer(exp=exponent)
        yield positive(t("PowerTransformer"), f"{exponent}", _fit_numbers(power, positive=True))
    box_cox = transformation.BoxCoxTransformer()
    yield positive(t("BoxCoxTransformer"), "frame", _fit_numbers(box_cox, positive=True))
    yield positive(
        t("YeoJohnsonTransformer"), "frame", _fit_numbers(transformation.YeoJohnsonTransformer())
    )
    mean = scaling.MeanNormalizationScaler()
    yield frame("feature_engine.scaling.MeanNormalizationScaler", "frame", _fit_numbers(mean))
    yield from _selectors(frame)


def _selectors(frame: Any) -> Iterator[Case]:
    x = pd.DataFrame(fit_rows(), columns=NAMES)
    y = (x["c2"] > 0).astype(int)
    few = {"cv": 2, "scoring": "accuracy"}
    stump = DecisionTreeClassifier(max_depth=1, random_state=0)
    selectors = {
        "DropConstantFeatures": selection.DropConstantFeatures(tol=0.6),
        "DropCorrelatedFeatures": selection.DropCorrelatedFeatures(threshold=0.05),
        "DropDuplicateFeatures": selection.DropDuplicateFeatures(),
        "DropFeatures": selection.DropFeatures(["c1", "c6"]),
        "DropHighPSIFeatures": selection.DropHighPSIFeatures(threshold=0.05),
        "SelectByShuffling": selection.SelectByShuffling(stump, random_state=0, **few),
        "SelectBySingleFeaturePerformance": selection.SelectBySingleFeaturePerformance(
            stump, threshold=0.6, **few
        ),
        "SelectByTargetMeanPerformance": selection.SelectByTargetMeanPerformance(
            threshold=0.6, bins=3, cv=2, scoring="accuracy"
        ),
        "SmartCorrelatedSelection": selection.SmartCorrelatedSelection(threshold=0.05),
    }
    for kind, selector in selectors.items():
        yield frame(f"feature_engine.selection.{kind}", "frame", partial(selector.fit, x, y))


_NUMBERS = (*numbers(),)


CASES = (
    *_ENCODING,
    *_IMPUTATION,
    *_NUMBERS,
)
