"""Codes of many columns are those that one column after another gives, on every backend."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hbconv.array import Array
from hbconv.backends import find_backend
from hbconv.backends.reference import evaluate
from hbconv.containers import Cast, Columns, FindCode, Graph, Output, Schema, Select, verify_graph
from hbconv.errors import VerificationError
from hbconv.lower import lower
from hbconv.target import Target

BACKENDS = ("reference", "torch", "torchscript", "onnx", "tvm")
SPECIAL = [
    np.nan,
    np.inf,
    -np.inf,
    0.0,
    -0.0,
    5e-324,
    0.5,
    -0.5,
    2.0**31,
    -(2.0**31),
    2.0**53,
    1e300,
]
INT_EDGES = [0, 1, -1, 2**31 - 1, -(2**31), 2**31, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)]

COLUMNS: dict[str, tuple[list[float], ...]] = {
    "consecutive": ([0, 1, 2], [-3, -2, -1, 0], [7], list(range(40)), [1, 2, np.nan]),
    "large": ([2**31 - 2, 2**31 - 1], [-(2**31), -(2**31) + 1], [2**31 - 1, 2**31]),
    "in a range": (list(range(0, 60, 3)), [*range(9), 100], [-5, *range(3, 12), 4000, np.nan]),
    "few": ([0.5], [-np.inf, -0.0, np.inf], [0.1, 0.2, np.nextafter(0.2, 1)], [np.nan], []),
    "many": (
        np.linspace(-1, 1, 21).tolist(), [-np.inf, *np.linspace(0, 1, 9), np.inf],
        [*range(9), 10**6], [*np.linspace(5, 6, 300), np.nan], [*np.arange(9) + 0.5, 2.0**53],
    ),
    "of every form": (
        [0, 1, 2], [0.5, np.nan], list(range(0, 60, 3)), np.linspace(-1, 1, 21).tolist(), [], [3, 4],
    ),
}  # fmt: skip


def expected(x: np.ndarray, known: tuple[np.ndarray, ...]) -> np.ndarray:
    """Compare each value with each known one, in numpy's common dtype."""
    codes = np.full(x.shape, -1, np.int32)
    for j, values in enumerate(known):
        common = np.result_type(x.dtype, values.dtype)
        for i, number in enumerate(x[:, j].astype(common)):
            equal = values.astype(common) == number
            equal |= np.isnan(values.astype(common)) & np.isnan(number)
            codes[i, j] = np.flatnonzero(equal)[0] if equal.any() else -1
    return codes


def hostile(known: tuple[np.ndarray, ...], dtype: str) -> np.ndarray:
    """Known values, their neighbours, and values between and beyond them."""
    rng = np.random.default_rng(0)
    columns = []
    for values in known:
        numbers = values[np.isfinite(values)].astype(dtype)
        if dtype.startswith("float"):
            near = [np.nextafter(numbers, np.array(end, dtype)) for end in (-np.inf, np.inf)]
            beside = [numbers + 1, numbers - 1, numbers + 0.5, -numbers, values]
            with np.errstate(over="ignore"):
                edges = np.array(SPECIAL).astype(dtype)
        else:
            near = []
            beside = [numbers + 1, numbers - 1]
            edges = np.array(
                [n for n in INT_EDGES if np.iinfo(dtype).min <= n <= np.iinfo(dtype).max], dtype
            )
        with np.errstate(over="ignore"):
            pool = np.concatenate([numbers, *near, *beside, edges]).astype(dtype)
        columns.append(np.concatenate([pool, rng.choice(pool, 700 - len(pool) % 700)]))
    rows = min(map(len, columns))
    return np.stack([rng.permutation(column)[:rows] for column in columns], axis=1)


def graph_of(known: tuple[np.ndarray, ...], dtype: str) -> Graph:
    schema = Schema.matrix(len(known), "int64" if dtype == "int32" else dtype)
    node = FindCode(Cast(Columns.of(schema), dtype), tuple(map(Array, known)))
    return verify_graph(Graph(schema, {"transform": Output(node)}))


def codes_of(known: tuple[np.ndarray, ...], x: np.ndarray, backend: str) -> np.ndarray:
    program = lower(graph_of(known, x.dtype.name)).program
    rows = x.astype(program.inputs[0].type.dtype)
    (codes,) = find_backend(backend).compile(program, Target(backend)).run({"x": rows}).values()
    return codes


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("form", COLUMNS)
def test_floats_have_the_codes_of_their_columns(form, dtype, backend):
    known = tuple(np.array(values, np.float64) for values in COLUMNS[form])
    if dtype == "float32" and form == "few":
        known = tuple(values.astype(np.float32) for values in known[:2])
    x = hostile(known, dtype)
    codes = codes_of(known, x, backend)
    assert codes.dtype == np.int32
    assert np.array_equal(codes, expected(x, known))


@pytest.mark.parametrize("backend", BACKENDS)
def test_float32_rounds_the_limits_of_int32(backend):
    limits = ([2.0**31], [-(2.0**31)], [2.0**31 - 128], [2.0**31 - 128, 2.0**31])
    known = tuple(np.array(values, np.float32) for values in limits)
    x = hostile(known, "float32")
    assert np.array_equal(codes_of(known, x, backend), expected(x, known))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", ["int64", "int32"])
