"""The torch function of each primitive."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from hbconv.backends.torch.distances import pairwise, prepare_columns
from hbconv.backends.torch.nearest import (
    cumsum,
    nearest,
    ordered_logsumexp,
    ordered_sum,
    prepare_donors,
    prepare_points,
    topk,
    topk_donors,
)

__all__ = ["DTYPES", "FUNCTIONS", "PREPARED"]

DTYPES = {
    "float32": torch.float32,
    "float64": torch.float64,
    "int32": torch.int64,
    "int64": torch.int64,
    "bool": torch.bool,
}
"""Torch's dtype for each dtype of a program: all of torch's indexing takes ``int64`` alone."""


def sqrt(x: Tensor) -> Tensor:
    """Compute the root in double: torch's float32 root on the CPU is not the nearest number."""
    return x.double().sqrt().to(x.dtype)


def sign(x: Tensor) -> Tensor:
    """Compute the sign; that of NaN is NaN."""
    return torch.where(x.isnan(), x, x.sign())


def sigmoid(x: Tensor) -> Tensor:
    """Compute ``1 / (1 + exp(-x))`` in these steps, which err less than ``torch.sigmoid``."""
    return (torch.exp(-x) + 1).reciprocal()


def fmod(x: Tensor, y: Tensor) -> Tensor:
    """Compute the rest of a division; by a zero or minus one an int has none."""
    if x.dtype.is_floating_point:
        return _fmod_of_floats(x, y)
    # On a CPU, ints by zero raise, and the least int by -1 ends the process.
    trivial = (y == 0) | (y == -1)
    return torch.where(trivial, 0, torch.fmod(x, torch.where(trivial, 1, y)))


def _fmod_of_floats(x: Tensor, y: Tensor) -> Tensor:
    """Compute the rest by multiples of y first: torch's is NaN where ``x / y`` overflows."""
    rest, divisor = x.double(), y.double()
    # Powers of two keep each divisor a multiple of y; an infinite one leaves x as it is.
    step = 2.0**750
    for multiple in (divisor * step * step, divisor * step, divisor):
        rest = torch.fmod(rest, multiple)
    return rest.to(x.dtype)


def trunc_divide(x: Tensor, y: Tensor) -> Tensor:
    """Divide ints, and round toward zero; by a zero it gives 0."""
    trivial = (y == 0) | (y == -1)
    quotient = torch.div(x, torch.where(trivial, 1, y), rounding_mode="trunc")
    return torch.where(trivial, x * y, quotient)


def cast(x: Tensor, dtype: str) -> Tensor:
    """Convert to the named dtype."""
    return x.to(DTYPES[dtype])


def matmul(x: Tensor, w: Tensor) -> Tensor:
    """Multiply (rows, k) by (k, m), or (rows, b, k) by (b, k, m)."""
    return x @ w if x.dim() == 2 else torch.bmm(x.transpose(0, 1), w).transpose(0, 1)


def take(x: Tensor, indices: Tensor, dim: int) -> Tensor:
    """Select positions of a static axis."""
    return x.index_select(dim, indices)


def gather(x: Tensor, index: Tensor) -> Tensor:
    """Read each row at its own positions."""
    # unsqueeze gives an index without static axes the second one that gather needs.
    return x.gather(1, index.unsqueeze(-1).flatten(1)).reshape(index.shape)


def lookup(table: Tensor, index: Tensor) -> Tensor:
    """Read entries of a table; ``index_select`` is 2 to 3 times as fast as ``table[index]``."""
    return table.index_select(0, index.reshape(-1)).reshape(*index.shape, *table.shape[1:])


def concat(*xs: Tensor, dim: int) -> Tensor:
    """Join along a static axis."""
    return torch.cat(xs, dim=dim)


def reshape(x: Tensor, shape: Sequence[int]) -> Tensor:
    """Change the static shape."""
    return x.reshape(x.shape[0], *shape)


def expand(x: Tensor, value: Tensor) -> Tensor:
    """Repeat a constant for each row of x."""
    return value.expand(x.shape[0], *value.shape)


def sort(x: Tensor, dim: int) -> Tensor:
    """Sort ascending, NaN last."""
    return x.sort(dim=dim).values


def bucketize(x: Tensor, edges: Tensor, counts: Tensor, right: bool) -> Tensor:
    """Count edges at or below x, padding not counted."""
    # An x that is infinite or NaN is behind the padding too, which does not count.
    return torch.minimum(torch.searchsorted(edges, x.t().contiguous(), right=right).t(), counts)


