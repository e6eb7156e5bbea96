"""Fold a one-hot encoding into the linear model after it, as a table look-up."""

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import Add, Concat, Linear, LookupSum, Node, OneHot

__all__ = ["fold_one_hot_into_linear"]


def fold_one_hot_into_linear(node: Node) -> Node | None:
    """Look up each category's row of weights instead of multiplying a row of zeros and one 1.

    1. The model reads the encoding alone: the bias goes into the first table.
    2. The model reads other columns too: they keep the product, and the two results are added.

    Adds in another order than the source model, within the tolerance of its dtype.

    Examples
    --------
    >>> from hbconv.containers import Codes, Columns, Schema, Vocabulary, show_rule
    >>> schema = Schema.table(["city", "age"])
    >>> city = OneHot(Codes(schema, 0, Vocabulary(("x", "y"))), (2,))
    >>> both = Linear.of(Concat((city, Columns(schema, Array([1])))), [3.0, 4.0, 5.0], 6.0)
    >>> show_rule(fold_one_hot_into_linear, both)
    linear(concat(one_hot(codes(city  2 categories), width 2), columns(age), width 3),
           [[3.], [4.], [5.]] + [6.])
    -> add(linear(columns(age), [[5.]] + [6.]),
           lookup_sum(codes(city  2 categories), tables of 3  width 1))
    """
    if not isinstance(node, Linear) or not np.isfinite(node.weights.data).all():
        return None  # zero times infinity is no number
    parts = node.x.xs if isinstance(node.x, Concat) else (node.x,)
    place, encoding = next(
        ((i, part) for i, part in enumerate(parts) if isinstance(part, OneHot)), (0, None)
    )
    if encoding is None:
        return None
    first = sum(part.type.width for part in parts[:place])
    last = first + encoding.type.width
    rest = parts[:place] + parts[place + 1 :]
    if not rest:
        return _lookup(node, encoding, node.weights.data, node.bias.data)
    weights = Array(np.delete(node.weights.data, np.s_[first:last], axis=0))
    remaining = replace(node, x=rest[0] if len(rest) == 1 else Concat(rest), weights=weights)
    return Add(
        (
            remaining,
            _lookup(node, encoding, node.weights.data[first:last], np.zeros_like(node.bias.data)),
        )
    )


def _lookup(
    node: Linear, encoding: OneHot, weights: npt.NDArray[Any], bias: npt.NDArray[Any]
) -> LookupSum:
    """Write the look-up: for each code column a table of its weights, first those of no category.

    Every row of the first table holds the bias too.
    """
    blocks = np.split(weights.astype(node.type.dtype), np.cumsum(encoding.sizes)[:-1])
    tables = [
        np.concatenate([np.zeros((1, block.shape[1]), block.dtype), block]) for block in blocks
    ]
    tables[0] = tables[0] + bias.astype(node.type.dtype)
    return LookupSum(encoding.codes, tuple(Array(t) for t in tables), step=node.step)
