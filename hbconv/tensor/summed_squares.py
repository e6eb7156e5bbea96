"""Find squared distances that are only added up.

A kernel over points sums a smooth function of each squared distance, and nothing compares one or
returns it. So a backend may compute them in another form than the sum of squares, if that form
errs no more, and a cost may know a kernel by them.
"""

from __future__ import annotations

from hbconv.tensor.program import Op, TensorProgram

__all__ = ["find_summed_squares"]

SMOOTH = frozenset({
    "add", "sub", "mul", "div", "neg", "abs", "sqrt", "exp", "log", "pow", "tanh", "sin", "cos",
    "maximum", "minimum", "relu", "isnan", "isinf", "where", "expand", "reshape", "reduce_max",
})  # fmt: skip
"""Primitives whose result moves as little as what they read, if it does not overflow."""

SUMS = frozenset({"matmul", "reduce_sum", "ordered_sum", "logsumexp", "ordered_logsumexp"})


def find_summed_squares(program: TensorProgram) -> frozenset[int]:
    """Return the positions of squared distances that reach sums, and nothing else, smoothly.

    Examples
    --------
    >>> import numpy as np
    >>> from hbconv.tensor import Builder
    >>> b = Builder()
    >>> x, points = b.input("x", "float64", 3), b.constant(np.ones((5, 3)))
    >>> squares = b.op("pairwise", x, points, kind="square", p=2.0)
    >>> total = b.matmul(b.op("exp", -squares), b.constant(np.ones((5, 1))))
    >>> find_summed_squares(b.program({"y": total}))
    frozenset({2})
    >>> find_summed_squares(b.program({"y": total, "squares": squares}))
    frozenset()
    """
    summed: dict[int, bool] = dict.fromkeys(program.outputs.values(), False)
    found = set()
    for position in reversed(range(len(program.instructions))):
        op = program.instructions[position]
        if not isinstance(op, Op):
            continue
        is_summed = summed.get(position, True)
        if op.primitive == "pairwise" and op.attributes["kind"] == "square" and is_summed:
            found.add(position)
        passes = op.primitive in SUMS or (op.primitive in SMOOTH and is_summed)
        for operand in op.operands:
            summed[operand] = summed.get(operand, True) and passes
    return frozenset(found)
