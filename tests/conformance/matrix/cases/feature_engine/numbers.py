"""Transformers of columns of numbers, and selectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pandas as pd
from feature_engine import discretisation, outliers, scaling, selection, transformation
from matrix.case import Case
from matrix.data import WIDTH, fit_rows, rows
from matrix.fitting import Entries, fit
from sklearn.tree import DecisionTreeClassifier

NAMES = [f"c{i}" for i in range(WIDTH)]


def _frame(n: int) -> pd.DataFrame:
    return pd.DataFrame(rows(n, large=300.0), columns=NAMES)


def _positive(n: int) -> pd.DataFrame:
    """Rows of positive numbers, of which none is so small that its square is zero."""
    return (_frame(n).abs() + 0.25).clip(upper=50.0)


def _fit(transformer: Any, *, positive: bool = False) -> Callable[[], Any]:
    x = pd.DataFrame(fit_rows(), columns=NAMES)
    return lambda: transformer.fit(x.abs() + 0.25 if positive else x)


def numbers() -> Iterator[Case]:
    """Intervals, caps, functions, and columns that are left out."""
    frame = partial(Entries, rows=_frame)
    positive = partial(Entries, rows=_positive)
    d = "feature_engine.discretisation.{}".format
    width = partial(discretisation.EqualWidthDiscretiser, bins=4)
    yield frame(d("EqualWidthDiscretiser"), "frame", _fit(width()))
    yield Entries(d("EqualWidthDiscretiser"), "array", fit(width()))
    frequency = discretisation.EqualFrequencyDiscretiser(q=5, variables=["c2", "c5"])
    yield frame(d("EqualFrequencyDiscretiser"), "some columns", _fit(frequency))
    geometric = discretisation.GeometricWidthDiscretiser(bins=4, variables=["c5"])
    yield frame(d("GeometricWidthDiscretiser"), "frame", _fit(geometric))
    o = "feature_engine.outliers.{}".format
    both = outliers.Winsorizer(capping_method="gaussian", tail="both", fold=1.5)
    yield frame(o("Winsorizer"), "both tails", _fit(both))
    capped = outliers.ArbitraryOutlierCapper(
        max_capping_dict={"c1": 1}, min_capping_dict={"c5": -2}
    )
    yield frame(o("ArbitraryOutlierCapper"), "two columns", _fit(capped))
    t = "feature_engine.transformation.{}".format
    yield positive(t("LogTransformer"), "e", _fit(transformation.LogTransformer(), positive=True))
    ten = transformation.LogTransformer(base="10", variables=["c1"])
    yield positive(t("LogTransformer"), "10", _fit(ten, positive=True))
    reciprocal = transformation.ReciprocalTransformer()
    yield positive(t("ReciprocalTransformer"), "frame", _fit(reciprocal, positive=True))
    for exponent in (0.5, 2, 1.5):
        power = transformation.PowerTransformer(exp=exponent)
        yield positive(t("PowerTransformer"), f"{exponent}", _fit(power, positive=True))
    box_cox = transformation.BoxCoxTransformer()
    yield positive(t("BoxCoxTransformer"), "frame", _fit(box_cox, positive=True))
    yield positive(
        t("YeoJohnsonTransformer"), "frame", _fit(transformation.YeoJohnsonTransformer())
    )
    mean = scaling.MeanNormalizationScaler()
    yield frame("feature_engine.scaling.MeanNormalizationScaler", "frame", _fit(mean))
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


CASES = (*numbers(),)
