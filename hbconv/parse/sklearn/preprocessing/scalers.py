"""Functions of single columns: scalers, powers, quantiles, functions of numpy.

Scalers become Affine, and Clip where they clip.
A sparse matrix is scaled by the reciprocal of the scale, as the source model does.
KernelCenterer centres a kernel matrix without computing the features.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    Add,
    Affine,
    BoxCox,
    Cast,
    CastLike,
    Choose,
    Clip,
    Compare,
    ConstantRows,
    FrameFormat,
    GroupSums,
    Interpolate,
    IsOutside,
    Layout,
    Map,
    Node,
    Normalize,
    NormalQuantile,
    Output,
    Power,
    Select,
    YeoJohnson,
    sparse_form,
)
from hbconv.parse.common.members import is_frame
from hbconv.parse.common.versions import takes_powers_by_scipy, widens_by_scalars
from hbconv.parse.inverses import finite, inverts, read_inverse
from hbconv.parse.registry import parses
from hbconv.parse.step import Step, concat, select
from hbconv.parse.tracing.function import refuse_narrow_rows, trace_function
from hbconv.parse.tracing.functions import MAPPED
from hbconv.parse.tracing.sparse import KEEP_ZERO

__all__ = ["centre_kernel"]


@parses("sklearn.preprocessing.StandardScaler")
def parse_standard_scaler(step: Step) -> dict[str, Output]:
    """Subtract ``mean_``, divide by ``scale_``; either may be off.

    Both are rounded to the input's dtype first.
    """
    x = step.require_finite(allow_nan=True)
    est = step.estimator
    # inplace_column_scale of sparse matrices multiplies, which rounds unlike a division.
    scaled = Affine.in_place(x, **({} if est.scale_ is None else {"mul": 1 / est.scale_}))
    steps: dict[str, npt.ArrayLike] = {}
    if est.with_mean:
        step.refuse_sparse("centres rows, so sparse input is not supported")
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
        step.refuse_sparse("adds means, so sparse input is not supported")
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
    # Absent zeros would then become ones.
    if threshold < 0:
        step.refuse_sparse("compares with a threshold below zero, so sparse input is not supported")
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
    # Add has no subtraction: the sign is in the divisor, which rounds alike.
    less_mean = Affine.of(GroupSums(kernel, 1), div=-float(n))
    centred = Add((Affine.in_place(kernel, sub=centerer.K_fit_rows_), less_mean))
    return Affine.of(centred, add=centerer.K_fit_all_)


_LARGEST = 709.0
"""Logarithm of nearly the largest number."""


@parses("sklearn.preprocessing.PowerTransformer")
def parse_power_transformer(step: Step) -> Node:
    """Compute the powers, round to the input's dtype, scale."""
    est = step.estimator
    x = step.require_finite(Cast(step.x, "float"), allow_nan=True)
    lambdas = np.asarray(est.lambdas_)
    powers = (
        _yeo_johnson(x, lambdas)
        if step.require("method", "yeo-johnson", "box-cox") == "yeo-johnson"
        else _box_cox(step, x, lambdas)
    )
    rounded = CastLike(powers, x)
    return step.transform(est._scaler, rounded, "_scaler") if est.standardize else rounded


def _box_cox(step: Step, x: Node, lambdas: npt.NDArray[Any]) -> Node:
    """Compute in float64 as ``scipy.special.boxcox``.

    Rows for which a power would overflow are refused; scipy computes these differently.
    """
    step.check(
        Compare.of(x, "le", 0.0),
        f"The Box-Cox transformation (step {step.where!r}) takes positive numbers alone.",
    )
    powers = _powers(lambdas)
    with np.errstate(divide="ignore", over="ignore"):
        # x ** power overflows where |power| log(x) exceeds the logarithm of the largest number.
        ends = np.exp(_LARGEST / powers.data)
    low = np.where(powers.data < 0, ends, 0.0)
    high = np.where(powers.data > 0, ends, np.inf)
    step.check(IsOutside.of(x, low, high), f"Powers of the input overflow (step {step.where!r}).")
    return BoxCox(Cast(x, "float64"), powers)


def _yeo_johnson(x: Node, lambdas: npt.NDArray[Any]) -> Node:
    """Compute as ``scipy.stats.yeojohnson``: powers of ``1 + x`` or ``1 - x`` by the sign of x.

    ``2 - lambda`` is rounded as lambda is.
    """
    if takes_powers_by_scipy():
        return YeoJohnson(x, Array(lambdas), Array(2 - lambdas))
    x = Cast(x, "float64") if widens_by_scalars() else x
    return concat(
        [
            _yeo_johnson_by_powers(select(x, [j]), float(power))
            for j, power in enumerate(lambdas.tolist())
        ]
    )


