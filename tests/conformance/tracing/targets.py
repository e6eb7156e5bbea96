"""Pairs of functions of the target, as ``func`` and ``inverse_func`` of a regressor take them."""

import numpy as np
import scipy.special as sp

OFFSET = 10.0


def root(y):
    return np.sqrt(y)


def squared(y):
    return np.square(y)


def clipped(y):
    return np.clip(np.expm1(y), 0, None)


def shifted_log(y):
    return np.log(y + OFFSET)


def shifted_exp(y):
    return np.exp(y) - OFFSET


def box_cox(y, power=0.3):
    return (y**power - 1) / power


def inverse_box_cox(y, power=0.3):
    return np.maximum(y * power + 1, 0) ** (1 / power)


def rounded(y):
    return np.round(np.expm1(y)).astype(float)


def at_least_zero(y):
    return np.where(y < 0, 0, y)


def symmetric_exp(y):
    return np.sign(y) * np.expm1(np.abs(y))


def symmetric_log(y):
    return np.sign(y) * np.log1p(np.abs(y))


def by_column(y):
    y = np.asarray(y).reshape(-1, 1)
    return np.exp(y).ravel()


def halved_where_large(y):
    y = y.copy()
    y[y > 100] /= 2
    return y


def calibrated(y):
    return np.interp(y, [0.0, 50.0, 100.0, 200.0], [0.0, 45.0, 105.0, 190.0])


ROWS = {
    "log1p": (np.log1p, np.expm1),
    "log": (np.log, np.exp),
    "log2": (np.log2, np.exp2),
    "log10": (np.log10, lambda y: 10**y),
    "log10_power": (np.log10, lambda y: np.power(10, y)),
    "cube_root": (np.cbrt, lambda y: y**3),
    "thousands": (lambda y: y / 1000, lambda y: y * 1000),
    "negated": (lambda y: -y, lambda y: -y),
    "reciprocal": (lambda y: 1 / y, lambda y: 1 / y),
    "arcsinh": (np.arcsinh, np.sinh),
    "logit": (lambda y: sp.logit(y / 1000), lambda y: sp.expit(y) * 1000),
    "root": (root, squared),
    "clipped": (np.log1p, clipped),
    "shifted": (shifted_log, shifted_exp),
    "box_cox": (box_cox, inverse_box_cox),
    "rounded": (np.log1p, rounded),
    "at_least_zero": (None, at_least_zero),
    "symmetric": (symmetric_log, symmetric_exp),
    "by_column": (np.log, by_column),
    "halved": (None, halved_where_large),
    "calibrated": (None, calibrated),
}
