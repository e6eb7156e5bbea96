"""Nodes that compute what functions of numpy do, on every backend and rows made to hurt."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from tolerances import OPERATOR, ORDERED, units

from hbconv.array import Array
from hbconv.backends import find_backend
from hbconv.backends.tvm.machine.machine import VECTORS
from hbconv.containers import (
    Arctan2,
    Columns,
    FloorDivide,
    Fmax,
    Fmin,
    Fmod,
    Graph,
    Hypot,
    Interpolate,
    IsMissing,
    Map,
    Minimum,
    Node,
    Output,
    Raise,
    Remainder,
    RoundDecimals,
    RowStatistic,
    RunningSums,
    Schema,
    Select,
)
from hbconv.lower import lower, lower_nodes
from hbconv.target import Target

Numbers = npt.NDArray[Any]
FLOATS = ("float32", "float64")
INTS = ("int32", "int64")
WIDTH = 20
BACKENDS = ("reference", "torch", "torchscript", "onnx", *(f"tvm/{lanes}" for lanes in VECTORS))


@dataclass(frozen=True)
class Function:
    """What a node must give: ``want(x)`` of the rows, within so many units."""

    node: Callable[[Node], Node]
    want: Callable[[Numbers], Numbers]
    limit: float = 0.0
    dtypes: tuple[str, ...] = (*FLOATS, *INTS)


def left(x: Node) -> Node:
    return Select(x, Array(np.arange(10)))


def right(x: Node) -> Node:
    return Select(x, Array(np.arange(10, 20)))


def of_two(node: type[Node], function: Callable[..., Numbers], *options: Any) -> Function:
    return Function(
        lambda x: node(left(x), right(x)), lambda x: function(x[:, :10], x[:, 10:]), *options
    )


def of_one(name: str, limit: float = OPERATOR) -> Function:
    return Function(lambda x: Map(x, name), getattr(np, name), limit, FLOATS)


def extreme(node: type[Node], function: Callable[..., Numbers]) -> Function:
    return Function(lambda x: node((left(x), right(x))), lambda x: function(x[:, :10], x[:, 10:]))


def rounded(decimals: int) -> Function:
    dtypes = FLOATS if decimals < 0 else (*FLOATS, *INTS)
    return Function(
        lambda x: RoundDecimals(x, decimals), lambda x: np.round(x, decimals), dtypes=dtypes
    )


def statistic(name: str, width: int, order: Any = "F", **options: int) -> Function:
    """Compare with numpy, of an array that lies in memory as the node says."""

    def want(x: Numbers) -> Numbers:
        columns = np.array(x[:, :width], order=order)
        # One row lies by rows and by columns, and numpy takes it to lie by rows.
        whole = len(x) if len(x) != 1 or order == "C" else 0
        found = getattr(np, name)(columns[:whole], axis=1, **options)
        return found[:, None]

    def node(x: Node) -> Node:
        columns = Select(x, Array(np.arange(width)))
        return RowStatistic(columns, name, options.get("ddof", 0), order)

    # The ends of int64 have no sum, and the root of torch may be the next number to the nearest.
    return Function(node, want, ROOT if "std" in name else 0.0, (*FLOATS, "int32"))


ROOT = 1.0
"""Units that vector libraries miss a root by."""
KNOTS = np.array([-3.0, -1.0, 0.0, 0.0, 0.1, 2.0, 5.0])
HEIGHTS = np.array([1.0, 0.3, -2.0, 7.0, 7.0, 1e-3, 4.0])
SUMS = ("sum", "mean", "var", "std", "nansum", "nanmean", "nanvar", "nanstd")

FUNCTIONS: dict[str, Function] = {
    **{name: of_one(name) for name in (
        "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh",
        "cbrt", "exp2", "expm1", "log1p", "log2", "log10",
    )},
    **{name: of_one(name, 0.0) for name in ("trunc", "deg2rad", "rad2deg", "floor", "rint")},
    "floor_divide": of_two(FloorDivide, np.floor_divide),
    "remainder": of_two(Remainder, np.remainder),
    "fmod": of_two(Fmod, np.fmod),
    "fmax": of_two(Fmax, np.fmax),
    "fmin": of_two(Fmin, np.fmin),
    "minimum": extreme(Minimum, np.minimum),
    "hypot": of_two(Hypot, np.hypot, 2.0, FLOATS),
    "power": of_two(Raise, np.power, OPERATOR, FLOATS),
    "arctan2": of_two(Arctan2, np.arctan2, OPERATOR, FLOATS),
    **{f"round to {decimals}": rounded(decimals) for decimals in (0, 1, 2, 7, 23, 40, -1, -2)},
    **{
        f"{name} of {width} in {order}": statistic(name, width, order)
        for name in SUMS
        for width, order in ((1, "F"), (3, "C"), (7, "F"), (8, "C"), (19, "C"), (19, "F"))
    },
    **{
        f"{name} of {width} less one": statistic(name, width, ddof=1)
        for name in ("std", "nanstd") for width in (1, 3)
    },
    **{name: statistic(name, 6) for name in ("max", "min", "nanmax", "nanmin", "any", "all")},
    "cumsum": Function(
        lambda x: RunningSums(x, WIDTH), lambda x: np.cumsum(x, axis=1), dtypes=FLOATS
    ),
    "interp": Function(
        lambda x: Interpolate(x, *(Array(np.tile(table, (WIDTH, 1))) for table in (KNOTS, HEIGHTS))),
        lambda x: np.interp(x, KNOTS, HEIGHTS), dtypes=FLOATS,
    ),
}  # fmt: skip


def rows_of(dtype: str) -> Numbers:
    """Numbers of all sizes, pairs of which divide, halves, knots, missing and infinite ones."""
    rng = np.random.default_rng(0)
    shape = (400, WIDTH)
    if dtype in INTS:
        info = np.iinfo(dtype)
        ends = np.array([info.min, info.min + 1, info.max, 0, 0, 1, -1], dtype)
        few = rng.integers(-9, 10, shape).astype(dtype)
        many = rng.integers(-(2**30), 2**30, shape).astype(dtype)
        x = np.where(rng.random(shape) < 0.5, few, many)
        return np.where(rng.random(shape) < 0.1, rng.choice(ends, shape), x)
    info = np.finfo(dtype)
    ordinary = rng.standard_normal(shape) * 10.0 ** rng.integers(-4, 4, shape)
    tenths = rng.integers(-30, 31, shape) / 10.0
    ends = [
        np.nan,
        np.inf,
        -np.inf,
        0.0,
        -0.0,
        info.smallest_subnormal,
        info.tiny,
        info.max,
        -info.max,
        1.0,
        -1.0,
    ]
    beside = np.concatenate([np.nextafter(KNOTS, end) for end in (-np.inf, np.inf)])
    special = np.array([*ends, *KNOTS, *beside, 0.5, 2.5, -0.125, 0.05, 1.005, 2.675], dtype)
    x = np.where(rng.random(shape) < 0.5, ordinary, tenths).astype(dtype)
    x[200:] = np.where(rng.random((200, WIDTH)) < 0.2, rng.choice(special, (200, WIDTH)), x[200:])
    x[7], x[8, ::2], x[9, 1:] = np.nan, np.nan, np.nan
    return x


def of_dtype(dtype: str) -> dict[str, Function]:
    return {name: f for name, f in FUNCTIONS.items() if dtype in f.dtypes}


@pytest.mark.parametrize("dtype", [*FLOATS, *INTS])
@pytest.mark.parametrize("backend", BACKENDS)
def test_nodes_are_functions_of_numpy(
    backend: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, _, lanes = backend.partition("/")
    if lanes:
        monkeypatch.setenv("HBCONV_MACHINE", f"/{lanes}")
    x = Columns.of(Schema.matrix(WIDTH, dtype))
    functions = of_dtype(dtype)
    roots = {key: function.node(x) for key, function in functions.items()}
    assert [node.check() for node in roots.values()] == [None] * len(roots)
    graph = Graph(x.schema, {"transform": Output(next(iter(roots.values())))})
    lowered = lower_nodes(graph, roots)
    artifact = find_backend(name).compile(lowered.program, Target(name))
    rows = rows_of(dtype)
    wrong: dict[str, str] = {}
    for count in (400, 37, 1, 0):
        cut = np.ascontiguousarray(rows[-count:] if count else rows[:0])
        answers = artifact.run({feed.name: cut for feed in lowered.feeds})
        for key, function in functions.items():
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                want = np.asarray(function.want(cut))
                limit = 0.0 if function.limit == ROOT and name in ORDERED else function.limit
                reason = apart(answers[key][: len(want)], want, limit, name)
            if reason:
                wrong.setdefault(key, f"{count} rows: {reason}")
    assert wrong == {}


def apart(got: Numbers, want: Numbers, limit: float, backend: str) -> str:
    """Say how an answer differs."""
    if (got.shape, got.dtype) != (want.shape, want.dtype):
        return f"{got.shape} {got.dtype} for {want.shape} {want.dtype}"
    if want.dtype.kind != "f":
        return "" if (got == want).all() else f"{got[got != want][:3]} for {want[got != want][:3]}"
    far = units("transform", got, want) > limit
    # ONNX Runtime's Where gives zeros of either sign as positive ones, and torch's running sums
    # start from 0.0.
    if backend in ORDERED:
        far |= (got == 0) & (want == 0) & (np.signbit(got) != np.signbit(want))
    return f"{far.sum()}: {got[far][:3]} for {want[far][:3]}" if far.any() else ""


@pytest.mark.parametrize("backend", ["reference", "torch", "onnx", "tvm"])
@pytest.mark.parametrize("dtype", INTS)
def test_ints_are_rounded_to_tens(backend: str, dtype: str) -> None:
    x = Columns.of(Schema.matrix(1, dtype))
    graph = Graph(x.schema, {"transform": Output(RoundDecimals(x, -1))})
    rows = np.arange(-2000, 2000).astype(dtype)[:, None]
    artifact = find_backend(backend).compile(lower(graph).program, Target(backend))
    (answer,) = artifact.run({"x": rows}).values()
    np.testing.assert_array_equal(answer, np.round(rows, -1), strict=True)


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        (lambda x: RoundDecimals(x, 400), "rounds to 400 decimals"),
        (lambda x: RowStatistic(x, "mode"), "computes mode"),
        (lambda x: RowStatistic(x, "sum", 0, "A"), "in order A"),
        (lambda x: RowStatistic(Select(x, Array(np.empty(0, int))), "sum"), "of no columns"),
        (lambda x: FloorDivide(IsMissing(x), IsMissing(x)), "computes with bools"),
    ],
)
def test_what_numpy_has_no_function_for_does_not_fit(
    node: Callable[[Node], Node], reason: str
) -> None:
    assert reason in str(node(Columns.of(Schema.matrix(2))).check())
