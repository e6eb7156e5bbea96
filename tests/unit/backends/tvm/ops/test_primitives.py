"""Every primitive through the tile compiler agrees with its meaning in numpy."""

from __future__ import annotations

import numpy as np
import pytest
from tolerances import OPERATOR

from hbconv.backends.reference import evaluate
from hbconv.backends.tvm import BACKEND
from hbconv.backends.tvm.compile import compile_program
from hbconv.backends.tvm.machine.machine import Machine
from hbconv.backends.tvm.machine.schedule import ONE_ROW
from hbconv.backends.tvm.passes.fuse_products import fuse_products
from hbconv.target import Target
from hbconv.tensor import PRIMITIVES, Builder, Op, OpKind

pytestmark = [pytest.mark.usefixtures("vector"), pytest.mark.share("vector")]

ROWS = (0, 1, 7, 63, 64, 65, 1000)
ROWS_ALONG = 50
NOT_ALONG = (OpKind.TREES, OpKind.CONTRIBUTIONS, OpKind.LOOP)
"""What a tile of one row does not compute on the CPU."""
SPECIAL = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    1.5,
    2.5,
    -2.5,
    np.nan,
    np.inf,
    -np.inf,
    1e-45,
    -1e-45,
    5e-324,
    1e-30,
    88.5,
    -104.0,
    3.4e38,
    16777217.0,
)

UNARY = ("neg", "abs", "sign", "sqrt", "exp", "expm1", "log", "log1p", "log2", "log10", "sin", "cos", "tan", "atan", "tanh", "sigmoid", "relu", "erf", "floor", "ceil",
         "rint", "isnan", "isinf")  # fmt: skip
LIBRARY = (
    "exp",
    "expm1",
    "log",
    "log1p",
    "log2",
    "log10",
    "sin",
    "cos",
    "tan",
    "atan",
    "tanh",
    "sigmoid",
    "erf",
    "pow",
    "logsumexp",
    "ordered_logsumexp",
    "reduce_sum",
    "matmul",
)
BINARY = (
    "add",
    "sub",
    "mul",
    "div",
    "fmod",
    "trunc_divide",
    "pow",
    "minimum",
    "maximum",
    "lt",
    "le",
    "gt",
    "ge",
    "eq",
    "ne",
)
REDUCTIONS = (
    "reduce_sum",
    "ordered_sum",
    "reduce_prod",
    "reduce_max",
    "reduce_min",
    "argmax",
    "logsumexp",
    "ordered_logsumexp",
    "cumsum",
    "sort",
)
FLOATS, INTS = ("float32", "float64"), ("int32", "int64")
tested: set[str] = set()


