"""Fuse primitives: steps after a matrix product into it, elementwise primitives into groups.

A product applies a bias or an activation to its totals while they are in registers. A group of
elementwise primitives of one shape becomes one loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from hbconv.array import Array
from hbconv.backends.tvm.passes.outline import is_view
from hbconv.tensor import Constant, Op, OpKind, TensorProgram
from hbconv.tensor.decompositions import Rule, compare_small_tables
from hbconv.tensor.program import Instruction, renumber

__all__ = ["REWRITES", "SQUARE", "EpilogueStep", "fuse_products", "group_elementwise"]

EpilogueStep = tuple[str, Array | None]
"""A primitive and its second operand, a constant; ``SQUARE`` has none."""
SQUARE = "square"
FUSED = frozenset({"add", "sub", "mul", "maximum", "minimum"})
# No timings of this choice are kept.
MAX_COMPARED = 12
"""Entries of a table up to which comparing vectors of codes beats a read for each row."""
MAX_GROUP_LENGTH = 16
"""Primitives of a group at most: longer loops gain nothing."""


def fuse_products(program: TensorProgram) -> TensorProgram:
    """Give each ``matmul`` and ``pairwise`` the steps after it as its ``epilogue``.

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
            and _ends_in_registers(product)
            # A step that broadcasts to another shape stays apart.
            and product.type == instruction.type
        ):
            epilogue = (*product.attributes.get("epilogue", ()), step)
            kept[head] = replace(product, attributes={**product.attributes, "epilogue": epilogue})
            position[old] = head
            continue
        position[old] = len(kept)
        kept.append(renumber(instruction, position))
    outputs = {name: position[index] for name, index in program.outputs.items()}
    return TensorProgram(tuple(kept), outputs)


def _ends_in_registers(op: Op) -> bool:
    """Whether the totals of an operator are in registers; powers are summed row by row."""
    if op.primitive == "pairwise":
        return bool(op.attributes["kind"] != "power")
    return op.primitive == "matmul"


def _find_step(
    program: TensorProgram, instruction: Instruction, readers: Counter[int]
) -> EpilogueStep | None:
    """Return what an instruction does to its first operand, if no other instruction reads that."""
    if not isinstance(instruction, Op) or instruction.primitive not in FUSED:
        return None
    first, second = instruction.operands
    # A square reads its operand twice, and both uses are this instruction's.
    if readers[first] != instruction.operands.count(first):
        return None
    if first == second and instruction.primitive == "mul":
        return SQUARE, None
    constant = program.instructions[second]
    return (instruction.primitive, constant.value) if isinstance(constant, Constant) else None


REWRITES: dict[str, Rule] = {
    "lookup_codes": compare_small_tables(MAX_COMPARED, of_all_entries=False)
}
"""Primitives that are written otherwise than by the decompositions of all backends."""


def group_elementwise(
    program: TensorProgram, positions: Iterable[int], in_rows: frozenset[int]
) -> Iterator[tuple[int, ...]]:
    """Yield groups of positions in the order in which they are to be written.

    A group of several primitives becomes one loop. Values of ``in_rows`` stay in the caller's
    matrix and join no group. Any other code ends all groups, whatever it reads: so equal operators
    make equal code.

    Examples
    --------
    >>> from hbconv.tensor import Builder
    >>> b = Builder()
    >>> x = b.input("x", "float64", 3)
    >>> program = b.program({"y": b.op("reduce_sum", (x + x) * x, axis=0)})
    >>> list(group_elementwise(program, range(4), frozenset()))
    [(0,), (1, 2), (3,)]
    """
    open_groups: dict[tuple[int, ...], list[int]] = {}
    for position in positions:
        instruction = program.instructions[position]
        fused = position not in in_rows and _is_fused(program, instruction)
        ended = [
            shape
            for shape, group in open_groups.items()
            if _ends(program, group, instruction, fused)
        ]
        for shape in ended:
            yield tuple(open_groups.pop(shape))
        if not fused:
            yield (position,)
            continue
        group = open_groups.setdefault(instruction.type.shape, [])
        group.append(position)
        if len(group) == MAX_GROUP_LENGTH:
            yield tuple(open_groups.pop(instruction.type.shape))
    yield from map(tuple, open_groups.values())


def _is_fused(program: TensorProgram, instruction: Instruction) -> bool:
    """Whether a fused loop computes an instruction, in its vectors."""
    if not isinstance(instruction, Op) or is_view(program, instruction):
        return False
    if instruction.primitive == "take":
        return True
    return instruction.kind is OpKind.ARITHMETIC


def _ends(program: TensorProgram, group: list[int], instruction: Instruction, fused: bool) -> bool:
    """Whether a group must be written before an instruction."""
    reads = isinstance(instruction, Op) and not set(group).isdisjoint(instruction.operands)
    if not fused:
        return reads or not is_view(program, instruction)
    joins = instruction.type.shape == program.instructions[group[0]].type.shape
    # A take reads other entries than the one at hand, which the loop has in registers only.
    return reads and not (joins and getattr(instruction, "primitive", "") != "take")
