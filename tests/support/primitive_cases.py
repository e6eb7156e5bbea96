"""One table of small programs, at least one for each primitive, over inputs made to hurt; every
backend runs all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from forests import hostile_rows, random_forest, with_random_shares
from tolerances import OPERATOR

from hbconv.backends.base import Backend
from hbconv.backends.reference import evaluate
from hbconv.target import Target
from hbconv.tensor import Builder, TensorProgram, Value, verify_program
from hbconv.trees.forest import Forest
from hbconv.trees.strategy import strategies

__all__ = ["CASES", "FLOATS", "ROWS", "Case", "require_agreement"]

NumpyArray = npt.NDArray[Any]
Rng = np.random.Generator
Values = Callable[[Rng, tuple[int, ...], str], NumpyArray]
Check = Callable[[NumpyArray, NumpyArray], None]

FLOATS, INTS = ("float32", "float64"), ("int32", "int64")
ROWS = (0, 1, 7, 64, 1000)
WIDTH = 6

ZEROS_LOSE_THEIR_SIGN = {("onnx", "where"), ("onnx", "ordered_sum")}
"""ONNX Runtime's Where gives every zero as a positive one; its running sums start from the
first term, not from zero.
"""


# What the inputs hold: values(rng, shape, dtype).


def special(dtype: str) -> NumpyArray:
    """NaN, infinities, both zeros, denormals, the smallest and largest normal numbers, halves,
    ordinary numbers.
    """
    info = np.finfo(dtype)
    positive = [
        0.0,
        info.smallest_subnormal,
        3 * info.smallest_subnormal,
        info.tiny,
        info.max,
        np.inf,
        0.5,
        1.0,
        1.5,
        2.0,
        2.5,
        3.0,
        1e10,
    ]
    return np.array([np.nan, *positive, *(-v for v in positive)], dtype)


def anything(rng: Rng, shape: tuple[int, ...], dtype: str) -> NumpyArray:
    """Special values and numbers of all magnitudes."""
    numbers = (rng.standard_normal(shape) * 10.0 ** rng.integers(-30, 30, shape)).astype(dtype)
    return np.where(
        rng.random(shape) < 0.5,
        rng.choice(special(dtype), shape),
        np.where(rng.random(shape) < 0.5, rng.standard_normal(shape), numbers),
    ).astype(dtype)


def ties(rng: Rng, shape: tuple[int, ...], dtype: str) -> NumpyArray:
    """Few different values, so that most are met twice in a row, NaN and infinities among them."""
    return rng.choice(
        np.array([1.0, 2.0, 2.0, -1.0, 0.0, -0.0, np.nan, np.inf, -np.inf], dtype), shape
    )


def whole(rng: Rng, shape: tuple[int, ...], dtype: str) -> NumpyArray:
    """Small whole numbers, whose sums and products are exact in any order, with rare NaN and
    infinities in float.
    """
    numbers = rng.integers(-9, 10, shape).astype(dtype)
    return (
        numbers
        if dtype in INTS
        else np.where(
            rng.random(shape) < 0.02,
            rng.choice(np.array([np.nan, np.inf, -np.inf], dtype), shape),
            numbers,
        )
    )


def positive(rng: Rng, shape: tuple[int, ...], dtype: str) -> NumpyArray:
    """Zeros, denormals and positive numbers: no sum of them cancels."""
    few = np.array([0.0, np.finfo(dtype).smallest_subnormal, np.finfo(dtype).tiny, 1.0], dtype)
    return np.where(
        rng.random(shape) < 0.2, rng.choice(few, shape), rng.lognormal(0, 3, shape)
    ).astype(dtype)


def uneven(rng: Rng, shape: tuple[int, ...], dtype: str) -> NumpyArray:
    """Numbers of both signs and of magnitudes so far apart that each order of addition gives
    its own sum.
    """
    return (rng.standard_normal(shape) * 10.0 ** rng.integers(-4, 4, shape)).astype(dtype)


def sines(rng: Rng, shape: tuple[int, ...], dtype: str) -> NumpyArray:
    """Numbers from -1 to 1, both ends and the smallest among them."""
    few = np.array(
        [1.0, -1.0, np.nextafter(1.0, 0.0), 0.5, -0.5, 1e-5, np.finfo(dtype).tiny], dtype
    )
    return np.where(
        rng.random(shape) < 0.2, rng.choice(few, shape), rng.uniform(-1, 1, shape)
    ).astype(dtype)


def integers(bits: int) -> Values:
    """Whole numbers below a power of two, both signs."""

    def of_bits(rng: Rng, shape: tuple[int, ...], dtype: str) -> NumpyArray:
        return rng.integers(-(2**bits) + 1, 2**bits, shape).astype(dtype)

    return of_bits


def ends(rng: Rng, shape: tuple[int, ...], dtype: str) -> NumpyArray:
    """The largest ints of both signs and their neighbours."""
    info = np.iinfo(dtype)
    return rng.choice(
        np.array([info.min, info.min + 1, -7, -1, 0, 1, info.max - 1, info.max], dtype), shape
    )


def divisors(rng: Rng, shape: tuple[int, ...], dtype: str) -> NumpyArray:
    """Ints of both signs, zero among them, and none that overflows with the least int."""
    info = np.iinfo(dtype)
    return rng.choice(np.array([info.min, -3, -2, 0, 1, 2, 3, info.max], dtype), shape)


def below(n: int) -> Values:
    """Positions 0..n-1."""

    def positions(rng: Rng, shape: tuple[int, ...], dtype: str) -> NumpyArray:
        return rng.integers(0, n, shape).astype(dtype)

    return positions


# How answers must agree: check(got, expected).


def same_bits(got: NumpyArray, expected: NumpyArray) -> None:
    """Equal, signs of zeros and places of NaN included."""
    np.testing.assert_array_equal(got, expected)
    if expected.dtype.kind == "f":
        zero = expected == 0
        np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(expected[zero]))


def equal(got: NumpyArray, expected: NumpyArray) -> None:
    """Equal as numbers: numpy leaves it open which of two zeros comes out."""
    np.testing.assert_array_equal(got, expected)


def within(ulps: int) -> Check:
    """NaN and infinities in the same places, all else within so many units in the last place."""

    def check(got: NumpyArray, expected: NumpyArray) -> None:
        finite = np.isfinite(expected)
        np.testing.assert_array_equal(got[~finite], expected[~finite])
        ulp = np.spacing(np.minimum(np.abs(expected[finite]), np.finfo(expected.dtype).max / 2))
        difference = np.abs(got[finite] - expected[finite]) / ulp
        assert difference.max(initial=0) <= ulps, (
            f"{difference.max()} ulps where {ulps} are allowed, at {expected[finite][difference.argmax()]!r}"
        )

    return check


FUNCTION = within(OPERATOR)
"""One function."""

SIGMOID = within(OPERATOR + 2)
"""As FUNCTION, and two more roundings."""

ROOT = within(1)
"""Vector libraries may take a root that is the next number to the nearest."""

CANCELLED = within(64)
"""As FUNCTION, for sums of which a tenth of the largest term is left."""

SUM = within(WIDTH)
"""Positive terms in any order: half an ulp for each addition, of either side."""


@dataclass(frozen=True)
class Input:
    """A program input; dtype None: the case's own."""

    values: Values = anything
    width: int = WIDTH
    dtype: str | None = None


