"""The kind of each primitive is true of the programs of the battery."""

import math

import numpy as np
import pytest
from primitive_cases import CASES

from hbconv.tensor import ELEMENTWISE, Constant, Op, OpKind


def ops(*kinds):
    """Yield operators of these kinds, each with the instructions that it reads."""
    for case in CASES:
        program = case.program(case.dtypes[-1])
        for op in program.instructions:
            if isinstance(op, Op) and op.kind in kinds:
                yield op, [program.instructions[i] for i in op.operands]


def test_elementwise_results_have_the_shape_of_their_operands():
    for op, operands in ops(*ELEMENTWISE):
        shapes = [operand.type.shape for operand in operands]
        assert op.type.shape == np.broadcast_shapes(*shapes), op.primitive


def test_views_have_the_entries_of_their_last_operand():
    for op, operands in ops(OpKind.VIEW):
        assert math.prod(op.type.shape) == math.prod(operands[-1].type.shape), op.primitive


def test_products_are_with_a_constant():
    for op, operands in ops(OpKind.PRODUCT):
        assert isinstance(operands[-1], Constant), op.primitive


@pytest.mark.parametrize("kind", OpKind)
def test_every_kind_has_a_case(kind):
    assert any(True for _ in ops(kind))
