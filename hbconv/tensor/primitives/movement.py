"""Primitives that copy or read entries, and ``iterate``, a program repeated on its own result.

Positions are known when the program is written (``take``), or the data determine them
(``gather``).
"""

from typing import Literal

import numpy as np

from hbconv.tensor.primitive import OpKind, define
from hbconv.tensor.program import TensorProgram, evaluate
from hbconv.tensor.types import FLOATS, INTS, NumpyArray, TensorType, require, same_dtype

__all__: list[str] = []


def infer_take(x: TensorType, indices: TensorType, axis: int) -> TensorType:
    """Type ``take(x, indices, axis)``: the given positions of a static axis.

    The indices are a constant vector; negative ones count from the end.
    """
    require(
        not indices.rows and len(indices.shape) == 1 and indices.dtype in INTS, f"take at {indices}"
    )
    require(x.rows and 0 <= axis < len(x.shape), f"axis {axis} of {x}")
    return TensorType(x.dtype, (*x.shape[:axis], indices.shape[0], *x.shape[axis + 1 :]))


def take(x: NumpyArray, indices: NumpyArray, axis: int) -> NumpyArray:
    """Take positions of an axis."""
    return np.take(x, indices, axis=axis + 1)


def infer_concat(*xs: TensorType, axis: int) -> TensorType:
    """Type ``concat(xs, axis)``: operands joined along a static axis."""
    same_dtype(*xs)
    rests = {(*x.shape[:axis], *x.shape[axis + 1 :]) for x in xs}
    require(len(rests) == 1 and all(x.rows for x in xs), f"concat of {[str(x) for x in xs]}")
    first = xs[0]
    length = sum(x.shape[axis] for x in xs)
    return TensorType(first.dtype, (*first.shape[:axis], length, *first.shape[axis + 1 :]))


def concat(*xs: NumpyArray, axis: int) -> NumpyArray:
    """Join along an axis."""
    return np.concatenate(xs, axis=axis + 1)


def infer_reshape(x: TensorType, shape: tuple[int, ...]) -> TensorType:
    """Type ``reshape(x, shape)``: other static dimensions, the same entries."""
    require(int(np.prod(x.shape)) == int(np.prod(shape)), f"reshape of {x} to {shape}")
    return TensorType(x.dtype, tuple(shape), x.rows)


def reshape(x: NumpyArray, shape: tuple[int, ...]) -> NumpyArray:
    """Change the static dimensions."""
    return x.reshape(len(x), *shape)


def infer_expand(x: TensorType, value: TensorType) -> TensorType:
    """Type ``expand(x, value)``: a constant repeated for each row of x."""
    require(x.rows and not value.rows, f"expand of {value} over {x}")
    return TensorType(value.dtype, value.shape)


def expand(x: NumpyArray, value: NumpyArray) -> NumpyArray:
    """Repeat a constant for each row."""
    # No copy: all rows are one memory, which numpy makes read-only.
    return np.broadcast_to(value, (len(x), *value.shape))


define("take", infer_take, take, OpKind.COPY)
define("concat", infer_concat, concat, OpKind.COPY)
define("reshape", infer_reshape, reshape, OpKind.VIEW, may_alias=True)
define("expand", infer_expand, expand, OpKind.VIEW, may_alias=True)


def infer_iterate(
    state: TensorType, given: TensorType, body: TensorProgram, steps: int
) -> TensorType:
    """Type ``iterate(state, given, body, steps)``: ``state = body(state, given)``, ``steps`` times.

    The body reads two matrices, ``state`` and ``given``, and returns one, ``state``. A step that
    changes no row may end the loop, since no later step would change one. A row that is done
    keeps its state.
    """
    matrices = len(state.shape) == len(given.shape) == 1
    require(state.rows and given.rows and matrices, f"iterate on {state} and {given}")
    reads = {i.name: i.type for i in body.inputs} == {"state": state, "given": given}
    require(reads, "the body reads state and given")
    require(list(body.outputs) == ["state"], "the body gives a state")
    result = body.instructions[body.outputs["state"]].type
    require(result == state, "the body gives a state")
    require(steps > 0, "at least one step")
    return state


def iterate(state: NumpyArray, given: NumpyArray, body: TensorProgram, steps: int) -> NumpyArray:
    """Repeat, until nothing changes."""
    for _ in range(steps):
        before = state
        state = evaluate(body, {"state": before, "given": given})["state"]
        # NaN equals nothing, itself included, so without equal_nan such a state would run all
        # steps.
        if np.array_equal(before, state, equal_nan=True):
            break
    return state


define("iterate", infer_iterate, iterate, OpKind.LOOP)


def infer_gather(x: TensorType, index: TensorType) -> TensorType:
    """Type ``gather(x, index)``: ``x[row, index[row, ...]]`` for x of shape (n_rows, width)."""
    fits = len(x.shape) == 1 and x.rows and index.rows and index.dtype == "int32"
    require(fits, f"gather of {x} at {index}")
    require(x.shape[0] > 0 or 0 in index.shape, f"gather of {x}, which is empty, at {index}")
    return TensorType(x.dtype, index.shape)


def gather(x: NumpyArray, index: NumpyArray) -> NumpyArray:
    """Read each row at its own positions."""
    rows = np.arange(len(x)).reshape(-1, *[1] * (index.ndim - 1))
    return np.asarray(x[rows, index])


