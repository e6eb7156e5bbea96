"""How far rounding may move an answer: sums of products that cancel, or are divided by nearly 0.

The model is computed again with each operation rounded otherwise, at random, as far as its bound
allows: Monte Carlo arithmetic (D. S. Parker, "Monte Carlo arithmetic", 1997). A sum of n terms may
be off by ``n + 2`` roundoffs of the sum of their magnitudes (N. J. Higham, "Accuracy and Stability
of Numerical Algorithms", 2002, section 3.1). The source's answer is as uncertain as that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.containers import (
    Add,
    Cast,
    Clip,
    Distances,
    Graph,
    Linear,
    Node,
    RowDot,
    SquaredDistances,
    topological,
)
from hbconv.lower import Lowered, lower
from hbconv.model import Model
from hbconv.pipeline import with_dtypes
from hbconv.runtime.inputs.read import read_table
from hbconv.runtime.inputs.table import Table
from hbconv.tensor import PRIMITIVES, Op, OpKind
from hbconv.tensor.evaluate import evaluate
from hbconv.testing.watch import Call

__all__ = ["uncertainty"]

Floats = npt.NDArray[np.float64]

_DRAWS = 8
"""Ways to round; the opposite of each is tried too, since roots know no negative number."""

_SAFETY = 4.0
"""Times that a difference may exceed the farthest of them."""

_UNITS = {"add": 1.0, "sub": 1.0, "mul": 1.0, "div": 1.0, "sqrt": 1.0, "pairwise": 4.0}
"""Roundoffs of a value that an operation may be off by; functions 4, others none."""

_UNITS_OF_FUNCTION = 4.0


def uncertainty(call: Call, model: Model) -> Floats | None:
    """Return how far rounding may move each entry of an answer.

    None where a last bit may send a row elsewhere, as in trees: rounding excuses no decision. None
    too where the answer is no tensor, and where arguments choose another.
    """
    model = model.reading(call.rows)
    if call.options or call.method not in model.parsed.tensors:
        return None
    graph = model.parsed.only(call.method)
    if any(node.decides for node in topological(graph.output_roots)):
        return None
    groups = read_table(call.rows, model.reads).groups(sparse=False)
    if len(groups) > 1:
        return None
    table = groups[0][1]
    lowered = _as_the_source(graph, table)
    return _SAFETY * _farthest(lowered, table.part(slice(0, table.rows)), call.method)


def _as_the_source(graph: Graph, table: Table) -> Lowered:
    """Write the graph as a program that takes distances from products about the origin."""
    padding = table.padding
    sparse = (padding.matrix or padding.written) and graph.depends_on_form
    typed = with_dtypes(graph, table.dtypes, sparse=sparse)
    return lower(typed.rewritten(_about_the_origin), padding=padding)


def _about_the_origin(node: Node) -> Node:
    """Return ``|x|^2 - 2 x y + |y|^2``, which cancels more than a sum of differences does."""
    if not isinstance(node, SquaredDistances | Distances):
        return node
    if isinstance(node, Distances) and node.kind != "square":
        return node
    x = Cast(node.x, "float64")
    points = node.points.data.astype(np.float64)
    lengths = Linear.of(RowDot(x, x), np.ones((1, len(points))))
    products = Linear.of(x, -2.0 * points.T, (points * points).sum(axis=1))
    return Cast(Clip.of(Add((products, lengths)), 0.0, np.inf), node.type.dtype)


def _farthest(lowered: Lowered, table: Table, method: str) -> Floats:
    """Return how far the program's output moved at most, in some ways to round."""
    inputs = table.inputs(lowered.feeds)
    exact = evaluate(lowered.program, inputs)[method].astype(np.float64)
    moved = np.zeros_like(exact)
    for draw in range(_DRAWS):
        for sign in (1.0, -1.0):
            found = evaluate(lowered.program, inputs, _Rounding(draw, sign))[method]
            moved = np.fmax(moved, np.abs(found.astype(np.float64) - exact))
    return moved


class _Rounding:
    """One way to round: each value is off by its bound, up or down at random.

    Parameters
    ----------
    seed : int
    sign : float
        -1 rounds each value to the opposite side.
    """

    def __init__(self, seed: int, sign: float) -> None:
        self._random = np.random.default_rng(seed)
        self._sign = sign

    def __call__(
        self, op: Op, operands: Sequence[npt.NDArray[Any]], value: npt.NDArray[Any]
    ) -> npt.NDArray[Any]:
        if value.dtype.kind != "f":
            return value
        side = self._sign * self._random.choice((-1.0, 1.0), value.shape)
        roundoff = np.finfo(value.dtype).eps / 2.0
        return np.asarray(value + side * roundoff * _bound(op, operands, value), value.dtype)


def _bound(op: Op, operands: Sequence[npt.NDArray[Any]], value: npt.NDArray[Any]) -> Any:
    """Return the bound of an operation's rounding, in roundoffs."""
    terms = _terms(op, operands)
    if terms:
        sizes = [np.abs(operand) for operand in operands]
        return (terms + 2.0) * PRIMITIVES[op.primitive].evaluate(*sizes, **op.attributes)
    functions = op.kind is OpKind.TRANSCENDENTAL
    return (_UNITS_OF_FUNCTION if functions else _UNITS.get(op.primitive, 0.0)) * np.abs(value)


def _terms(op: Op, operands: Sequence[npt.NDArray[Any]]) -> int:
    """Return how many terms a sum has; 0 for what is no sum."""
    if op.primitive in ("matmul", "embedding_sum"):
        return int(operands[0].shape[-1])
    if op.primitive in ("reduce_sum", "ordered_sum"):
        return int(operands[0].shape[op.attributes["axis"] + 1])
    return 0
