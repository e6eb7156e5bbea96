"""Bins, polynomials and splines of columns."""

from __future__ import annotations

from itertools import chain, combinations, combinations_with_replacement
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    Add,
    Affine,
    Bins,
    Cast,
    CastLike,
    Choose,
    Clip,
    Compare,
    ConstantRows,
    IsMissing,
    IsOutside,
    Modulo,
    Node,
    OneHot,
    Output,
    Polynomial,
    Recode,
    Select,
    SplineBasis,
    sparse_form,
)
from hbconv.parse.common.versions import has_missing_policy
from hbconv.parse.inverses import inverts
from hbconv.parse.registry import parses
from hbconv.parse.sklearn.preprocessing.encoders import argmax_of_blocks, codes_of_numbers
from hbconv.parse.step import Step, concat, select


@parses("sklearn.preprocessing.KBinsDiscretizer")
def parse_k_bins_discretizer(step: Step) -> dict[str, Output]:
    """Count the inner edges at or below the value; the outer bins are open.

    One column for each bin follows where the bins are encoded.
    """
    est = step.estimator
    if [len(edges) - 1 for edges in est.bin_edges_] != np.asarray(est.n_bins_).tolist():
        raise step.damaged(
            f"n_bins_={est.n_bins_!r:.50}, but bin_edges_ are of "
            f"{[len(edges) - 1 for edges in est.bin_edges_][:9]} bins"
        )
    if (
        hasattr(est, "_encoder")
        and list(est._encoder._n_features_outs) != np.asarray(est.n_bins_).tolist()
    ):
        raise step.damaged("n_bins_ are not those of _encoder")
    encode = step.require("encode", "onehot", "onehot-dense", "ordinal")
    x: Node = Cast(step.x, "float" if est.dtype is None else np.dtype(est.dtype).name)
    bins = Bins(
        step.require_finite(x),
        Array(_pad_rows([np.asarray(edges)[1:-1] for edges in est.bin_edges_])),
    )
    if encode == "ordinal":
        return {"transform": Output(bins)}
    return {
        "transform": Output(
            OneHot(bins, tuple(int(n) for n in est.n_bins_), None), sparse_form(encode == "onehot")
        )
    }


@inverts("sklearn.preprocessing.KBinsDiscretizer", takes_sparse=True)
def invert_k_bins_discretizer(step: Step) -> Node:
    """Give each bin its centre, in float64 where the bins are encoded, else in x's dtype.

    The only bin of a constant column is infinite; its centre is NaN.
    """
    est = step.estimator
    sizes = [len(edges) - 1 for edges in est.bin_edges_]
    with np.errstate(invalid="ignore", over="ignore"):
        # The sum of infinite outer edges is NaN, and large ones overflow, as in the source.
        centres = [(edges[1:] + edges[:-1]) * 0.5 for edges in map(np.asarray, est.bin_edges_)]
    # The first entry is for the code -1, which does not occur here.
    tables = tuple(Array(np.append(row[:1], row)) for row in centres)
    if est.encode == "ordinal":
        step.refuse_sparse("inverts no sparse matrix of ordinals")
        x = step.require_finite(Cast(step.x, "float"))
        return CastLike(Recode(codes_of_numbers(step, x, sizes), tables), x)
    step.require_finite()
    blocks = argmax_of_blocks(step.x, sizes)
    step.check(
        concat([is_zero for _, is_zero in blocks]),
        f"Input X holds rows without a bin, which {step.name} (step {step.where!r}) cannot invert.",
    )
    return Cast(Recode(concat([place for place, _ in blocks]), tables), "float64")


@parses("sklearn.preprocessing.PolynomialFeatures")
def parse_polynomial_features(step: Step) -> dict[str, Output]:
    """List the terms by degree.

    The source model multiplies the columns of a term from last to first.
    For a sparse matrix it goes from first to last.
    """
    est = step.estimator
    x = step.require_finite()
    choose = combinations if est.interaction_only else combinations_with_replacement
    degrees = range(max(1, est._min_degree), est._max_degree + 1)
    terms = list(chain.from_iterable(choose(range(x.type.width), d) for d in degrees))
    terms = [(), *terms] if est.include_bias else terms
    _require_full(
        step, sum(1 for d in range(1, est._max_degree + 1) for _ in choose(range(x.type.width), d))
    )
    # Floats multiply in another order to another last bit.
    backward = [term[::-1] for term in terms]
    node = step.by_form(
        *(Polynomial(x, _table(each, est._max_degree)) for each in (backward, terms))
    )
    return {"transform": Output(node, sparse_form(step.x_sparse, "given"))}


