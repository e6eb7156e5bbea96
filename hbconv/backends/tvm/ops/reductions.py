"""Emit primitives along a static axis: reductions, running sums, matrix products."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.ops.elementwise import Kind, larger, product, smaller
from hbconv.backends.tvm.ops.loops import fitting_lanes
from hbconv.backends.tvm.ops.mathematics import Numbers, exp, log1p
from hbconv.backends.tvm.ops.movement import inside
from hbconv.backends.tvm.ops.packed_weights import skips_inputs
from hbconv.backends.tvm.ops.row_major_matmul import accumulate, add_product, matmul
from hbconv.backends.tvm.ops.row_products import accumulate_entries
from hbconv.backends.tvm.passes.fuse_products import EpilogueStep
from hbconv.backends.tvm.tir.kernel import Kernel, literal, spread
from hbconv.backends.tvm.tir.memory import Place, RowMajor, storage

__all__ = ["EMITTERS", "ROW_EMITTERS"]

FEWEST_TOGETHER = 4
"""Columns of a table from which on its rows are added by vectors."""
VECTORS_TOGETHER = 8
"""Vectors of sums in flight."""
PARTIAL_SUMS = 8
"""Partial sums of ``reduce_sum``, and rows of its vectors: all partial sums fit the registers."""


def insert(index: tuple[Any, ...], axis: int, position: Any) -> tuple[Any, ...]:
    """Return an index of the operand from one of the result and a position on the reduced axis."""
    return (*index[:axis], position, *index[axis:])


def fold(
    k: Kernel, out: Place, x: Place, axis: int, step: Callable[..., Any], start: float | None = None
) -> None:
    """Fold an axis: ``total = step(kind, total, entry)``, from ``start`` or the first entry."""
    kind = Kind(storage(out.dtype), k.lanes)
    with k.over(out.shape) as index, k.vectors() as row:
        # Without a start the first entry begins, as largest and smallest values have no neutral
        # number.
        first = k.load(x, insert(index, axis, 0), row) if start is None else kind.number(start)
        total = k.register(kind.dtype, first)
        with T.serial(int(start is None), x.shape[axis]) as i:
            total.set(step(kind, total.get(), k.load(x, insert(index, axis, i), row)))
        k.store(out, index, row, total.get())


def add(_: Kind, a: Any, b: Any) -> Any:
    """Return the sum."""
    return a + b


def reduce_sum(k: Kernel, out: Place, x: Place, axis: int) -> None:
    """Emit ``reduce_sum``: many terms as eight partial sums, added in pairs, as numpy does.

    The rounding error then grows little.
    """
    width = x.shape[axis]
    if width < PARTIAL_SUMS or not out.dtype.startswith("float"):
        fold(k, out, x, axis, add, 0)
        return
    # Terms past the last full group are added one by one, after the pairs.
    whole = width - width % PARTIAL_SUMS
    lanes = min(k.lanes, PARTIAL_SUMS)
    with k.over(out.shape) as index, k.vectors(lanes) as row:

        def entry(i: Any) -> Any:
            return k.load(x, insert(index, axis, i), row)

        partial = [k.register(out.dtype, entry(i), lanes) for i in range(PARTIAL_SUMS)]
        with T.serial(1, whole // PARTIAL_SUMS) as block:
            for i, total in enumerate(partial):
                total.set(total.get() + entry(block * PARTIAL_SUMS + i))
        a, b, c, d, e, f, g, h = (total.get() for total in partial)
        whole_sum = k.register(out.dtype, ((a + b) + (c + d)) + ((e + f) + (g + h)), lanes)
        with T.serial(whole, width) as i:
            whole_sum.set(whole_sum.get() + entry(i))
        k.store(out, index, row, whole_sum.get())


def ordered_logsumexp(k: Kernel, out: Place, x: Place, axis: int) -> None:
    """Emit ``ordered_logsumexp``; equal infinite terms have no difference, so they are apart."""
    m = Numbers.of(k, x.dtype)
    kind = Kind(x.dtype, m.lanes)
    with k.over(out.shape) as index, k.vectors(m.lanes) as row:
        total = k.register(x.dtype, k.load(x, insert(index, axis, 0), row), m.lanes)
        with T.serial(1, x.shape[axis]) as i:
            so_far = k.bind(total.get())
            term = k.bind(k.load(x, insert(index, axis, i), row))
            # exp of minus the distance is at most 1, so it never overflows.
            ratio = k.bind(exp(m, k.bind(m(0.0) - tirx.abs(so_far - term))))
            more = larger(kind, so_far, term) + log1p(m, ratio)
            total.set(tirx.Select(tirx.EQ(so_far, term), term + m(math.log(2.0)), more))
        k.store(out, index, row, total.get())


def embedding_sum(k: Kernel, out: Place, tokens: Place, weights: Place, table: Place) -> None:
    """Emit ``embedding_sum``: row by row, add weighted rows of the table."""
    # A thread of a device has no vectors, but numbers of 8 bytes.
    if k.machine.vector > 8 and out.shape[0] >= FEWEST_TOGETHER:
        embedding_sum_together(k, out, tokens, weights, table)
        return
    columns = out.shape[0]
    with k.over(out.shape) as at, k.vectors() as row:
        k.store(out, at, row, literal(0, out.dtype, k.lanes))
    with k.over(tokens.shape) as at, k.rows() as row:
        token = k.bind(inside(k.load(tokens, at, row), table.shape[0]))
        weight = k.bind(k.load(weights, at, row))
        with T.serial(columns) as j:
            term = weight * k.entry(table, token * columns + j)
            k.store(out, (j,), row, k.load(out, (j,), row) + term)


def embedding_sum_together(
    k: Kernel, out: Place, tokens: Place, weights: Place, table: Place
) -> None:
    """Emit the same by vectors of columns, which stay in registers.

    A document of 75 terms is padded to 256, and has 20 classes: this way takes 1.3 us, and the
    other one 11.
    """
    (size,), (columns,) = tokens.shape, out.shape
    width = fitting_lanes(columns, k.machine.vector // np.dtype(out.dtype).itemsize)
    vectors = -(-columns // width)
    blocks = -(-vectors // VECTORS_TOGETHER)
    together = -(-vectors // blocks)
    # Nothing is added for a weight of 0, as of padding, unless the table holds infinity or NaN.
    skips = bool(np.isfinite(table.numpy()).all())
    with T.serial(blocks) as block, k.rows() as row:
        # The last vectors overlap those before them.
        begins = [
            k.bind(tirx.min((block * together + v) * width, columns - width))
            for v in range(together)
        ]
        totals = [k.register(out.dtype, literal(0, out.dtype, width), width) for _ in begins]
        with T.serial(size) as i, ExitStack() as stack:
            weight = k.bind(k.load(weights, (i,), row))
            if skips:
                stack.enter_context(T.If(_is_other_than_zero(weight, out.dtype)))
                stack.enter_context(T.Then())
            token = k.bind(inside(k.load(tokens, (i,), row), table.shape[0]))
            for begin, total in zip(begins, totals, strict=True):
                entries = k.entries(table, token * columns + begin, width)
                total.set(total.get() + spread(weight, width) * entries)
        for begin, total in zip(begins, totals, strict=True):
            for lane in range(width):
                k.store(out, (begin + lane,), row, tirx.Shuffle([total.get()], [lane]))


def _is_other_than_zero(value: Any, dtype: str) -> Any:
    """Tell by the bits but for the sign: LLVM's "not equal" is false for NaN."""
    bits = dtype.replace("float", "uint")
    one = tirx.IntImm(bits, 1)
    return tirx.reinterpret(bits, value) << one != tirx.IntImm(bits, 0)