@dataclass(frozen=True)
class Case:
    """A small program: ``write(b, *inputs)`` gives its output, or a mapping of outputs."""

    primitive: str
    label: str
    write: Callable[..., Value | Mapping[str, Value]]
    inputs: tuple[Input, ...] = (Input(),)
    agrees: Check = same_bits
    dtypes: tuple[str, ...] = FLOATS

    def __str__(self) -> str:
        return f"{self.primitive}-{self.label}"

    def program(self, dtype: str) -> TensorProgram:
        """Write the program for inputs of the given dtype."""
        b = Builder()
        result = self.write(
            b,
            *(
                b.input(f"x{i}", given.dtype or dtype, given.width)
                for i, given in enumerate(self.inputs)
            ),
        )
        return b.program({"y": result} if isinstance(result, Value) else result)

    def rows(self, n: int, dtype: str) -> dict[str, NumpyArray]:
        """Make n rows of input, the same at every call."""
        rng = np.random.default_rng(n)
        return {
            f"x{i}": given.values(rng, (n, given.width), given.dtype or dtype)
            for i, given in enumerate(self.inputs)
        }


def constant(b: Builder, values: Values, like: Value, *shape: int) -> Value:
    """Write a constant of random values, in the dtype of another value."""
    return b.constant(values(np.random.default_rng(5), shape, like.dtype))


# The table, family by family.


def unary(
    primitive: str,
    agrees: Check = same_bits,
    values: Values = anything,
    dtypes: tuple[str, ...] = FLOATS,
) -> Case:
    """Build the case of a function of one value."""
    return Case(
        primitive,
        f"of {values.__name__}",
        lambda b, x: b.op(primitive, x),
        (Input(values),),
        agrees,
        dtypes,
    )


def binary(
    primitive: str,
    agrees: Check = same_bits,
    values: Values = anything,
    dtypes: tuple[str, ...] = FLOATS,
    second: Values | None = None,
) -> Case:
    """Two matrices; a matrix and a constant, both ways round; a cube and constants of each
    lower rank.
    """
    second = second or values

    def write(b: Builder, x: Value, y: Value) -> dict[str, Value]:
        cube = b.reshape(x, 2, 3)
        shapes = ((2, 3), (2, 1), (3,), (1,), ())
        return {
            "two": b.op(primitive, x, y),
            "right": b.op(primitive, x, constant(b, second, x, WIDTH)),
            "left": b.op(primitive, constant(b, values, x, WIDTH), y),
            "cube": b.concat(
                [b.op(primitive, cube, constant(b, second, x, *shape)) for shape in shapes], axis=1
            ),
        }

    return Case(
        primitive, f"of {values.__name__}", write, (Input(values), Input(second)), agrees, dtypes
    )


