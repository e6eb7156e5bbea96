"""The tensor DAG: the builder, the verifier, the rewriter, and how a program prints."""

from dataclasses import replace

import numpy as np
import pytest
from forests import random_forest

from hbconv.array import Array
from hbconv.backends.reference import evaluate
from hbconv.errors import VerificationError
from hbconv.tensor import (
    Builder,
    Constant,
    Input,
    Op,
    TensorProgram,
    TensorType,
    show_program,
    verify_program,
)
from hbconv.tensor.decompositions import rewrite_program


def test_arithmetic_reads_like_numpy():
    b = Builder()
    x, y = b.input("x", "float64", 2), b.input("y", "float64", 2)
    values = {
        "add": x + y,
        "sub": x - y,
        "mul": x * y,
        "div": x / y,
        "neg": -x,
        "lt": x < y,
        "le": x <= y,
        "gt": x > y,
        "ge": x >= y,
    }
    values |= {"and": (x < y) & (y > x), "or": (x < y) | (x > y), "not": ~(x < y)}
    rng = np.random.default_rng(0)
    p, q = rng.standard_normal((2, 5, 2))
    answer = evaluate(verify_program(b.program(values)), {"x": p, "y": q})
    expected = {
        "add": p + q,
        "sub": p - q,
        "mul": p * q,
        "div": p / q,
        "neg": -p,
        "lt": p < q,
        "le": p <= q,
        "gt": p > q,
        "ge": p >= q,
    }
    expected |= {"and": (p < q) & (q > p), "or": (p < q) | (p > q), "not": ~(p < q)}
    for name, value in expected.items():
        np.testing.assert_array_equal(answer[name], value, strict=True, err_msg=name)


def test_equal_instructions_are_one():
    b = Builder()
    x = b.input("x", "float32", 3)
    one, again = x + b.constant([1.0, 2.0, 3.0], "float32"), x + b.constant(np.float32([1, 2, 3]))
    assert one is again
    assert x + b.constant([-0.0], "float32") is not x + b.constant([0.0], "float32")
    assert b.cast(one, "float64") is not b.cast(one, "int32")


def test_forests_are_attributes():
    b = Builder()
    forest, other = random_forest(np.random.default_rng(0)), random_forest(np.random.default_rng(1))
    x = b.input("x", "float64", 4)
    one = b.op("tree_scores", x, forest=forest, strategy="gemm")
    assert one is b.op("tree_scores", x, forest=forest, strategy="gemm")
    assert one is not b.op("tree_scores", x, forest=forest, strategy="select")
    assert one is not b.op("tree_scores", x, forest=other, strategy="gemm")


def test_what_no_output_needs_is_dropped_but_for_inputs():
    b = Builder()
    x, unused = b.input("x", "float64", 1), b.input("unused", "float64", 1)
    b.op("exp", unused + b.constant([4.0]))
    program = b.program({"y": -x})
    assert [i.name for i in program.inputs] == ["x", "unused"]
    assert program.primitives == {"neg"}
    assert len(program.instructions) == 3


def test_shorthands_write_nothing_where_nothing_is_to_do():
    b = Builder()
    x = b.input("x", "float64", 3)
    assert b.cast(x, "float64") is x
    assert b.take(x, [0, 1, 2]) is x
    assert b.reshape(x, 3) is x
    assert b.concat([x]) is x
    assert b.promote(x, b.cast(x, "float32"))[1].dtype == "float64"


def test_fast_precision_writes_float32():
    b = Builder("fast")
    x = b.cast(b.input("x", "float64", 1), "float64")
    assert b.constant([1.5]).dtype == "float32"
    assert b.cast(b.input("y", "float32", 1), "float64").dtype == "float32"
    assert b.constant([1], "int64").dtype == "int64"
    assert x.dtype == "float32"


def test_sources_are_kept():
    b = Builder()
    x = b.input("x", "float64", 1)
    b.source = "prep/num"
    program = b.program({"y": -x})
    assert [i.source for i in program.instructions if isinstance(i, Op)] == ["prep/num"]
    rewritten = rewrite_program(program, {"neg": lambda b, x: b.constant([0.0]) - x})
    assert [i.source for i in rewritten.instructions if isinstance(i, Op)] == ["prep/num"]


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda b, x, n: x + n, "dtypes differ"),
        (lambda b, x, n: x + b.constant([1.0, 2.0, 3.0, 4.0]), "do not broadcast"),
        (lambda b, x, n: x + b.constant(np.zeros((2, 3))), "ranks differ"),
        (lambda b, x, n: ~x, "dtype float64 is none of"),
        (lambda b, x, n: b.where(x, x, x), "condition is"),
        (lambda b, x, n: b.matmul(x, b.constant(np.zeros((4, 2)))), "matmul of"),
        (lambda b, x, n: b.matmul(x, x), "takes a value and a constant"),
        (lambda b, x, n: b.gather(x, x), "gather of"),
        (lambda b, x, n: b.lookup(x, n), "lookup of"),
        (lambda b, x, n: b.take(x, [0], axis=1), "axis 1|tuple index"),
        (lambda b, x, n: b.concat([x, n]), "dtypes differ"),
        (lambda b, x, n: b.reshape(x, 2, 2), "reshape of"),
        (lambda b, x, n: b.reduce("reduce_sum", x, axis=1), "reduction of"),
        (lambda b, x, n: b.cast(x, "float16"), "no dtype float16"),
    ],
)
def test_types_are_checked_as_they_are_written(write, message):
    b = Builder()
    with pytest.raises((VerificationError, IndexError), match=message):
        write(b, b.input("x", "float64", 3), b.input("n", "int32", 3))


