"""Looks stand for a look at the host, and only where the program reads the rows anyway."""

from __future__ import annotations

import numpy as np
import pytest

from hbconv.array import Array
from hbconv.backends.reference import evaluate
from hbconv.containers import (
    Check,
    Columns,
    Graph,
    Impute,
    IsBeyond,
    IsNonFinite,
    Output,
    Schema,
    verify_graph,
)
from hbconv.containers.guard import find_guard, find_looks
from hbconv.errors import HbconvError
from hbconv.lower import lower_nodes


def columns_of(schema, *indices):
    return Columns(schema, Array(np.array(indices, np.int32)))


def guarded(schema, answer, *checked):
    checks = tuple(
        Check(IsNonFinite(x, allow_nan=False), f"refused {i}") for i, x in enumerate(checked)
    )
    return Graph(schema, {"transform": Output(answer)}, checks)


def mixed():
    return Schema.matrix(4).with_dtypes(("float32", "float64", "int64", "float64"))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_looks_flag_what_the_host_would(dtype):
    schema = Schema.matrix(3, dtype)
    filled = Impute(columns_of(schema, 0, 1), Array(np.zeros(2)))
    graph = guarded(schema, columns_of(schema, 0), filled, columns_of(schema, 2))
    guard = find_guard(graph, flags=True)
    assert [check.message for check in guard.watched] == ["refused 0", "refused 1"]
    assert guard.flags_rows
    assert not guard.looks_at_rows
    rows = np.array(
        [[0, 0, 0], [np.nan, 1, 2], [0, 0, np.nan], [0, np.inf, 0], [0, 0, 1e30]], dtype
    )
    found = evaluate(lower_nodes(graph, dict(enumerate(guard.looks))).program, {"x": rows})
    flagged = np.any(list(found.values()), axis=0)
    np.testing.assert_array_equal(flagged.ravel(), [False, False, True, True, True])


def test_a_column_of_another_dtype_is_not_read_for_a_look_alone():
    schema = mixed()
    every = [columns_of(schema, i) for i in range(4)]
    dropped = find_guard(guarded(schema, every[1], every[0], every[1]), flags=True)
    assert dropped.looks_at_rows
    assert not dropped.looks
    read = find_guard(guarded(schema, columns_of(schema, 0, 1), every[0], every[1]), flags=True)
    assert not read.looks_at_rows
    assert sorted(look.x.type.dtype for look in read.looks) == ["float32", "float64"]


def test_ints_are_not_looked_at():
    schema = Schema.matrix(2, "int64")
    assert (
        find_looks(guarded(schema, Columns.of(schema)), [Columns.of(schema)], 1.0, frozenset())
        == ()
    )


def test_only_floats_are_beyond_a_bound():
    schema = Schema.matrix(2, "int64")
    graph = Graph(schema, {"transform": Output(IsBeyond(Columns.of(schema), 1.0, allow_nan=True))})
    with pytest.raises(HbconvError, match="other values than floats"):
        verify_graph(graph)