def argmax(k: Kernel, out: Place, x: Place, axis: int) -> None:
    """Emit ``argmax``: the first NaN, or the first of the largest entries."""
    floating = x.dtype.startswith("float")
    with k.over(out.shape) as index, k.vectors() as row:
        best = k.register(x.dtype, k.load(x, insert(index, axis, 0), row))
        place = k.register("int32", literal(0, "int32", k.lanes))
        with T.serial(1, x.shape[axis]) as i:
            entry = k.bind(k.load(x, insert(index, axis, i), row))
            better = entry > best.get()
            if floating:
                better = better | (tirx.isnan(entry) & (best.get() <= best.get()))
            # An expression is computed where it is used, and better reads best: set best last.
            place.set(tirx.Select(better, spread(i, k.lanes), place.get()))
            best.set(tirx.Select(better, entry, best.get()))
        k.store(out, index, row, place.get())


def cumsum(k: Kernel, out: Place, x: Place, axis: int) -> None:
    """Emit ``cumsum``."""
    outer = (*x.shape[:axis], *x.shape[axis + 1 :])
    with k.over(outer) as index, k.vectors() as row:
        total = k.register(x.dtype, k.load(x, insert(index, axis, 0), row))
        k.store(out, insert(index, axis, 0), row, total.get())
        with T.serial(1, x.shape[axis]) as i:
            total.set(total.get() + k.load(x, insert(index, axis, i), row))
            k.store(out, insert(index, axis, i), row, total.get())


def difference(_: Kind, a: Any, b: Any) -> Any:
    """Return ``|a - b|``."""
    return tirx.abs(a - b)


def power(p: float) -> Callable[[Kind, Any, Any], Any]:
    """Return ``|a - b|^p`` for one row, by the C mathematics library."""

    def term(kind: Kind, a: Any, b: Any) -> Any:
        name = "powf" if kind.dtype == "float32" else "pow"
        return tirx.call_pure_extern(kind.dtype, name, tirx.abs(a - b), kind.number(p))

    return term


