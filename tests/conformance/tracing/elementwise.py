"""Functions of arrays, number by number, as notebooks write them for FunctionTransformer."""

import math
from functools import partial

import numpy as np
import scipy.special as sp
from numpy import log1p, tanh

EPSILON = 1e-6
LAMBDAS = [0.5, 0.0, 1.0, 2.0, -1.0]
SLOPES = np.array([0.2, 1.5, -3.0, 4.0, 1.0])
KNOTS = (-1.0, 0.0, 2.0, 8.0)
STEP = {"low": 10, "high": 60}


def signed_log(x):
    return np.sign(x) * np.log1p(np.abs(x))


def box_cox(x):
    out = np.empty_like(x)
    for j, power in enumerate(LAMBDAS):
        shifted = np.abs(x[:, j]) + 1
        out[:, j] = np.log(shifted) if power == 0 else (shifted**power - 1) / power
    return out


def soft_threshold(x, limit=0.5):
    return np.sign(x) * np.maximum(np.abs(x) - limit, 0.0)


def leaky(x, slope=0.01):
    return np.where(x > 0, x, slope * x)


def gelu(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def swish(x):
    return x / (1 + np.exp(-x))


def huber(x, delta=1.5):
    size = np.abs(x)
    return np.where(size <= delta, 0.5 * x**2, delta * (size - 0.5 * delta))


def fill_then_log(x):
    x = np.nan_to_num(x, nan=0.0, posinf=1e6, neginf=-1e6)
    return np.log(np.maximum(x, EPSILON))


def winsorize(x, low=-2.0, high=2.0):
    x = np.array(x, copy=True)
    x[x < low] = low
    x[x > high] = high
    return x


def bucket(x):
    return np.digitize(x, KNOTS)


def bucket_right(x):
    return np.digitize(x, bins=np.array(KNOTS), right=True)


def hinges(x):
    return np.hstack([np.maximum(x - knot, 0) for knot in KNOTS])


def piecewise_linear(x):
    return np.piecewise(x, [x < 0, x >= 0], [lambda v: -v, lambda v: 2 * v])


def piecewise_constants(x):
    return np.piecewise(x, [x < -1, x > 1], [-1.0, 1.0, 0.0])


def fahrenheit(x):
    celsius = (x - 32) * 5 / 9
    return np.round(celsius, 1)


def banded(x):
    return np.select([x < STEP["low"], x < STEP["high"]], [0, 1], default=2)


def nested_where(x):
    return np.where(x < 0, -1.0, np.where(x < 1, 0.0, np.where(x < 10, 1.0, 2.0)))


def hour_to_circle(x):
    angle = 2.0 * np.pi * (x % 24) / 24
    return np.concatenate((np.sin(angle), np.cos(angle)), axis=1)


def logit_of_share(x):
    share = np.clip(x, EPSILON, 1 - EPSILON)
    return np.log(share / (1 - share))


def gaussian(x):
    return np.exp(-0.5 * ((x - 1.0) / 2.0) ** 2) / (2.0 * np.sqrt(2 * np.pi))


def vectorized_sign(x):
    return np.vectorize(lambda v: 1.0 if v > 0 else -1.0)(x)


def vectorized_grade(x):
    def grade(v):
        if v < 0:
            return 0.0
        if v < 5:
            return 1.0
        return 2.0

    return np.vectorize(grade, otypes=[float])(x)


def in_place_steps(x):
    y = x.astype(np.float64)
    y -= 1
    y *= 3
    np.abs(y, out=y)
    y[np.isnan(y)] = -1
    return y


def squash_and_scale(x):
    with np.errstate(over="ignore", invalid="ignore"):
        return 10 * sp.expit(x / 4) - 5


def quantized(x):
    return np.floor(x / 0.25) * 0.25


def bits(x):
    return (x.astype(int) & 1).astype(float)


def half_life(x, *, rate):
    return np.exp(-np.log(2) * np.abs(x) / rate)


ROWS = {
    "log1p": np.log1p,
    "log1p_of_module": lambda x: log1p(np.abs(x)),
    "sqrt": lambda x: np.sqrt(np.abs(x)),
    "cbrt": np.cbrt,
    "square": lambda x: x**2,
    "cube": lambda x: np.power(x, 3),
    "reciprocal": lambda x: 1.0 / (x + 1.0),
    "zero_safe": lambda x: np.divide(1, np.where(x == 0, 1, x)),
    "divided_where": lambda x: np.divide(1.0, x, out=np.zeros_like(x), where=x != 0),
    "exp_negative": lambda x: np.exp(-x),
    "expm1": lambda x: np.expm1(x / 10),
    "softplus": lambda x: np.log1p(np.exp(x)),
    "logaddexp": lambda x: np.logaddexp(x, 0.0),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "expit": sp.expit,
    "erf": lambda x: sp.erf(x / np.sqrt(2)),
    "gammaln": lambda x: sp.gammaln(np.abs(x) + 1),
    "tanh": tanh,
    "arctan": np.arctan,
    "sinc": np.sinc,
    "degrees": lambda x: np.deg2rad(x) + np.radians(1),
    "relu": lambda x: np.maximum(0, x),
    "relu6": lambda x: np.minimum(np.maximum(x, 0), 6),
    "heaviside": lambda x: np.heaviside(x, 0.5),
    "clip": lambda x: np.clip(x, -3, 3),
    "clip_method": lambda x: x.clip(0),
    "clip_columns": lambda x: np.clip(x, SLOPES - 1, SLOPES + 1),
    "round": lambda x: np.round(x, 2),
    "rint": lambda x: np.rint(x).astype(int),
    "floor": np.floor,
    "fraction": lambda x: np.modf(x)[0],
    "modulo": lambda x: np.mod(x, 7),
    "floor_divide": lambda x: x // 10,
    "isnan": lambda x: np.isnan(x).astype(float),
    "isfinite": lambda x: np.isfinite(x) * 1.0,
    "positive": lambda x: (x > 0).astype("int64"),
    "between": lambda x: ((x >= 0) & (x <= 10)).astype(float),
    "xor": lambda x: np.logical_xor(x > 0, x > 5),
    "nan_to_num": np.nan_to_num,
    "fill": lambda x: np.where(np.isnan(x), 0, x),
    "fill_columns": lambda x: np.where(np.isnan(x), SLOPES, x),
    "interp": lambda x: np.interp(x, [0, 5, 10], [0.0, 1.0, 4.0]),
    "searchsorted": lambda x: np.searchsorted([0.0, 1.0, 5.0], x),
    "isin": lambda x: np.isin(x, [0, 1, 2, 3]).astype(int),
    "polyval": lambda x: np.polyval([2.0, -1.0, 0.5], x),
    "float32": lambda x: x.astype(np.float32),
    "affine_columns": lambda x: (x - 3.0) * SLOPES,
    "sign_of_log": lambda x: np.copysign(np.log1p(np.abs(x)), x),
    "hypot": lambda x: np.hypot(x, 1.0),
    "power_of_two": lambda x: 2**x,
    "log_base": lambda x: np.log(np.abs(x) + 2) / np.log(3),
    "minus_one": lambda x: np.subtract(x, 1),
    "half_life": partial(half_life, rate=3.0),
    **{
        f.__name__: f
        for f in (
            signed_log, box_cox, soft_threshold, leaky, gelu, swish, huber, fill_then_log,
            winsorize, bucket, bucket_right, hinges, piecewise_linear, piecewise_constants,
            fahrenheit, banded, nested_where, hour_to_circle, logit_of_share, gaussian,
            vectorized_sign, vectorized_grade, in_place_steps, squash_and_scale, quantized, bits,
        )
    },
}  # fmt: skip
