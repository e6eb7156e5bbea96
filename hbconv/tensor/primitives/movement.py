"""Primitives that move entries from positions known when the program is written, or move none."""

import numpy as np

from hbconv.tensor.primitive import OpKind, define
from hbconv.tensor.types import INTS, NumpyArray, TensorType, require, same_dtype

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
    return np.broadcast_to(value, (len(x), *value.shape))


define("take", infer_take, take, OpKind.COPY)
define("concat", infer_concat, concat, OpKind.COPY)
define("reshape", infer_reshape, reshape, OpKind.VIEW, may_alias=True)
define("expand", infer_expand, expand, OpKind.VIEW, may_alias=True)
