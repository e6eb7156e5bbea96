"""Sums of the leaves reached, as primitives: scalars, vectors, and linear models."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.tensor.builder import Builder, Value
from hbconv.trees.forest import Forest, Slopes

__all__ = ["sum_leaves", "sum_linear_leaves"]


def sum_leaves(forest: Forest, leaves: Value, b: Builder) -> Value:
    """Add up the values of the leaves reached, tree after tree, from the start value.

    The start value is the first term, so the additions are those of the source model, in its order.
    If every output has equally many trees, all outputs are summed at once: (n_rows, iterations,
    outputs) over the iterations.
    """
    if not forest.n_trees:
        return b.op("expand", leaves, b.constant(forest.start))
    if forest.values.shape[1] > 1:
        return _ordered_sum(b.lookup(b.constant(forest.values), leaves), forest.start.data, b)
    return _sum_terms(forest, b.lookup(b.constant(forest.values.data[:, 0]), leaves), b)


def sum_linear_leaves(forest: Forest, leaves: Value, x: Value, b: Builder) -> Value:
    """Add up the values of leaves that are linear models of x, likewise."""
    if forest.slopes is None or not forest.n_trees:
        return sum_leaves(forest, leaves, b)
    plain = b.lookup(b.constant(forest.values.data[:, 0]), leaves)
    return _sum_terms(
        forest, _linear(forest.slopes, leaves, b.cast(x, forest.accumulate), plain, b), b
    )


def _linear(slopes: Slopes, leaves: Value, x: Value, plain: Value, b: Builder) -> Value:
    """Compute the value of each leaf reached.

    1. Lay the terms of each leaf out in a row of a table.
    2. Pad it with -0.0 times a column of ones, which changes no sum.
    3. Add the terms to the leaf's constant, one after another.
    4. Where a feature is NaN, take the leaf's plain value.
    """
    counts = np.diff(slopes.start.data)
    if not counts.any():
        return b.lookup(b.constant(slopes.constant), leaves)
    shape = (len(counts), int(counts.max()))
    leaf = np.repeat(np.arange(len(counts)), counts)
    turn = np.arange(len(leaf)) - slopes.start.data[leaf]
    feature = np.full(shape, x.shape[0], np.int32)
    coefficient = np.full(shape, -0.0, slopes.coefficient.dtype)
    feature[leaf, turn] = slopes.feature.data  # 1
    coefficient[leaf, turn] = slopes.coefficient.data

    ones = b.op("expand", x, b.constant(np.ones(1), x.dtype))  # 2
    values = b.gather(b.concat([x, ones]), b.lookup(b.constant(feature), leaves))
    terms = b.lookup(b.constant(coefficient), leaves) * values
    first = b.reshape(b.lookup(b.constant(slopes.constant), leaves), *leaves.shape, 1)
    total = b.reduce("ordered_sum", b.concat([first, terms], axis=1), axis=1)  # 3
    missing = b.reduce("reduce_any", b.op("isnan", values), axis=1)
    return b.where(missing, plain, total)  # 4


def _sum_terms(forest: Forest, terms: Value, b: Builder) -> Value:
    """Add one value of each tree, (n_rows, trees), to the outputs that the trees belong to."""
    # Stable: the trees of an output keep their order, and so its sum keeps its last bits.
    trees = np.argsort(forest.target.data, kind="stable")
    counts = np.bincount(forest.target.data, minlength=forest.n_outputs)
    if len(set(counts.tolist())) == 1:
        turns = trees.reshape(forest.n_outputs, -1).T
        return _ordered_sum(
            b.reshape(b.take(terms, turns.ravel()), *turns.shape), forest.start.data, b
        )
    terms_of_outputs = [b.take(terms, part) for part in np.split(trees, np.cumsum(counts)[:-1])]
    return b.concat(
        [
            _ordered_sum(b.reshape(t, *t.shape, 1), forest.start.data[k : k + 1], b)
            for k, t in enumerate(terms_of_outputs)
        ]
    )


def _ordered_sum(terms: Value, start: npt.NDArray[Any], b: Builder) -> Value:
    """Sum terms (n_rows, n, outputs) over n, from the start (outputs,)."""
    first = b.op("expand", terms, b.constant(start[None]))
    return b.reduce("ordered_sum", b.concat([first, terms]), axis=0)
