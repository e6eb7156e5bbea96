"""Passes decide on programs alone: no TVM is needed to ask them."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from hbconv.backends.tvm.machine.schedule import Schedule
from hbconv.backends.tvm.passes.flag_beyond import FLAG_BEYOND, join_looks
from hbconv.backends.tvm.passes.fuse_products import MAX_GROUP_LENGTH, group_elementwise
from hbconv.backends.tvm.passes.outline import LARGEST_WHOLE, flatten, is_view, outline
from hbconv.tensor import Builder


def start(width=3):
    b = Builder()
    return b, b.input("x", "float64", width)


def test_passes_import_no_tvm():
    code = (
        "import sys; sys.modules['tvm'] = sys.modules['tvm_ffi'] = None\n"
        "import hbconv.backends.tvm.passes.outline, hbconv.backends.tvm.passes.outline\n"
        "import hbconv.backends.tvm.passes.fuse_products\n"
        "import hbconv.backends.tvm.passes.fuse_products\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("indices", "expected"), [([1, 2], True), ([-2, -1], True), ([2, 1], False), ([0, 2], False)]
)
def test_a_take_is_a_view_if_its_entries_are_neighbours(indices, expected):
    b, x = start()
    program = b.program({"y": b.take(x, indices)})
    assert is_view(program, program.instructions[program.outputs["y"]]) is expected


def test_a_take_of_an_inner_axis_is_no_view():
    b, x = start(6)
    program = b.program({"y": b.take(b.reshape(x, 2, 3), [0, 1], axis=1)})
    assert not is_view(program, program.instructions[program.outputs["y"]])


def test_a_program_over_entries_is_flattened():
    b, x = start(5)
    infinite = b.reduce("reduce_any", b.op("isinf", x))
    flat = flatten(b.program({"y": x * b.constant(np.arange(5.0)), "d": infinite}), Schedule())
    assert flat.width == 5
    assert flat.schedule.tile % 5 == flat.schedule.tile % flat.schedule.lanes == 0
    assert FLAG_BEYOND in flat.program.primitives


def beyond(b, x, bound=1e3):
    return b.reduce("reduce_any", b.op("gt", b.op("abs", x), b.constant([bound], x.dtype)))


def test_a_condition_that_is_read_by_rows_is_not_joined():
    b, x = start()
    flag = beyond(b, x)
    column = b.reshape(flag, 1)
    picked = b.where(column, b.constant([1.0], "float64"), b.take(x, [0]))
    for outputs in ({"y": picked, "d": flag}, {"y": column}, {"d": flag, "e": flag}):
        assert FLAG_BEYOND not in join_looks(b.program(outputs)).primitives


def test_conditions_that_only_flag_rows_are_joined():
    b, x = start()
    own = b.reshape(b.op("lt", b.take(x, [1]), b.constant([0.0], "float64")), 1)
    looks = [b.reshape(beyond(b, b.take(x, columns)), 1) for columns in ([2, 0], [1])]
    flags = b.reduce("reduce_any", b.concat([own, *looks]))
    program = join_looks(b.program({"y": x + x, "d": flags}))
    found = [i for i in program.instructions if getattr(i, "primitive", "") == FLAG_BEYOND]
    assert [i.attributes["columns"].data.tolist() for i in found] == [[0, 2], [1]]
    assert "abs" not in program.primitives
    assert flatten(program, Schedule()) is None


def test_sizes_of_computed_values_are_not_read_from_the_input():
    b, x = start()
    assert FLAG_BEYOND not in join_looks(b.program({"d": beyond(b, x + x)})).primitives


def test_a_program_over_rows_is_not_flattened():
    b, x = start()
    total = b.reduce("reduce_sum", x)
    assert flatten(b.program({"y": total}), Schedule()) is None
    b, x = start()
    assert flatten(b.program({"y": b.take(x, [2, 1, 0])}), Schedule()) is None


def test_a_group_ends_before_other_code_and_at_its_length():
    b, x = start()
    value = x
    for _ in range(MAX_GROUP_LENGTH + 1):
        value = value + x
    program = b.program({"y": b.op("sort", value, axis=0)})
    groups = list(group_elementwise(program, range(len(program.instructions)), frozenset()))
    assert [len(group) for group in groups] == [1, MAX_GROUP_LENGTH, 1, 1]


def test_repeated_operators_are_outlined_alike():
    b, x = start()
    value = x
    for i in range(LARGEST_WHOLE):
        value = b.op("exp", value * b.constant(float(i + 2)))
    program = b.program({"y": value})
    sections = [section for section in outline(program, frozenset()) if section.outlined]
    lengths = {tuple(len(run) for run in section.repetitions) for section in sections[:-1]}
    assert len(sections) > 3
    assert len(lengths) == 1
    positions = [
        i for section in outline(program, frozenset()) for i in sum(section.repetitions, ())
    ]
    assert positions == sorted(positions)
