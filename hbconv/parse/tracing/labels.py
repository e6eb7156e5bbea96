"""Constants that rows choose among: tables that are looked up by places, and texts as labels.

A text never enters a program, so a column of chosen texts is their places in a table.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    ArgMax,
    Cast,
    Choose,
    Compare,
    ConstantRows,
    Node,
    Recode,
    Relation,
    Select,
)
from hbconv.parse.tracing.arrays import N_ROWS, Traced, TracedMatrix, TracedVector, is_all
from hbconv.parse.tracing.functions import truth
from hbconv.parse.tracing.trace import RowCount, current_trace, refuse

__all__ = ["ConstantTable", "TracedLabels", "choose_labels", "is_text", "labels_of", "look_up"]

_NUMBERS = ("bool", "int64", "float32", "float64")


def is_text(value: Any) -> bool:
    """Tell whether a value is a text, or a column of chosen texts."""
    if isinstance(value, TracedVector):
        return current_trace().kind_of(value.node) == "text"
    return isinstance(value, str | TracedLabels)


class TracedLabels(Traced):
    """An array of shape (n_rows,) of texts that the function knows.

    Parameters
    ----------
    codes : Node
        Place of each row's text, int32.
    table : ndarray
        Texts, all of them different.
    """

    ndim = 1

    def __init__(self, codes: Node, table: npt.NDArray[Any]) -> None:
        self.codes = codes
        self.table = table

    @property
    def shape(self) -> tuple[RowCount]:
        """Its shape."""
        return (N_ROWS,)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the texts."""
        return self.table.dtype

    def copy(self) -> TracedLabels:
        """Return itself: it is never written to."""
        return self

    ravel = flatten = copy

    def __getitem__(self, key: Any) -> TracedLabels:
        if is_all(key):
            return self
        return refuse("takes some of the rows", "A model answers each row alone.")

    def __eq__(self, other: object) -> Any:
        return self._compare(other, equal=True)

    def __ne__(self, other: object) -> Any:
        return self._compare(other, equal=False)

    __hash__ = Traced._needs_values

    def _compare(self, other: object, *, equal: bool) -> TracedVector:
        if not isinstance(other, str):
            refuse("compares texts with other values", "Compare with one text.")
        held = ((self.table == other) == equal).astype(np.int64)
        return TracedVector(Compare.of(_recode(self.codes, held), "eq", 1.0))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **_: Any) -> Any:
        others = [x for x in inputs if x is not self]
        if ufunc not in (np.equal, np.not_equal) or method != "__call__" or len(others) != 1:
            refuse(f"computes numpy.{ufunc.__name__} of texts", "Compare texts by == and !=.")
        return self._compare(others[0], equal=ufunc is np.equal)

    def __array_function__(self, function: Any, *_: Any) -> Any:
        return refuse(f"calls numpy.{function.__name__} of texts", "Choose texts by np.where.")


def _recode(codes: Node, values: npt.NDArray[Any]) -> Node:
    """Return what a table holds for each place; its first entry, for the place -1, is not met."""
    return Recode(codes, (Array(np.concatenate([values[:1], values])),) * codes.type.width)


def labels_of(value: Any) -> TracedLabels:
    """Return a text, or a column of texts, as labels."""
    if isinstance(value, TracedLabels):
        return value
    if not isinstance(value, str):
        refuse("chooses among texts and numbers", "Use values of one type.")
    return TracedLabels(ConstantRows(current_trace().x, Array.of([0], np.int32)), np.array([value]))


def learn_texts(column: Any) -> None:
    """Begin again where a column of the rows is used as texts for the first time."""
    trace = current_trace()
    if trace.kind_of(column.node) != "text":
        trace.learn([column.node], "text")


def choose_labels(condition: Any, x: Any, y: Any) -> Any:
    """``np.where`` of texts."""
    column = next((v for v in (x, y) if isinstance(v, TracedVector)), None)
    if column is not None and isinstance(condition, TracedVector):
        learn_texts(column)
        return column.where(condition, y) if column is x else column.mask(condition, x)
    if not isinstance(condition, TracedVector):
        refuse("chooses among texts by a table of conditions", "Choose by a column: x[:, 0] > 1.")
    first, second = labels_of(x), labels_of(y)
    # numpy's dtype of both, as long as the longest text.
    table, places = np.unique(np.concatenate([first.table, second.table]), return_inverse=True)
    parts = np.split(places.astype(np.int32), [len(first.table)])
    chosen = (_recode(each.codes, part) for each, part in zip((first, second), parts, strict=True))
    return TracedLabels(Choose(truth(condition.node), *chosen), table)


class ConstantTable(np.ndarray[Any, Any]):
    """An array of constants, which rows may look up by their places."""

    def __getitem__(self, key: Any) -> Any:
        # A boolean of the rows is no place.
        return look_up(self, key) if isinstance(key, Traced) else super().__getitem__(key)

    def take(self, indices: Any, axis: Any = None, **options: Any) -> Any:  # type: ignore[override]
        """Look up, as indexing does."""
        if isinstance(indices, Traced) and axis in (None, 0):
            return look_up(self, indices)
        return super().take(indices, axis, **options)


def look_up(table: npt.NDArray[Any], places: Traced) -> Any:
    """Return the entries of a table at the places that rows hold.

    Rows whose place lies outside of the table are refused.
    """
    values = np.asarray(table)
    if not isinstance(places, TracedVector | TracedMatrix) or places.dtype.kind != "i":
        refuse("takes entries of a constant array by other than whole numbers", "Use np.where.")
    if not len(values) or values.ndim > 2 or (values.ndim == 2 and places.ndim == 2):
        refuse("looks up an array of this shape", "Look up an array of one number for each place.")
    if not _is_within(places.node, len(values)):
        outside = Relation(
            Compare.of(places.node, "lt", 0), Compare.of(places.node, "ge", len(values)), "or"
        )
        what = "A place outside of a constant array is looked up."
        current_trace().checks.append((outside, what))
    codes = Cast(places.node, "int32")
    if values.dtype.kind in "UO" and values.ndim == 1 and places.ndim == 1:
        return _labels_at(values, codes)
    if values.dtype.name not in _NUMBERS:
        refuse(f"looks up an array of {values.dtype}", "Look up numbers, or labels in one column.")
    if values.ndim == 1:
        return places.like(_recode(codes, values))
    columns = [_recode(codes, column) for column in values.T]
    return TracedMatrix(_beside(codes, columns))


def _beside(codes: Node, columns: list[Node]) -> Node:
    """Return several tables of the same codes side by side."""
    tables = tuple(column.tables[0] for column in columns if isinstance(column, Recode))
    return Recode(Select(codes, Array(np.zeros(len(tables), np.int32))), tables)


def _labels_at(values: npt.NDArray[Any], codes: Node) -> TracedLabels:
    if not all(isinstance(value, str) for value in values.tolist()):
        refuse("looks up objects that are no texts", "Use an array of numbers, or one of texts.")
    distinct, places = np.unique(values, return_inverse=True)
    if len(distinct) == len(values):
        return TracedLabels(codes, values)
    return TracedLabels(_recode(codes, places.astype(np.int32)), distinct)


def _is_within(places: Node, count: int) -> bool:
    """Tell whether places lie within a table of so many entries, whatever the rows hold."""
    if isinstance(places, Cast):
        return _is_within(places.x, count)
    if isinstance(places, ArgMax):
        return places.x.type.width <= count
    return places.type.dtype == "bool" and count > 1
