"""How large a node's values can get, from how large its input columns are: most checks need no more to be passed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hbconv.array import Array
from hbconv.containers import Node
from hbconv.containers.nodes.affine import Affine
from hbconv.containers.nodes.basis_functions import Interpolate, Polynomial, SplineBasis
from hbconv.containers.nodes.codes import CategoryNumbers, Recode
from hbconv.containers.nodes.conditions import Choose
from hbconv.containers.nodes.distances import SquaredDistances
from hbconv.containers.nodes.elementwise import Clip, Map
from hbconv.containers.nodes.inputs import Columns, Entries
from hbconv.containers.nodes.linear import Linear
from hbconv.containers.nodes.lookups import LookupRows
from hbconv.containers.nodes.missing import Impute
from hbconv.containers.nodes.normalize import Normalize
from hbconv.containers.nodes.power_transforms import YeoJohnson
from hbconv.containers.nodes.wiring import Beside, Cast, CastLike, Concat, Select, Together

__all__ = ["Spread", "spread"]

_LARGEST = {"float32": 1e37, "float64": 1e300}
_INTS = 2.0**63
_ALWAYS = 1e15
"""Stands for the size of codes, flags and sums of leaves: far above what they reach, far below overflow."""


@dataclass(frozen=True)
class Spread:
    """All values are within ``+-bound``, or NaN; and NaN only in rows that have NaN in one of the columns."""

    bound: float
    nan_from: frozenset[int] = frozenset()


def spread(node: Node, bound: float) -> Spread | None:
    """Return the spread of a node where all float columns are within ``+-bound`` or NaN, and all entries within it; None where it cannot be told.

    Examples
    --------
    >>> from hbconv.containers import Schema
    >>> x = Columns.of(Schema.matrix(2))
    >>> found = spread(Affine.of(x, sub=[1.0, 2.0], div=0.5), 10.0)
    >>> found.bound, sorted(found.nan_from)
    (24.0, [0, 1])
    """
    return _spread(node, bound, {})


def _spread(node: Node, bound: float, known: dict[int, Spread | None]) -> Spread | None:
    """Look at each node once: where each column is computed from all before it, there are many paths to the input."""
    if id(node) not in known:
        known[id(node)] = _computed(node, bound, known)
    return known[id(node)]


def _computed(node: Node, bound: float, known: dict[int, Spread | None]) -> Spread | None:
    if isinstance(node, Columns):
        return _columns(node, bound)
    if isinstance(node, Entries):
        return Spread(bound if node.type.dtype in _LARGEST else _INTS)
    if node.finite == "always" or node.type.dtype in ("int32", "bool"):
        return Spread(_ALWAYS)
    rule = _RULES.get(type(node))
    if rule is None:
        return None
    inputs = [_spread(n, bound, known) for n in node.inputs]
    if any(s is None for s in inputs):
        return None
    found: Spread | None = rule(node, *inputs)
    return found if found is not None and found.bound < _LARGEST.get(node.type.dtype, 0.0) else None


def _columns(node: Columns, bound: float) -> Spread | None:
    if node.type.dtype == "string":
        return None
    floats = frozenset(i for i in node.columns if node.schema.dtypes[i] in _LARGEST)
    return Spread(bound if len(floats) == len(node.columns) else max(bound, _INTS), floats)


def _affine(node: Affine, x: Spread) -> Spread | None:
    """Bound each step; what is large between two steps counts too, for it may overflow there."""
    bound = largest = x.bound
    for step in node.steps:
        constant = np.abs(step.constant.data.astype(np.float64))
        low, high = float(constant.min(initial=np.inf)), float(constant.max(initial=0.0))
        if not high < np.inf or (step.op == "div" and low == 0):
            return None
        bound = (
            bound * high if step.op == "mul" else bound / low if step.op == "div" else bound + high
        )
        largest = max(largest, bound)
    return Spread(largest, x.nan_from)


def _union(node: Node, *inputs: Spread) -> Spread:  # noqa: ARG001
    return Spread(
        max((s.bound for s in inputs), default=0.0),
        frozenset().union(*(s.nan_from for s in inputs)),
    )


def _cast(node: Node, x: Spread) -> Spread | None:
    return x if node.type.dtype in _LARGEST else None


def _impute(node: Impute, x: Spread) -> Spread | None:
    largest = _largest(node.fill)
    if largest is None:
        return None
    return Spread(max(x.bound, largest), frozenset() if np.isnan(node.missing) else x.nan_from)


def _map(node: Map, x: Spread) -> Spread | None:
    if node.function in ("sigmoid", "tanh", "sin", "cos", "sign", "erf"):
        return Spread(1.0, x.nan_from)
    if node.function in ("abs", "neg", "relu", "floor", "ceil", "rint"):
        return Spread(x.bound + 1.0, x.nan_from)
    return Spread(x.bound**2, x.nan_from) if node.function == "square" and x.bound < 1e150 else None


def _linear(node: Linear, x: Spread) -> Spread | None:
    weights, bias = _largest(node.weights), _largest(node.bias)
    if weights is None or bias is None:
        return None
    return Spread(x.bound * weights * max(1, node.weights.shape[0]) + bias, x.nan_from)


def _normalize(node: Normalize, x: Spread) -> Spread:  # noqa: ARG001
    return Spread(2.0, x.nan_from)


def _looked_up(tables: tuple[Array, ...]) -> Spread | None:
    largest = [_largest(table) for table in tables]
    return (
        None
        if None in largest
        else Spread(max((size for size in largest if size is not None), default=0.0))
    )


def _interpolate(node: Interpolate, x: Spread) -> Spread | None:
    """Between its knots it stays between the values there, unless a slope is too steep for a float."""
    largest, steps = _largest(node.values), np.diff(node.knots.data.astype(np.float64))
    if largest is None or not largest / steps[steps > 0].min(initial=np.inf) < _ALWAYS**2:
        return None
    return Spread(2 * largest + 1, x.nan_from)


def _spline(node: SplineBasis, x: Spread) -> Spread | None:
    """Each step of the recursion adds two products of a share and a distance to a knot."""
    farthest = _largest(node.knots)
    if farthest is None:
        return None
    bound, knots = 1.0, node.knots.data
    for degree in range(1, node.degree + 1):
        lengths = knots[:, degree:] - knots[:, :-degree]
        bound *= 2 * (x.bound + farthest) / min(1.0, float(lengths[lengths > 0].min(initial=1.0)))
    return Spread(2 * bound, x.nan_from)


def _distances(node: SquaredDistances, x: Spread) -> Spread | None:
    farthest = _largest(node.points)
    if farthest is None or x.bound > 1e100:
        return None
    return Spread(8 * (x.bound + farthest) ** 2 * max(1, node.points.shape[1]), x.nan_from)


def _polynomial(node: Polynomial, x: Spread) -> Spread | None:
    return Spread(max(1.0, x.bound) ** node.terms.shape[1], x.nan_from) if x.bound < 1e30 else None


def _yeo_johnson(node: YeoJohnson, x: Spread) -> Spread | None:
    powers = np.abs(np.concatenate([node.above.data, node.below.data]))
    if not powers.max() * np.log10(1 + x.bound) < 280:
        return None
    return Spread(
        float(
            (1 + x.bound) ** powers.max() / powers[powers > 0].min(initial=1.0) + np.log1p(x.bound)
        ),
        x.nan_from,
    )


def _largest(values: Array) -> float | None:
    """Largest magnitude; None where some value is no finite number."""
    largest = np.abs(values.data.astype(np.float64)).max(initial=0.0)
    return float(largest) if largest < np.inf else None


_RULES: dict[type[Node], Callable[..., Spread | None]] = {
    Affine: _affine,
    Beside: _union,
    Cast: _cast,
    CastLike: lambda node, x, like: _cast(node, x),
    Choose: lambda node, condition, x, y: _union(node, x, y),
    Clip: lambda node, x: x,
    Concat: _union,
    Impute: _impute,
    Interpolate: _interpolate,
    Linear: _linear,
    LookupRows: lambda node, positions: _looked_up((node.table,)),
    Map: _map,
    Normalize: _normalize,
    Polynomial: _polynomial,
    CategoryNumbers: lambda node, codes: _looked_up(node.tables),
    Recode: lambda node, codes: _looked_up(node.tables),
    Select: _union,
    SplineBasis: _spline,
    SquaredDistances: _distances,
    Together: lambda node, x: x,
    YeoJohnson: _yeo_johnson,
}