def _yeo_johnson_by_powers(x: Node, power: float) -> Node:
    """Compute as PowerTransformer did by itself, in one column: ``((1 + x)^power - 1) / power``."""
    least = np.spacing(1.0)
    opposite = Affine.of(x, mul=-1.0)
    above = (
        Map(x, "log1p")
        if abs(power) < least
        else Affine.of(Power(Affine.of(x, add=1.0), power), sub=1.0, div=power)
    )
    below = (
        Affine.of(Power(Affine.of(opposite, add=1.0), 2 - power), sub=1.0, div=power - 2)
        if abs(power - 2) > least
        else Affine.of(Map(opposite, "log1p"), mul=-1.0)
    )
    return Choose(Compare.of(x, "ge", 0.0), above, below)


def _powers(exponents: npt.NDArray[Any]) -> Array:
    """Return float64 exponents, with zero for those that the source model takes for zero."""
    # scipy.special.boxcox takes the logarithm below 1e-19.
    return Array(np.where(np.abs(exponents) < 1e-19, 0.0, exponents).astype(np.float64))


@inverts("sklearn.preprocessing.PowerTransformer")
def invert_power_transformer(step: Step) -> Node:
    """Invert the scaler, then each column in float64, and round to x's dtype."""
    est = step.estimator
    x = finite(step)
    x = read_inverse(step, est._scaler, x, "_scaler").node if est.standardize else x
    invert = {"yeo-johnson": _inverse_yeo_johnson, "box-cox": _inverse_box_cox}[
        step.require("method", "yeo-johnson", "box-cox")
    ]
    columns = [Cast(Select(x, Array.of([j], np.int32)), "float64") for j in range(x.type.width)]
    powers = zip(columns, est.lambdas_, strict=True)
    return CastLike(concat([invert(column, power) for column, power in powers]), x)


def _inverse_box_cox(x: Node, power: float) -> Node:
    """Return ``exp(log1p(power * x) / power)``, as scipy's ``inv_boxcox``."""
    return Map(
        x if power == 0 else Affine.of(Map(Affine.of(x, mul=power), "log1p"), div=power), "exp"
    )


def _inverse_yeo_johnson(x: Node, power: float) -> Node:
    """Take powers of ``1 + power * x`` from zero on, below of ``1 - (2 - power) * x``."""
    # Both bounds are those of PowerTransformer's own inverse.
    least = np.spacing(1.0)
    above = (
        Map(x, "exp") if abs(power) < least else Power(Affine.of(x, mul=power, add=1.0), 1 / power)
    )
    below = (
        Map(Affine.of(x, mul=-1.0), "exp")
        if abs(power - 2) <= least
        else Power(Affine.of(x, mul=power - 2, add=1.0), 1 / (2 - power))
    )
    return Choose(
        Compare.of(x, "ge", 0.0), Affine.of(above, sub=1.0), Affine.of(below, mul=-1.0, add=1.0)
    )


_BOUND = 1e-7
"""Distance to the outermost quantiles, and to 0 and 1, that counts as none."""


@parses("sklearn.preprocessing.QuantileTransformer")
def parse_quantile_transformer(step: Step) -> dict[str, Output]:
    """Map values to shares, then shares to a normal distribution.

    Entries that a sparse matrix leaves out stay zero.
    """
    est = step.estimator
    x = step.require_finite(Cast(step.x, "float"), allow_nan=True)
    shares = CastLike(_shares(step, x), x)
    normal = step.require("output_distribution", "uniform", "normal") == "normal"
    node: Node = CastLike(_normal(shares), x) if normal else shares
    if not est.ignore_implicit_zeros:
        step.check_sparse(
            Compare.of(x, "lt", 0.0),
            f"A sparse matrix must hold no negative values (step {step.where!r}).",
        )
    node = step.by_form(node, Choose(Compare.of(x, "eq", 0.0), x, node))
    return {"transform": Output(node, sparse_form(step.x_sparse, "csc", arrays=True))}


def _shares(step: Step, x: Node) -> Node:
    """Interpolate from the left and from the right, and take the mean.

    Quantiles repeat where values do, so the two sides differ.
    """
    quantiles = np.asarray(step.estimator.quantiles_, dtype=np.float64).T
    shares = np.broadcast_to(step.estimator.references_, quantiles.shape)
    # Among repeated quantiles interpolation takes the upper end; mirrored, the lower one.
    left = Interpolate(x, Array(quantiles), Array(shares))
    right = Interpolate(Map(x, "neg"), Array(-quantiles[:, ::-1]), Array(-shares[:, ::-1]))
    return _at_the_bounds(step, x, Affine.of(Add((left, Map(right, "neg"))), mul=0.5))


