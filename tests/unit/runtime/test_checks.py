"""One look at the input passes a check only where the check itself would."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from hbconv.array import Array
from hbconv.backends.reference import evaluate
from hbconv.containers import (
    Add,
    Affine,
    Cast,
    CastLike,
    Check,
    Choose,
    Clip,
    Columns,
    Compare,
    Concat,
    Entries,
    Graph,
    Impute,
    Interpolate,
    IsNonFinite,
    Linear,
    LookupRows,
    Map,
    Maximum,
    Normalize,
    NormalQuantile,
    Output,
    Polynomial,
    Recode,
    Schema,
    Select,
    SplineBasis,
    SquaredDistances,
    YeoJohnson,
)
from hbconv.containers.extractors import Buckets, Extractor, Terms, Texts
from hbconv.containers.guard import find_finite_output, find_guard, find_interval
from hbconv.errors import InputError
from hbconv.lower import lower_nodes
from hbconv.model import Model
from hbconv.runtime.checks import Checker
from hbconv.runtime.inputs.read import read_table
from hbconv.runtime.inputs.table import Reads
from hbconv.target import Target

WIDTH = 3


def chains(schema):
    """Nodes whose finiteness is looked at, by name."""
    x = Columns.of(schema)
    filled = Impute(x, Array(np.array([1.0, 2.0, 3.0])))
    code = Compare(x, "gt", Array(np.zeros(WIDTH)), "int32")
    knots = np.array([[0.0, 1.0, 1.0, 3.0, 1e3, 1e4]] * WIDTH)
    return {
        "columns": x,
        "affine": Affine.of(x, sub=[1.0, 2.0, 3.0], div=[1e-9, 1e-3, 1.0]),
        "grows and shrinks": Affine.of(x, mul=1e30, div=1e30),
        "divides by zero": Affine.of(x, div=[1.0, 0.0, 1.0]),
        "huge constants": Affine.of(x, mul=1e38),
        "select": Select(Affine.of(x, mul=2.0), Array(np.array([2, 0], np.int32))),
        "narrow": Cast(x, "float32"),
        "filled": Affine.of(filled, sub=1.0),
        "filled by half": Concat((Select(filled, Array(np.array([0], np.int32))), x)),
        "clip": Clip.of(x, -1.0, 1.0),
        "clip below": Clip.of(x, [-1.0, 0.0, 2.0], np.inf),
        "sum": Add((Affine.of(x, mul=2.0), x, Select(filled, Array.of([1], "int32")))),
        "largest": Maximum((x, filled)),
        "quantile": NormalQuantile(Clip.of(Cast(x, "float64"), 1e-7, 1.0 - 1e-7)),
        "quantile of anything": NormalQuantile(x),
        "linear": Linear.of(x, np.full((WIDTH, 2), 1e5), [1.0, 2.0]),
        "log": Map(x, "log"),
        "square": Map(Map(x, "square"), "square"),
        "sigmoid": Map(x, "sigmoid"),
        "normalize": Normalize(x, "l2"),
        "normalize entries": Affine.of(Normalize(x, "l1", sparse=True), mul=1e17),
        "chosen": Choose(
            Compare.of(x, "gt", 0.0), Affine.of(x, mul=2.0), CastLike(filled, Cast(x, "float"))
        ),
        "interpolate": Interpolate(Cast(x, "float"), Array(knots), Array(knots * 1e3)),
        "polynomial": Polynomial(x, Array(np.array([[0, 1, 2], [1, 1, -1]], np.int32))),
        "spline": SplineBasis(x, Array(knots), 2),
        "powers": YeoJohnson(Cast(x, "float"), Array([0.0, 2.5, -1.0]), Array([2.0, -0.5, 1e-3])),
        "distances": SquaredDistances(x, Array(np.eye(WIDTH))),
        "recode": Recode(code, (Array([0.0, 1.0, 2.0]),) * WIDTH),
        "recode chosen codes": Recode(
            Select(Concat((code, code)), Array(np.array([4, 0, 2], np.int32))),
            (Array([0.0, 1.0, 2.0]),) * WIDTH,
        ),
        "recode to what is missing": Recode(code, (Array([0.0, np.nan, 2.0]),) * WIDTH),
        "rows of a table": LookupRows(code, Array(np.array([[1.0, 2.0], [3.0, 4.0]]))),
    }


HOSTILE = [
    0.0,
    -0.0,
    1.0,
    -2.5,
    5e-324,
    1e3,
    1e8,
    -1e16,
    1e30,
    3e38,
    -1e45,
    1e200,
    1e308,
    np.inf,
    -np.inf,
    np.nan,
]


def checks_of(graph):
    """The checks of a graph as the host evaluates them, where no program helps it."""
    return Checker(graph.schema, find_guard(graph))


def reason(function):
    """Return the message of a refusal, without what it says of the row."""
    try:
        function()
    except InputError as error:
        return re.split(" The row | Row ", str(error))[0]
    return None


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize("allow_nan", [False, True])
@pytest.mark.parametrize("name", chains(Schema.matrix(WIDTH)))
def test_a_look_at_the_input_finds_what_the_checks_find(name, allow_nan, dtype):
    schema = Schema.matrix(WIDTH, dtype)
    node = chains(schema)[name]
    graph = Graph(
        schema, {"transform": Output(node)}, (Check(IsNonFinite(node, allow_nan), "refused"),)
    )
    checker, rng = checks_of(graph), np.random.default_rng(0)
    for _ in range(200):
        x = rng.normal(size=(rng.integers(0, 4), WIDTH))
        chosen = rng.random(x.shape) < 0.3
        x[chosen] = rng.choice(
            HOSTILE if dtype != "int64" else [0.0, 1e3, -(2.0**62)], chosen.sum()
        )
        with np.errstate(over="ignore"):
            table = read_table(x.astype(dtype), Reads.of(graph))
        assert reason(lambda table=table: checker(table)) == reason(
            lambda table=table: checker.all.require(table)
        )


@pytest.mark.parametrize(
    "name",
    [
        "columns",
        "affine",
        "select",
        "narrow",
        "filled",
        "filled by half",
        "clip",
        "clip below",
        "sum",
        "largest",
        "quantile",
        "linear",
        "sigmoid",
        "chosen",
        "interpolate",
        "polynomial",
        "spline",
        "powers",
        "distances",
        "recode chosen codes",
    ],
)
def test_ordinary_rows_need_but_one_look(name):
    schema = Schema.matrix(WIDTH)
    node = chains(schema)[name]
    checker = checks_of(
        Graph(
            schema,
            {"transform": Output(node)},
            (Check(IsNonFinite(node, allow_nan=False), "refused"),),
        )
    )
    assert checker.guard.bound >= 1e3
    assert not checker.host.checks


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("name", ["columns", "log", "filled by half"])
def test_a_guarded_program_refuses_what_the_checks_refuse(name, apart):
    pytest.importorskip("tvm")
    schema = Schema.table(["a", "b", "c"])
    node = chains(schema)[name]
    graph = Graph(
        schema, {"transform": Output(node)}, (Check(IsNonFinite(node, allow_nan=False), "refused"),)
    )
    model, rng = Model(graph, Target(backend="tvm")), np.random.default_rng(0)
    for _ in range(30):
        x = np.abs(rng.normal(size=(rng.integers(0, 4), WIDTH)))
        chosen = rng.random(x.shape) < 0.1
        x[chosen] = rng.choice(HOSTILE, chosen.sum())
        rows = (
            dict(zip("abc", x.T, strict=True))
            if apart
            else pd.DataFrame(x, columns=["a", "b", "c"])
        )
        expected = reason(
            lambda rows=rows: checks_of(graph).all.require(read_table(rows, Reads.of(graph)))
        )
        assert reason(lambda rows=rows: model.transform(rows)) == expected


def test_equal_checks_are_made_once_and_the_first_message_is_told():
    schema = Schema.matrix(WIDTH)
    x = Columns.of(schema)
    checks = (
        Check(IsNonFinite(x, allow_nan=False), "first"),
        Check(IsNonFinite(x, allow_nan=False), "second"),
        Check(Compare.of(x, "lt", 0.0), "third"),
    )
    graph = Graph(schema, {"transform": Output(x)}, checks)
    checker = checks_of(graph)
    assert [c.message for c in checker.all.checks.values()] == ["first", "third"]
    assert [c.message for c in checker.host.checks.values()] == ["third"]
    assert (
        reason(lambda: checker(read_table(np.full((1, WIDTH), np.nan), Reads.of(graph)))) == "first"
    )
    assert (
        reason(lambda: checker(read_table(np.full((1, WIDTH), -1.0), Reads.of(graph)))) == "third"
    )
    assert reason(lambda: checker(read_table(np.ones((1, WIDTH)), Reads.of(graph)))) is None


def test_a_graph_without_checks_takes_everything():
    schema = Schema.matrix(WIDTH)
    graph = Graph(schema, {"transform": Output(Columns.of(schema))})
    checks_of(graph)(read_table(np.full((2, WIDTH), np.nan), Reads.of(graph)))


def test_the_spread_of_what_holds_ints_is_that_of_ints():
    schema = Schema.matrix(2).with_dtypes(["int64", "float64"])
    found = find_interval(Columns.of(schema), 10.0)
    assert found is not None
    assert (found.bound, set(found.nan_from)) == (2.0**63, {1})


@pytest.mark.parametrize(
    ("columns", "settled"),
    [(Terms(("cat", "sat")), True), (Buckets(8, False), True), (Buckets(8, True), False)],
    ids=["terms", "hashed", "signed"],
)
def test_weights_of_counts_need_no_check(columns, settled):
    counts = Entries(Schema.matrix(1).with_dtypes(["string"]), 0, Extractor(Texts(), columns))
    weights = Normalize(Map(counts, "sublinear"), "l2", sparse=True)
    check = Check(IsNonFinite(weights, allow_nan=False), "weights")
    guard = find_guard(Graph(counts.schema, {"transform": Output(weights)}, (check,)))
    assert (guard.settled == (check,), guard.host == (check,)) == (settled, not settled)
    assert not guard.looks_at_rows


def answers(schema):
    """Answers by name, each with what is checked, whether NaN may stay, and whether they prove
    it finite.
    """
    x = Columns.of(schema)
    scaled = Affine.of(x, sub=[1.0, 2.0, 3.0], div=[1e-9, 1e-3, 1.0])
    return {
        "sums of columns": (Linear.of(x, np.ones((WIDTH, 2))), [x], False, True),
        "sums of scaled columns": (
            Linear.of(Concat((scaled, x)), np.full((2 * WIDTH, 1), -1e5)),
            [x, scaled],
            False,
            True,
        ),
        "narrow sums": (
            Linear.of(Cast(x, "float32"), np.ones(WIDTH, np.float32)),
            [x],
            False,
            True,
        ),
        "scaled otherwise": (Linear.of(x, np.ones(WIDTH)), [scaled], False, False),
        "without a weight": (Linear.of(x, [1.0, 0.0, 1.0]), [x], False, False),
        "chosen columns": (Linear.of(Select(x, Array([2, 0])), [1.0, 1.0]), [x], False, False),
        "clipped sums": (Map(Linear.of(x, np.ones(WIDTH)), "relu"), [x], False, False),
        "scaled": (Affine.of(scaled, mul=3.0), [x, scaled], True, True),
        "scaled, NaN refused": (scaled, [x], False, False),
        "nothing left": (Affine.of(x, mul=[1.0, 0.0, 1.0]), [x], True, False),
    }


@pytest.mark.parametrize("name", answers(Schema.matrix(WIDTH)))
def test_a_proof_marks_every_row_that_a_check_refuses(name):
    schema = Schema.matrix(WIDTH)
    node, checked, allow_nan, proves = answers(schema)[name]
    graph, conditions = (
        Graph(schema, {"answer": Output(node)}),
        [IsNonFinite(x, allow_nan) for x in checked],
    )
    proof = find_finite_output(graph, conditions)
    assert (proof is not None) == proves
    if proof is None:
        return
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, WIDTH))
    chosen = rng.random(x.shape) < 0.3
    x[chosen] = rng.choice(HOSTILE, chosen.sum())
    lowered = lower_nodes(
        graph, {"proof": proof} | {str(i): condition for i, condition in enumerate(conditions)}
    )
    found = evaluate(lowered.program, {"x": x})
    marked = found.pop("proof")
    assert not marked[(np.abs(x) < 1e4).all(axis=1)].any()
    assert all(marked[holds].all() for holds in found.values())


@pytest.mark.parametrize("width", [1, 5])
def test_infinite_answers_are_marked_wherever_they_are(width):
    pytest.importorskip("tvm")
    schema = Schema.matrix(width)
    x = Columns.of(schema)
    graph = Graph(
        schema,
        {"transform": Output(Affine.of(x, sub=1.0, div=3.0))},
        (Check(IsNonFinite(x, allow_nan=True), "refused"),),
    )
    model = Model(graph, Target(backend="tvm"))
    for rows in (1, 5, 1999, 2000):
        for row in (0, rows // 2, rows - 1):
            given = np.ones((rows, width))
            given[row, -1] = np.nan
            np.testing.assert_array_equal(model.transform(given), (given - 1) / 3)
            given[row, 0] = -np.inf
            assert reason(lambda given=given: model.transform(given)) == "refused"


def test_a_proven_program_refuses_what_the_checks_refuse():
    pytest.importorskip("tvm")
    schema = Schema.matrix(WIDTH)
    x = Columns.of(schema)
    graph = Graph(
        schema,
        {"predict": Output(Linear.of(x, [1.0, -1.0, 1e5]))},
        (Check(IsNonFinite(x, allow_nan=False), "refused"),),
    )
    model = Model(graph, Target(backend="tvm"))
    for value in HOSTILE:
        for rows in (0, 1, 5, 2000):
            given = np.ones((rows, WIDTH))
            given[rows // 2 :, 1] = value
            assert reason(lambda given=given: model.predict(given)) == (
                "refused" if rows and not np.isfinite(value) else None
            )


def places(guard):
    names = ("settled", "watched", "proven", "inside", "host")
    return {name: [check.message for check in getattr(guard, name)] for name in names}


def guarded_graph(output):
    """A graph with a check that an interval settles, and one that it cannot."""
    schema = Schema.matrix(WIDTH)
    x = Columns.of(schema)
    bounded = Check(IsNonFinite(x, allow_nan=False), "not finite")
    other = Check(Compare.of(x, "lt", 0.0), "negative")
    return Graph(schema, {"predict": Output(output(x))}, (bounded, other))


def test_each_check_is_answered_in_one_place():
    sums = guarded_graph(lambda x: Linear.of(x, np.ones(WIDTH)))
    logs = guarded_graph(lambda x: Map(x, "log"))
    nowhere = {"settled": [], "watched": [], "proven": [], "inside": [], "host": []}
    on_host = nowhere | {"settled": ["not finite"], "host": ["negative"]}
    assert places(find_guard(sums)) == on_host
    assert places(find_guard(logs)) == on_host
    assert places(find_guard(logs, flags=True)) == nowhere | {
        "watched": ["not finite"],
        "inside": ["negative"],
    }
    assert places(find_guard(sums, flags=True)) == nowhere | {
        "proven": ["not finite"],
        "inside": ["negative"],
    }


def test_a_program_flags_rows_only_where_its_guard_says_so():
    logs = guarded_graph(lambda x: Map(x, "log"))
    assert find_guard(logs, flags=True).flags_rows
    assert not find_guard(logs).flags_rows
    assert "negative" in str(find_guard(logs))


def test_checks_of_ints_and_graphs_without_checks_look_at_nothing():
    ints = Schema.matrix(WIDTH, "int64")
    check = Check(IsNonFinite(Columns.of(ints), allow_nan=False), "not finite")
    guard = find_guard(Graph(ints, {"transform": Output(Columns.of(ints))}, (check,)), flags=True)
    assert places(guard)["settled"] == ["not finite"]
    assert guard.bound == 0.0
    none = find_guard(Graph(ints, {"transform": Output(Columns.of(ints))}), flags=True)
    assert not none.checks
    assert not none.flags_rows