def of_codes(sizes: tuple[int, ...], entry: tuple[int, ...], dtype: str) -> Case:
    """Build the case of look-ups by code: small tables are compared, larger ones read."""
    numbers = np.random.default_rng(7).integers(-9, 9, (sum(sizes), *entry)).astype(dtype)
    tables = np.split(numbers, np.cumsum(sizes)[:-1])

    def write(b: Builder, index: Value) -> Value:
        last = b.constant(np.array(sizes) - 2, "int32")
        codes = b.take(index, range(len(sizes))) - b.constant(1, "int32")
        return b.lookup_codes(tables, b.op("minimum", codes, last))

    name = f"tables of {sizes}, entries {entry} of {dtype}"
    return Case("lookup_codes", name, write, (TABLE,), dtypes=("int32",))


def of_units(sizes: tuple[int, ...], dtype: str) -> Case:
    """Build the case of ones at codes, some of which are none of their columns."""

    def write(b: Builder, index: Value) -> Value:
        codes = b.take(index, range(len(sizes))) - b.constant(1, "int32")
        return b.one_hot(codes, sizes, dtype)

    return Case("one_hot", f"sizes {sizes}, {dtype}", write, (TABLE,), dtypes=("int32",))


ELEMENTWISE = [
    *(unary(name, FUNCTION) for name in ("exp", "expm1", "log", "log1p", "log2", "log10", "sin", "cos", "tan", "tanh", "erf")),
    *(unary(name) for name in ("neg", "abs", "floor", "ceil", "rint", "isnan", "isinf")),
    unary("asin", FUNCTION), unary("asin", FUNCTION, sines), unary("atan", FUNCTION), unary("atan", FUNCTION, uneven), unary("sqrt", ROOT),
    unary("sigmoid", SIGMOID), unary("sign", equal), unary("relu", equal),
    *(unary(name, values=whole, dtypes=INTS) for name in ("neg", "abs", "sign")),
    *(binary(name) for name in ("add", "sub", "mul", "div", "lt", "le", "eq", "ne", "gt", "ge")),
    *(binary(name, values=whole, dtypes=INTS) for name in ("add", "sub", "mul", "minimum", "maximum", "lt", "le", "eq", "ne", "gt", "ge")),
    *(binary(name, equal) for name in ("minimum", "maximum")),
    binary("pow", FUNCTION),
    *(binary("fmod", values=values) for values in (anything, ties, uneven)),
    *(binary(name, values=values, dtypes=INTS) for name in ("fmod", "trunc_divide") for values in (whole, integers(30))),
    *(binary(name, values=ends, second=divisors, dtypes=INTS) for name in ("fmod", "trunc_divide")),
    *(binary(name, values=integers(30), dtypes=INTS) for name in ("and", "or", "xor")),
    *(binary(name, values=integers(20), second=below(10), dtypes=INTS) for name in ("shift_left", "shift_right")),
    Case("and", "of tests", lambda b, x, y: (x < y) & (x <= x), (Input(), Input())),
    Case("or", "of tests", lambda b, x, y: (x < y) | (x <= x), (Input(), Input())),
    Case("xor", "of tests", lambda b, x, y: b.op("xor", x < y, x <= x), (Input(), Input())),
    Case("not", "of a test", lambda b, x, y: ~(x < y), (Input(), Input())),
    Case("eq", "of tests", lambda b, x, y: b.op("eq", x < y, x <= x), (Input(), Input())),
    Case("ne", "of tests", lambda b, x, y: b.op("ne", x < y, x <= x), (Input(), Input())),
    Case("where", "of three", lambda b, x, y: b.where(x < y, x, y), (Input(), Input())),
    Case("where", "constants", lambda b, x: b.where(b.op("isnan", x), constant(b, anything, x, WIDTH), constant(b, anything, x))),
    Case("where", "constant mask", lambda b, x, y: b.where(b.constant([True, False] * 3), x, y), (Input(), Input())),
    Case("where", "cube", lambda b, x: b.where(b.reshape(b.op("isinf", x), 2, 3), b.constant([[1.0], [2.0]], x.dtype), b.reshape(x, 2, 3))),
    Case("where", "integers", lambda b, x, y: b.where(x < y, x, b.constant(7, x.dtype)), (Input(whole), Input(whole)), dtypes=INTS),
]  # fmt: skip


def cast_to(dtype: str, values: Values, dtypes: tuple[str, ...], agrees: Check = same_bits) -> Case:
    """Build the case of one conversion."""
    return Case(
        "cast", f"to {dtype}", lambda b, x: b.cast(x, dtype), (Input(values),), agrees, dtypes
    )


def fractions(rng: Rng, shape: tuple[int, ...], dtype: str) -> NumpyArray:
    """Numbers with a fraction, of both signs, that an int32 holds."""
    return rng.choice(
        np.array(
            [0.0, -0.0, 0.5, -0.5, 0.999999, 1.5, -1.5, 2.5, -2.5, 1e9 + 0.75, -1e9 - 0.75, 5e-324],
            dtype,
        ),
        shape,
    )