def _require_full(step: Step, terms: int) -> None:
    """Require the count of all terms.

    The source model makes terms below the least degree too, and cuts them off.
    """
    count = step.estimator._n_out_full - bool(step.estimator.include_bias)
    if count != terms:
        raise step.damaged(f"_n_out_full={step.estimator._n_out_full}, but there are {terms} terms")


def _table(terms: list[tuple[int, ...]], degree: int) -> Array:
    """Return rows of one length, at least 1, padded with -1."""
    table = np.full((len(terms), max(1, degree)), -1, dtype=np.int32)
    for row, term in zip(table, terms, strict=True):
        row[: len(term)] = term
    return Array(table)


def _pad_rows(rows: list[np.ndarray]) -> np.ndarray:
    """Return rows of one length, at least 1, padded with NaN."""
    # Bins counts the edges at or below a value, which NaN never is.
    table = np.full((len(rows), max(1, *map(len, rows))), np.nan, dtype=np.result_type(*rows))
    for row, values in zip(table, rows, strict=True):
        row[: len(values)] = values
    return table


@parses("sklearn.preprocessing.SplineTransformer")
def parse_spline_transformer(step: Step) -> dict[str, Output]:
    """Evaluate the basis in float64, with zeros where a value is missing.

    Without bias the last spline of each column is left out.
    Dense outputs have the input's dtype, sparse ones float64.
    A source model that takes missing values takes infinity too, and may make NaN of it.
    Infinity is refused where it would.
    """
    est = step.estimator
    allow_nan = (
        has_missing_policy(est) and step.require("handle_missing", "error", "zeros") == "zeros"
    )
    x = (
        step.x
        if allow_nan and est.extrapolation == "constant"
        else step.require_finite(allow_nan=allow_nan)
    )
    low, high = _bounds(est)
    if est.sparse_output:
        _require_first_knot(step, x, low, high)
    splines = _RULES[step.require("extrapolation", *_RULES)](step, Cast(x, "float64"), low, high)
    n_splines = splines.type.width // x.type.width
    if allow_nan:
        splines = Choose(
            IsMissing(_repeat_columns(x, n_splines)),
            ConstantRows(x, Array(np.zeros(splines.type.width))),
            splines,
        )
    kept = np.arange(splines.type.width).reshape(-1, n_splines)[
        :, : n_splines - (not est.include_bias)
    ]
    node = select(splines, kept.ravel().tolist())
    return {
        "transform": Output(
            node if est.sparse_output else CastLike(node, Cast(x, "float")),
            sparse_form(bool(est.sparse_output)),
        )
    }


