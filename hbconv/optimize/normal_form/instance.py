"""Write a normal form as nodes: one product, and one look-up."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import Add, Affine, Concat, Linear, LookupSum, Map, Node, Select, at_step
from hbconv.optimize.normal_form.expand import LeafWeights, NormalForm

__all__ = ["write"]

Floats = npt.NDArray[np.float64]


def write(form: NormalForm, root: Node) -> Node:
    """Return nodes that compute the form as the root does, in the root's dtype and step.

    1. Leaves give one product, over ``[x - centre, (x - centre)**2]``; a centre of 0 is left out.
    2. Codes give one look-up, which holds the bias where there is no product.
    3. A constant stays the root.
    """
    dtype = root.type.dtype
    with at_step(root.step):
        product = _product(form, dtype)
        lookup = _lookup(form, dtype, with_bias=product is None)
        terms = tuple(x for x in (product, lookup) if x is not None) or (root,)
        return terms[0] if len(terms) == 1 else Add(terms)


def _product(form: NormalForm, dtype: str) -> Node | None:
    pairs = [p for home, terms in form.leaves.items() for p in _columns(form, home, terms)]
    if not pairs:
        return None
    parts, weights = zip(*pairs, strict=True)
    x = parts[0] if len(parts) == 1 else Concat(parts)
    return Linear(x, Array.of(np.concatenate(weights), dtype), Array.of(form.bias, dtype))


def _columns(form: NormalForm, home: Node, terms: LeafWeights) -> Iterator[tuple[Node, Floats]]:
    """Yield the columns that the product reads of a home, and their weights."""
    squares = np.zeros_like(terms.linear) if terms.squares is None else terms.squares
    used = np.flatnonzero(terms.linear.any(axis=1) | squares.any(axis=1))
    if not len(used):
        return
    centre = form.centres[home][used]
    x = _selected(home, used)
    centred = Affine.of(x, sub=centre) if centre.any() else x
    yield centred, terms.linear[used]
    squared = np.flatnonzero(squares[used].any(axis=1))
    if len(squared):
        yield Map(_selected(centred, squared), "square"), squares[used[squared]]


def _selected(x: Node, columns: npt.NDArray[np.integer]) -> Node:
    return x if len(columns) == x.type.width else Select(x, Array.of(columns, np.int32))


def _lookup(form: NormalForm, dtype: str, *, with_bias: bool) -> Node | None:
    if not form.tables:
        return None
    tables = [table for of_node in form.tables.values() for table in of_node]
    if with_bias:
        tables[0] = tables[0] + form.bias
    nodes = tuple(form.tables)
    codes = nodes[0] if len(nodes) == 1 else Concat(nodes)
    return LookupSum(codes, tuple(Array.of(table, dtype) for table in tables))