CASTS = [
    cast_to("int32", fractions, FLOATS), cast_to("int64", fractions, FLOATS),
    cast_to("bool", anything, FLOATS),
    cast_to("float32", anything, ("float64",)), cast_to("float64", anything, ("float32",)),
    cast_to("float32", integers(30), INTS), cast_to("float64", integers(30), INTS),
    cast_to("bool", whole, INTS),
    cast_to("int64", integers(30), ("int32",)), cast_to("int32", integers(30), ("int64",)),
    *(Case("cast", f"test to {dtype}", lambda b, x, dtype=dtype: b.cast(b.op("isnan", x), dtype)) for dtype in (*FLOATS, *INTS)),
]  # fmt: skip

TABLE = Input(below(20), 4, "int32")
SQUARES = np.arange(20, dtype=np.int32) ** 2

MOVEMENT = [
    Case("take", "columns", lambda b, x: b.take(x, [5, 0, 0, 3])),
    Case("take", "none", lambda b, x: {"y": b.concat([b.take(x, []), x])}),
    Case("take", "inner axis", lambda b, x: b.take(b.reshape(x, 2, 3), [2, 0], axis=1)),
    Case("take", "outer axis", lambda b, x: b.take(b.reshape(x, 3, 2), [2, 0], axis=0)),
    Case("take", "many", lambda b, x: b.take(x, np.random.default_rng(0).integers(0, WIDTH, 500))),
    Case("gather", "columns", lambda b, x, i: b.gather(x, i), (Input(), Input(below(WIDTH), 9, "int32"))),
    Case("gather", "cube", lambda b, x, i: b.gather(x, b.reshape(i, 2, 1, 2)), (Input(), Input(below(WIDTH), 4, "int32"))),
    Case("gather", "at the largest", lambda b, x: b.reshape(b.gather(x, b.reduce("argmax", x)), 1), (Input(whole),)),
    *(of_units(sizes, dtype) for sizes in ((3, 1, 4), (1,), (0, 20, 0), (3000, 2), (0,)) for dtype in ("float64", "float32", "int32", "bool")),
    *(of_codes(sizes, entry, dtype) for sizes in ((3, 1, 4), (1, 1), (12, 2), (13, 20)) for entry, dtype in (((), "float64"), ((), "int32"), ((3,), "float32"), ((2, 2), "bool"))),
    Case("lookup", "numbers", lambda b, i: b.lookup(b.constant(special("float64")), i), (TABLE,), dtypes=("int32",)),
    Case("lookup", "of lookup", lambda b, i: b.lookup(b.constant(SQUARES), b.lookup(b.constant(SQUARES % 20), i)), (TABLE,), dtypes=("int32",)),
    Case("lookup", "tests", lambda b, i: b.lookup(b.constant(np.arange(20) % 3 == 0), i), (TABLE,), dtypes=("int32",)),
    Case("lookup", "vectors", lambda b, i: b.lookup(b.constant(np.arange(60, dtype=np.float32).reshape(20, 3)), i), (TABLE,), dtypes=("int32",)),
    Case("lookup", "matrices", lambda b, i: b.lookup(b.constant(np.arange(120.0).reshape(20, 2, 3)), b.reshape(i, 2, 2)), (TABLE,), dtypes=("int32",)),
    Case("concat", "columns", lambda b, x, y: b.concat([y, x, y, b.take(x, [1])]), (Input(), Input(width=3))),
    Case("concat", "inner axis", lambda b, x, y: b.concat([b.reshape(x, 2, 3), b.reshape(y, 2, 2)], axis=1), (Input(), Input(width=4))),
    Case("concat", "outer axis", lambda b, x, y: b.concat([b.reshape(x, 2, 3), b.reshape(y, 1, 3)], axis=0), (Input(), Input(width=3))),
    Case("concat", "tests", lambda b, x, y: b.concat([x < y, b.op("isnan", x)]), (Input(), Input())),
    Case("concat", "integers", lambda b, x, y: b.concat([x, y]), (Input(integers(30)), Input(integers(30))), dtypes=INTS),
    Case("reshape", "up and down", lambda b, x: b.reshape(b.op("neg", b.reshape(x, 3, 2)), 6)),
    Case("reshape", "many axes", lambda b, x: b.reshape(x, 1, 2, 1, 3, 1)),
    Case("expand", "vector", lambda b, x: b.op("expand", x, constant(b, anything, x, 4))),
    Case("expand", "matrix", lambda b, x: b.op("expand", x, constant(b, anything, x, 2, 3))),
    Case("expand", "integers beside numbers", lambda b, x: b.concat([b.cast(b.op("expand", x, b.constant([1, 2], "int32")), x.dtype), x])),
]  # fmt: skip


def embedding(b: Builder, tokens: Value, weights: Value, columns: int) -> Value:
    """Sum the rows of a table of 20 whole numbers a column."""
    return b.op("embedding_sum", tokens, weights, constant(b, integers(4), weights, 20, columns))


TOKENS, WEIGHTS = Input(below(20), WIDTH, "int32"), Input(integers(6))