def program_of(*instructions, **outputs):
    return TensorProgram(instructions, outputs)


X = Input("x", TensorType("float64", (2,)))
NEG = Op("neg", (0,), TensorType("float64", (2,)))


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (program_of(X, replace(NEG, operands=(1,)), y=1), "%1: operand order"),
        (program_of(X, replace(NEG, primitive="negate"), y=1), "%1: unknown primitive negate"),
        (
            program_of(X, replace(NEG, type=TensorType("float32", (2,))), y=1),
            r"%1: type float32\[n, 2\] where float64\[n, 2\] is inferred",
        ),
        (program_of(X, NEG, y=2), "%2: output y"),
        (
            program_of(X, Constant(Array([1.0]), TensorType("float64", (1,), rows=False)), y=1),
            "%1: output y has no rows",
        ),
        (
            program_of(X, Constant(Array([1.0]), TensorType("float64", (2,), rows=False)), y=0),
            "%1: constant type",
        ),
        (
            program_of(X, Constant(Array([1.0]), TensorType("float32", (1,), rows=False)), y=0),
            "%1: constant type",
        ),
        (
            program_of(X, Constant(Array([1.0]), TensorType("float64", (1,))), y=0),
            "%1: constant type",
        ),
    ],
)
def test_the_verifier_finds(program, message):
    with pytest.raises(VerificationError, match=message):
        verify_program(program)


def test_the_verifier_returns_what_is_right():
    program = program_of(X, NEG, y=1)
    assert verify_program(program) is program


def test_rewriting_replaces_by_name_and_keeps_the_meaning():
    b = Builder()
    x = b.input("x", "float64", 2)
    program = b.program({"y": b.op("sigmoid", -x), "z": -x})

    def sigmoid(b, x):
        one = b.constant(1.0)
        return one / (one + b.op("exp", -x))

    rewritten = verify_program(rewrite_program(program, {"sigmoid": sigmoid}))
    assert rewritten.primitives == {"neg", "exp", "add", "div"}
    rows = {"x": np.random.default_rng(0).standard_normal((6, 2))}
    for name, value in evaluate(program, rows).items():
        np.testing.assert_array_equal(evaluate(rewritten, rows)[name], value)


def test_rewriting_passes_attributes():
    b = Builder()
    x = b.input("x", "float64", 2)
    seen = []
    rewrite_program(
        b.program({"y": b.reduce("reduce_max", x)}),
        {"reduce_max": lambda b, x, axis: seen.append(axis) or b.reduce("reduce_sum", x, axis)},
    )
    assert seen == [0]


def test_prints_forests_and_types():
    b = Builder()
    forest = random_forest(np.random.default_rng(0), n_trees=2)
    text = show_program(
        b.program(
            {"y": b.op("tree_leaves", b.input("x", "float32", 4), forest=forest, strategy="gemm")}
        )
    )
    assert text.splitlines() == [
        "%0 = input x : float32[n, 4]",
        f"%1 = tree_leaves %0 forest=<2 trees, {forest.n_tests} tests> strategy=gemm : int32[n, 2]",
        "return y=%1",
    ]


@pytest.mark.parametrize(
    "primitive", ["reduce_max", "reduce_min", "argmax", "logsumexp", "ordered_logsumexp"]
)
def test_the_largest_of_nothing_is_refused(primitive):
    """A compiled loop would read the first entry of nothing."""
    b = Builder()
    nothing = b.take(b.input("x", "float64", 3), [])
    with pytest.raises(VerificationError, match="empty"):
        b.reduce(primitive, nothing)


def test_reading_what_is_empty_is_refused():
    b = Builder()
    x, places = b.input("x", "float64", 3), b.input("i", "int32", 2)
    with pytest.raises(VerificationError, match="empty"):
        b.lookup(b.constant(np.zeros(0)), places)
    with pytest.raises(VerificationError, match="empty"):
        b.gather(b.take(x, []), places)
    with pytest.raises(VerificationError, match="table"):
        b.op("embedding_sum", places, b.take(x, [0, 1]), b.constant(np.zeros((0, 2))))


@pytest.mark.parametrize("position", [-4, 3])
def test_positions_that_are_not_there_are_found(position):
    b = Builder()
    program = b.program({"y": b.take(b.input("x", "float64", 3), [0, position])})
    with pytest.raises(VerificationError, match="take of positions beyond 3"):
        verify_program(program)


def test_operations_may_be_rounded_otherwise():
    """Each value of an operation is handed on as it was rounded; inputs and constants stay."""
    b = Builder()
    x = b.input("x", "float64", 1)
    total = x + x
    program = b.program({"y": total * total})
    inputs = {"x": np.array([[3.0]])}
    seen = []

    def rounding(op, operands, value):
        seen.append((op.primitive, [float(operand.item()) for operand in operands]))
        return value + 1.0

    assert evaluate(program, inputs)["y"].item() == 36.0
    assert evaluate(program, inputs, rounding)["y"].item() == 50.0
    assert seen == [("add", [3.0, 3.0]), ("mul", [7.0, 7.0])]
