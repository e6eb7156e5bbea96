"""Sums, orders and counts of instants and spans are numpy's, on every backend."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from hbconv.array import Array
from hbconv.backends import find_backend
from hbconv.containers import (
    Add,
    Carried,
    Columns,
    Graph,
    InstantRelation,
    Map,
    Output,
    Quotient,
    Schema,
    Select,
    UnitCount,
)
from hbconv.lower import lower_nodes
from hbconv.target import Target

Dates = npt.NDArray[np.datetime64]
RELATIONS = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip
DAY = 86_400 * 10**9

X = Columns.of(Schema.matrix(6))
FIRST, SECOND = (Select(X, Array(np.arange(start, start + 3))) for start in (0, 3))
SPAN = Carried(Add((FIRST, Map(SECOND, "neg"))))
NODES = {
    "span": SPAN,
    "days": Select(SPAN, Array([0])),
    "back": Carried(Add((SECOND, SPAN))),
    "share": Quotient((UnitCount(SPAN, "ns"), UnitCount(FIRST, "ns"))),
    **{unit: UnitCount(SPAN, unit) for unit in ("s", "ms", "us", "ns")},
    **{name: InstantRelation(FIRST, SECOND, name) for name in RELATIONS},
}


def parts(nanoseconds: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Day, second and nanosecond of instants or spans; NaN where there is none."""
    counts = nanoseconds.astype(np.int64)
    days = np.floor_divide(counts, DAY)
    rest = counts - days * DAY
    found = np.column_stack([days, rest // 10**9, rest % 10**9]).astype(np.float64)
    return np.where(np.isnat(nanoseconds)[:, None], np.nan, found)


def dates() -> tuple[Dates, Dates]:
    """Pairs that are equal, a nanosecond apart, on two sides of 1970, and missing."""
    rng = np.random.default_rng(0)
    x = rng.integers(-(2**61), 2**61, 2000)
    y = x + rng.choice([0, 1, -1, 10**9, -DAY, 999_999_999, 123], 2000)
    y[::3] = rng.integers(-(2**61), 2**61, len(y[::3]))
    x[:3] = np.iinfo(np.int64).min
    y[2:5] = np.iinfo(np.int64).min
    return x.view("datetime64[ns]"), y.view("datetime64[ns]")


@pytest.mark.parametrize("backend", ["reference", "torch", "torchscript", "onnx", "tvm"])
def test_spans_are_those_of_numpy(backend: str) -> None:
    x, y = dates()
    graph = Graph(X.schema, {"transform": Output(SPAN)})
    lowered = lower_nodes(graph, dict(NODES))
    rows = np.hstack([parts(x), parts(y)])
    answers = find_backend(backend).compile(lowered.program, Target(backend)).run({"x": rows})
    span = x - y
    missing = np.isnat(span)
    np.testing.assert_array_equal(answers["span"], parts(span))
    np.testing.assert_array_equal(answers["days"], parts(span)[:, :1])
    np.testing.assert_array_equal(answers["back"][~missing], parts(x)[~missing])
    with np.errstate(all="ignore"):
        share = span / (x - np.datetime64(0, "ns"))
    np.testing.assert_array_equal(answers["share"].ravel(), share)
    for unit in ("s", "ms", "us", "ns"):
        # numpy rounds toward zero where it cuts a span to a unit, and Python rounds down.
        step = np.timedelta64(1, unit) // np.timedelta64(1, "ns")
        counts = np.where(missing, 0, span.astype(np.int64) // step).astype(np.float64)
        want = np.where(missing, np.nan, counts)
        np.testing.assert_array_equal(answers[unit].ravel(), want, err_msg=unit)
    for name, relation in RELATIONS.items():
        np.testing.assert_array_equal(answers[name].ravel(), relation(x, y), err_msg=name)


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        (Carried(X), "no parts of an instant"),
        (UnitCount(FIRST, "min"), "counts no unit min"),
        (InstantRelation(FIRST, SECOND, "xor"), "no relation xor"),
    ],
)
def test_what_is_no_instant_does_not_fit(node: Any, reason: str) -> None:
    assert reason in node.check()
