"""Fuse elementwise steps after a matrix product into it, such as a bias or an activation.

The product applies them to its totals while they are in registers.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hbconv.array import Array
from hbconv.tensor import Constant, Op, TensorProgram
from hbconv.tensor.program import Instruction, renumber

__all__ = ["SQUARE", "EpilogueStep", "fuse_products"]

EpilogueStep = tuple[str, Array | None]
"""A primitive and its second operand, a constant; ``SQUARE`` has none."""
SQUARE = "square"
FUSED = frozenset({"add", "sub", "mul", "maximum", "minimum"})


def fuse_products(program: TensorProgram) -> TensorProgram:
    """Give each ``matmul`` the steps after it as its ``epilogue``.

    A step is fused if nothing else reads the value that it reads.

    Examples
    --------
    >>> from hbconv.tensor import Builder
    >>> b = Builder()
    >>> x = b.input("x", "float32", 2)
    >>> y = b.matmul(x, b.constant([[1.0], [2.0]], "float32")) + b.constant([3.0], "float32")
    >>> print(fuse_products(b.program({"y": b.op("abs", y * y)})))
    %0 = input x : float32[n, 2]
    %1 = constant [[1.], [2.]] : float32[2, 1]
    %2 = matmul %0 %1 epilogue=(('add', [3.]), ('square', None)) : float32[n, 1]
    %3 = constant [3.] : float32[1]
    %4 = abs %2 : float32[n, 1]
    return y=%4
    """
    readers = Counter(
        i for op in program.instructions if isinstance(op, Op) for i in op.operands
    ) + Counter(program.outputs.values())
    kept: list[Instruction] = []
    position: dict[int, int] = {}
    for old, instruction in enumerate(program.instructions):
        step = _find_step(program, instruction, readers)
        head = position[instruction.operands[0]] if isinstance(instruction, Op) and step else 0
        product = kept[head] if step else None
        if (
            isinstance(product, Op)
            and product.primitive == "matmul"
            and product.type == instruction.type
        ):
            epilogue = (*product.attributes.get("epilogue", ()), step)
            kept[head] = replace(product, attributes={"epilogue": epilogue})
            position[old] = head
            continue
        position[old] = len(kept)
        kept.append(renumber(instruction, position))
    outputs = {name: position[index] for name, index in program.outputs.items()}
    return TensorProgram(tuple(kept), outputs)


def _find_step(
    program: TensorProgram, instruction: Instruction, readers: Counter[int]
) -> EpilogueStep | None:
    """Return what an instruction does to its first operand, if no other instruction reads that."""
    if not isinstance(instruction, Op) or instruction.primitive not in FUSED:
        return None
    first, second = instruction.operands
    if readers[first] != instruction.operands.count(first):
        return None
    if first == second and instruction.primitive == "mul":
        return SQUARE, None
    constant = program.instructions[second]
    return (instruction.primitive, constant.value) if isinstance(constant, Constant) else None
