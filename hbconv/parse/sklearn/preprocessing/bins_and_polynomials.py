"""Bins and polynomials of columns."""

from __future__ import annotations

from itertools import chain, combinations, combinations_with_replacement

import numpy as np

from hbconv.array import Array
from hbconv.containers import (
    Bins,
    Cast,
    CastLike,
    Node,
    OneHot,
    Output,
    Polynomial,
    Recode,
    sparse_form,
)
from hbconv.parse.inverses import inverts
from hbconv.parse.registry import parses
from hbconv.parse.sklearn.preprocessing.inverse_encoders import argmax_of_blocks, codes_of_numbers
from hbconv.parse.step import Step, concat


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
        Array(_padded([np.asarray(edges)[1:-1] for edges in est.bin_edges_])),
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
        centres = [(edges[1:] + edges[:-1]) * 0.5 for edges in map(np.asarray, est.bin_edges_)]
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
    backward = [term[::-1] for term in terms]
    node = step.by_form(
        *(Polynomial(x, _table(each, est._max_degree)) for each in (backward, terms))
    )
    return {"transform": Output(node, sparse_form(step.x_sparse, "given"))}


def _require_full(step: Step, terms: int) -> None:
    """Require the count of all terms.

    The source model makes terms below the least degree too, and cuts them off.
    """
    found = step.estimator._n_out_full - bool(step.estimator.include_bias)
    if found != terms:
        raise step.damaged(f"_n_out_full={step.estimator._n_out_full}, but there are {terms} terms")


def _table(terms: list[tuple[int, ...]], degree: int) -> Array:
    """Return rows of one length, at least 1, padded with -1."""
    table = np.full((len(terms), max(1, degree)), -1, dtype=np.int32)
    for row, term in zip(table, terms, strict=True):
        row[: len(term)] = term
    return Array(table)


def _padded(rows: list[np.ndarray]) -> np.ndarray:
    """Return rows of one length, at least 1, padded with NaN."""
    table = np.full((len(rows), max(1, *map(len, rows))), np.nan, dtype=np.result_type(*rows))
    for row, values in zip(table, rows, strict=True):
        row[: len(values)] = values
    return table