SPARSE = [
    Case(
        "embedding_sum",
        "one column",
        lambda b, t, w: embedding(b, t, w, 1),
        (TOKENS, WEIGHTS),
        equal,
    ),
    Case(
        "embedding_sum",
        "many columns",
        lambda b, t, w: embedding(b, t, w, 21),
        (TOKENS, WEIGHTS),
        equal,
    ),
    Case(
        "embedding_sum",
        "missing",
        lambda b, t, w: embedding(b, t, w, 3),
        (TOKENS, Input(whole)),
        equal,
    ),
    Case(
        "embedding_sum",
        "missing in many columns",
        lambda b, t, w: embedding(b, t, w, 70),
        (TOKENS, Input(whole)),
        equal,
    ),
    Case(
        "embedding_sum",
        "infinite table",
        lambda b, t, w: b.op("embedding_sum", t, w, constant(b, whole, w, 20, 9)),
        (TOKENS, WEIGHTS),
        equal,
    ),
    Case(
        "scatter",
        "20 columns",
        lambda b, t, w: b.op("scatter", t, w, width=20),
        (TOKENS, WEIGHTS),
        equal,
    ),
    Case(
        "scatter",
        "last token is none",
        lambda b, t, w: b.op("scatter", t, w, width=19),
        (TOKENS, Input(whole)),
        equal,
    ),
    Case(
        "scatter",
        "integers",
        lambda b, t, w: b.op("scatter", t, w, width=19),
        (TOKENS, Input(whole)),
        equal,
        INTS,
    ),
]


def reduction(
    primitive: str, agrees: Check, values: Values, dtypes: tuple[str, ...] = FLOATS
) -> Case:
    """Over all columns, over each axis of a cube, over a single column."""

    def write(b: Builder, x: Value) -> dict[str, Value]:
        cube = b.reshape(x, 2, 3)
        return {
            "columns": b.reshape(b.reduce(primitive, x), 1),
            "outer axis": b.reduce(primitive, cube, axis=0),
            "inner axis": b.reduce(primitive, cube, axis=1),
            "one column": b.reshape(b.reduce(primitive, b.take(x, [2])), 1),
        }

    return Case(primitive, f"of {values.__name__}", write, (Input(values),), agrees, dtypes)


def raised(rng: Rng, shape: tuple[int, ...], dtype: str) -> NumpyArray:
    """Numbers from 1 to 90: their logsumexp does not cancel, and the sum of their exponentials
    overflows in float32.
    """
    return rng.uniform(1, 90, shape).astype(dtype)


REDUCTIONS = [
    reduction("reduce_sum", SUM, positive), reduction("reduce_sum", equal, whole),
    *(reduction(name, equal, whole, INTS) for name in ("reduce_sum", "reduce_max", "reduce_min")),
    reduction("reduce_prod", SUM, positive), reduction("reduce_prod", equal, whole),
    reduction("reduce_prod", equal, whole, INTS),
    *(reduction(name, equal, values) for name in ("reduce_max", "reduce_min") for values in (anything, ties)),
    reduction("argmax", equal, ties), reduction("argmax", equal, anything),
    reduction("argmax", equal, whole, INTS),
    reduction("logsumexp", FUNCTION, raised), reduction("logsumexp", CANCELLED, ties),
    reduction("ordered_logsumexp", FUNCTION, raised),
    reduction("ordered_logsumexp", CANCELLED, ties),
    reduction("ordered_sum", same_bits, uneven), reduction("ordered_sum", same_bits, anything),
    Case("ordered_sum", "500 terms", lambda b, x: b.reduce("ordered_sum", b.reshape(x, 500, 2)), (Input(uneven, 1000),)),
    Case("ordered_sum", "500 terms, one output", lambda b, x: b.reduce("ordered_sum", b.reshape(x, 500, 1)), (Input(uneven, 500),)),
    Case("reduce_any", "columns", lambda b, x: b.reshape(b.reduce("reduce_any", b.op("isnan", x)), 1), (Input(whole),)),
    Case("reduce_any", "inner axis", lambda b, x: b.reduce("reduce_any", b.reshape(b.op("isnan", x), 2, 3), axis=1), (Input(ties),)),
    Case("matmul", "exact", lambda b, x: b.matmul(x, constant(b, integers(4), x, WIDTH, 4)), (Input(whole),), equal),
    Case("matmul", "positive", lambda b, x: b.matmul(x, constant(b, positive, x, WIDTH, 4)), (Input(positive),), within(2 * WIDTH)),
    Case("matmul", "one output", lambda b, x: b.matmul(x, constant(b, integers(4), x, WIDTH, 1)), (Input(whole),), equal),
    Case("matmul", "batched", lambda b, x: b.matmul(b.reshape(x, 2, 3), constant(b, integers(4), x, 2, 3, 5)), (Input(whole),), equal),
    Case("matmul", "large", lambda b, x: b.matmul(b.take(x, np.arange(300) % WIDTH), constant(b, integers(4), x, 300, 70)), (Input(whole),), equal),
]  # fmt: skip


def pairwise(
    kind: str,
    agrees: Check = same_bits,
    values: Values = whole,
    p: float = 2.0,
    width: int = WIDTH,
) -> Case:
    """Build the case of one kind of terms, between rows and seven points."""
    name = f"{kind} {p:g}" if kind == "power" else kind
    name = f"{name} of {values.__name__}"
    return Case(
        "pairwise",
        name if width == WIDTH else f"{name} in {width}",
        lambda b, x: b.op("pairwise", x, constant(b, values, x, 7, width), kind=kind, p=p),
        (Input(values, width),),
        agrees,
    )


