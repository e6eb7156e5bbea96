"""Counts of programs small enough to count by hand."""

import numpy as np
import pytest

from hbconv.cost_model import Work, count_work
from hbconv.tensor import Builder


def counted(write, dtype="float32", width=6):
    b = Builder()
    program = b.program({"y": write(b, b.input("x", dtype, width))})
    return count_work(program, program.instructions[-1])


def test_words_of_doubles_count_twice():
    assert counted(lambda b, x: x + x) == Work(operators=1, elementwise=6, temporaries=72)
    assert counted(lambda b, x: x + x, "float64") == Work(
        operators=1, elementwise=12, temporaries=144
    )


def test_a_comparison_reads_more_than_it_writes():
    assert counted(lambda b, x: x <= x, "float64").elementwise == 12


@pytest.mark.parametrize("name", ["exp", "log", "cos", "tanh"])
def test_functions_are_counted_by_name(name):
    assert counted(lambda b, x: b.op(name, x)) == Work(operators=1, functions=((name, 6),))


def test_products_count_multiply_adds_and_the_bytes_of_the_matrix():
    work = counted(lambda b, x: b.matmul(x, b.constant(np.ones((6, 5)), "float64")), "float64")
    words = 2 * (6 + 5)
    assert (work.multiplications, work.elementwise) == (2 * 6 * 5, words)
    assert (work.tables, work.temporaries) == (8 * 6 * 5, 4 * words)


def test_look_ups_count_the_bytes_of_the_table():
    def write(b, x):
        return b.lookup(b.constant(np.ones(100), "float64"), b.cast(x, "int32"))

    assert counted(write) == Work(operators=1, reads=6, tables=800)


def test_copies_count_what_is_copied():
    assert counted(lambda b, x: b.take(x, [3, 1])) == Work(operators=1, takes=2)
    joined = counted(lambda b, x: b.concat([x, x]))
    assert (joined.takes, joined.elementwise) == (0, 12)


def test_few_runs_of_a_take_count_as_copies():
    work = counted(lambda b, x: b.take(x, [*range(3, 9), *range(20, 26)]), width=30)
    assert work == Work(operators=2, takes=8, elementwise=12)
    scattered = counted(lambda b, x: b.take(x, range(0, 30, 2)), width=30)
    assert (scattered.takes, scattered.elementwise) == (15, 0)


@pytest.mark.parametrize(("width", "entries", "spans"), [(6, 6, 1), (6, 1, 0), (1, 1, 1)])
def test_constants_met_in_each_row_are_counted(width, entries, spans):
    work = counted(lambda b, x: x + b.constant(np.ones(entries), x.dtype), width=width)
    assert work.spans == spans