def _at_the_bounds(step: Step, x: Node, shares: Node) -> Node:
    """Return exactly 0 and 1 at the outermost quantiles, for a normal output near them."""
    low, high = (Array(step.estimator.quantiles_[end].astype(np.float64)) for end in (0, -1))
    zeros, ones = (ConstantRows(x, Array(np.full(x.type.width, value))) for value in (0.0, 1.0))
    if step.estimator.output_distribution == "uniform":
        is_low = Compare(x, "eq", low)
        is_high = Compare(x, "eq", high)
    else:
        is_low = Compare(Affine.of(x, sub=_BOUND), "lt", low)
        is_high = Compare(Affine.of(x, add=_BOUND), "gt", high)
    return Choose(is_low, zeros, Choose(is_high, ones, shares))


def _normal(shares: Node) -> Node:
    """Clip shares so that their normal quantiles are finite, as the source model does."""
    # The source clips at this very share; the quantile of 0 is infinite.
    least = _BOUND - np.spacing(1)
    return NormalQuantile(Clip.of(Cast(shares, "float64"), least, 1 - least))


@inverts("sklearn.preprocessing.QuantileTransformer", takes_sparse=True)
def invert_quantile_transformer(step: Step) -> Output:
    """Interpolate the quantiles of each column; entries that a sparse matrix leaves out stay zero.

    For a normal output, shares within 1e-7 of 0 and 1 count as 0 and 1.
    """
    x = finite(step)
    normal = step.require("output_distribution", "uniform", "normal") == "normal"
    share: Node = Cast(x, "float64")
    share = _share_below(share) if normal else share
    quantiles = np.asarray(step.estimator.quantiles_).T
    references = np.broadcast_to(step.estimator.references_, quantiles.shape)
    values: Node = Interpolate(share, Array(references), Array(quantiles))
    if normal:
        first, last = (ConstantRows(x, Array(quantiles[:, end])) for end in (0, -1))
        values = Choose(Compare.of(Affine.of(share, add=_BOUND), "gt", 1.0), last, values)
        values = Choose(Compare.of(Affine.of(share, sub=_BOUND), "lt", 0.0), first, values)
    node: Node = CastLike(values, x)
    node = step.by_form(node, Choose(Compare.of(x, "eq", 0.0), x, node))
    return Output(node, sparse_form(step.x_sparse, "csc", arrays=True))


def _share_below(x: Node) -> Node:
    """Return the share of a normal distribution that lies below x."""
    return Affine.of(Map(Affine.of(x, div=np.sqrt(2.0)), "erf"), add=1.0, mul=0.5)


def _frames(est: Any) -> FrameFormat | str:
    """Return the rows themselves where nothing is done to them, and no columns are named."""
    is_identity = est.func is None and not est.validate and est.feature_names_out is None
    return FrameFormat("rows", None) if is_identity else ""


@parses("sklearn.preprocessing.FunctionTransformer", frames=_frames)
def parse_function_transformer(step: Step) -> dict[str, Output]:
    """Leave x alone without a function, apply numpy's own, and trace those of users."""
    return {"transform": _apply_parameter(step, "func", "kw_args")}


@inverts("sklearn.preprocessing.FunctionTransformer", takes_sparse=True)
def invert_function_transformer(step: Step) -> Output:
    """Apply ``inverse_func`` as ``transform`` applies ``func``."""
    output = _apply_parameter(step, "inverse_func", "inv_kw_args")
    n_features = getattr(step.estimator, "n_features_in_", output.node.type.width)
    # Without inverse_func, rows stay as func made them, which may be wider.
    if output.node.type.width != n_features:
        hint = f"It gives {output.node.type.width} columns, and func was given {n_features}."
        raise step.refuse("inverse_func", step.estimator.inverse_func, hint)
    return output


def _apply_parameter(step: Step, parameter: str, keywords: str) -> Output:
    """Apply the function that a parameter of the estimator holds to rows, validated or not."""
    est = step.estimator
    func = getattr(est, parameter)
    given = getattr(est, keywords)
    if func is None and given:
        raise step.refuse(keywords, given, f"Without {parameter} there is nothing that takes them.")
    x = step.require_finite() if est.validate else step.x
    if est.validate and not est.accept_sparse:
        step.refuse_sparse("validates its rows with accept_sparse=False")
    if func is None or (func is np.positive and not given):
        return Output(x, sparse_form(step.x_sparse, "kept", arrays=True))
    if isinstance(func, np.ufunc) and func in MAPPED and not given:
        if func not in KEEP_ZERO:
            step.refuse_sparse(f"applies numpy.{func.__name__}, which takes no sparse matrix")
        # pandas applies it to each column, and an array has one dtype.
        alone = is_frame(x) and not est.validate
        for columns in (select(x, [j]) for j in range(x.type.width)) if alone else (x,):
            refuse_narrow_rows(step, func, columns)
        return Output(Map(x, MAPPED[func]), sparse_form(step.x_sparse, "kept", arrays=True))
    if step.x_sparse is None:
        step.require_dense("applies a function that is followed for arrays alone")
    return trace_function(step, parameter, x, given)