def canberra(kind: Kind, a: Any, b: Any) -> Any:
    """Return ``|a - b| / (|a| + |b|)``; 0 if both are 0."""
    size = tirx.abs(a) + tirx.abs(b)
    # Both are 0 where the sum is 0: divided by 1 that gives 0, as the metric defines it.
    return tirx.abs(a - b) / tirx.Select(tirx.EQ(size, kind.number(0)), kind.number(1), size)


def chi_square(kind: Kind, a: Any, b: Any) -> Any:
    """Return ``(a - b)^2 / (a + b)``; 0 if the sum is 0."""
    size = a + b
    zero = kind.number(0)
    return tirx.Select(
        tirx.EQ(size, zero),
        zero,
        # A select computes both sides, so the side that is not taken divides by 1.
        product(kind, a - b, a - b) / tirx.Select(tirx.EQ(size, zero), kind.number(1), size),
    )


def present(kind: Kind, a: Any, b: Any) -> Any:
    """Return the square of a difference; 0 if it is NaN."""
    return tirx.Select(tirx.isnan(a - b), kind.number(0), product(kind, a - b, a - b))


PAIRWISE: dict[str, Callable[[Kind, Any, Any], Any]] = {
    "square": lambda kind, a, b: product(kind, a - b, a - b),
    "absolute": difference,
    "largest": difference,
    "different": lambda kind, a, b: tirx.Select(tirx.EQ(a, b), kind.number(0), kind.number(1)),
    "canberra": canberra,
    "chi_square": chi_square,
    "present": present,
}
"""Terms over vectors of rows."""


def pairwise(
    k: Kernel,
    out: Place,
    x: Place,
    points: Place,
    kind: str,
    p: float,
    epilogue: Sequence[EpilogueStep] = (),
) -> None:
    """Emit ``pairwise`` as a product whose columns are the points."""
    if kind == "power":
        _power_sums(k, out, x, points, p)
        return
    # Blocked as a product is, so that distances stay in registers.
    accumulate(k, out, x, points.numpy().T, _step(kind), epilogue)


def _step(kind: str) -> Callable[[Kind, Any, Any, Any], Any]:
    """Return what adds a term to a total."""
    term = PAIRWISE[kind]
    fold_in = larger if kind == "largest" else add
    return lambda vector, total, a, b: fold_in(vector, total, term(vector, a, b))


def row_pairwise(
    k: Kernel,
    out: Place,
    x: Place,
    points: Place,
    kind: str,
    p: float,
    epilogue: Sequence[EpilogueStep] = (),
) -> None:
    """Emit ``pairwise`` for one row."""
    if kind == "power" or out.shape[-1] == 1:
        pairwise(k, out, x, points, kind, p, epilogue)
        return
    accumulate_entries(k, out, x, points.numpy().T, _step(kind), epilogue)


def row_matmul(
    k: Kernel, out: Place, x: Place, w: Place, epilogue: Sequence[EpilogueStep] = ()
) -> None:
    """Emit ``matmul`` for one row."""
    # Panels of tiles leave out zeros, which an infinity in the row would tell from zeros times it.
    if isinstance(x, RowMajor) or out.shape[-1] == 1 or skips_inputs(w.numpy()):
        matmul(k, out, x, w, epilogue)
        return
    accumulate_entries(k, out, x, w.numpy(), add_product, epilogue)


def _power_sums(k: Kernel, out: Place, x: Place, points: Place, p: float) -> None:
    """Sum powers row by row, by the C mathematics library."""
    scalar = Kind(x.dtype, 1)
    term = power(p)
    with k.over(out.shape) as (point,), k.rows() as row:
        total = k.variable(x.dtype, scalar.number(0))
        with T.serial(x.shape[0]) as i:
            total.set(
                total.get() + term(scalar, k.load(x, (i,), row), k.load(points, (point, i), row))
            )
        k.store(out, (point,), row, total.get())


EMITTERS: dict[str, Callable[..., None]] = {
    "reduce_sum": reduce_sum,
    "ordered_sum": lambda k, out, x, axis: fold(k, out, x, axis, add, 0),
    "reduce_prod": lambda k, out, x, axis: fold(k, out, x, axis, product, 1),
    "reduce_max": lambda k, out, x, axis: fold(k, out, x, axis, larger),
    "reduce_min": lambda k, out, x, axis: fold(k, out, x, axis, smaller),
    "reduce_any": lambda k, out, x, axis: fold(k, out, x, axis, lambda _, a, b: a | b, 0),
    "ordered_logsumexp": ordered_logsumexp,
    "argmax": argmax,
    "embedding_sum": embedding_sum,
    "cumsum": cumsum,
    "matmul": matmul,
    "pairwise": pairwise,
}
ROW_EMITTERS: dict[str, Callable[..., None]] = {"matmul": row_matmul, "pairwise": row_pairwise}
"""The same for one row, whose entries are in vectors."""