MANY_FEATURES = 33
"""Features beyond those that a backend writes one by one."""

PAIRWISE = [
    *(pairwise(kind, equal) for kind in ("square", "absolute", "largest", "different", "canberra", "chi_square", "present")),
    *(pairwise(kind, values=uneven) for kind in ("square", "absolute", "largest", "canberra", "chi_square")),
    *(pairwise(kind, equal, ties) for kind in ("largest", "different", "canberra", "chi_square", "present")),
    pairwise("power", FUNCTION, uneven, 3.0), pairwise("power", FUNCTION, uneven, 0.5),
    *(pairwise(kind, equal, width=MANY_FEATURES) for kind in ("absolute", "largest", "different")),
    *(pairwise(kind, values=uneven, width=MANY_FEATURES) for kind in ("square", "canberra", "chi_square", "present")),
    pairwise("present", equal, ties, width=MANY_FEATURES),
    pairwise("power", FUNCTION, uneven, 3.0, MANY_FEATURES),
]  # fmt: skip


def nearest(k: int, count: int, width: int, values: Values) -> Case:
    """Build the case of so many points."""
    name = f"{k} of {count} in {width}, {values.__name__}"
    return Case(
        "nearest",
        name,
        lambda b, x: b.op("nearest", x, constant(b, values, x, count, width), k=k),
        (Input(values, width),),
    )


NEAREST = [
    *(nearest(k, count, WIDTH, whole) for k, count in ((1, 1), (3, 7), (7, 7), (1, 100), (5, 400))),
    nearest(5, 203, 2, whole), nearest(5, 1000, WIDTH, uneven), nearest(2, 200, 40, sines),
    nearest(5, 500, 20, sines),
]  # fmt: skip
"""Whole numbers in few columns are often equally far."""


def bucketize(right: bool, values: Values) -> Case:
    """Columns with no edges, one, some with repeats and zeros, and infinite ones."""
    nan, inf = np.nan, np.inf
    edges = [
        [nan] * 5,
        [0.0, nan, nan, nan, nan],
        [-1.0, 0.0, 2.0, 2.0, 3.0],
        [-inf, -1.0, 1.0, inf, nan],
        [0.5, 1.5, nan, nan, nan],
        [-1e10, 1.0, 2.5, 1e10, inf],
    ]
    name = f"{values.__name__}, {'right' if right else 'left'}"
    return Case(
        "bucketize",
        name,
        lambda b, x: b.op("bucketize", x, b.constant(edges, x.dtype), right=right),
        (Input(values),),
    )


ALONG = [
    *(Case("cumsum", f"axis {axis}", lambda b, x, axis=axis: b.reduce("cumsum", b.reshape(x, 2, 3), axis=axis), (Input(positive),), SUM) for axis in (0, 1)),
    Case("cumsum", "exact", lambda b, x: b.reduce("cumsum", x), (Input(whole),), equal),
    Case("cumsum", "integers", lambda b, x: b.reduce("cumsum", x), (Input(whole),), dtypes=INTS),
    *(Case("sort", f"axis {axis}", lambda b, x, axis=axis: b.reduce("sort", b.reshape(x, 2, 3), axis=axis), agrees=equal) for axis in (0, 1)),
    Case("sort", "ties", lambda b, x: b.reduce("sort", x), (Input(ties),), equal),
    Case("sort", "integers", lambda b, x: b.reduce("sort", x), (Input(whole),), dtypes=INTS),
    *(Case("topk", f"{k} of {WIDTH}", lambda b, x, k=k: b.op("topk", x, k=k), (Input(ties),)) for k in (1, 3, WIDTH)),
    *(Case("topk", f"{k} of 200 {values.__name__}", lambda b, x, k=k: b.op("topk", x, k=k), (Input(values, 200),)) for k in (5, 21) for values in (ties, whole, anything)),
    Case("topk", "integers, 3 of 100", lambda b, x: b.op("topk", x, k=3), (Input(whole, 100),), dtypes=INTS),
    Case("topk", "nearly all NaN", lambda b, x: b.op("topk", b.op("sqrt", -b.op("abs", x)), k=5), (Input(whole, 60),)),
    Case("topk", "integers", lambda b, x: b.op("topk", x, k=3), (Input(whole),), dtypes=INTS),
    *(bucketize(right, values) for right in (True, False) for values in (anything, ties)),
    Case("bucketize", "integers", lambda b, x: b.op("bucketize", x, b.constant([[-1, 0, 3]] * 6, x.dtype), right=True), (Input(whole),), dtypes=INTS),
]  # fmt: skip


def with_gaps(values: Values, share: float) -> Values:
    """Values of which some are missing."""

    def some(rng: Rng, shape: tuple[int, ...], dtype: str) -> NumpyArray:
        return np.where(rng.random(shape) < share, np.nan, values(rng, shape, dtype)).astype(dtype)

    return some


