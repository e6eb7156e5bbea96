import warnings

import numpy as np
import pytest
from agreement import agree, hostile, refuses_as_source
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    RobustScaler,
    StandardScaler,
)

RNG = np.random.default_rng(7)
TRAIN = np.column_stack(
    [
        RNG.normal(3, 2, 200),
        RNG.exponential(1e4, 200),
        np.full(200, 0.1),
        RNG.integers(-5, 5, 200),
        RNG.normal(0, 1e-12, 200),
    ]
)
ROWS = hostile(RNG.normal(0, 100, (50, 5)), 0.0, -0.0, 0.1, 1.0, 5e-324, 1e30, 1e-38)
WIDE_DTYPES = pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
FITTED = pytest.mark.parametrize("fitted", ["float32", "float64", "int64"])


def as_dtype(X, dtype):
    return (np.nan_to_num(np.clip(X, -1e9, 1e9)) if dtype == "int64" else X).astype(dtype)


@WIDE_DTYPES
@FITTED
@pytest.mark.parametrize("scaler", [
    StandardScaler(), StandardScaler(with_mean=False), StandardScaler(with_std=False),
    StandardScaler(with_mean=False, with_std=False),
    MinMaxScaler(), MinMaxScaler((-3.3, 0.7), clip=True), MaxAbsScaler(), MaxAbsScaler(clip=True),
    RobustScaler(), RobustScaler(with_centering=False), RobustScaler(with_scaling=False),
    RobustScaler(quantile_range=(5, 70), unit_variance=True),
], ids=str)  # fmt: skip
def test_scales_bit_for_bit(scaler, fitted, dtype):
    scaler.fit(as_dtype(TRAIN, fitted))
    agree(scaler, as_dtype(ROWS, dtype))
    agree(scaler, np.asfortranarray(as_dtype(ROWS, dtype))[::2])
    if dtype != "int64":
        agree(scaler, np.where(RNG.random(ROWS.shape) < 0.3, np.nan, ROWS).astype(dtype))


@pytest.mark.parametrize(
    "scaler", [StandardScaler(), MinMaxScaler(), MaxAbsScaler(), RobustScaler()], ids=str
)
def test_refuses_infinity(scaler):
    refuses_as_source(scaler.fit(TRAIN), np.full((1, 5), np.inf), "infinity")


@WIDE_DTYPES
@pytest.mark.parametrize(
    "scaler",
    [
        StandardScaler(with_mean=False),
        MaxAbsScaler(),
        RobustScaler(with_centering=False),
        Normalizer("max"),
        Binarizer(threshold=0.3),
    ],
    ids=str,
)
def test_scales_a_sparse_matrix_by_the_reciprocal(scaler, dtype):
    before = ColumnTransformer(
        [("a", OneHotEncoder(handle_unknown="ignore"), [3]), ("b", "passthrough", [0, 1])],
        sparse_threshold=1.0,
    )
    pipeline = make_pipeline(before, scaler).fit(TRAIN)
    agree(pipeline, as_dtype(np.concatenate([TRAIN, ROWS[:50]]), dtype))


@WIDE_DTYPES
@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_normalizes_a_sparse_matrix_in_float64(norm, dtype):
    before = ColumnTransformer(
        [("a", OneHotEncoder(handle_unknown="ignore"), [3]), ("b", "passthrough", [0, 1, 4])],
        sparse_threshold=1.0,
    )
    agree(
        make_pipeline(before, Normalizer(norm)).fit(TRAIN),
        as_dtype(np.concatenate([TRAIN, ROWS[:50]]), dtype),
    )


@WIDE_DTYPES
@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
def test_normalizes(norm, dtype):
    rows = as_dtype(
        np.concatenate([ROWS, np.zeros((2, 5)), np.full((1, 5), 1e-17), np.full((1, 5), 4e-7)]),
        dtype,
    )
    # numpy's einsum adds the squares of l2 in an order of its own: a few units in the last place
    rtol = 0.0 if norm != "l2" else 1e-6 if dtype == "float32" else 1e-15
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        agree(Normalizer(norm).fit(TRAIN), rows, rtol)


def test_normalizer_refuses_nan():
    refuses_as_source(Normalizer().fit(TRAIN), np.full((1, 5), np.nan), "NaN")


@WIDE_DTYPES
@pytest.mark.parametrize("threshold", [0.0, 0.1, -0.0, 1, np.float64(0.1), np.float32(0.1)])
def test_binarizes(threshold, dtype):
    with np.errstate(over="ignore"):
        rows = as_dtype(
            hostile(
                ROWS,
                float(threshold),
                float(np.float32(threshold)),
                float(np.nextafter(np.float32(threshold), np.float32(1))),
            ),
            dtype,
        )
    agree(Binarizer(threshold=threshold).fit(TRAIN), rows)
    refuses_as_source(Binarizer(threshold=threshold).fit(TRAIN), np.full((1, 5), np.nan), "NaN")
