"""Write a normal form as nodes: one product, and one look-up."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    Add,
    Affine,
    Cast,
    Concat,
    Linear,
    LookupSum,
    Map,
    Node,
    Polynomial,
    Select,
    at_step,
)
from hbconv.optimize.normal_form.form import LeafWeights, NormalForm

__all__ = ["write"]

Floats = npt.NDArray[np.float64]


def write(form: NormalForm, root: Node) -> Node:
    """Return nodes that compute the form as the root does, in the root's dtype and step.

    1. Leaves give one product, over ``[x - centre, (x - centre)**2]``; a centre of 0 is left out.
    2. Where products mix columns, it reads the products of two columns in place of the squares.
    3. Codes give one look-up, which holds the bias where there is no product.
    4. A constant stays the root.
    """
    dtype = root.type.dtype
    with at_step(root.step):
        product = _product(form, dtype)
        lookup = _lookup(form, dtype, with_bias=product is None)
        terms = tuple(x for x in (product, lookup) if x is not None) or (root,)
        return terms[0] if len(terms) == 1 else Add(terms)


Features = Iterator[tuple[Node, Floats]]
"""What the product reads, with its weights."""


def _product(form: NormalForm, dtype: str) -> Node | None:
    if form.mixed is None:
        features = [f for home, terms in form.leaves.items() for f in _columns(form, home, terms)]
    else:
        features = list(_columns_and_products(form, form.mixed, dtype))
    if not features:
        return None
    parts, weights = zip(*features, strict=True)
    return Linear(
        _joined(parts), Array.of(np.concatenate(weights), dtype), Array.of(form.bias, dtype)
    )


def _columns(form: NormalForm, home: Node, terms: LeafWeights) -> Features:
    """Yield the columns that the product reads of a home, and their squares."""
    squares = _squares(terms)
    used = np.flatnonzero(terms.linear.any(axis=1) | squares.any(axis=1))
    if not len(used):
        return
    z = _centred(home, form.centres[home], used)
    yield from _weighted(z, terms.linear[used])
    for squared, weights in _weighted(z, squares[used]):
        yield Map(squared, "square"), weights


def _weighted(z: Node, weights: Floats) -> Features:
    """Yield the columns that have weights, if any has."""
    columns = np.flatnonzero(weights.any(axis=1))
    if len(columns):
        yield _selected(z, columns), weights[columns]


def _squares(terms: LeafWeights) -> Floats:
    return np.zeros_like(terms.linear) if terms.squares is None else terms.squares


def _columns_and_products(form: NormalForm, mixed: Floats, dtype: str) -> Features:
    """Yield the terms that have weights, of all homes side by side.

    Columns are terms of one factor: beside the products they need no copy.
    """
    linear = np.concatenate([terms.linear for terms in form.leaves.values()])
    every = np.arange(len(linear))
    mixed = mixed.copy()
    mixed[every, every] += np.concatenate([_squares(terms) for terms in form.leaves.values()])
    alone, (first, second) = np.flatnonzero(linear.any(axis=1)), np.nonzero(mixed.any(axis=2))
    used = np.unique(np.concatenate([alone, first, second]))
    if not len(used):
        return
    z = _joined(tuple(_side_by_side(form, used, dtype)))
    if not len(first):
        yield z, linear[used]
        return
    terms = np.concatenate([np.stack([alone, alone], 1), np.stack([first, second], 1)])
    places = np.searchsorted(used, terms)
    places[: len(alone), 1] = -1
    yield (
        Polynomial(z, Array.of(places, np.int32)),
        np.concatenate([linear[alone], mixed[first, second]]),
    )


def _side_by_side(form: NormalForm, used: npt.NDArray[np.integer], dtype: str) -> Iterator[Node]:
    """Yield the used columns of each home, centred, in a dtype."""
    start = 0
    for home in form.leaves:
        own = used[(used >= start) & (used < start + home.type.width)] - start
        start += home.type.width
        if len(own):
            z = _centred(home, form.centres[home], own)
            yield z if z.type.dtype == dtype else Cast(z, dtype)


def _centred(home: Node, centres: Floats, columns: npt.NDArray[np.integer]) -> Node:
    x, centre = _selected(home, columns), centres[columns]
    return Affine.of(x, sub=centre) if centre.any() else x


def _joined(parts: tuple[Node, ...]) -> Node:
    return parts[0] if len(parts) == 1 else Concat(parts)


def _selected(x: Node, columns: npt.NDArray[np.integer]) -> Node:
    return x if len(columns) == x.type.width else Select(x, Array.of(columns, np.int32))


def _lookup(form: NormalForm, dtype: str, *, with_bias: bool) -> Node | None:
    if not form.tables:
        return None
    tables = [table for of_node in form.tables.values() for table in of_node]
    if with_bias:
        tables[0] = tables[0] + form.bias
    codes = _joined(tuple(form.tables))
    return LookupSum(codes, tuple(Array.of(table, dtype) for table in tables))
