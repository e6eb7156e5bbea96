"""Drop terms that are the same in every row, and directions of missing values where none comes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hbconv.array import Array
from hbconv.containers import (
    Affine,
    Cast,
    Concat,
    ConstantRows,
    Impute,
    Linear,
    LookupSum,
    Node,
    Recode,
    Select,
    TreeEnsemble,
    TreeLeaves,
)

__all__ = ["drop_constants", "drop_directions"]


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
    # What all rows add goes where each row reads exactly once.
    first, *others = (node.tables[j] for j in kept)
    tables = (Array(first.data + constant.data), *others)
    return replace(node, codes=Select(node.codes, Array.of(kept, np.int32)), tables=tables)


def _varies(table: Array) -> bool:
    """Whether a code changes the sum; infinite rows may, beside others that are."""
    # NaN differs from itself here, so a table that holds NaN varies.
    return bool((table.data != table.data[:1]).any() or not np.isfinite(table.data).all())


def _constant(x: Node, values: Array, node: Node) -> Node:
    return ConstantRows(x, Array.of(values, node.type.dtype))


ORDINARY = (1e-37, 1e37)
"""Magnitudes of constants that float32 can hold, and that make no NaN of an infinity."""


def drop_directions(node: Node) -> Node | None:
    """Send NaN right at every test of a forest that no NaN can reach.

    Behind an imputer, the side of NaN means nothing. A kernel that need not ask for NaN is faster,
    and has one column less where tests of a column send NaN to both sides.

    Examples
    --------
    >>> from hbconv.containers import Columns, Schema, show_rule
    >>> from hbconv.trees.forest import Forest
    >>> root = Array.of([0], "int32")
    >>> forest = Forest(root, Array([0.5]), Array([True]), Array.of([-1], "int32"),
    ...                 Array.of([-2], "int32"), root, Array.of([0, 2], "int32"),
    ...                 Array([[5.0], [7.0]]), root, Array([0.0]), False, 1,
    ...                 Array.of([0, 1], "int32"))
    >>> x = Columns.of(Schema.table(["a"]))
    >>> show_rule(drop_directions, TreeEnsemble(Impute(x, Array([3.0])), forest))
    tree_ensemble(impute(columns(a), [3.] nan),
                  1 trees, 1 tests, NaN left in 1, <= float64, sums float64)
    -> tree_ensemble(impute(columns(a), [3.] nan), 1 trees, 1 tests, <= float64, sums float64)
    """
    if not isinstance(node, TreeEnsemble | TreeLeaves) or not _never_nan(node.x):
        return None
    directions = node.forest.default_left.data
    if not directions.any():
        return None
    # ONNX Runtime asks for NaN at every split if one sends it left: pipelines gained 1.13 to 1.22.
    return replace(node, forest=replace(node.forest, default_left=Array(directions & False)))


def _never_nan(x: Node) -> bool:
    """Whether no row holds NaN here; constants that are not ordinary are not looked into.

    Each node is visited once: where columns are computed from all before them, paths are many.
    """
    # Along every path, 60 levels of columns computed from all before them took 2**60 steps.
    waiting, seen = [x], {id(x)}
    while waiting:
        node = waiting.pop()
        if _fills(node):
            continue
        if not _keeps_numbers(node):
            return False
        waiting += [read for read in node.inputs if id(read) not in seen]
        seen.update(map(id, node.inputs))
    return True


def _fills(x: Node) -> bool:
    """Whether there is no NaN behind this node, whatever comes."""
    if x.type.dtype in ("int32", "int64", "bool") or x.always_finite:
        return True
    if isinstance(x, Recode):
        return not any(np.isnan(table.data).any() for table in x.tables)
    return isinstance(x, Impute) and bool(np.isnan(x.missing)) and not np.isnan(x.fill.data).any()


def _keeps_numbers(x: Node) -> bool:
    """Whether the node makes a number of every number, infinities included."""
    if not isinstance(x, Affine):
        return isinstance(x, Cast | Select | Concat)
    least, most = ORDINARY
    for step in x.steps:
        sizes = np.abs(step.constant.data.astype(np.float64))
        # Infinity times 0 is NaN, and so is 0 by 0; a tiny factor may underflow to 0 in float32.
        if step.op in ("mul", "div") and np.any(sizes < least):
            return False
        if not np.all(sizes <= most):
            return False
    return True
