"""Elementwise primitives: arithmetic, comparisons, logic, selection, conversion, functions."""

import math
from collections.abc import Callable, Mapping

import numpy as np

from hbconv.tensor.primitive import OpKind, define
from hbconv.tensor.types import (
    FLOATS,
    INTS,
    NumpyArray,
    TensorType,
    TypeRule,
    broadcast,
    require,
    same_dtype,
)

__all__ = ["elementwise"]

NUMBERS = (*FLOATS, *INTS)
Functions = Mapping[str, Callable[..., NumpyArray]]


def elementwise(dtypes: tuple[str, ...], result: str | None = None) -> TypeRule:
    """Return the type rule of an elementwise primitive over operands of the given dtypes."""

    def infer(*types: TensorType) -> TensorType:
        same_dtype(*types)
        require(types[0].dtype in dtypes, f"dtype {types[0].dtype} is none of {dtypes}")
        return TensorType(result or types[0].dtype, broadcast(*types).shape)

    return infer


def sigmoid(x: NumpyArray) -> NumpyArray:
    """Compute ``1 / (1 + exp(-x))``, without overflow warnings."""
    with np.errstate(over="ignore"):
        return np.asarray(1 / (1 + np.exp(-x)), dtype=x.dtype)


def erf(x: NumpyArray) -> NumpyArray:
    """Compute the error function."""
    # numpy has no erf, and scipy would be a dependency for this function alone.
    values: NumpyArray = np.vectorize(math.erf, otypes=[x.dtype])(x)
    return values


def fmod(x: NumpyArray, y: NumpyArray) -> NumpyArray:
    """Return the rest of ``x / y`` rounded toward zero: exact, with the sign of x.

    That of an int by zero is 0; of a float, NaN.
    """
    with np.errstate(all="ignore"):
        return np.asarray(np.fmod(x, y))


def trunc_divide(x: NumpyArray, y: NumpyArray) -> NumpyArray:
    """Divide ints and round toward zero; a quotient by zero is 0.

    The least int by -1 is itself.
    """
    with np.errstate(all="ignore"):
        # numpy rounds down, which is one too few where the rest has another sign than y.
        below = np.floor_divide(x, y)
        return np.asarray(below + ((np.remainder(x, y) != 0) & (below < 0)))


def relu(x: NumpyArray) -> NumpyArray:
    """Compute ``max(x, 0)``."""
    return np.maximum(x, 0)


def cast(x: NumpyArray, dtype: str) -> NumpyArray:
    """Convert to a dtype."""
    return x.astype(dtype)


def infer_where(condition: TensorType, x: TensorType, y: TensorType) -> TensorType:
    """Type ``where(condition, x, y)``: x where the condition holds, else y."""
    require(condition.dtype == "bool", f"condition is {condition}")
    same_dtype(x, y)
    return TensorType(x.dtype, broadcast(condition, x, y).shape)


def infer_cast(x: TensorType, dtype: str) -> TensorType:
    """Type ``cast(x, dtype)``: a float becomes an int by truncation.

    A value that the int dtype cannot hold, such as NaN, becomes any value.
    """
    require(dtype in (*NUMBERS, "bool"), f"no dtype {dtype}")
    return TensorType(dtype, x.shape, x.rows)


ROUNDING: Functions = {"sqrt": np.sqrt, "floor": np.floor, "ceil": np.ceil, "rint": np.rint}

TRANSCENDENTAL: Functions = {
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "log2": np.log2,
    "log10": np.log10,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "atan": np.arctan,
    "tanh": np.tanh,
    "sigmoid": sigmoid,
    "erf": erf,
    "pow": np.power,
}

ARITHMETIC: Functions = {
    "neg": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "minimum": np.minimum,
    "maximum": np.maximum,
}

ORDER: Functions = {"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}

EQUALITY: Functions = {"eq": np.equal, "ne": np.not_equal}

LOGIC: Functions = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}

SHIFTS: Functions = {"shift_left": np.left_shift, "shift_right": np.right_shift}


def define_all(functions: Functions, infer: TypeRule, kind: OpKind = OpKind.ARITHMETIC) -> None:
    """Add primitives of one type rule."""
    for name, function in functions.items():
        define(name, infer, function, kind)


define_all(TRANSCENDENTAL, elementwise(FLOATS), OpKind.TRANSCENDENTAL)
define_all(ROUNDING, elementwise(FLOATS))
define_all({"relu": relu, "div": np.divide}, elementwise(FLOATS))
define_all({"fmod": fmod}, elementwise(NUMBERS), OpKind.TRANSCENDENTAL)
define_all({"trunc_divide": trunc_divide}, elementwise(INTS))
define_all({"isnan": np.isnan, "isinf": np.isinf}, elementwise(FLOATS, "bool"))
define_all(ARITHMETIC, elementwise(NUMBERS))
define_all(ORDER, elementwise(NUMBERS, "bool"))
define_all(EQUALITY, elementwise((*NUMBERS, "bool"), "bool"))
define_all({"not": np.logical_not}, elementwise(("bool",)))
define_all(LOGIC, elementwise(("bool", *INTS)))
define_all(SHIFTS, elementwise(INTS))
define("where", infer_where, np.where, OpKind.ARITHMETIC)
define("cast", infer_cast, cast, OpKind.ARITHMETIC, may_alias=True)
