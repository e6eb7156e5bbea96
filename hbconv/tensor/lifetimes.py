"""How long the values of a program are alive."""

from __future__ import annotations

from hbconv.tensor.program import Op, TensorProgram

__all__ = ["last_uses"]


def last_uses(program: TensorProgram) -> dict[int, int]:
    """Return the last position that reads each value; outputs are read past the end.

    Values that nothing reads are left out.

    Examples
    --------
    >>> from hbconv.tensor import Builder
    >>> b = Builder()
    >>> x = b.input("x", "float64", 3)
    >>> last_uses(b.program({"y": -(x + x)}))
    {0: 1, 1: 2, 2: 3}
    """
    last = {
        operand: position
        for position, op in enumerate(program.instructions)
        if isinstance(op, Op)
        for operand in op.operands
    }
    return last | dict.fromkeys(program.outputs.values(), len(program.instructions))