def nearest_donors(
    k: int, count: int, values: Values, width: int = WIDTH, share: float = 0.3
) -> Case:
    """Build the case of so many points, of whose values some are missing."""
    gaps = with_gaps(values, share)
    return Case(
        "nearest_donors",
        f"{k} of {count} in {width}, {values.__name__}, {share} missing",
        lambda b, x: b.op("nearest_donors", x, constant(b, gaps, x, count, width), k=k),
        (Input(gaps, width),),
    )


def topk_donors(k: int, count: int, squares: Values, width: int = WIDTH) -> Case:
    """Build the case of so many points at any squares, some of which lack each column."""
    gaps = with_gaps(whole, 0.3)

    def write(b: Builder, x: Value, of_points: Value) -> Value:
        points = constant(b, gaps, x, count, width)
        return b.op("topk_donors", of_points * of_points, x, points, k=k)

    name = f"{k} of {count} in {width}, {squares.__name__}"
    return Case("topk_donors", name, write, (Input(gaps, width), Input(squares, count)))


def donor_distances(values: Values, width: int = WIDTH) -> Case:
    """Build the case of any two points for each column."""
    gaps = with_gaps(values, 0.3)

    def write(b: Builder, x: Value, positions: Value) -> Value:
        points = constant(b, gaps, x, 40, width)
        return b.op("donor_distances", x, b.reshape(positions, width, 2), points)

    places = Input(below(40), 2 * width, dtype="int32")
    return Case(
        "donor_distances", f"in {width}, {values.__name__}", write, (Input(gaps, width), places)
    )


DONORS = [
    *(nearest_donors(k, count, whole) for k, count in ((1, 1), (3, 7), (7, 7), (6, 400))),
    *(nearest_donors(6, 200, values) for values in (ties, uneven, positive, anything)),
    nearest_donors(3, 20, sines, 33), nearest_donors(50, 90, sines, 3),
    nearest_donors(3, 50, uneven, 2, 0.8), nearest_donors(3, 50, whole, 1),
    *(topk_donors(3, 40, values) for values in (ties, uneven, anything)),
    topk_donors(7, 7, whole), topk_donors(1, 20, ties, MANY_FEATURES),
    *(donor_distances(values) for values in (whole, ties, uneven, anything)),
    donor_distances(sines, 33),
]  # fmt: skip
"""Points that lack a value, or share none with a row, are at no distance."""


def against_medians(rng: Rng, shape: tuple[int, ...], dtype: str) -> NumpyArray:
    """Values whose medians of three are always among the smallest, so that heapsort takes over."""
    half = shape[-1] // 2
    low = np.arange(half)
    values = np.concatenate([np.where(low % 2, half + low, low), 2 * low])
    return np.broadcast_to(values, shape).astype(dtype)


def tree_search(k: int, leaves: int, prunes: bool) -> Case:
    """Search leaves of five entries, whose bounds and entries are often equal."""
    width, nodes = 5 * leaves, 2 * leaves - 1
    order = np.random.default_rng(leaves).permutation(width)

    def write(b: Builder, x: Value, bounds: Value) -> Value:
        leaf = [b.constant(of, "int32") for of in (order, np.arange(0, width + 1, 5))]
        return b.op("tree_search", x, bounds, *leaf, k=k, prunes=prunes)

    name = f"{k} in {leaves} leaves, {'pruned' if prunes else 'whole'}"
    return Case("tree_search", name, write, (Input(ties, width), Input(ties, nodes)))


def heap_search(k: int, width: int, values: Values, *ends: int) -> Case:
    """Search entries at once, or in parts."""
    parts = tuple(zip((0, *ends), ends, strict=False))
    name = f"{k} of {width} {values.__name__}, {len(parts)} parts"

    def write(b: Builder, x: Value) -> Value:
        return b.op("heap_search", x, k=k, parts=parts)

    return Case("heap_search", name, write, (Input(values, width),))


SEARCHES = [
    heap_search(1, 1, ties),
    heap_search(5, 100, ties),
    heap_search(5, 100, anything, 40, 80, 100),
    heap_search(15, 60, whole),
    heap_search(16, 60, ties),
    heap_search(40, 200, whole, 100, 200),
    heap_search(100, 100, against_medians),
    *(tree_search(k, leaves, prunes) for k, leaves, prunes in ((3, 1, True), (5, 8, True), (17, 4, False))),
]  # fmt: skip


def trees(primitive: str, strategy: str) -> Case:
    """Build the case of random forests of every shape, each over its own thresholds and their
    neighbours.
    """
    forests = [
        random_forest(
            np.random.default_rng(3),
            n_trees=30,
            n_features=WIDTH,
            n_outputs=3,
            vector=vector,
            accumulate=accumulate,
            strict=vector,
        )
        for vector in (False, True)
        for accumulate in FLOATS
    ]

    def rows(forest: Forest) -> Values:
        return lambda rng, shape, dtype: hostile_rows(rng, forest, dtype, shape[0])

    def write(b: Builder, *xs: Value) -> dict[str, Value]:
        return {
            f"forest {i}": b.op(primitive, x, forest=f, strategy=strategy)
            for i, (x, f) in enumerate(zip(xs, forests, strict=True))
        }

    return Case(primitive, strategy, write, tuple(Input(rows(f)) for f in forests), equal)