def _bounds(est: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return the first and the last knot within which each column is not extrapolated."""
    knots = [spline.t for spline in est.bsplines_]
    places = [int(place) for place in _inner_knots(est)]
    low = np.array([t[place] for t, place in zip(knots, places, strict=True)])
    # As many knots are outside of the interval on both sides.
    high = np.array([t[-place - 1] for t, place in zip(knots, places, strict=True)])
    return low, high


def _inner_knots(est: Any) -> npt.NDArray[np.int64]:
    """Return how many knots are before the bound of each column: the degree.

    Below degree 2 a linear extrapolation of the source model counts one more after each column.
    """
    columns: npt.NDArray[np.int64] = np.arange(len(est.bsplines_))
    degree = int(est.degree)
    if est.extrapolation != "linear" or degree >= 2:
        return np.full_like(columns, degree)
    return np.minimum(degree + columns, 2)


def _require_first_knot(step: Step, x: Node, low: npt.NDArray[Any], high: npt.NDArray[Any]) -> None:
    """Refuse rows for which the source model fails.

    It replaces values beyond the knots by the first knot in the input's dtype.
    Rounded, that knot may itself be beyond.
    """
    if step.estimator.extrapolation in ("constant", "linear"):
        first = CastLike(ConstantRows(x, Array(low)), x)
        replaced = Choose(IsOutside.of(x, low, high), first, x)
        degree = step.estimator.degree
        outermost = [[s.t[end] for s in step.estimator.bsplines_] for end in (degree, -degree - 1)]
        step.check(
            IsOutside.of(replaced, *outermost),
            f"The dtype of the rows cannot hold the first knot (step {step.where!r}), so that "
            "the source model fails.",
        )


def _basis(step: Step, x: Node) -> SplineBasis:
    est = step.estimator
    return SplineBasis(
        x,
        Array(np.array([spline.t for spline in est.bsplines_])),
        est.degree,
        est.extrapolation == "periodic",
    )


def _refuse_beyond(step: Step, x: Node, low: npt.NDArray[Any], high: npt.NDArray[Any]) -> Node:
    """Refuse values beyond the base interval."""
    step.check(
        IsOutside.of(x, low, high),
        f"Input X contains values beyond the knots (step {step.where!r}).",
    )
    return _basis(step, x)


def _continue_outer(step: Step, x: Node, _low: npt.NDArray[Any], _high: npt.NDArray[Any]) -> Node:
    """Continue the outer polynomials."""
    return _basis(step, x)


def _keep_bounds(step: Step, x: Node, low: npt.NDArray[Any], high: npt.NDArray[Any]) -> Node:
    """Keep the value at the bound; for degree 0 values beyond are refused."""
    return (
        _basis(step, Clip.of(x, low, high))
        if step.estimator.degree
        else _refuse_beyond(step, x, low, high)
    )


def _continue_slopes(step: Step, x: Node, low: npt.NDArray[Any], high: npt.NDArray[Any]) -> Node:
    """Continue with the slope at the bound: ``f(bound) + (x - bound) * f'(bound)``.

    The source model does so for the outer splines alone, and leaves 0 for the others.
    """
    if np.any(low > high):
        raise step.refuse(
            "extrapolation", "linear", "Below degree 2 it needs more knots: its bounds cross."
        )
    basis = _basis(step, Clip.of(x, low, high))
    first, last = _outer_splines(step.estimator, basis.n_splines)
    below = Affine.of(Clip.of(x, -np.inf, low), sub=low)
    above = Affine.of(Clip.of(x, high, np.inf), sub=high)
    parts = ((below, low, first, "lt"), (above, high, last, "gt"))
    node: Node = basis
    for _, bound, outer, op in parts if step.estimator.degree < 2 else ():
        bounds = Array(np.repeat(bound, basis.n_splines))
        beyond = Compare(_repeat_columns(x, basis.n_splines), op, bounds)
        node = Choose(beyond, Affine.of(basis, mul=outer.astype(np.float64)), node)
    excess = [
        Affine.of(_repeat_columns(part, basis.n_splines), mul=_slopes(step, bound) * outer)
        for part, bound, outer, _ in parts
    ]
    return Add((node, *excess))


def _outer_splines(est: Any, n_splines: int) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Return which splines of each column are continued below its bounds, and which above."""
    degrees = _inner_knots(est)
    # Below degree 2 the source continues one spline more, whose slope at the bound is not zero.
    counts = np.where(degrees <= 1, degrees + 1, degrees)[:, np.newaxis]
    places = np.arange(n_splines)
    return (places < counts).ravel(), (places >= n_splines - counts).ravel()


def _slopes(step: Step, bounds: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.concatenate(
        [
            spline(bound, nu=1)
            for spline, bound in zip(step.estimator.bsplines_, bounds, strict=True)
        ]
    )


def _wrap_periods(step: Step, x: Node, low: npt.NDArray[Any], high: npt.NDArray[Any]) -> Node:
    """Map values into the base interval; a column without length becomes zero."""
    offset = Affine.of(x, sub=low)
    has_length = high > low
    # A period of 0 cannot divide; such columns are multiplied by 0 below.
    periods = np.where(has_length, high - low, 1.0)
    limit = np.where(has_length, Modulo.LIMIT * periods, np.inf)
    step.check(
        IsOutside.of(offset, -limit, limit),
        f"Input X contains values more than {Modulo.LIMIT:.0f} periods off (step {step.where!r}).",
    )
    return _basis(step, Affine.of(Modulo(offset, Array(periods)), add=low, mul=has_length))


def _repeat_columns(x: Node, count: int) -> Node:
    return Select(x, Array(np.repeat(np.arange(x.type.width, dtype=np.int32), count)))


_RULES = {
    "error": _refuse_beyond,
    "continue": _continue_outer,
    "constant": _keep_bounds,
    "linear": _continue_slopes,
    "periodic": _wrap_periods,
}
"""What each extrapolation makes of values beyond the knots."""