def embedding_sum(tokens: Tensor, weights: Tensor, table: Tensor) -> Tensor:
    """Add up weighted rows of a table, without a tensor of all of them.

    The wrapper in ``torch.nn`` reads sizes, which would fix them in a trace.
    """
    # A bag for each row, which begins where the row's tokens do.
    bags = torch.arange(tokens.shape[0], device=tokens.device) * tokens.shape[1]
    return torch.embedding_bag(
        table, tokens.reshape(-1), bags, mode=0, per_sample_weights=weights.reshape(-1)
    )[0]


def scatter(tokens: Tensor, weights: Tensor, width: int) -> Tensor:
    """Add weights at their columns; one more column takes the padding."""
    return weights.new_zeros(weights.shape[0], width + 1).scatter_add(1, tokens, weights)[:, :width]


def one_hot(codes: Tensor, first: Tensor, size: Tensor, width: int, dtype: str) -> Tensor:
    """Write ones into zeros: no temporary is as wide as the result."""
    is_code = (codes >= 0) & (codes < size)
    # A code that is none writes a zero to its first column, where one is anyway.
    at = first + torch.where(is_code, codes, 0)
    zeros = torch.zeros(codes.shape[0], width, dtype=DTYPES[dtype], device=codes.device)
    return zeros.scatter_(1, at, is_code.to(zeros.dtype))


def prepare_sizes(
    sizes: npt.NDArray[Any], **_attributes: Any
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return the first column of each code, and the sizes.

    Examples
    --------
    >>> prepare_sizes(np.array([3, 2], np.int32))
    (array([0, 3], dtype=int32), array([3, 2], dtype=int32))
    """
    return np.cumsum(sizes, dtype=sizes.dtype) - sizes, sizes


def prepare_edges(
    edges: npt.NDArray[Any], **_attributes: Any
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Pad with infinity, for a binary search, and count the real edges of each column.

    Examples
    --------
    >>> prepare_edges(np.array([[1.0, np.nan], [1.0, 2.0]]))
    (array([[ 1., inf], [ 1., 2.]]), array([1, 2]))
    """
    padding = np.isnan(edges)
    padded = np.where(padding, np.array(np.inf, edges.dtype), edges) if padding.any() else edges
    return padded, (~padding).sum(axis=1)


FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    "neg": torch.neg, "abs": torch.abs, "sign": sign, "sqrt": sqrt,
    "exp": torch.exp, "expm1": torch.expm1, "log": torch.log, "log1p": torch.log1p,
    "log2": torch.log2, "log10": torch.log10,
    "sin": torch.sin, "cos": torch.cos, "tan": torch.tan, "asin": torch.asin,
    "atan": torch.atan, "fmod": fmod, "trunc_divide": trunc_divide,
    "tanh": torch.tanh, "sigmoid": sigmoid, "relu": torch.relu, "erf": torch.erf,
    "floor": torch.floor, "ceil": torch.ceil, "rint": torch.round,
    "isnan": torch.isnan, "isinf": torch.isinf, "not": torch.logical_not,
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "pow": torch.pow,
    "minimum": torch.minimum, "maximum": torch.maximum,
    "and": torch.bitwise_and, "or": torch.bitwise_or, "xor": torch.bitwise_xor,
    "shift_left": torch.bitwise_left_shift, "shift_right": torch.bitwise_right_shift,
    "lt": torch.lt, "le": torch.le, "eq": torch.eq, "ne": torch.ne, "gt": torch.gt, "ge": torch.ge,
    "where": torch.where, "cast": cast, "matmul": matmul, "pairwise": pairwise,
    "take": take, "gather": gather, "lookup": lookup,
    "concat": concat, "reshape": reshape, "expand": expand,
    "reduce_sum": torch.sum, "ordered_sum": ordered_sum, "reduce_prod": torch.prod,
    "reduce_max": torch.amax, "reduce_min": torch.amin, "reduce_any": torch.any,
    "argmax": torch.argmax, "logsumexp": torch.logsumexp, "ordered_logsumexp": ordered_logsumexp,
    "cumsum": cumsum, "sort": sort, "topk": topk, "topk_donors": topk_donors, "nearest": nearest,
    "bucketize": bucketize,
    "embedding_sum": embedding_sum, "scatter": scatter, "one_hot": one_hot,
}  # fmt: skip
"""The function of each primitive. Attributes are keyword arguments.

An ``axis`` becomes torch's ``dim``, which counts the rows too.
"""

PREPARED: dict[str, Callable[..., tuple[npt.NDArray[Any], ...]]] = {
    "bucketize": prepare_edges,
    "nearest": prepare_points,
    "one_hot": prepare_sizes,
    "pairwise": prepare_columns,
    "topk_donors": prepare_donors,
}
"""Primitives whose constant last operand is replaced by others, computed once.

Attributes are keyword arguments.
"""
