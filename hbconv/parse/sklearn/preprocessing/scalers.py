"""Scalers: all become Affine, and Clip where they clip.

A sparse matrix is scaled by the reciprocal of the scale, as the source model does.

KernelCenterer: centre a kernel matrix without computing the features.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    Add,
    Affine,
    Cast,
    Clip,
    Compare,
    GroupSums,
    Layout,
    Node,
    Normalize,
    Output,
    sparse_form,
)
from hbconv.parse.inverses import finite, inverts
from hbconv.parse.registry import parses
from hbconv.parse.step import Step

__all__ = ["centre_kernel"]


@parses("sklearn.preprocessing.StandardScaler")
def parse_standard_scaler(step: Step) -> dict[str, Output]:
    """Subtract ``mean_``, divide by ``scale_``; either may be off.

    Both are rounded to the input's dtype first.
    """
    x = step.require_finite(allow_nan=True)
    est = step.estimator
    scaled = Affine.in_place(x, **({} if est.scale_ is None else {"mul": 1 / est.scale_}))
    steps: dict[str, npt.ArrayLike] = {}
    if est.with_mean:
        step.refuse_sparse("centres rows, which a sparse matrix is refused for")
        steps["sub"] = est.mean_
    if est.with_std:
        steps["div"] = est.scale_
    return _in_form(step, step.by_form(Affine.of(x, **steps), scaled), "csr")


@inverts("sklearn.preprocessing.StandardScaler", takes_sparse=True)
def invert_standard_scaler(step: Step) -> Output:
    """Multiply by ``scale_``, add ``mean_``, both rounded to the input's dtype first."""
    x = finite(step)
    est = step.estimator
    scaled = Affine.in_place(x, **({} if est.scale_ is None else {"mul": est.scale_}))
    steps: dict[str, npt.ArrayLike] = {}
    if est.with_std:
        steps["mul"] = est.scale_
    if est.with_mean:
        step.refuse_sparse("adds means, which a sparse matrix is refused for")
        steps["add"] = est.mean_
    return _as_rows(step, step.by_form(Affine.of(x, **steps), scaled), "csr")


@parses("sklearn.preprocessing.MaxAbsScaler")
def parse_max_abs_scaler(step: Step) -> dict[str, Output]:
    """Divide by ``scale_``."""
    x = step.require_finite(allow_nan=True)
    scale = np.asarray(step.estimator.scale_)
    clip = getattr(step.estimator, "clip", False)
    node = step.by_form(Affine.in_place(x, div=scale), Affine.in_place(x, mul=1.0 / scale))
    return _in_form(step, Clip.of(node, -1.0, 1.0) if clip else node)


@inverts("sklearn.preprocessing.MaxAbsScaler", takes_sparse=True)
def invert_max_abs_scaler(step: Step) -> Output:
    """Multiply by ``scale_``."""
    return _as_rows(step, Affine.in_place(finite(step), mul=step.estimator.scale_))


@parses("sklearn.preprocessing.MinMaxScaler")
def parse_min_max_scaler(step: Step) -> Node:
    """Multiply by ``scale_``, add ``min_``."""
    est = step.estimator
    scaled = Affine.in_place(step.require_finite(allow_nan=True), mul=est.scale_, add=est.min_)
    return Clip.of(scaled, *est.feature_range) if est.clip else scaled


@inverts("sklearn.preprocessing.MinMaxScaler")
def invert_min_max_scaler(step: Step) -> Node:
    """Subtract ``min_``, divide by ``scale_``; what was clipped stays so."""
    est = step.estimator
    return Affine.in_place(finite(step), sub=est.min_, div=est.scale_)


@parses("sklearn.preprocessing.RobustScaler", takes_sparse=True)
def parse_robust_scaler(step: Step) -> dict[str, Output]:
    """Subtract ``center_``, divide by ``scale_``; either may be off.

    A sparse matrix is only scaled.
    """
    x = step.require_finite(allow_nan=True)
    est = step.estimator
    scaled = Affine.in_place(x, **({"mul": 1.0 / est.scale_} if est.with_scaling else {}))
    steps: dict[str, npt.ArrayLike] = {}
    if est.with_centering:
        steps["sub"] = est.center_
    if est.with_scaling:
        steps["div"] = est.scale_
    return _in_form(step, step.by_form(Affine.in_place(x, **steps), scaled))


@inverts("sklearn.preprocessing.RobustScaler", takes_sparse=True)
def invert_robust_scaler(step: Step) -> Output:
    """Multiply by ``scale_``, add ``center_``; a sparse matrix is only scaled."""
    x = finite(step)
    est = step.estimator
    scale = {"mul": est.scale_} if est.with_scaling else {}
    centre = {"add": est.center_} if est.with_centering else {}
    dense = Affine.in_place(x, **scale, **centre)
    return _as_rows(step, step.by_form(dense, Affine.in_place(x, **scale)))


@parses("sklearn.preprocessing.Normalizer")
def parse_normalizer(step: Step) -> dict[str, Output]:
    """Divide each row by its norm."""
    norm = step.require("norm", "l1", "l2", "max")
    x = step.require_finite()
    return _in_form(step, step.by_form(Normalize(x, norm), Normalize(x, norm, sparse=True)), "csr")


@parses("sklearn.preprocessing.Binarizer")
def parse_binarizer(step: Step) -> dict[str, Output]:
    """Compare with the threshold.

    numpy rounds it to the input's dtype unless it is a numpy scalar.
    """
    x = step.require_finite()
    threshold = step.estimator.threshold
    constant = Array(np.full(x.type.width, threshold, dtype=np.float64))
    if threshold < 0:
        step.refuse_sparse(
            "compares with a threshold below zero, which a sparse matrix is refused for"
        )
    return _in_form(
        step, Compare(x, "gt", constant, None, weak=not isinstance(threshold, np.generic))
    )


def _in_form(step: Step, node: Node, layout: Layout = "given") -> dict[str, Output]:
    return {"transform": _as_rows(step, node, layout)}


def _as_rows(step: Step, node: Node, layout: Layout = "given") -> Output:
    """Return rows in the form in which they came, dense or sparse."""
    return Output(node, sparse_form(step.x_sparse, layout, arrays=True))


@parses("sklearn.preprocessing.KernelCenterer")
def parse_kernel_centerer(step: Step) -> Node:
    """Centre the rows of a kernel."""
    return centre_kernel(step.require_finite(Cast(step.x, "float")), step.estimator)


def centre_kernel(kernel: Node, centerer: Any) -> Node:
    """Subtract the fitted column means and the row mean, then add the overall mean.

    ``kernel`` has shape (n_rows, n_fitted_rows); the result keeps its dtype.
    """
    n = len(centerer.K_fit_rows_)
    less_mean = Affine.of(GroupSums(kernel, 1), div=-float(n))
    centred = Add((Affine.in_place(kernel, sub=centerer.K_fit_rows_), less_mean))
    return Affine.of(centred, add=centerer.K_fit_all_)
