"""Check that each parsed node computes the width and dtype that it declares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    ArgMax,
    Cast,
    Choose,
    Compare,
    Concat,
    ConstantRows,
    Distances,
    Graph,
    Node,
    Output,
    Recode,
    SquaredDistances,
    topological,
    verify_graph,
)
from hbconv.containers.graph import MOST_ROW_VALUES, count_row_values
from hbconv.errors import ConversionError, HbconvError, UnsupportedError
from hbconv.parse.checks.damage import REPORT
from hbconv.parse.wide_explanations import without_wide
from hbconv.tensor import Builder, verify_program

__all__ = ["require_labels", "require_sound"]

_WAY_OUT = f"Fit or save it again, or undo what was changed by hand. {REPORT}"


def require_sound(graph: Graph) -> Graph:
    """Return the graph if each node, lowered alone, has the width and dtype that it declares.

    This finds constants of a wrong length, or that are not numbers, in a model changed by hand.
    It runs before rules narrow the constants, and also finds missing class labels.
    Methods on demand that are too wide are left out.

    Raises
    ------
    ConversionError
        Names the step.
    """
    graph = without_wide(graph)
    _require_narrow(graph)
    for node in topological(graph.roots):
        misfit = node.check()
        if misfit:
            raise _unfit(node, misfit)
        if node.inputs and all(x.type.dtype != "string" for x in node.inputs):
            _require_typed(node)
    try:
        verify_graph(graph)
    except HbconvError as error:
        raise ConversionError(f"{error}. {_WAY_OUT}") from error
    for output in graph.outputs.values():
        require_labels(output)
    return graph


def _require_narrow(graph: Graph) -> None:
    """Refuse a graph that makes more numbers of a row than memory holds for a few rows."""
    nodes = topological(graph.roots)
    if count_row_values(nodes) <= MOST_ROW_VALUES:
        return
    widest = max(nodes, key=lambda node: node.type.width)
    raise ConversionError(
        f"{graph.traits.estimator or 'The model'} is too wide: {widest.name} makes "
        f"{widest.type.width:,} numbers of each row, and hbconv takes up to {MOST_ROW_VALUES:,} "
        f"in all. Fit it on fewer columns."
    )


def _require_typed(node: Node) -> None:
    b = Builder()
    inputs = (b.input(f"x{i}", x.type.dtype, x.type.width) for i, x in enumerate(node.inputs))
    try:
        made = node.lower(b, *inputs)
        verify_program(b.program({"made": made}))
    except UnsupportedError:
        raise
    except Exception as error:  # a constant that does not fit can fail anywhere
        raise _unfit(node, " ".join(str(error).split())[:200]) from error
    if isinstance(node, SquaredDistances | Distances) and not _has_squares(node.points.data):
        raise _misfit(
            node,
            "measures distances to points that are not finite, or too far for a number to hold",
        )
    if (made.dtype, made.shape) != (node.type.dtype, (node.type.width,)):
        raise _misfit(node, f"makes {made.type} where {node.type} is needed ({node.name})")


def _unfit(node: Node, why: str) -> ConversionError:
    reads = " and ".join(str(x.type.width) for x in node.inputs)
    return _misfit(
        node, f"does not fit the {reads or 'given'} columns that it reads ({node.name}: {why})"
    )


def _has_squares(points: npt.NDArray[Any]) -> bool:
    """Tell whether the squared length of each point is finite: it is a term of the distances."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(np.square(points, dtype=np.float64).sum(axis=-1)).all())


def require_labels(output: Output) -> None:
    """Refuse fewer class labels than an output has codes."""
    classes = output.classes
    if classes is None:
        return
    labels = (classes,) if isinstance(classes, Array) else classes
    for node, own in zip(_each(output.node, len(labels)), labels, strict=False):
        if not isinstance(own, Array):
            raise _misfit(output.node, f"has class labels of {type(own).__name__}, not of Array")
        if own.data.ndim != 1:
            raise _misfit(output.node, f"has class labels of shape {own.shape}")
        if _codes(node) > len(own):
            raise _misfit(output.node, f"tells {_codes(node)} classes apart, but names {len(own)}")


def _each(node: Node, labels: int) -> Sequence[Node]:
    """Return the nodes that give the codes of several labels, as far as is known."""
    if labels > 1 and isinstance(node, Concat):
        return node.xs
    if labels > 1 and isinstance(node, ConstantRows):
        return [replace(node, values=Array(node.values.data[[i]])) for i in range(len(node.values))]
    return (node,) * labels


def _codes(node: Node) -> int:
    """Count the codes that a node may give, as far as is known.

    Labels fewer than these would be read beyond their end. A condition gives none, and checks of
    the rows bound what is cast from floats.
    """
    if isinstance(node, Choose):
        return max(_codes(node.x), _codes(node.y))
    if isinstance(node, Cast) and node.x.type.dtype.startswith("float"):
        return 0
    if isinstance(node, Concat | Cast):
        return max(map(_codes, node.inputs))
    if isinstance(node, ArgMax):
        return node.x.type.width // node.groups
    if isinstance(node, Recode | ConstantRows):
        tables = node.tables if isinstance(node, Recode) else (node.values,)
        return max(int(table.data.max(initial=-1)) for table in tables) + 1
    return 2 if isinstance(node, Compare) else 0


def _misfit(node: Node, what: str) -> ConversionError:
    at = f" (step {node.step!r})" if node.step else ""
    return ConversionError(
        f"What {node.step.rpartition('/')[2] or 'the model'}{at} holds {what}. {_WAY_OUT}"
    )
