"""Drop terms of a sum that are the same in every row."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hbconv.array import Array
from hbconv.containers import ConstantRows, Linear, LookupSum, Node, Select

__all__ = ["drop_constants"]


def drop_constants(node: Node) -> Node | None:
    """Add a term that no row changes when the model is converted, not for each row.

    1. Linear: without weights only the bias is left. The source model refuses infinite values, so
       zero times x is zero.
    2. LookupSum: a code whose table holds equal rows adds them whatever it is, so they go into the
       first of the other tables. Without another table the sum is constant.

    Adds in another order than the source model, within the tolerance of its dtype.

    Examples
    --------
    >>> from hbconv.containers import Codes, Columns, Concat, Schema, Vocabulary, show_rule
    >>> schema = Schema.table(["a", "city", "day"])
    >>> show_rule(drop_constants, Linear.of(Columns(schema, Array([0])), [0.0], 5.0))
    linear(columns(a), [[0.]] + [5.])
    -> constant_rows(columns(a), [5.])
    >>> codes = Concat(tuple(Codes(schema, i, Vocabulary(("x", "y"))) for i in (1, 2)))
    >>> tables = (Array([[4.0], [4.0], [4.0]]), Array([[0.0], [1.0], [2.0]]))
    >>> show_rule(drop_constants, LookupSum(codes, tables))
    lookup_sum(concat(codes(city  2 categories), codes(day  2 categories), width 2),
               tables of 3, 3  width 1)
    -> lookup_sum(select(concat(codes(city  2 categories), codes(day  2 categories), width 2), [1]),
                  tables of 3  width 1)
    """
    if isinstance(node, Linear):
        return _bias_alone(node)
    return _fewer_tables(node) if isinstance(node, LookupSum) else None


def _bias_alone(node: Linear) -> Node | None:
    return None if np.any(node.weights.data) else _constant(node.x, node.bias, node)


def _fewer_tables(node: LookupSum) -> Node | None:
    varies = np.array([_varies(table) for table in node.tables])
    if varies.all():
        return None
    constant = Array(sum(t.data[0] for t, v in zip(node.tables, varies, strict=True) if not v))
    kept = np.flatnonzero(varies)
    if not len(kept):
        return _constant(node.codes, constant, node)
    first, *others = (node.tables[j] for j in kept)
    tables = (Array(first.data + constant.data), *others)
    return replace(node, codes=Select(node.codes, Array.of(kept, np.int32)), tables=tables)


def _varies(table: Array) -> bool:
    """Whether a code changes the sum; infinite rows may, beside others that are."""
    return bool((table.data != table.data[:1]).any() or not np.isfinite(table.data).all())


def _constant(x: Node, values: Array, node: Node) -> Node:
    return ConstantRows(x, Array.of(values, node.type.dtype))
