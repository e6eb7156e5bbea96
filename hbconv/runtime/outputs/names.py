"""Names of the values of an answer: classes, features, or positions."""

from __future__ import annotations

from itertools import product

from hbconv.array import Array
from hbconv.containers import Cube, Graph
from hbconv.names import EXPLANATIONS

__all__ = ["EXPECTED", "join_names", "name_axes"]

EXPECTED = "expected value"
"""Name of the last value of contributions: the mean over the training rows."""


def name_axes(graph: Graph, method: str) -> tuple[tuple[str, ...], ...]:
    """Return the names along each axis of a row's answer; no axis where it is one value.

    Examples
    --------
    >>> from hbconv.containers import Columns, Output, Schema
    >>> schema = Schema.matrix(2)
    >>> name_axes(Graph(schema, {"transform": Output(Columns.of(schema))}), "transform")
    (('0', '1'),)
    """
    output = graph.outputs[method]
    if output.is_vector:
        return ()
    if method in EXPLANATIONS:
        return _name_explanation(graph, method)
    if isinstance(output.form, Cube):
        return tuple(_positions(size) for size in output.form.shape)
    widths = output.widths or (output.node.type.width,)
    classes = graph.traits.classes
    if len(widths) > 1:
        fits = isinstance(classes, tuple) and len(classes) == len(widths)
        named = classes if fits and isinstance(classes, tuple) else ()
        tables = [*map(_texts, named)] or [*map(_positions, widths)]
        return (tuple(f"{i}_{name}" for i, table in enumerate(tables) for name in table),)
    return (_name_classes(graph, widths[0]),)


def _name_explanation(graph: Graph, method: str) -> tuple[tuple[str, ...], ...]:
    """Name what explanations are of: the raw scores where there are several, then the features."""
    output = graph.outputs[method]
    features = (*(graph.traits.explained or _positions(output.n_explained)), EXPECTED)
    # Contributions have one axis of features, and interactions two.
    axes = (features,) * (1 + EXPLANATIONS.index(method))
    if isinstance(output.form, Cube):
        several = len(output.form.shape) > len(axes)
        return (_name_classes(graph, output.form.shape[0]), *axes) if several else axes
    count = output.node.type.width // len(features)
    # One raw score after another in a matrix, where the source gives them so.
    return axes if count == 1 else (tuple(join_names((_name_classes(graph, count), features))),)


def _name_classes(graph: Graph, count: int) -> tuple[str, ...]:
    classes = graph.traits.classes
    fits = isinstance(classes, Array) and len(classes.data) == count
    return _texts(classes) if fits and isinstance(classes, Array) else _positions(count)


def _texts(table: Array) -> tuple[str, ...]:
    return tuple(map(str, table.data.tolist()))


def _positions(count: int) -> tuple[str, ...]:
    return tuple(map(str, range(count)))


def join_names(axes: tuple[tuple[str, ...], ...]) -> list[str]:
    """Return a name for each value of a row: of a class and a feature, or of two features.

    Examples
    --------
    >>> join_names((("no", "yes"), ("age",)))
    ['no_age', 'yes_age']
    >>> join_names((("age", "city"), ("age", "city")))[1]
    'age:city'
    """
    # Two features that interact are written as in formulas of statistics.
    pairs = len(axes) > 1 and axes[-1] == axes[-2]
    *outer, last = axes
    if not pairs:
        return ["_".join(names) for names in product(*outer, last)]
    *classes, features = outer
    return [
        "_".join((*names[:-2], ":".join(names[-2:]))) for names in product(*classes, features, last)
    ]
