"""Examples: rows that a model answers, made of what it was fitted on.

A first request should be answered as it is sent. So texts come from the vocabulary, numbers from
the known values, the centres and the thresholds of the model, and the model itself is asked whether
it takes the row. What no other value may stand for is found in the same way: by asking.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hbconv.containers import (
    Affine,
    Codes,
    Columns,
    FindCode,
    Graph,
    Node,
    TreeEnsemble,
    Vocabulary,
    topological,
)
from hbconv.containers.vocabulary import DateCodes
from hbconv.errors import InputError
from hbconv.serve.inference import Rows
from hbconv.serve.served_model import ServedModel, compute
from hbconv.serve.signature import InputTensor, ModelSignature

__all__ = ["Example", "find_example"]

TEXT, DATE, STRANGE = "text", "2024-01-31", "no such value"
MOST_CHOICES = 100
"""Values that a schema lists: a vocabulary may have millions."""
MOST_ASKED = 100
"""Columns about which the model is asked, a millisecond or less each."""
DIGITS = 3
"""Of a number that stands for many, so that a person can read it."""


@dataclass(frozen=True)
class Example:
    """A row for a model, and what its columns may hold.

    Parameters
    ----------
    values : mapping of str to object
        A value for each column that is read, by the name of the column.
    choices : mapping of str to tuple
        All values of columns in which any other one is refused.
    """

    values: Mapping[str, Any]
    choices: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)


def find_example(served: ServedModel) -> Example:
    """Find a row that the model answers, and the columns that take known values alone."""
    # What the model warns of values that are made up would mislead.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _find_item(served) if served.signature.feeds == "items" else _find_row(served)


def _find_row(served: ServedModel) -> Example:
    hints = _Hints(served.model.parsed)
    names = _column_names(served)
    values = {name: hints.value(column) for column, name in names.items()}
    known = {name: hints.choices(column) for column, name in names.items()}
    asked = [name for name, choices in known.items() if 0 < len(choices) <= MOST_CHOICES]
    if not asked or not _takes(served, values):
        return Example(values)
    closed = (
        name
        for name in asked[:MOST_ASKED]
        if not _takes(served, values | {name: _find_strange(known[name])})
    )
    return Example(values, {name: known[name] for name in closed})


def _find_strange(choices: Sequence[Any]) -> Any:
    """Return a value that is none of the choices."""
    return STRANGE if isinstance(choices[0], str) else max(choices) + 1


def _find_item(served: ServedModel) -> Example:
    """Return the first kind of item that the model takes: a text, a mapping, or a list of texts."""
    (tensor,) = served.signature.inputs
    kinds: list[Any] = [TEXT, {TEXT: 1}, [TEXT]]
    fitting = (kind for kind in kinds if _takes(served, {tensor.name: kind}))
    return Example({tensor.name: next(fitting, TEXT)})


def _column_names(served: ServedModel) -> dict[int, str]:
    """Return the columns that are read, by their positions in the schema."""
    names = served.model.schema.names
    read = served.model.reads.asked if served.signature.feeds == "names" else range(len(names))
    return {column: names[column] for column in read}


def _takes(served: ServedModel, values: Mapping[str, Any]) -> bool:
    """Whether the model answers a row."""
    signature = served.signature
    try:
        compute(served.model, signature, _make_row(signature, values), signature.usual[:1])
    except InputError:
        return False
    return True


def _make_row(signature: ModelSignature, values: Mapping[str, Any]) -> Rows:
    if signature.feeds == "matrix":
        (tensor,) = signature.inputs
        return Rows(1, (np.array([[*values.values()]], tensor.array_dtype),))
    return Rows(1, tuple(_make_column(tensor, values[tensor.name]) for tensor in signature.inputs))


def _make_column(tensor: InputTensor, value: Any) -> np.ndarray[Any, Any]:
    column = np.empty(1, tensor.array_dtype)
    column[0] = value
    return column


class _Hints:
    """What a graph tells of the values in its columns.

    Parameters
    ----------
    graph : Graph
    """

    def __init__(self, graph: Graph) -> None:
        self._schema = graph.schema
        self._known: dict[int, tuple[Any, ...]] = {}
        self._likely: dict[int, float] = {}
        for node in topological(graph.roots):
            self._read(node)

    def choices(self, column: int) -> tuple[Any, ...]:
        """Return the values of a column that the model knows one by one."""
        return self._known.get(column, ())

    def value(self, column: int) -> Any:
        """Return a value for a column."""
        known = self.choices(column)
        if known:
            return known[0]
        dtype = self._schema.columns[column].dtype
        if dtype == "string":
            return TEXT
        likely = self._likely.get(column, 0.0)
        return round(likely) if dtype == "int64" else likely

    def _read(self, node: Node) -> None:
        """Note what a node tells of the columns that it reads."""
        if isinstance(node, Codes):
            self._read_codes(node)
        elif isinstance(node, FindCode):
            for column, values in zip(_columns_read(node.x), node.values, strict=False):
                finite = values.data[np.isfinite(values.data)]
                self._known.setdefault(column, tuple(finite.tolist()))
        elif isinstance(node, Affine):
            for column, value in _centres(node):
                self._likely.setdefault(column, _shorten(value))
        elif isinstance(node, TreeEnsemble):
            for column, value in _thresholds(node):
                self._likely.setdefault(column, _shorten(value))

    def _read_codes(self, node: Codes) -> None:
        if isinstance(node.vocabulary, DateCodes):
            self._known[node.column] = (DATE,)
        elif isinstance(node.vocabulary, Vocabulary):
            texts = tuple(value for value in node.vocabulary.values if isinstance(value, str))
            numbers = tuple(v for v in node.vocabulary.values if type(v) in (int, float, bool))
            self._known.setdefault(node.column, texts or numbers)


def _columns_read(node: Node) -> Sequence[int]:
    """Return the input column behind each column of a node; none where several make one."""
    while not isinstance(node, Columns):
        inputs = node.inputs
        if len(inputs) != 1 or inputs[0].type.width != node.type.width:
            return ()
        node = inputs[0]
    return node.columns


def _centres(node: Affine) -> Iterator[tuple[int, float]]:
    """Return what a scaler takes off each column, which is its mean, median or minimum."""
    first = node.steps[0]
    if first.op == "sub":
        centres = np.broadcast_to(first.constant.data, (node.type.width,))
        yield from zip(_columns_read(node.x), centres.tolist(), strict=False)


def _thresholds(node: TreeEnsemble) -> Iterator[tuple[int, float]]:
    """Return the middle one of the thresholds of each feature."""
    feature, threshold = node.forest.feature.data, node.forest.threshold.data
    for place, column in enumerate(_columns_read(node.x)):
        asked = threshold[(feature == place) & np.isfinite(threshold)]
        if len(asked):
            yield column, float(np.sort(asked)[len(asked) // 2])


def _shorten(value: float) -> float:
    """Return a number with few digits; 0 where it is not finite."""
    return float(f"{value:.{DIGITS}g}") if np.isfinite(value) else 0.0
