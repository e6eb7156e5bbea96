"""Features whose products approximate a kernel function."""

from __future__ import annotations

from functools import reduce
from math import cosh, pi
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    Add,
    Affine,
    Cast,
    CastLike,
    Compare,
    Impute,
    Linear,
    Map,
    Multiply,
    Node,
    Output,
    sparse_form,
)
from hbconv.parse.common.pairwise_kernels import kernel_matrix
from hbconv.parse.registry import parses
from hbconv.parse.step import Step, concat

Floats = npt.NDArray[np.floating]
Complex = tuple[Node, Node]

_INTERVALS = {1: 0.8, 2: 0.5, 3: 0.4}
"""Sampling interval by the number of steps, where none is given."""


@parses("sklearn.kernel_approximation.Nystroem")
def parse_nystroem(step: Step) -> Node:
    """Whiten the kernel with the chosen rows."""
    est = step.estimator
    parameters = {
        name: getattr(est, name)
        for name in ("gamma", "degree", "coef0")
        if getattr(est, name) is not None
    }
    defaults = {
        name: value
        for name, value in (est.kernel_params or {}).items()
        if name in ("gamma", "degree", "coef0")
    }
    return Linear.of(
        kernel_matrix(step, est.components_, **{**defaults, **parameters}), est.normalization_.T
    )


@parses("sklearn.kernel_approximation.RBFSampler")
def parse_rbf_sampler(step: Step) -> Node:
    """Return cosines of random projections."""
    return _cosines(
        step.estimator, step.require_finite(), (2.0 / step.estimator.n_components) ** 0.5
    )


@parses("sklearn.kernel_approximation.SkewedChi2Sampler")
def parse_skewed_chi2_sampler(step: Step) -> Node:
    """Return cosines of random projections of logarithms."""
    est = step.estimator
    x = step.require_finite(Cast(step.x, "float"))
    least = Array(np.full(x.type.width, -est.skewedness, dtype=np.float64))
    step.check(
        # The source compares with a Python number, which takes the dtype of the rows.
        Compare(x, "le", least, weak=True),
        f"X may not contain entries smaller than -skewedness (step {step.where!r}).",
    )
    return _cosines(
        est,
        Map(Affine.of(x, add=est.skewedness), "log"),
        # RBFSampler writes this factor as (2 / n) ** 0.5, which rounds otherwise.
        float(np.sqrt(2.0) / np.sqrt(est.n_components)),
    )


def _cosines(est: Any, x: Node, scale: float) -> Node:
    return Affine.of(Map(Linear.of(x, est.random_weights_, est.random_offset_), "cos"), mul=scale)


@parses("sklearn.kernel_approximation.AdditiveChi2Sampler")
def parse_additive_chi2_sampler(step: Step) -> dict[str, Output]:
    """Return ``sqrt(x h)``, then scaled cosines and sines of ``j h log(x)``.

    All are zero where x is.
    """
    est = step.estimator
    x = step.require_finite()
    step.check(
        Compare.of(x, "lt", 0.0),
        f"Negative values in data passed to AdditiveChi2Sampler (step {step.where!r}).",
    )
    h = _INTERVALS[est.sample_steps] if est.sample_interval is None else est.sample_interval
    # log(1) takes the place of log(0); the factor sqrt(x) makes the product 0.
    logarithm = Affine.of(Map(Impute(x, Array(np.ones(x.type.width)), 0.0), "log"), mul=h)
    parts: list[Node] = [Map(Affine.of(x, mul=h), "sqrt")]
    steps = Cast(Affine.of(Affine.of(x, mul=2.0), mul=h), "float64")
    for j in range(1, est.sample_steps):
        size = Map(Affine.of(steps, div=cosh(pi * j * h)), "sqrt")
        parts += [
            Multiply((size, Map(Affine.of(logarithm, mul=float(j)), wave)))
            for wave in ("cos", "sin")
        ]
    return {"transform": Output(CastLike(concat(parts), x), sparse_form(step.x_sparse))}


@parses("sklearn.kernel_approximation.PolynomialCountSketch")
def parse_polynomial_count_sketch(step: Step) -> Node:
    """Convolve the sketches of all degrees: multiply their Fourier transforms.

    A sketch and its transform are one matrix product.
    """
    est = step.estimator
    x = Cast(step.require_finite(), "float64")
    cosines, sines = _waves(est.n_components)
    sketches = [
        _sketch(est, indexes, signs, x.type.width)
        for indexes, signs in zip(est.indexHash_, est.bitHash_, strict=True)
    ]
    spectra: list[Complex] = [
        (Linear.of(x, w @ cosines, b @ cosines), Linear.of(x, w @ -sines, b @ -sines))
        for w, b in sketches
    ]
    real, imaginary = reduce(_complex_product, spectra)
    # Half of the frequencies are kept: all but the first and, of even n, the last count twice.
    twice = (
        np.where(np.arange(cosines.shape[1]) * 2 % est.n_components, 2.0, 1.0) / est.n_components
    )
    return Linear.of(
        concat([real, imaginary]), np.concatenate([(cosines * twice).T, (-sines * twice).T])
    )


def _waves(n: int) -> tuple[Floats, Floats]:
    """Return the cosines and sines of the real Fourier transform of n values.

    Each frequency has a column.
    """
    # Modulo n, since sines of large angles lose digits.
    turns = np.arange(n)[:, None] * np.arange(n // 2 + 1) % n
    return np.cos(2 * pi / n * turns), np.sin(2 * pi / n * turns)


def _sketch(
    est: Any, indexes: npt.NDArray[np.int64], signs: npt.NDArray[np.int64], width: int
) -> tuple[Floats, Floats]:
    """Return weights that send each feature to one component; a constant stands for ``coef0``."""
    weights = np.zeros((len(indexes), est.n_components))
    weights[np.arange(len(indexes)), indexes] = signs
    # A negative coef0 has no root: NaN is what the source gives, too.
    with np.errstate(invalid="ignore"):
        return np.sqrt(est.gamma) * weights[:width], np.sqrt(est.coef0) * weights[width:].sum(
            axis=0
        )


def _complex_product(a: Complex, b: Complex) -> Complex:
    """Return the real and the imaginary part."""
    real = Add((Multiply((a[0], b[0])), Affine.of(Multiply((a[1], b[1])), mul=-1.0)))
    return real, Add((Multiply((a[0], b[1])), Multiply((a[1], b[0]))))