def infer_lookup(table: TensorType, index: TensorType) -> TensorType:
    """Type ``lookup(table, index)``: ``table[index]``; the table is constant, (size, *entry)."""
    fits = not table.rows and index.rows and index.dtype == "int32" and len(table.shape) >= 1
    require(fits, f"lookup of {index} in {table}")
    require(table.shape[0] > 0 or 0 in index.shape, f"lookup of {index} in {table}, which is empty")
    return TensorType(table.dtype, (*index.shape, *table.shape[1:]))


def lookup(table: NumpyArray, index: NumpyArray) -> NumpyArray:
    """Read entries of a table."""
    return np.asarray(table[index])


def infer_lookup_codes(table: TensorType, codes: TensorType, sizes: tuple[int, ...]) -> TensorType:
    """Type ``lookup_codes(table, codes, sizes)``: the entry of each column's own table.

    The tables of ``sizes`` entries are stored one after another in a constant, (size, *entry). The
    first entry of each is for the code -1, the next for 0; codes are of shape (n_rows, width).
    """
    require(not table.rows and len(table.shape) >= 1, f"lookup_codes in {table}")
    fits = codes.rows and codes.dtype == "int32" and codes.shape == (len(sizes),)
    require(fits, f"lookup_codes of {codes} in {len(sizes)} tables")
    require(all(size > 0 for size in sizes), "each table of lookup_codes has an entry")
    require(sum(sizes) == table.shape[0], f"lookup_codes of {sum(sizes)} entries in {table}")
    return TensorType(table.dtype, (*codes.shape, *table.shape[1:]))


def lookup_codes(table: NumpyArray, codes: NumpyArray, sizes: tuple[int, ...]) -> NumpyArray:
    """Read entries of the tables of the columns."""
    firsts = np.cumsum([1, *sizes])[:-1].astype(np.int32)
    return np.asarray(table[codes + firsts])


def infer_one_hot(codes: TensorType, sizes: TensorType, width: int, dtype: str) -> TensorType:
    """Type ``one_hot(codes, sizes, width, dtype)``: a one at each code, and zeros around it.

    Column j of the codes becomes ``sizes[j]`` columns, at least one, and ``width`` is their sum. A
    code that is none of 0 to ``sizes[j] - 1`` gives zeros.
    """
    fits = codes.rows and not sizes.rows and codes.dtype == sizes.dtype == "int32"
    require(fits and len(codes.shape) == 1, f"one_hot of {codes} with sizes {sizes}")
    require(codes.shape == sizes.shape, f"one_hot of {codes} with sizes {sizes}")
    require(dtype in (*FLOATS, *INTS, "bool"), f"one_hot of dtype {dtype}")
    return TensorType(dtype, (width,))


def one_hot(codes: NumpyArray, sizes: NumpyArray, width: int, dtype: str) -> NumpyArray:
    """Write a one at each code."""
    out = np.zeros((len(codes), width), dtype)
    rows, columns = np.nonzero((codes >= 0) & (codes < sizes))
    firsts = np.cumsum(sizes) - sizes
    out[rows, firsts[columns] + codes[rows, columns]] = 1
    return out


def infer_bucketize(x: TensorType, edges: TensorType, right: bool) -> TensorType:
    """Type ``bucketize(x, edges, right)``: the number of edges at or below each entry.

    Counts, in each column, the edges ``<= x`` (right) or ``< x``. The edges are (width, m),
    ascending, padded with NaN, which never counts. An x that is NaN counts all real edges.
    """
    same_dtype(x, edges)
    fits = len(x.shape) == 1 and len(edges.shape) == 2 and edges.shape[0] == x.shape[0]
    require(fits, f"bucketize of {x} by {edges}")
    require(isinstance(right, bool), "right is a bool")
    return TensorType("int32", x.shape)


def bucketize(x: NumpyArray, edges: NumpyArray, right: bool) -> NumpyArray:
    """Count, for each column, the edges at or below x."""
    side: Literal["left", "right"] = "right" if right else "left"
    # searchsorted puts NaN behind all numbers, so an x that is NaN counts all real edges.
    counts = [np.searchsorted(e[~np.isnan(e)], x[:, j], side=side) for j, e in enumerate(edges)]
    if not counts:
        return np.zeros(x.shape, np.int32)
    return np.stack(counts, axis=1).astype(np.int32)


def infer_scatter(tokens: TensorType, weights: TensorType, width: int) -> TensorType:
    """Type ``scatter(tokens, weights, width)``: zeros, plus each weight at its token's column.

    The token ``width`` is for no column.
    """
    message = f"tokens {tokens} beside weights {weights}"
    require(tokens.rows and weights.rows and tokens.dtype == "int32", message)
    require(len(tokens.shape) == 1 and tokens.shape == weights.shape, message)
    require(weights.dtype in (*FLOATS, *INTS), message)
    return TensorType(weights.dtype, (width,))


def scatter(tokens: NumpyArray, weights: NumpyArray, width: int) -> NumpyArray:
    """Add one weight after another; one more column takes the weights of no column."""
    out = np.zeros((len(tokens), width + 1), weights.dtype)
    # Indexing with += would add once where a token is twice in one row; add.at adds each, in order.
    np.add.at(out, (np.arange(len(tokens))[:, None], tokens), weights)
    return out[:, :width]


define("gather", infer_gather, gather, OpKind.READ)
define("lookup", infer_lookup, lookup, OpKind.READ)
define("lookup_codes", infer_lookup_codes, lookup_codes, OpKind.READ)
define("one_hot", infer_one_hot, one_hot, OpKind.READ)
define("bucketize", infer_bucketize, bucketize, OpKind.READ)
define("scatter", infer_scatter, scatter, OpKind.READ)