def values(dtype, rows, width, seed=0):
    """Ordinary and awkward numbers."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, width)) * 3
    if dtype in FLOATS:
        with np.errstate(over="ignore"):
            awkward = rng.choice(np.array(SPECIAL, dtype), x.shape)
        return np.where(rng.random(x.shape) < 0.5, awkward, x.astype(dtype))
    return rng.integers(-40, 40, x.shape).astype(dtype)


def agree(program, inputs, ulps=0):
    """Compare all outputs for every number of rows."""
    tested.update(program.primitives)
    artifact = BACKEND.compile(program, Target("tvm"))
    for rows in ROWS:
        cut = {name: np.ascontiguousarray(x[:rows]) for name, x in inputs.items()}
        expected, got = evaluate(program, cut), artifact.run(cut)
        assert list(got) == list(expected)
        for name, want in expected.items():
            same(got[name], want, ulps, (program, name, rows))
    along_rows(program, inputs)


def along_rows(program, inputs):
    """Compare the loop along rows with that over tiles: a row has one answer, to the bit."""
    prepared, target = BACKEND.prepare(program, Target("tvm")), Target("tvm")
    if any(isinstance(i, Op) and i.kind in NOT_ALONG for i in prepared.instructions):
        return
    artifact = BACKEND.emit(prepared, target)
    along = compile_program(fuse_products(prepared), ONE_ROW, Machine.host(), target)
    cut = {name: np.ascontiguousarray(x[:ROWS_ALONG]) for name, x in inputs.items()}
    expected, got = artifact.run(cut), along.run(cut)
    for name, want in expected.items():
        same(got[name], want, 0, (program, name, "along rows"))


@pytest.mark.parametrize("dtype", FLOATS)
def test_infinite_rows_of_triangular_weights_have_one_answer(dtype):
    b = Builder()
    x = b.input("x", dtype, 24)
    program = b.program({"y": b.matmul(x, b.constant(np.tril(np.ones((24, 24))), dtype))})
    rows = values(dtype, ROWS_ALONG, 24)
    assert np.isinf(rows).any()
    along_rows(program, {"x": rows})


def same(got, want, ulps, what):
    """Equal, NaN where NaN; within some ulps where the mathematics library is at work."""
    assert got.dtype == want.dtype, what
    assert got.shape == want.shape, what
    if not ulps or want.dtype.name not in FLOATS:
        np.testing.assert_array_equal(got, want, err_msg=str(what))
        return
    finite = np.isfinite(want) & np.isfinite(got)
    np.testing.assert_array_equal(
        np.where(finite, 0, got), np.where(finite, 0, want), err_msg=str(what)
    )
    error = np.abs(got[finite].astype(np.float64) - want[finite]) / np.spacing(
        np.maximum(np.abs(want[finite]), np.finfo(want.dtype).tiny)
    )
    assert error.max(initial=0) <= ulps, (what, error.max())


def unary(names, dtype, width=3):
    b = Builder()
    x = b.input("x", dtype, width)
    return b.program({name: b.op(name, x) for name in names})


@pytest.mark.parametrize("dtype", FLOATS)
def test_elementwise_of_one(dtype):
    exact = [n for n in UNARY if n not in LIBRARY]
    agree(unary(exact, dtype), {"x": values(dtype, 1000, 3)})
    agree(unary([n for n in UNARY if n in LIBRARY], dtype), {"x": values(dtype, 1000, 3)}, OPERATOR)


@pytest.mark.parametrize("dtype", INTS)
def test_elementwise_of_one_integer(dtype):
    agree(unary(("neg", "abs", "sign"), dtype), {"x": values(dtype, 1000, 3)})


def binary(names, dtype, shape, constant):
    """Primitives of two values, of a value with itself, and with a constant on either side."""
    b = Builder()
    x, y, c = b.input("x", dtype, 3), b.input("y", dtype, shape), b.constant(constant, dtype)
    outputs = {}
    for name in names:
        outputs |= {
            name: b.op(name, x, y),
            f"{name} self": b.op(name, x, x),
            f"{name} right": b.op(name, x, c),
            f"{name} left": b.op(name, c, x),
        }
    return b.program(outputs)


@pytest.mark.parametrize("width", [3, 1])
@pytest.mark.parametrize("dtype", [*FLOATS, *INTS])
def test_elementwise_of_two(dtype, width):
    absent = {"pow", "trunc_divide" if dtype in FLOATS else "div"}
    names = [n for n in BINARY if n not in absent]
    inputs = {"x": values(dtype, 1000, 3), "y": values(dtype, 1000, width, 1)}
    agree(binary(names, dtype, width, [0, 1, -2]), inputs)
    agree(binary(names, dtype, width, 0), inputs)


@pytest.mark.parametrize("dtype", FLOATS)
def test_power(dtype):
    agree(
        binary(["pow"], dtype, 3, [2.0, 0.5, -1.0]),
        {"x": values(dtype, 1000, 3), "y": values(dtype, 1000, 3, 1)},
        OPERATOR,
    )


@pytest.mark.parametrize("dtype", INTS)
def test_bits(dtype):
    inputs = {"x": values(dtype, 1000, 3), "y": values(dtype, 1000, 3, 1)}
    agree(binary(["and", "or", "xor", "shift_left", "shift_right"], dtype, 3, [0, 3, 70]), inputs)


def test_logic():
    b = Builder()
    x, y = b.input("x", "float32", 3), b.input("y", "float32", 3)
    low, high = x < y, x >= y
    program = b.program({"and": low & high, "or": low | high, "xor": b.op("xor", low, high), "not": ~low, "not nan": ~(x <= y),
                         "eq": b.op("eq", low, high), "ne": b.op("ne", low, high), "any": b.reduce("reduce_any", low)})  # fmt: skip
    agree(program, {"x": values("float32", 1000, 3), "y": values("float32", 1000, 3, 1)})


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_product_is_rounded_before_it_is_added_to(dtype):
    b = Builder()
    x, y = b.input("x", dtype, 5), b.input("y", dtype, 5)
    scale, shift = (
        b.constant(np.linspace(0.1, 3.3, 5), dtype),
        b.constant(np.linspace(-1, 7.7, 5), dtype),
    )
    program = b.program(
        {
            "affine": x * scale + shift,
            "difference": y - x * scale,
            "chain": (x * y + x * scale) / shift,
            "prod": b.reduce("reduce_prod", x + y),
        }
    )
    rng = np.random.default_rng(0)
    agree(
        program,
        {
            "x": rng.standard_normal((1000, 5)).astype(dtype),
            "y": rng.standard_normal((1000, 5)).astype(dtype),
        },
    )


def test_where_broadcasts():
    b = Builder()
    x, y = b.input("x", "float64", 3), b.input("y", "float64", 1)
    zero, numbers, mask = (
        b.constant(0.0),
        b.constant([1.0, 2.0, np.nan]),
        b.constant([True, False, True]),
    )
    program = b.program(
        {
            "a": b.where(y < zero, x, y),
            "b": b.where(x < zero, zero, numbers),
            "c": b.where(mask, x, y),
        }
    )
    agree(program, {"x": values("float64", 1000, 3), "y": values("float64", 1000, 1, 1)})


@pytest.mark.parametrize("dtype", [*FLOATS, *INTS])
def test_casts(dtype):
    b = Builder()
    x = b.input("x", dtype, 3)
    program = b.program(
        {to: b.cast(x, to) for to in (*FLOATS, *INTS, "bool") if to != dtype}
        | {"back": b.cast(b.cast(x, "bool"), dtype)}
    )
    x = values(dtype, 1000, 3)
    # A float outside the integers has no integer: numpy leaves the answer to the processor.
    agree(program, {"x": np.clip(np.nan_to_num(x), -(2**30), 2**30) if dtype in FLOATS else x})


def test_nan_is_true():
    b = Builder()
    x = b.input("x", "float64", 1)
    agree(b.program({"y": b.cast(x, "bool")}), {"x": values("float64", 1000, 1)})


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    ("inner", "outer", "width"), [(3, 7, 1000), (1, 1, 1), (5, 4, 8), (128, 6, 3)]
)
def test_matmul(dtype, inner, outer, width):
    b = Builder()
    rng = np.random.default_rng(0)
    x = b.input("x", dtype, inner)
    w = rng.standard_normal((inner, outer))
    batched = b.constant(rng.standard_normal((inner, 1, 5)), dtype)
    y = b.matmul(x, b.constant(w, dtype))
    three = b.matmul(b.reshape(x, inner, 1), batched)
    # Sums of products in another order than BLAS: small integers make every order exact.
    agree(
        b.program({"y": y, "three": three}),
        {"x": rng.standard_normal((1000, inner)).round().astype(dtype) * 0},
    )
    exact = Builder()
    x = exact.input("x", dtype, inner)
    y = exact.matmul(x, exact.constant(rng.integers(-9, 9, (inner, outer)), dtype))
    three = exact.matmul(
        exact.reshape(x, inner, 1), exact.constant(rng.integers(-9, 9, (inner, 1, 5)), dtype)
    )
    agree(
        exact.program({"y": y, "three": three}),
        {"x": rng.integers(-9, 9, (1000, inner)).astype(dtype)},
    )


def test_movement():
    b = Builder()
    x, y = b.input("x", "float32", 6), b.input("y", "float32", 2)
    cube = b.reshape(x, 2, 3)
    program = b.program({
        "run": b.take(x, [2, 3, 4]), "jump": b.take(x, [5, 0, 0, -1]),
        "none": b.op("take", x, b.constant([], "int32"), axis=0),
        "axis": b.take(cube, [2, 0], axis=1), "run of rows": b.take(cube, [1]),
        "concat": b.concat([y, x, y]), "concat axis": b.concat([cube, cube], axis=1),
        "expand": b.op("expand", x, b.constant([1.5, np.nan])), "reshape": b.reshape(x, 3, 2),
        "cube": cube, "deep": b.take(b.take(x, [1, 2, 3, 4]), [1, 2]),
        "sum": b.take(x, [1, 2]) + y,
    })  # fmt: skip
    agree(program, {"x": values("float32", 1000, 6), "y": values("float32", 1000, 2, 1)})


def test_reads_at_computed_positions():
    b = Builder()
    rng = np.random.default_rng(0)
    x, index = b.input("x", "float64", 4), b.input("index", "int32", 3)
    tables = {
        dtype: b.constant((rng.standard_normal((4, 2, 3)) * 9).astype(dtype))
        for dtype in (*FLOATS, *INTS)
    }
    outputs = {dtype: b.lookup(table, index) for dtype, table in tables.items()}
    outputs |= {
        "bool": b.lookup(b.constant([True, False, False, True]), index),
        "gather": b.gather(x, index),
        "cube": b.gather(x, b.reshape(index, 3, 1)),
    }
    agree(
        b.program(outputs),
        {"x": values("float64", 1000, 4), "index": rng.integers(-4, 4, (1000, 3)).astype(np.int32)},
    )


@pytest.mark.parametrize("dtype", [*FLOATS, *INTS])
@pytest.mark.parametrize(
    ("width", "shape", "axis"),
    [(6, (2, 3), 1), (6, (2, 3), 0), (5, (5,), 0), (1, (1,), 0), (24, (2, 12), 1)],
)
def test_along_an_axis(dtype, width, shape, axis):
    b = Builder()
    x = b.reshape(b.input("x", dtype, width), *shape)
    names = [
        n
        for n in REDUCTIONS
        if dtype in FLOATS or n not in ("ordered_sum", "logsumexp", "ordered_logsumexp")
    ]
    exact = [n for n in names if n not in LIBRARY or dtype in INTS]
    agree(b.program({n: b.op(n, x, axis=axis) for n in exact}), {"x": values(dtype, 1000, width)})
    if dtype in FLOATS:
        # The terms cancel, so that the sum's error is measured on terms of one sign.
        positive = np.abs(
            np.nan_to_num(values(dtype, 1000, width), posinf=3, neginf=3).clip(-50, 50)
        )
        agree(
            b.program({n: b.op(n, x, axis=axis) for n in names if n in LIBRARY}),
            {"x": positive},
            OPERATOR,
        )


def test_logsumexp_of_infinite_terms():
    b = Builder()
    x = b.input("x", "float64", 3)
    infinite = np.array([np.inf, -np.inf, np.nan, 0.0, 1000.0])
    rows = np.stack(np.meshgrid(infinite, infinite, infinite), -1).reshape(-1, 3)
    agree(b.program({"y": b.op("logsumexp", x, axis=0)}), {"x": rows}, 4)


@pytest.mark.parametrize("dtype", FLOATS)
def test_wide_sums_and_sorts(dtype):
    b = Builder()
    x = b.input("x", dtype, 1000)
    rng = np.random.default_rng(0)
    agree(b.program({"sort": b.op("sort", x, axis=0), "argmax": b.op("argmax", x, axis=0), "cumsum": b.op("cumsum", x, axis=0), "top": b.op("topk", x, k=7)}),
          {"x": values(dtype, 1000, 1000)})  # fmt: skip
    # Eight partial sums of 125 terms each: an error of some tens of ulps at most.
    agree(
        b.program({"sum": b.op("reduce_sum", x, axis=0)}),
        {"x": rng.random((1000, 1000)).astype(dtype)},
        64,
    )


@pytest.mark.parametrize("dtype", [*FLOATS, *INTS])
@pytest.mark.parametrize(("width", "k"), [(9, 3), (9, 9), (1, 1), (40, 12)])
def test_topk(dtype, width, k):
    b = Builder()
    x = b.input("x", dtype, width)
    agree(b.program({"y": b.op("topk", x, k=k)}), {"x": values(dtype, 1000, width)})


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("right", [True, False])
@pytest.mark.parametrize("count", [1, 5, 16, 17, 31, 32, 33, 300])
def test_bucketize(dtype, right, count):
    rng = np.random.default_rng(count)
    edges = np.sort(rng.standard_normal((3, count)).astype(dtype), axis=1)
    edges[1, count // 2 :] = np.nan
    edges[2] = np.nan
    x = rng.choice(
        np.concatenate(
            [
                edges.ravel(),
                values(dtype, 100, 1).ravel(),
                np.nextafter(edges[0], np.inf, dtype=dtype),
            ]
        ),
        (1000, 3),
    )
    b = Builder()
    agree(
        b.program({"y": b.op("bucketize", b.input("x", dtype, 3), b.constant(edges), right=right)}),
        {"x": x},
    )


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("right", [True, False])
@pytest.mark.parametrize("kind", ["repeated", "one", "crowded", "infinite"])
def test_bucketize_awkward_edges(dtype, right, kind):
    """Edges that repeat, are all equal, are too close for cells, or are infinite.

    Values lie on them, beside them and far from them.
    """
    b, rng = Builder(), np.random.default_rng(0)
    edges = np.sort(rng.standard_normal((2, 60)).astype(dtype), axis=1)
    if kind == "repeated":
        edges[0, 10:30] = edges[0, 10]
    elif kind == "one":
        edges[0] = edges[0, 0]
    elif kind == "crowded":
        edges[0] = np.geomspace(1e-20, 1e10, 60).astype(dtype)
    else:
        edges[0, -2:], edges[1, 0] = np.inf, -np.inf
    edges[1, -5:] = np.nan
    far = np.full((3, 2), [[np.inf], [-np.inf], [np.nan]], dtype)
    x = rng.choice(
        np.concatenate(
            [np.nextafter(edges.T, -np.inf), edges.T, np.nextafter(edges.T, np.inf), far]
        ),
        1000,
    ).astype(dtype)
    agree(
        b.program({"y": b.op("bucketize", b.input("x", dtype, 2), b.constant(edges), right=right)}),
        {"x": x},
    )


@pytest.mark.parametrize("dtype", FLOATS)
def test_chains_of_one_loop(dtype):
    """Values are read inside a fused loop alone, outside it, as outputs, and at other entries.

    Others differ in shape and dtype, and there are more than one loop takes.
    """
    b = Builder()
    x = b.input("x", dtype, 5)
    scaled = x * b.constant(np.arange(5.0), dtype) - b.constant(0.3, dtype)
    root = b.op("sqrt", b.op("abs", scaled + x))
    single = b.cast(scaled, "float32") * b.constant(2.0, "float32")
    chosen = b.where(b.op("isnan", root), x, b.op("maximum", root, scaled))
    turned = b.take(chosen, np.array([4, 0, 0, 2, 1])) - chosen
    total = b.op("reduce_sum", root, axis=0) + b.constant(1.0, dtype)
    outputs = {
        "scaled": scaled,
        "root": -root,
        "total": total,
        "both": scaled / (root + b.op("floor", root)),
        "single": single,
        "turned": turned,
    }
    long = x
    for _ in range(20):
        long = b.op("minimum", long, long * x)
    agree(b.program({**outputs, "long": long}), {"x": values(dtype, 1000, 5)}, ulps=2)


def test_values_of_no_columns():
    b = Builder()
    x, y = b.input("x", "float32", 0), b.input("y", "float32", 2)
    product = b.matmul(x, b.constant(np.zeros((0, 3)), "float32"))
    program = b.program(
        {
            "empty": x + x,
            "both": b.concat([x, y]),
            "sum": b.op("reduce_sum", x, axis=0),
            "product": product,
        }
    )
    agree(program, {"x": np.zeros((1000, 0), "float32"), "y": values("float32", 1000, 2)})


def test_every_primitive_is_emitted_or_rewritten():
    assert BACKEND.emits | set(BACKEND.rules) == set(PRIMITIVES)
    assert not BACKEND.refuses
