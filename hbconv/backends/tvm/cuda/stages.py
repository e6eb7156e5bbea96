"""Cut a program at its forests, which kernels of their own compute."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from hbconv.backends.cuda.choose import refuse
from hbconv.backends.tvm.passes.flag_beyond import drop_unread
from hbconv.tensor import Builder, Constant, Input, Op, TensorProgram, Value
from hbconv.tensor.decompositions import DONORS, rewrite_program
from hbconv.tensor.program import Instruction, renumber
from hbconv.trees.contributions import DECOMPOSITIONS
from hbconv.trees.forest import Forest
from hbconv.trees.leaves import sum_leaves
from hbconv.trees.strategy import find_strategy, lower_trees

__all__ = [
    "FORESTS",
    "Stage",
    "cut",
    "lower_unsplit",
    "read_in_place",
    "value_name",
    "write_plainly",
]

FORESTS = ("tree_scores", "tree_leaves")
"""Primitives that have kernels of their own."""


@dataclass(frozen=True)
class Stage:
    """What one launch or more compute, of values that were computed before.

    Parameters
    ----------
    program : TensorProgram
        Inputs and outputs are named by ``value_name`` of their positions in the whole program.
    """

    program: TensorProgram

    @property
    def forest(self) -> Op | None:
        """The only operator, if it is a forest."""
        last = self.program.instructions[-1]
        return last if isinstance(last, Op) and last.primitive in FORESTS else None


def write_plainly(program: TensorProgram, native: frozenset[str]) -> TensorProgram:
    """Write contributions and donors, which have no kernels here, as plain primitives."""
    return rewrite_program(lower_trees(program, native), {**DECOMPOSITIONS, **DONORS})


def lower_unsplit(program: TensorProgram) -> TensorProgram:
    """Write forests that no kernel takes, those without splits, as plain primitives."""
    ops = (i for i in program.instructions if isinstance(i, Op) and i.primitive in FORESTS)
    if not any(refuse(op.attributes["forest"]) for op in ops):
        return program
    return rewrite_program(program, {"tree_leaves": _leaves, "tree_scores": _scores})


def _leaves(b: Builder, x: Value, forest: Forest, strategy: str) -> Value:
    if not refuse(forest):
        return b.op("tree_leaves", x, forest=forest, strategy=strategy)
    return find_strategy(strategy).lower(forest, x, b)


def _scores(b: Builder, x: Value, forest: Forest, strategy: str) -> Value:
    if not refuse(forest):
        return b.op("tree_scores", x, forest=forest, strategy=strategy)
    return sum_leaves(forest, _leaves(b, x, forest, strategy), b)


def read_in_place(program: TensorProgram) -> TensorProgram:
    """Let forests read columns of a matrix in place, rather than copies of them."""
    changed = [_in_place(program, instruction) for instruction in program.instructions]
    return drop_unread(TensorProgram(tuple(changed), program.outputs))


def _in_place(program: TensorProgram, op: Instruction) -> Instruction:
    """Return a forest on the matrix that its operand is columns of; others as they are."""
    if not isinstance(op, Op) or op.primitive not in FORESTS:
        return op
    taken = program.instructions[op.operands[0]]
    if not isinstance(taken, Op) or taken.primitive != "take":
        return op
    matrix, indices = (program.instructions[i] for i in taken.operands)
    if len(matrix.type.shape) != 1 or not isinstance(indices, Constant):
        return op
    (width,) = matrix.type.shape
    # Negative positions of take count from the end of the row.
    forest = op.attributes["forest"].of_wider_rows(indices.value.data % width, width)
    attributes = {**op.attributes, "forest": forest}
    return replace(op, operands=taken.operands[:1], attributes=attributes)


def value_name(position: int) -> str:
    """Return the name of a value of the whole program."""
    return f"value{position}"


def cut(program: TensorProgram) -> tuple[TensorProgram, list[Stage]]:
    """Return the program, and its stages: forests, and as few others as possible.

    A stage that is no forest holds all operators that come after equally many forests. Outputs
    that are inputs or leaves are copied, so the program may have more operators.

    Examples
    --------
    >>> from hbconv.tensor import Builder
    >>> b = Builder()
    >>> x = b.input("x", "float64", 2)
    >>> _, (stage,) = cut(b.program({"y": (x + x) * x}))
    >>> print(stage.program)
    %0 = input value0 : float64[n, 2]
    %1 = add %0 %0 : float64[n, 2]
    %2 = mul %1 %0 : float64[n, 2]
    return value2=%2
    """
    program = _with_copies(program)
    readers: dict[int, set[int]] = {i: set() for i in range(len(program.instructions))}
    for position in range(len(program.instructions)):
        for operand in _operands(program, position):
            readers[operand].add(position)
    return program, [_stage(program, group, readers) for group in _groups(program)]


def _groups(program: TensorProgram) -> Iterator[list[int]]:
    """Yield the operators of each stage, in the order in which stages run."""
    levels = _levels(program)
    for level in range(max(levels, default=0) + 1):
        members = [
            i
            for i, instruction in enumerate(program.instructions)
            if levels[i] == level and isinstance(instruction, Op)
        ]
        # Odd levels are forests, each a stage of its own; even ones are kernels of rows.
        if level % 2:
            yield from ([i] for i in members)
        elif members:
            yield members


def _with_copies(program: TensorProgram) -> TensorProgram:
    """Copy outputs that no stage writes by rows: inputs, and leaves, stored by columns."""
    kept = list(program.instructions)
    outputs = dict(program.outputs)
    for name, index in program.outputs.items():
        instruction = program.instructions[index]
        if isinstance(instruction, Input) or _primitive(instruction) == "tree_leaves":
            outputs[name] = len(kept)
            shape = {"shape": instruction.type.shape}
            kept.append(Op("reshape", (index,), instruction.type, shape))
    return TensorProgram(tuple(kept), outputs)


def _levels(program: TensorProgram) -> list[int]:
    """Return twice the number of forests before each value, and one more for forests.

    What no forest needs is computed after the last one, by one launch.
    """
    levels: list[int] = []
    for position, instruction in enumerate(program.instructions):
        before = max((levels[i] for i in _operands(program, position)), default=0)
        # The parity rounds up to the next stage of its kind.
        levels.append(before + before % 2 + (_primitive(instruction) in FORESTS))
    last = max((level + level % 2 for level in levels), default=0)
    needed = _find_needed(program)
    # Without this, flags and copies that no forest reads would be launches of their own.
    return [level if i in needed else last for i, level in enumerate(levels)]


def _find_needed(program: TensorProgram) -> set[int]:
    """Find the forests, and what they are computed from."""
    needed: set[int] = set()
    for position, instruction in reversed(list(enumerate(program.instructions))):
        if position in needed or _primitive(instruction) in FORESTS:
            needed.update([position, *_operands(program, position)])
    return needed


def _stage(program: TensorProgram, members: list[int], readers: dict[int, set[int]]) -> Stage:
    """Write some operators as a program of their own."""
    inside = set(members)
    read = {i for member in members for i in _operands(program, member)} - inside
    order = sorted(read) + members
    position = {old: new for new, old in enumerate(order)}
    instructions = [
        *(_as_operand(program, i) for i in sorted(read)),
        *(renumber(program.instructions[i], position) for i in members),
    ]
    output_positions = set(program.outputs.values())
    kept = [i for i in members if i in output_positions or readers[i] - inside]
    outputs = {value_name(i): position[i] for i in kept}
    return Stage(TensorProgram(tuple(instructions), outputs))


def _as_operand(program: TensorProgram, position: int) -> Instruction:
    """Return a constant itself, and another value as an input."""
    instruction = program.instructions[position]
    if isinstance(instruction, Constant):
        return instruction
    return Input(value_name(position), instruction.type)


def _operands(program: TensorProgram, position: int) -> tuple[int, ...]:
    instruction = program.instructions[position]
    return instruction.operands if isinstance(instruction, Op) else ()


def _primitive(instruction: Instruction) -> str:
    return instruction.primitive if isinstance(instruction, Op) else ""
