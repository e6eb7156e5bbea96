"""Rewrite a TensorProgram: replace some primitives by others."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hbconv.tensor.builder import Builder, Value
from hbconv.tensor.program import Constant, Input, Op, TensorProgram

__all__ = ["rewrite_program"]


def rewrite_program(
    program: TensorProgram, rules: Mapping[str, Callable[..., Value]]
) -> TensorProgram:
    """Replay a program, replacing each primitive named in rules by what its rule writes.

    A rule is called as ``rule(builder, *operands, **attributes)``. It returns the new result.

    Examples
    --------
    >>> b = Builder()
    >>> x = b.input("x", "float32", 1)
    >>> program = b.program({"y": b.op("neg", x)})
    >>> print(rewrite_program(program, {"neg": lambda b, x: b.constant([0.0], x.dtype) - x}))
    %0 = input x : float32[n, 1]
    %1 = constant [0.] : float32[1]
    %2 = sub %1 %0 : float32[n, 1]
    return y=%2
    """
    b = Builder()
    values: list[Value] = []
    for instruction in program.instructions:
        if isinstance(instruction, Input):
            values.append(
                b.input(instruction.name, instruction.type.dtype, instruction.type.shape[0])
            )
        elif isinstance(instruction, Constant):
            values.append(b.constant(instruction.value))
        else:
            values.append(_replay(b, instruction, values, rules))
    return b.program({name: values[index] for name, index in program.outputs.items()})


def _replay(
    b: Builder, op: Op, values: list[Value], rules: Mapping[str, Callable[..., Value]]
) -> Value:
    b.source = op.source
    operands = [values[i] for i in op.operands]
    if op.primitive in rules:
        return rules[op.primitive](b, *operands, **op.attributes)
    attributes = (
        op.attributes
        if op.body is None
        else {**op.attributes, "body": rewrite_program(op.body, rules)}
    )
    return b.op(op.primitive, *operands, **attributes)
