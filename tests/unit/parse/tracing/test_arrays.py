"""Functions of arrays are traced: each is judged against itself, bits and dtypes included."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from functools import lru_cache, partial, reduce
from itertools import product
from operator import add
from typing import Any

import numpy as np
import pytest
import scipy.special as sp
from numpy import where as choose_where
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import hbconv
from hbconv.errors import InputError, UnsupportedError

RNG = np.random.default_rng(11)
X = RNG.normal(size=(60, 4)) * [1, 5, 20, 0.1]
WEIGHTS = RNG.normal(size=(4, 3))
CENTRES = np.array([0.5, -1.0, 3.0, 0.0])
LIMITS = {"low": -1.5, "high": 2.5}
SEEN: dict[str, Any] = {}
CALLS = [0]
GENERATOR = np.random.default_rng(0)

Function = Callable[[Any], Any]


def hostile(dtype: str) -> np.ndarray:
    """Return rows of many sizes, with what functions forget in each column."""
    odd = [0.0, -0.0, np.nan, np.inf, -np.inf, 5e-324, 1e-310, 1e300, -1.0, 1.0, 2.5, 1e5, -1.5]
    if dtype == "int64":
        return RNG.integers(-50, 50, (40, 4))
    rows = np.concatenate([X, RNG.choice(odd, (60, 4)), np.array(odd)[:, None] * np.ones(4)])
    with np.errstate(all="ignore"):
        return rows.astype(dtype)


def bounded(x):
    return x if x is None else np.clip(x, LIMITS["low"], LIMITS["high"])


@lru_cache
def slope(degree):
    return math.exp(degree) / math.pi


def log_of_size(x):
    return np.sign(x) * np.log1p(np.abs(x))


def ratios(x):
    out = np.empty((x.shape[0], 3))
    for place, (above, below) in enumerate([(0, 1), (1, 2), (2, 3)]):
        out[:, place] = x[:, above] / (x[:, below] + 1e-3)
    return out


def fill_and_flag(x):
    missing = np.isnan(x)
    filled = np.where(missing, CENTRES, x)
    return np.hstack([filled, missing.astype(float), missing.any(axis=1)[:, None]])


def in_place(x):
    y = np.array(x, dtype=float)
    y[y < 0] = 0
    y[:, 1] *= 2
    y[:, 2:] += 1
    y[np.isnan(y[:, 0]), 3] = -1
    first = y[:, 0]
    first -= 5
    return y


def pairs(x):
    width = x.shape[1]
    return np.column_stack([x] + [x[:, i] * x[:, j] for i in range(width) for j in range(i)])


def cyclic(x, *, period=24.0):
    turn = 2 * np.pi * x / period
    return np.concatenate([np.sin(turn), np.cos(turn)], axis=1)


def grades(x):
    return np.select([x > 10, x > 1, x >= 0], [3.0, 2.0, 1.0], default=-1.0)


def centred(x):
    middle = x.mean(axis=1, keepdims=True)
    return np.c_[x - middle, x.max(axis=1), x.min(1), x.sum(axis=1)]


def unit(x):
    return x / np.sqrt((x**2).sum(axis=1)).reshape(-1, 1)


def checked(x):
    if not isinstance(x, np.ndarray) or x.ndim != 2 or x.shape[1] != 4:
        raise ValueError("four columns are needed")
    a, b, c, d = x.T
    return np.stack([a - b, c * slope(2), np.maximum(d, 0)], axis=1)


def bands(x):
    return np.digitize(x[:, :2], [-1.0, 0.0, 2.5]) + np.searchsorted([0.0, 1.0], x[:, 2:])


def whole_and_rest(x):
    return np.column_stack([x // 2.5, x % 2.5, np.fmod(x, -3.0), np.floor_divide(x, x[:, :1])])


def rounded(x):
    return np.hstack([np.round(x, 2), x.round(), np.around(x, -1)])


def of_present(x):
    known = np.column_stack([x, np.ones((len(x), 2))])
    return np.column_stack(
        [np.nansum(known, axis=1), np.nanmean(known, axis=1), np.nanstd(known, axis=1, ddof=1)]
    )


def spread(x):
    return (x - x.mean(axis=1, keepdims=True)) / (x.std(axis=1, keepdims=True) + 1.0)


def directions(x):
    return np.c_[
        np.hypot(x[:, 0], x[:, 1]), np.arctan2(x[:, 2], x[:, 3]), np.fmax(x[:, 0], x[:, 1])
    ]


class Scale:
    factor = 2.0

    def __call__(self, x):
        return x * self.factor


SCALE = Scale()

RIGHT: list[Function] = [
    whole_and_rest,
    rounded,
    of_present,
    spread,
    directions,
    log_of_size,
    ratios,
    fill_and_flag,
    in_place,
    pairs,
    cyclic,
    grades,
    centred,
    unit,
    checked,
    bands,
    bounded,
    lambda x: x[:, ::-1] ** 2 - 3 * x + 1,
    lambda x: np.c_[np.delete(x, 1, axis=1), np.flip(x, axis=1), np.roll(x, 1, axis=1)],
    lambda x: x - np.median(x, axis=1, keepdims=True),
    lambda x: 1 / (1 + np.exp(-x)),
    lambda x: (x - CENTRES) / np.array([2.0, 3.0, 4.0, 5.0]),
    lambda x: np.abs(x - 0.25).clip(0, 1).astype(np.float32),
    lambda x: choose_where(x > np.float32(0.1), x, -x),
    lambda x: np.round(x) + np.floor(x) - np.trunc(x),
    lambda x: np.exp(-((x[:, 0][:, None] - np.array([0.0, 1.0, 2.0])) ** 2)),
    lambda x: np.interp(x, [-1.0, 0.0, 1.0], [0.0, 5.0, 7.0]),
    lambda x: np.power(x, 3) + x**-1 + np.reciprocal(x),
    lambda x: np.diff(np.cumsum(np.square(x), axis=1), axis=1),
    lambda x: ((x > 0) & ~(x > 2) | np.isinf(x)).astype(int),
    lambda x: np.isin(x, [1, 2.5]) == np.isfinite(x),
    lambda x: np.nan_to_num(x, nan=-1.0, posinf=9.0),
    lambda x: np.full((len(x), 2), 7.0) * x[:, [0, 2]],
    lambda x: np.linalg.norm(x, axis=1, keepdims=True),
    lambda x: np.where(np.isnan(x).all(axis=1).reshape(-1, 1), 0.0, x[:, [1]]),
    lambda x: np.zeros_like(x) + np.minimum(x, 3),
    lambda x: np.deg2rad(x[:, :2]) - np.degrees(x[:, 2:]),
    lambda x: SCALE(x),  # noqa: PLW0108
    lambda x: np.heaviside(x, 0.5) + np.copysign(x, -np.nan_to_num(x[:, ::-1])),
    lambda x: np.logaddexp(x, x[:, ::-1]) + np.logaddexp(0.5, x),
    lambda x: np.modf(x)[0] + np.sinc(x) - np.divmod(x, 3)[1],
    lambda x: np.sort(x, axis=1) + np.cumprod(x, axis=1),
    lambda x: np.divide(1.0, x, out=np.zeros_like(x), where=x > 0),
    lambda x: np.piecewise(x, [x < 0, x > 2], [lambda v: -v, 5.0, lambda v: v * v]),
    lambda x: np.c_[np.vander(x[:, 0], 3), np.polyval([1.0, -2.0], x), np.ptp(x, axis=1)],
    lambda x: CENTRES[np.argmin(x, axis=1)][:, None] * np.average(x, 1, WEIGHTS[:, 0])[:, None],
    lambda x: np.insert(np.repeat(np.take(x, [1, 0], axis=1), 2, axis=1), 1, 0.5, axis=1),
    lambda x: np.mean([x, x[:, ::-1]], axis=0) + np.array([x[:, 0], x[:, 1]]).mean(axis=0)[:, None],
    lambda x: reduce(add, [x[:, [j]] for j, _ in product(range(2), "ab")]),
    lambda x: WEIGHTS[np.digitize(x[:, 0], [-1.0, 0.0, 1.0])],
    lambda x: np.count_nonzero(x, axis=1)[:, None] * np.hsplit(x, 2)[1],
]


def same(got: np.ndarray, want: np.ndarray) -> None:
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    # Libraries of functions differ from one instruction set to another by a last bit.
    rtol = 1e-6 if want.dtype == np.float32 else 1e-14
    np.testing.assert_allclose(got, want, rtol=rtol, atol=0)


def name_of(function: Function) -> str:
    code = getattr(function, "__code__", None)
    return (
        f"{getattr(function, '__name__', type(function).__name__)}-{code and code.co_firstlineno}"
    )


@pytest.mark.parametrize("function", RIGHT, ids=name_of)
def test_a_trace_is_its_function(function: Function) -> None:
    source = FunctionTransformer(function).fit(X)
    model = hbconv.convert(source, "reference")
    answered = 0
    for dtype in ("float64", "float32", "int64"):
        rows = hostile(dtype)
        try:
            got = model.transform(rows)
        except InputError:
            assert dtype != "float64"
            continue
        with np.errstate(all="ignore"):
            same(got, source.transform(rows.copy()))
        answered += 1
        assert np.array_equal(model.transform(rows[:1]), got[:1], equal_nan=True)
        assert model.transform(rows[:0]).shape == got[:0].shape
    assert answered


def test_products_with_constants_are_within_a_tolerance() -> None:
    source = make_pipeline(StandardScaler(), FunctionTransformer(lambda x: (x - CENTRES) @ WEIGHTS))
    model = hbconv.convert(source.fit(X), "reference")
    np.testing.assert_allclose(model.transform(X), source.transform(X), rtol=1e-12)
    # Of an infinite number and a weight of zero numpy makes NaN.
    with pytest.raises(InputError, match="a product of matrices"):
        hbconv.convert(FunctionTransformer(lambda x: x @ WEIGHTS).fit(X)).transform(
            np.full((1, 4), np.inf)
        )


@pytest.mark.parametrize("function", [sp.expit, lambda x: sp.erf(x / 2)], ids=name_of)
def test_functions_of_scipy(function: Function) -> None:
    source = FunctionTransformer(function).fit(X)
    model = hbconv.convert(source, "reference")
    np.testing.assert_allclose(model.transform(X), source.transform(X), rtol=1e-14)


@pytest.mark.parametrize(
    "source",
    [
        FunctionTransformer(cyclic, kw_args={"period": 7.0}),
        FunctionTransformer(partial(cyclic, period=7.0)),
        FunctionTransformer(np.clip, kw_args={"a_min": 0.0, "a_max": 1.0}),
        FunctionTransformer(np.floor),
        FunctionTransformer(log_of_size, validate=True),
    ],
    ids=["keywords", "partial", "clip", "floor", "validated"],
)
def test_keywords_partials_and_functions_of_numpy(source: FunctionTransformer) -> None:
    model = hbconv.convert(source.fit(X), "reference")
    same(model.transform(X), source.transform(X))


@pytest.mark.parametrize("backend", ["tvm", "torch", "onnx", "torchscript"])
def test_traces_run_on_every_backend_and_from_files(backend: str, tmp_path: Any) -> None:
    y = X[:, 0] > 0
    features = FeatureUnion([(f.__name__, FunctionTransformer(f)) for f in (
        fill_and_flag, ratios, in_place, grades, bands, pairs)])  # fmt: skip
    finish = FunctionTransformer(lambda x: np.clip(np.nan_to_num(x), -5, 5))
    source = make_pipeline(StandardScaler(), features, finish, LogisticRegression()).fit(X, y)
    rows = hostile("float64")
    rows = np.where(np.isinf(rows), np.nan, rows)
    rows = np.where(np.abs(rows) > 1e6, 1.0, rows)
    model = hbconv.convert(source, backend)
    np.testing.assert_allclose(model.predict_proba(rows), source.predict_proba(rows), rtol=1e-9)
    model.save(tmp_path / "model.hbc")
    loaded = hbconv.load(tmp_path / "model.hbc")
    assert np.array_equal(loaded.predict_proba(rows), model.predict_proba(rows))


def test_targets_are_transformed_by_functions() -> None:
    y = np.exp(X[:, 0])
    source = TransformedTargetRegressor(
        LinearRegression(),
        func=lambda t: np.log(t + 1),
        inverse_func=lambda t: np.exp(t) - 1,
    ).fit(X, y)
    model = hbconv.convert(source, "reference")
    np.testing.assert_allclose(model.predict(X), source.predict(X), rtol=1e-12)


def counted(x):
    CALLS[0] += 1
    return x * CALLS[0]


def cached(x):
    if "scale" not in SEEN:
        SEEN["scale"] = 2.0
    return x * SEEN["scale"]


def remembers(x, seen=[]):  # noqa: B006
    seen.append(1)
    return x * len(seen)


def swallows(x):
    try:
        return x - x.mean(axis=0)
    except BaseException:
        return x


def writes(x):
    x[:, 0] = 0
    return x


def writes_through_a_view(x):
    first = x[:, :2]
    first += 1
    return x


def asks_for_rows(x):
    if len(x) > 10:
        return x
    return -x


def branches(x):
    if np.isnan(x).any(axis=1):
        return x * 0
    return x


REFUSED: list[tuple[Function, str]] = [
    (lambda x: x - x.mean(axis=0), "along the rows.*other rows"),
    (lambda x: x / np.max(x), "along the rows"),
    (lambda x: x - x[0], "some of the rows"),
    (lambda x: x[x[:, 0] > 0], "some of the rows"),
    (lambda x: x[:-1], "some of the rows"),
    (lambda x: np.sort(x, axis=0), "along the rows"),
    (lambda x: np.cumsum(x, axis=0), "along the rows"),
    (lambda x: x / len(x), "number of rows"),
    (lambda x: x * x.shape[0], "number of rows"),
    (lambda x: np.c_[x, np.arange(len(x))], "numpy.arange"),
    (lambda x: np.vstack([x[:, 0], x[:, 1]]).reshape(-1, 2), "mixes rows|transposes|follow"),
    (lambda x: x.reshape(-1, 2), "mixes rows"),
    (lambda x: x + np.random.normal(size=x.shape), "numpy.random.normal, which is chance"),  # noqa: NPY002
    (lambda x: x * random.random(), "random.random, which is chance"),
    (lambda x: x + GENERATOR.normal(), "GENERATOR.*Generator"),
    (lambda x: x * time.time(), "time.time, which is the clock"),
    (lambda x: x * len(open("/etc/hostname").read()), "open"),  # noqa: SIM115
    (lambda x: x * (id(x) % 2), "calls id"),
    (lambda x: np.array([[math.log(v) for v in row] for row in x]), "values of the rows"),
    (lambda x: x * math.exp(x[0, 0]), "some of the rows"),
    (lambda x: x * math.exp(x), "math.exp with rows"),
    (lambda x: x * (str(x) == ""), "values of the rows"),
    (lambda x: x.tolist(), "tolist"),
    (np.vectorize(lambda v: max(0, v)), "the first row decides"),
    (np.vectorize(lambda v: v, otypes=["int8"]), "vectorizes into such types"),
    (np.vectorize(sum, signature="(n)->()"), "vectorizes by a signature"),
    (lambda x: np.linalg.inv(x), "numpy.linalg"),  # noqa: PLW0108
    (lambda x: [x], "returns list"),
    (lambda x: x[:, 0], r"shape \(n,\)"),
    (lambda x: x + np.ones((60, 4)), "constant of"),
    (lambda x: np.spacing(x), "numpy.spacing, for which"),  # noqa: PLW0108
    (lambda x: CENTRES[x], "other than whole numbers"),
    (lambda x: np.einsum("ij,ij->i", x, x), "numpy.einsum with"),
    (lambda x: np.piecewise(x, [x < x.mean()], [0, 1]), "along the rows"),
    (lambda x: {}[x], "values of the rows"),
    (lambda x: x.unknown, "raises AttributeError"),
    (counted, "container that outlives"),
    (cached, "container that outlives"),
    (remembers, "container that outlives"),
    (swallows, "along the rows"),
    (writes, "writes into its argument"),
    (writes_through_a_view, "writes into its argument"),
    (asks_for_rows, "number of rows"),
    (branches, "values of the rows"),
]


@pytest.mark.parametrize(
    ("function", "why"), REFUSED, ids=lambda v: name_of(v) if callable(v) else ""
)
def test_what_no_row_alone_decides_is_refused_by_name(function: Function, why: str) -> None:
    state = (dict(SEEN), list(CALLS))
    with pytest.raises(UnsupportedError, match=rf"FunctionTransformer with func=.*({why})"):
        hbconv.convert(FunctionTransformer(function).fit(X), "reference")
    # Nothing of the user's was called, nor changed.
    assert (dict(SEEN), list(CALLS)) == state


def test_a_refusal_names_the_line() -> None:
    line = branches.__code__.co_firstlineno + 1
    with pytest.raises(UnsupportedError, match=f"Line {line} of branches needs the values"):
        hbconv.convert(FunctionTransformer(branches).fit(X), "reference")


def test_a_closure_is_constant_and_may_not_be_written() -> None:
    def scaled_by(factor):
        return lambda x: x * factor

    def counting():
        count = 0

        def function(x):
            nonlocal count
            count += 1
            return x * count

        return function

    source = FunctionTransformer(scaled_by(3.5)).fit(X)
    same(hbconv.convert(source, "reference").transform(X), source.transform(X))
    with pytest.raises(UnsupportedError, match="writes a variable around it, count"):
        hbconv.convert(FunctionTransformer(counting()).fit(X), "reference")


def test_ints_that_have_no_value_are_refused_by_row() -> None:
    model = hbconv.convert(FunctionTransformer(lambda x: x.astype(int)).fit(X), "reference")
    assert np.array_equal(model.transform(X), X.astype(int))
    for value in (np.nan, np.inf, 2.0**63):
        with pytest.raises(InputError, match="converted to an int"):
            model.transform(np.full((1, 4), value))


def test_rows_of_other_dtypes_are_refused_where_the_answer_differs() -> None:
    double = hbconv.convert(FunctionTransformer(lambda x: 2 * x).fit(X), "reference")
    ints = np.arange(8).reshape(2, 4)
    assert double.transform(ints).dtype == np.int64
    # Of int8 numpy makes int8, which wraps around.
    with pytest.raises(InputError, match="narrow ints"):
        double.transform(ints.astype(np.int8))
    with pytest.raises(InputError, match="narrow ints"):
        double.transform(ints[:1].astype(np.int32))


def test_a_refusal_in_a_pipeline_offers_the_steps_behind_it() -> None:
    centre = FunctionTransformer(lambda x: x - x.mean(axis=0))
    source = make_pipeline(StandardScaler(), centre, LogisticRegression()).fit(X, X[:, 0] > 0)
    offer = r"hbconv.convert\(pipeline\[2:\]\), and give it what pipeline\[:2\].transform\(X\)"
    with pytest.raises(UnsupportedError, match=offer):
        hbconv.convert(source, "reference")
    rest = hbconv.convert(source[2:], "reference")
    got = rest.predict_proba(source[:2].transform(X))
    np.testing.assert_allclose(got, source.predict_proba(X), rtol=1e-12)