TREES = [
    trees(primitive, strategy)
    for primitive in ("tree_scores", "tree_leaves")
    for strategy in strategies()
]


def explained(primitive: str, name: str, **shape: Any) -> Case:
    """What features add, of a forest that fits in a thread of a device."""
    rng = np.random.default_rng(5)
    forest = random_forest(rng, n_trees=5, n_features=WIDTH, n_outputs=2, **shape)
    covered = with_random_shares(forest, rng)

    def rows(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> NumpyArray:
        return hostile_rows(rng, forest, dtype, shape[0])

    def write(b: Builder, x: Value) -> dict[str, Value]:
        return {"y": b.op(primitive, x, covered=covered)}

    return Case(primitive, name, write, (Input(rows),), near_sums)


def near_sums(got: NumpyArray, want: NumpyArray) -> None:
    """Sums of terms of about 1, in another order."""
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-12)


def collatz(b: Builder, state: Value, given: Value) -> Value:
    """Halve the even numbers, take the odd ones times three and one more, until they are one;
    ``given`` says which stay.
    """
    one, two = b.constant(1.0, state.dtype), b.constant(2.0, state.dtype)
    half = state / two
    other = b.where(b.op("eq", b.op("floor", half), half), half, state + state + state + one)
    return b.where((state <= one) | (given > b.constant(0.0, given.dtype)), state, other)


def mixed(b: Builder, state: Value, given: Value) -> Value:
    """Products, reductions and primitives that some backends write as others."""
    turned = b.matmul(state, constant(b, integers(4), state, WIDTH, WIDTH))
    moved = b.concat([b.take(turned, [5, 4, 3]), b.take(given, [0, 1, 2])])
    top = b.reshape(b.reduce("reduce_max", b.op("abs", moved)), 1)
    return b.op("sigmoid", moved / (top + b.constant(1.0, state.dtype)))


ITERATIONS = [
    Case(
        "iterate",
        "until done",
        lambda b, x, y: b.iterate(200, b.op("abs", x), y, collatz),
        (Input(integers(6)), Input(whole, 1)),
        equal,
    ),
    Case(
        "iterate",
        "stopped",
        lambda b, x, y: b.iterate(3, b.op("abs", x), y, collatz),
        (Input(integers(6)), Input(whole, 1)),
        equal,
    ),
    Case(
        "iterate",
        "of its input",
        lambda b, x: b.iterate(7, x, x, mixed),
        (Input(integers(3)),),
        within(64),
    ),
    Case(
        "iterate",
        "twice",
        lambda b, x, y: b.iterate(2, b.iterate(1, x, y, mixed), x, mixed),
        (Input(integers(3)), Input(integers(3))),
        within(64),
    ),
]

PROGRAMS = [
    Case("neg", "two outputs, one of them twice", lambda b, x: {"y": -x, "same": -x, "z": x * x}),
    Case("add", "an input given back", lambda b, x: {"x": x, "y": x + x}),
    Case("reshape", "an input given back in another shape", lambda b, x: b.reshape(x, 3, 2)),
    Case("mul", "an input that is not read", lambda b, x, y: x * x, (Input(), Input(width=2))),
    Case("cast", "codes given back", lambda b, x, i: {"i": i, "y": x}, (Input(), TABLE)),
    Case(
        "expand",
        "a constant given back",
        lambda b, x: {"y": b.op("expand", x, constant(b, anything, x, 3)), "z": x * x},
    ),
]

CASES = [
    *ELEMENTWISE,
    *CASTS,
    *MOVEMENT,
    *SPARSE,
    *REDUCTIONS,
    *PAIRWISE,
    *NEAREST,
    *DONORS,
    *ALONG,
    *SEARCHES,
    *TREES,
    explained("tree_contributions", "scalars"),
    explained("tree_contributions", "vectors", vector=True, n_categorical=2),
    explained("tree_contributions", "symmetric", max_depth=1, strict=True),
    explained("tree_interactions", "scalars"),
    explained("tree_interactions", "vectors", vector=True, n_categorical=2),
    explained("tree_interactions", "no pairs", max_depth=1, strict=True),
    explained("tree_interaction_matrices", "scalars"),
    explained("tree_interaction_matrices", "no pairs", max_depth=1, strict=True),
    *ITERATIONS,
    *PROGRAMS,
]


def require_agreement(case: Case, dtype: str, backend: Backend) -> None:
    """Raise AssertionError where a backend gives a case another meaning than numpy does."""
    program = verify_program(case.program(dtype))
    artifact = backend.compile(program, Target(backend.name))
    lenient = case.agrees is same_bits and (backend.name, case.primitive) in ZEROS_LOSE_THEIR_SIGN
    agrees = equal if lenient else case.agrees
    for n in ROWS:
        inputs = case.rows(n, dtype)
        expected = evaluate(program, inputs)
        answer = artifact.run({name: x.copy() for name, x in inputs.items()})
        assert list(answer) == list(expected)
        for name, values in expected.items():
            assert (answer[name].dtype, answer[name].shape) == (values.dtype, values.shape)
            agrees(answer[name], values)
