"""Elementwise functions of numpy as nodes: the one table from their names to what they become.

Types follow the columns, as in numpy: a Python number is weak beside an array, so float32 stays.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    Add,
    Affine,
    Arctan2,
    Cast,
    CastLike,
    Choose,
    Clip,
    Compare,
    ConstantRows,
    FloorDivide,
    Fmax,
    Fmin,
    Fmod,
    Hypot,
    IsMissing,
    Map,
    Maximum,
    Minimum,
    Multiply,
    Node,
    Not,
    Power,
    Quotient,
    Raise,
    Relation,
    Remainder,
    Select,
)
from hbconv.parse.common.versions import power_takes_roots
from hbconv.parse.tracing.trace import RowCount, current_trace, refuse

__all__ = [
    "MAPPED",
    "NumberConstant",
    "Operand",
    "apply_ufunc",
    "choose",
    "clip",
    "constant_of",
    "convert",
    "narrowed",
    "node_of",
    "raise_to",
    "truth",
    "widen",
]

_DTYPES = ("bool", "int64", "float32", "float64")


@dataclass(frozen=True)
class NumberConstant:
    """Numbers of the function, one for all columns or one for each.

    Python numbers are weak: beside an array they take its dtype.
    """

    values: npt.NDArray[Any]
    weak: bool

    @property
    def kind(self) -> str:
        """Kind of its dtype: "b", "i" or "f"."""
        return self.values.dtype.kind


Operand = Node | NumberConstant


def constant_of(value: Any) -> NumberConstant:
    """Return a number, or a vector with a number for each column, as a constant."""
    if isinstance(value, RowCount):
        value.refuse()
    weak = isinstance(value, bool | int | float) and not isinstance(value, np.generic)
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):
        refuse(f"computes with an object of {type(value).__name__}", "Use numbers.")
    if array.dtype.name not in _DTYPES or array.ndim > 1:
        refuse(
            f"computes with a constant of {array.dtype} and shape {array.shape}",
            "Use numbers of bool, int64, float32 or float64, at most one for each column.",
        )
    return NumberConstant(np.atleast_1d(array), weak)


def node_of(constant: NumberConstant, dtype: str | None = None) -> Node:
    """Return a constant in every row."""
    return ConstantRows(current_trace().x, Array.of(constant.values, dtype))


def widen(node: Node, width: int) -> Node:
    """Return a node whose one column stands for so many."""
    return node if node.type.width == width else Select(node, Array(np.zeros(width, np.int32)))


def _broadcast(*operands: Operand) -> list[Operand]:
    """Give all operands one width."""
    widths = {x.type.width if isinstance(x, Node) else len(x.values) for x in operands} - {1}
    if len(widths) > 1:
        shapes = " and ".join(map(str, sorted(widths)))
        raise ValueError(f"operands of {shapes} columns could not be broadcast together")
    (width,) = widths or {1}
    return [
        widen(x, width)
        if isinstance(x, Node)
        else NumberConstant(np.broadcast_to(x.values, (width,)), x.weak)
        for x in operands
    ]


def _beside(constant: NumberConstant, node: Node) -> tuple[Node, Node]:
    """Return a constant, and the node beside it, as numpy computes with both."""
    if not constant.weak:
        return node_of(constant), node
    if constant.kind == "b":
        return CastLike(node_of(constant), node), node
    if constant.kind == "i":
        numbers = Cast(node, "int64") if node.type.dtype == "bool" else node
        return CastLike(node_of(constant), numbers), numbers
    floats = Cast(node, "float")
    return CastLike(node_of(constant, "float64"), floats), floats


def _nodes(x: Operand, y: Operand) -> tuple[Node, Node]:
    """Return two operands as nodes."""
    if isinstance(x, NumberConstant) and isinstance(y, NumberConstant):
        weak = x.weak and y.weak
        dtype = None if weak else np.result_type(x.values, y.values).name
        return node_of(x, dtype), node_of(y, dtype)
    if isinstance(x, Node) and isinstance(y, Node):
        return x, y
    if isinstance(x, Node) and isinstance(y, NumberConstant):
        other, node = _beside(y, x)
        return node, other
    return _nodes(y, x)[::-1]


def _is_bool(x: Operand) -> bool:
    return x.kind == "b" if isinstance(x, NumberConstant) else x.type.dtype == "bool"


def _numbers(x: Node) -> Node:
    """Return bools as ints."""
    return Cast(x, "int64") if x.type.dtype == "bool" else x


def _arithmetic(
    name: str, combine: Callable[[Node, Node], Node]
) -> Callable[[Operand, Operand], Node]:
    """Return an operator: with float constants the Affine of that name, else of two nodes."""

    def write(x: Operand, y: Operand) -> Node:
        if _is_bool(x) and _is_bool(y):
            refuse("computes with bools", "Convert them first: mask.astype(float).")
        if isinstance(x, Node) and isinstance(y, NumberConstant):
            if y.weak and (y.kind == "f" or name == "div"):
                return Affine.of(x, **{name: y.values})
            if not y.weak and y.values.dtype == np.float64:
                return Affine.of(Cast(x, "float64"), **{name: y.values})
        return combine(*map(_numbers, _nodes(x, y)))

    return write


def _subtract(x: Node, y: Node) -> Node:
    return Add((x, Map(y, "neg")))


def _divide(x: Node, y: Node) -> Node:
    # Of two ints numpy makes float64.
    return Quotient((Cast(x, "float"), Cast(y, "float")))


def _maximum(x: Operand, y: Operand) -> Node:
    return Maximum(tuple(map(_numbers, _nodes(x, y))))


def _minimum(x: Operand, y: Operand) -> Node:
    return Minimum(tuple(map(_numbers, _nodes(x, y))))


def _of_two(combine: Callable[[Node, Node], Node]) -> Callable[[Operand, Operand], Node]:
    """Return a function of two numbers, which takes no bools."""

    def write(x: Operand, y: Operand) -> Node:
        if _is_bool(x) or _is_bool(y):
            refuse("computes with bools", "Convert them first: mask.astype(float).")
        return combine(*_nodes(x, y))

    return write


def raise_to(x: Operand, y: Operand, fast: bool = True) -> Node:
    """Raise a column to a constant power, ``fast`` as ``**`` does; or a number to a column."""
    if isinstance(y, Node) and not (_is_bool(x) or _is_bool(y)):
        return Raise(*_nodes(x, y))
    if (
        not isinstance(x, Node)
        or not isinstance(y, NumberConstant)
        or len(set(y.values.tolist())) != 1
    ):
        refuse("raises to a power that is not one number", "Use np.exp(y * np.log(x)).")
    if _is_bool(x) or _is_bool(y):
        refuse("computes with bools", "Convert them first: mask.astype(float).")
    exponent = y.values[0].item()
    # numpy writes these so: x**2 is x * x to the last bit, which a power need not be.
    special = {2: "square", 0.5: "sqrt", -1: "reciprocal"}
    if fast and y.weak and exponent in special:
        return Map(x, special[exponent])
    return Power(x if y.weak else Cast(x, "float64"), float(exponent))


_SWAPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}


def _comparison(relation: str) -> Callable[[Operand, Operand], Node]:
    def write(x: Operand, y: Operand) -> Node:
        if isinstance(x, Node) and isinstance(y, Node):
            return Relation(_numbers(x), _numbers(y), relation)
        if isinstance(x, NumberConstant) and isinstance(y, Node):
            return _comparison(_SWAPPED[relation])(y, x)
        if isinstance(x, Node) and isinstance(y, NumberConstant):
            values = y.values.astype(np.int64) if y.kind == "b" else y.values
            return Compare(_numbers(x), relation, Array(values), "bool", weak=y.weak)
        return refuse("compares constants")

    return write


def truth(x: Operand) -> Node:
    """Return whether each number is not zero."""
    node = x if isinstance(x, Node) else node_of(x)
    return node if node.type.dtype == "bool" else Compare.of(node, "ne", 0.0)


def _logic(relation: str, *, of_bools: bool) -> Callable[[Operand, Operand], Node]:
    def write(x: Operand, y: Operand) -> Node:
        if of_bools and not (_is_bool(x) and _is_bool(y)):
            refuse("combines bits of numbers", "Compare the numbers first.")
        return Relation(truth(x), truth(y), relation)

    return write


def _not(x: Node) -> Node:
    return Not(truth(x))


def _invert(x: Node) -> Node:
    return Not(x) if x.type.dtype == "bool" else refuse("inverts bits of numbers", "Use ~mask.")


def _mapped(name: str) -> Callable[[Node], Node]:
    def write(x: Node) -> Node:
        if x.type.dtype == "bool":
            refuse("computes with bools", "Convert them first: mask.astype(float).")
        return Map(x, name)

    return write


def _is_infinite(x: Node) -> Node:
    return Compare.of(Map(_numbers(x), "abs"), "eq", np.inf)


def _is_finite(x: Node) -> Node:
    # NaN is below nothing.
    return Compare.of(Map(_numbers(x), "abs"), "lt", np.inf)


def _truncated(x: Node) -> Node:
    down, up = Map(x, "floor"), Map(x, "ceil")
    return Choose(Compare.of(x, "lt", 0.0), up, down)


MAPPED: dict[np.ufunc, str] = {
    np.absolute: "abs",
    np.negative: "neg",
    np.sign: "sign",
    np.sqrt: "sqrt",
    np.exp: "exp",
    np.expm1: "expm1",
    np.log: "log",
    np.log1p: "log1p",
    np.log2: "log2",
    np.log10: "log10",
    np.sin: "sin",
    np.cos: "cos",
    np.tan: "tan",
    np.arcsin: "arcsin",
    np.arccos: "arccos",
    np.arctan: "arctan",
    np.sinh: "sinh",
    np.cosh: "cosh",
    np.tanh: "tanh",
    np.arcsinh: "arcsinh",
    np.arccosh: "arccosh",
    np.arctanh: "arctanh",
    np.exp2: "exp2",
    np.cbrt: "cbrt",
    np.deg2rad: "deg2rad",
    np.radians: "deg2rad",
    np.rad2deg: "rad2deg",
    np.degrees: "rad2deg",
    np.rint: "rint",
    np.square: "square",
}
"""Functions of one number that a Map computes for rows of any dtype."""

_UNARY: dict[np.ufunc, Callable[[Node], Node]] = {
    **{ufunc: _mapped(name) for ufunc, name in MAPPED.items()},
    np.fabs: lambda x: Map(Cast(_numbers(x), "float"), "abs"),
    np.positive: lambda x: x,
    np.floor: _mapped("floor"),
    np.ceil: _mapped("ceil"),
    np.trunc: _truncated,
    np.reciprocal: _mapped("reciprocal"),
    np.isnan: lambda x: IsMissing(_numbers(x)),
    np.isinf: _is_infinite,
    np.isfinite: _is_finite,
    np.logical_not: _not,
    np.invert: _invert,
}
"""Functions of one number."""

_BINARY: dict[np.ufunc, Callable[[Operand, Operand], Node]] = {
    np.add: _arithmetic("add", lambda x, y: Add((x, y))),
    np.subtract: _arithmetic("sub", _subtract),
    np.multiply: _arithmetic("mul", lambda x, y: Multiply((x, y))),
    np.true_divide: _arithmetic("div", _divide),
    np.power: lambda x, y: raise_to(x, y, fast=power_takes_roots()),
    np.maximum: _maximum,
    np.minimum: _minimum,
    np.fmax: _of_two(Fmax),
    np.fmin: _of_two(Fmin),
    np.floor_divide: _of_two(FloorDivide),
    np.remainder: _of_two(Remainder),
    np.fmod: _of_two(Fmod),
    np.hypot: _of_two(Hypot),
    np.arctan2: _of_two(Arctan2),
    np.less: _comparison("lt"),
    np.less_equal: _comparison("le"),
    np.greater: _comparison("gt"),
    np.greater_equal: _comparison("ge"),
    np.equal: _comparison("eq"),
    np.not_equal: _comparison("ne"),
    np.logical_and: _logic("and", of_bools=False),
    np.logical_or: _logic("or", of_bools=False),
    np.logical_xor: _logic("xor", of_bools=False),
    np.bitwise_and: _logic("and", of_bools=True),
    np.bitwise_or: _logic("or", of_bools=True),
    np.bitwise_xor: _logic("xor", of_bools=True),
}
"""Functions of two numbers."""

_OF_SCIPY: dict[str, Callable[[Node], Node]] = {
    "erf": _mapped("erf"),
    "expit": _mapped("sigmoid"),
    "logit": _mapped("logit"),
}
"""Functions of one number of scipy.special, by name."""


def apply_ufunc(ufunc: np.ufunc, operands: list[Operand]) -> Node:
    """Apply a universal function to columns and constants of them.

    Raises
    ------
    FunctionRefusal
        No node computes it.
    """
    operands = _broadcast(*operands)
    if ufunc in _BINARY:
        return _BINARY[ufunc](*operands)
    special = sys.modules.get("scipy.special")
    # Told by what the module holds: numpy's function of a name may compute in another dtype.
    is_scipy = getattr(special, ufunc.__name__, None) is ufunc
    write = _OF_SCIPY.get(ufunc.__name__) if is_scipy else _UNARY.get(ufunc)
    if write is None:
        module = "scipy.special" if is_scipy else "numpy"
        refuse(f"calls {module}.{ufunc.__name__}, for which hbconv has no node")
    (x,) = operands
    return write(x if isinstance(x, Node) else node_of(x))


def choose(condition: Operand, x: Operand, y: Operand) -> Node:
    """Take x where a condition holds, and y elsewhere."""
    condition, x, y = _broadcast(condition, x, y)
    return Choose(truth(condition), *_nodes(x, y))


def clip(x: Node, low: NumberConstant | None, high: NumberConstant | None) -> Node:
    """Bound a column; None is no bound."""
    bounds = [bound for bound in (low, high) if bound is not None]
    if any(np.isnan(bound.values).any() for bound in bounds):
        refuse("clips at a bound that is NaN", "Leave the bound out.")
    # Ints between ints stay ints; a Clip makes floats.
    if all(bound.weak and bound.kind == "i" for bound in bounds):
        bounded = x if low is None else apply_ufunc(np.maximum, [x, low])
        return bounded if high is None else apply_ufunc(np.minimum, [bounded, high])
    floats = x if all(bound.weak for bound in bounds) else Cast(x, "float64")
    width = max([x.type.width, *(len(bound.values) for bound in bounds)])
    lowest = -np.inf if low is None else low.values
    highest = np.inf if high is None else high.values
    return Clip.of(widen(floats, width), lowest, highest)


NARROW = ("int8", "int16", "int32", "uint8", "uint16", "uint32")
"""Ints in which sums overflow, and that hold a bool."""


def narrowed(x: Node) -> Node:
    """Return bools, or few codes, as narrow ints, which are returned and not computed with."""
    return current_trace().made(Cast(x, "int64"), "narrow")


_INT_LIMIT = 2.0**63


def convert(x: Node, dtype: npt.DTypeLike) -> Node:
    """Convert to a dtype, as ``astype`` does."""
    name = np.dtype(dtype).name
    if name in NARROW and x.type.dtype == "bool":
        return narrowed(x)
    if name not in _DTYPES:
        refuse(f"converts to {name}", "Convert to bool, int64, float32 or float64.")
    if name == "bool":
        return truth(x)
    if name == "int64" and x.type.dtype.startswith("float"):
        current_trace().checks.append(
            (
                Not(
                    Relation(
                        Compare.of(x, "ge", -_INT_LIMIT), Compare.of(x, "lt", _INT_LIMIT), "and"
                    )
                ),
                "A number that is NaN, infinite or too large is converted to an int.",
            )
        )
    return Cast(x, name)