@pytest.mark.parametrize(
    "known",
    [([0, 1, 2], [5], [-3, -2]), ([0, 9, 10**6], list(range(0, 90, 2))), ([*range(9), 10**9],),
     ([2**31 - 2, 2**31 - 1],), ([-(2**31), -(2**31) + 1],)],
)  # fmt: skip
def test_whole_numbers_are_compared_as_such(known, dtype, backend):
    known = tuple(np.array(values, dtype) for values in known)
    x = hostile(known, dtype)
    assert np.array_equal(codes_of(known, x, backend), expected(x, known))


def test_whole_numbers_beyond_float64_are_told_apart():
    known = (np.array([2**53, 2**53 + 1, 2**53 + 2]),)
    x = hostile(known, "int64")
    codes = evaluate(lower(graph_of(known, "int64")).program, {"x": x})["transform"]
    assert np.array_equal(codes, expected(x, known))
    assert set(codes.ravel()) == {-1, 0, 1, 2}


HASHES = np.random.default_rng(3).integers(-(2**63), 2**63, 4000)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("dtype", "sizes"),
    [("int64", (9, 300, 40, 0, 3)), ("int64", (4000,)), ("int32", (12, 700)), ("int32", (9,))],
)
def test_hashes_are_found_in_cells(dtype, sizes, backend):
    """Their high bits say where they stand."""
    lists = [np.unique(HASHES[:size] >> (0 if dtype == "int64" else 32)) for size in sizes]
    known = tuple(values.astype(dtype) for values in lists)
    x = hostile(known, dtype)
    assert np.array_equal(codes_of(known, x, backend), expected(x, known))


@pytest.mark.parametrize(
    "known",
    [
        [*range(-(2**63), -(2**63) + 9), 2**63 - 1], [*range(-5, 40, 5), 2**40],
        [-(2**63), *range(2**62, 2**62 + 9000, 1000), 2**63 - 1], [2, 2, 2, *range(10, 10**6, 10**5)],
    ],
)  # fmt: skip
def test_whole_numbers_that_lie_in_few_cells_are_searched(known):
    known = (np.array(known, np.int64),)
    x = hostile(known, "int64")
    codes = evaluate(lower(graph_of(known, "int64")).program, {"x": x})["transform"]
    assert np.array_equal(codes, expected(x, known))


def test_whole_numbers_of_a_damaged_file_need_not_ascend():
    known = (np.array([5, 1, 2**40, -7, 9, 8, 3, 2, 10], np.int64),)
    assert lower(graph_of(known, "int64")).program.outputs


def test_no_trend_is_told_of_whole_numbers_that_floats_round():
    """A threshold would move to the neighbour of a known number."""
    x = Columns.of(Schema.matrix(2, "int64"))
    node = FindCode(x, (Array([2**53, 2**53 + 1]), Array([0, 2**53])))
    assert [node.trend(column).name for column in (0, 1)] == ["UNKNOWN", "FLAT"]


def test_whole_numbers_meet_categories_that_are_not():
    known = (np.array([0.5, 1.0, np.nan]), np.array([0.0, 1.0, 2.0]))
    x = np.arange(-2, 4).repeat(2).reshape(-1, 2)
    codes = evaluate(lower(graph_of(known, "int64")).program, {"x": x})["transform"]
    assert np.array_equal(codes, expected(x, known))


def test_many_columns_take_few_operators():
    known = tuple(np.arange(3.0) for _ in range(200))
    program = lower(graph_of(known, "float64")).program
    assert len(program.instructions) < 20


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_columns_have_the_codes_of_one_after_another(data):
    number = st.sampled_from([-2.0, -1.0, 0.0, 0.5, 1.0, 2.0, 3.0, 7.0, 1e9, -np.inf, np.inf])
    lists = st.lists(st.lists(number, unique=True, max_size=10), min_size=1, max_size=5)
    known = tuple(
        np.array([*sorted(values), *([np.nan] if data.draw(st.booleans()) else [])])
        for values in data.draw(lists)
    )
    graph = graph_of(known, "float64")
    x = np.random.default_rng(1).choice(
        [*SPECIAL, -2.0, -1.0, 1.0, 2.0, 3.0, 7.0, 1e9], (200, len(known))
    )
    together = evaluate(lower(graph).program, {"x": x})["transform"]
    assert np.array_equal(together, expected(x, known))
    (node,) = graph.output_roots
    outputs = {f"c{j}": Output(node.narrowed(Array.of([j], "int32"))) for j in range(len(known))}
    alone = evaluate(lower(Graph(graph.schema, outputs)).program, {"x": x})
    for j in range(len(known)):
        assert np.array_equal(alone[f"c{j}"][:, 0], together[:, j])


def test_values_for_other_columns_are_refused():
    schema = Schema.matrix(2)
    node = FindCode(Columns.of(schema), (Array([1.0]),))
    with pytest.raises(VerificationError, match="list of values for each column"):
        verify_graph(Graph(schema, {"transform": Output(node)}))


def test_a_selection_keeps_the_values_of_its_columns():
    schema = Schema.matrix(3)
    node = FindCode(Columns.of(schema), tuple(Array(np.arange(float(n))) for n in (1, 2, 3)))
    narrow = node.narrowed(Array.of([2, 0], "int32"))
    assert isinstance(narrow.x, Select)
    assert [len(values) for values in narrow.values] == [3, 1]
