"""A thread a row gives every primitive its meaning, on an emulated device."""

from __future__ import annotations

from typing import Any

import pytest
from emulated_rows import emulate_device
from primitive_cases import CASES, ROWS, Case

from hbconv.backends.reference import evaluate
from hbconv.backends.tvm import BACKEND
from hbconv.backends.tvm.cuda.stages import FORESTS
from hbconv.target import Target
from hbconv.tensor import Input, TensorProgram, verify_program
from hbconv.tensor.program import Instruction, renumber

TOGETHER = 12
"""Cases that are compiled as one program: compiling takes most of the time."""
TARGET = Target("tvm", device="cuda")
RUNS = [
    (case, case.dtypes[i % len(case.dtypes)])
    for i, case in enumerate(CASES)
    if case.primitive not in FORESTS
]
"""The dtypes take turns. Kernels of forests have tests of their own."""

GROUPS = [RUNS[first : first + TOGETHER] for first in range(0, len(RUNS), TOGETHER)]


def join(programs: list[TensorProgram]) -> TensorProgram:
    """Return one program that computes all, with numbers before the names."""
    instructions: list[Instruction] = []
    outputs: dict[str, int] = {}
    for number, program in enumerate(programs):
        first = len(instructions)
        position = {i: first + i for i in range(len(program.instructions))}
        instructions += [
            Input(f"{number} {i.name}", i.type) if isinstance(i, Input) else renumber(i, position)
            for i in program.instructions
        ]
        outputs |= {f"{number} {name}": first + i for name, i in program.outputs.items()}
    return TensorProgram(tuple(instructions), outputs)


def numbered(number: int, arrays: dict[str, Any]) -> dict[str, Any]:
    return {f"{number} {name}": array for name, array in arrays.items()}


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: str(group[0][0]))
def test_primitives(group: list[tuple[Case, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Arithmetic to the last bit, and the rest as ``agrees`` of the case says."""
    emulate_device(monkeypatch)
    programs = [verify_program(case.program(dtype)) for case, dtype in group]
    artifact = BACKEND.compile(join(programs), TARGET)
    for n in ROWS:
        inputs = [case.rows(n, dtype) for case, dtype in group]
        given = [numbered(i, rows) for i, rows in enumerate(inputs)]
        answer = artifact.run({name: rows for each in given for name, rows in each.items()})
        for number, (case, _) in enumerate(group):
            expected = evaluate(programs[number], inputs[number])
            for name, values in numbered(number, expected).items():
                got = answer[name]
                assert (got.dtype, got.shape) == (values.dtype, values.shape), str(case)
                case.agrees(got, values)
