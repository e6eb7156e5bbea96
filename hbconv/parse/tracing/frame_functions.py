"""Functions of pandas over columns that record: the one table from their names to nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import Bins, Cast, Choose, Compare, ConstantRows, IsMissing, Relation
from hbconv.parse.tracing.arrays import TracedMatrix
from hbconv.parse.tracing.categories import get_dummies, make_categorical
from hbconv.parse.tracing.dates import to_datetime
from hbconv.parse.tracing.frame_columns import TracedIndex
from hbconv.parse.tracing.frames import (
    TracedFrame,
    TracedSeries,
    column_of,
    series_of,
    unique_columns,
)
from hbconv.parse.tracing.functions import apply_ufunc, constant_of
from hbconv.parse.tracing.known_categories import as_categories, known_categories, look_up
from hbconv.parse.tracing.made_texts import text_at, to_numeric
from hbconv.parse.tracing.trace import current_trace, refuse

__all__ = ["MAKERS_OF_FRAMES"]


def make_frame(data: Any = None, index: Any = None, columns: Any = None) -> TracedFrame:
    """``pd.DataFrame`` of columns that record."""
    if index is not None and not isinstance(index, TracedIndex):
        refuse("makes a frame with an index", "Leave index= out.")
    if data is None and columns is None:
        return TracedFrame({})
    if isinstance(data, Mapping):
        return TracedFrame({name: column_of(value) for name, value in data.items()})
    if isinstance(data, TracedMatrix):
        names = range(data.width) if columns is None else list(columns)
        return TracedFrame(
            unique_columns(list(names), [data.column(j).node for j in range(data.width)])
        )
    if isinstance(data, TracedFrame):
        return data.copy() if columns is None else data[list(columns)]
    return refuse("makes a frame of this", "Give a dict of columns.")


def make_series(data: Any = None, index: Any = None, name: Any = None) -> TracedSeries:
    """``pd.Series`` of a column that records, or of one constant for all rows."""
    if index is not None and not isinstance(index, TracedIndex):
        refuse("makes a series with an index", "Give index=df.index.")
    if index is not None and isinstance(data, TracedSeries):
        refuse("aligns a series with an index", "Take the series as it is.")
    if isinstance(data, dict | list | tuple) or data is None:
        refuse("makes a series of this", "Give a column, or one constant.")
    return series_of(column_of(data), name)


def concat(objs: Any, axis: Any = 0, keys: Any = None) -> TracedFrame:
    """``pd.concat`` of columns, which ``keys`` name where they are series."""
    if axis not in (1, "columns"):
        refuse("joins rows", "Join columns: pd.concat(frames, axis=1).")
    if keys is not None:
        if not all(isinstance(part, TracedSeries) for part in objs) or len(objs) != len(keys):
            refuse("joins frames under names of several levels", "Leave keys= out.")
        objs = [part.to_frame(name) for part, name in zip(objs, keys, strict=True)]
    parts = [part.to_frame() if isinstance(part, TracedSeries) else part for part in objs]
    names = [name for part in parts for name in part]
    return TracedFrame(unique_columns(names, [part.nodes[name] for part in parts for name in part]))


def cut(
    x: Any,
    bins: Any,
    right: bool = True,
    labels: Any = None,
    include_lowest: bool = False,
    duplicates: str = "raise",  # noqa: ARG001
) -> Any:
    """``pd.cut`` by given edges, into places or labels."""
    if np.ndim(bins) == 0:
        refuse("cuts into a number of bins, whose edges depend on the other rows", "Give edges.")
    if labels is None or labels is True or not isinstance(x, TracedSeries):
        refuse("cuts into intervals", "Give labels=, or labels=False for the places of bins.")
    edges = np.asarray(bins, np.float64)
    if not np.all(np.diff(edges) > 0):
        refuse("cuts at edges that do not ascend", "Sort the edges.")
    node = Cast(x.node, "float64")
    place = Bins(node, Array(_reached(edges, right=right, include_lowest=include_lowest)[None]))
    outside = Relation(
        Compare.of(place, "lt", 1.0), Compare.of(place, "gt", len(edges) - 1.0), "or"
    )
    nothing = ConstantRows(current_trace().x, Array([np.nan]))
    one_less = apply_ufunc(np.subtract, [place, constant_of(1.0)])
    found = Choose(Relation(outside, IsMissing(node), "or"), nothing, one_less)
    if labels is False:
        return x.like(current_trace().made_whole(found))
    named = list(labels)
    if len(named) != len(edges) - 1 or len(set(named)) < len(named):
        refuse("cuts into other labels than one for each bin", "Give a label for each bin.")
    if all(isinstance(label, str) for label in named):
        return x.like(as_categories(text_at(found, named), named, ordered=True))
    by_place = look_up(found, dict(enumerate(named)), [np.nan])
    return x.like(as_categories(by_place, named, ordered=True))


def _reached(
    edges: npt.NDArray[np.float64], *, right: bool, include_lowest: bool
) -> npt.NDArray[np.float64]:
    """Return the least numbers behind each edge."""
    if not right:
        return edges
    reached = np.nextafter(edges, np.inf)
    if include_lowest:
        reached[0] = edges[0]
    # Nothing lies behind infinity, which belongs to the last bin.
    return reached[:-1] if edges[-1] == np.inf else reached


MAKERS_OF_FRAMES: dict[str, Callable[..., Any]] = {
    "DataFrame": make_frame,
    "CategoricalDtype": known_categories,
    "Categorical": make_categorical,
    "get_dummies": get_dummies,
    "Series": make_series,
    "concat": concat,
    "cut": cut,
    "isna": lambda obj: obj.isna(),
    "isnull": lambda obj: obj.isna(),
    "notna": lambda obj: obj.notna(),
    "notnull": lambda obj: obj.notna(),
    "to_datetime": to_datetime,
    "to_numeric": to_numeric,
}
"""Functions of pandas by name, for columns that record."""
