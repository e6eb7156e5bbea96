"""Rows that the source refuses for a column which no output reads any more."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.feature_selection import SelectPercentile, f_classif
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import hbconv
from hbconv.errors import InputError

NUMBERS = 11
CATEGORIES = 4
WIDTH = NUMBERS + CATEGORIES
BACKENDS = ("reference", "torch", "torchscript", "onnx", "tvm")
VALUES = (np.nan, np.inf, -np.inf, 1e20, 1e38, 1e308, -1e308, 1e17)
ROWS = (1, 7, 33, 515)


def import_of(backend):
    modules = {"onnx": "onnxruntime", "torchscript": "torch", "reference": "numpy"}
    pytest.importorskip(modules.get(backend, backend))


def rows_of(count, seed=0):
    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=(count, NUMBERS))
    codes = rng.integers(0, 3, size=(count, CATEGORIES))
    return np.concatenate([numbers, codes.astype(float)], axis=1)


def prepared(*, fills):
    """Scale the numbers and code the categories; rows with NaN are taken where they are filled."""
    scale = [SimpleImputer(), StandardScaler()] if fills else [StandardScaler()]
    code = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    filled = [SimpleImputer(strategy="most_frequent")] if fills else []
    return ColumnTransformer(
        [
            ("numbers", make_pipeline(*scale), list(range(NUMBERS))),
            ("categories", make_pipeline(*filled, code), list(range(NUMBERS, WIDTH))),
        ]
    )


def fitted(kind):
    x = rows_of(400)
    y = (x[:, 0] + 2 * x[:, 3] + (x[:, NUMBERS] == 1) > 0.5).astype(int)
    heads = {
        "selected": (SelectPercentile(f_classif, percentile=20), LogisticRegression()),
        "injected": (LogisticRegression(penalty="l1", C=0.05, solver="liblinear"),),
        "nothing left": (LogisticRegression(penalty="l1", C=1e-6, solver="liblinear"),),
    }
    steps = heads[kind.removeprefix("strict ")]
    return make_pipeline(prepared(fills=not kind.startswith("strict")), *steps).fit(x, y)


@cache
def cases(kind, dtype):
    """Rows, and what the source answers: None where it refuses them."""
    source = fitted(kind)
    found = []
    for turn, rows in enumerate(ROWS):
        plain = rows_of(rows, turn + 1).astype(dtype)
        found.append(plain)
        for column, value in product(range(turn, WIDTH, len(ROWS)), VALUES):
            x = plain.copy()
            x[-1, column] = np.asarray(value).astype(dtype)
            found.append(x)
    return source, [(x, answered(source, x)) for x in found]


def answered(source, x):
    try:
        return source.predict(x)
    except ValueError:
        return None


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "kind", ["selected", "injected", "nothing left", "strict selected", "strict injected"]
)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.share("light")
def test_a_value_in_any_column_is_refused_where_the_source_does(kind, backend):
    import_of(backend)
    for dtype in ("float64", "float32"):
        source, given = cases(kind, dtype)
        model = hbconv.convert(source, backend, sample=rows_of(3).astype(dtype))
        assert {expected is None for _, expected in given} == {True, False}
        for x, expected in given:
            if expected is None:
                with pytest.raises(InputError):
                    model.predict(x)
            else:
                np.testing.assert_array_equal(model.predict(x), expected)
