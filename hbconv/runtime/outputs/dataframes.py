"""Answers of ``transform`` as frames of pandas or polars."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import Columns, FrameFormat, Node, Output, Select
from hbconv.errors import InputError

__all__ = ["framed", "library_of"]


def library_of(frame_format: FrameFormat | None, x: Any) -> str:
    """Return the library whose frames ``transform`` returns for rows x, or "" for arrays.

    The configuration of scikit-learn counts if it is imported.
    """
    if frame_format is None:
        return ""
    if frame_format.library == "given":
        own = type(x).__module__.partition(".")[0]
        return own if own in ("pandas", "polars") and hasattr(x, "columns") else ""
    sklearn = sys.modules.get("sklearn")
    chosen = frame_format.library or (
        sklearn.get_config()["transform_output"] if sklearn is not None else "default"
    )
    return "" if chosen == "default" else chosen


def framed(values: Any, output: Output, library: str, names: Sequence[str] | None, x: Any) -> Any:
    """Return the answer of ``transform`` as a frame.

    Parameters
    ----------
    values : ndarray
    output : Output
        Over columns of the dtypes of x; its blocks keep their dtypes.
    library : {"pandas", "polars"}
    names : sequence of str, or None
        Of the frame's columns; None where x names them.
    x : table or array
        What the model was given. A frame of pandas has its index, and its own columns where they
        pass unchanged.

    Raises
    ------
    InputError
        The answer is a sparse matrix.
    """
    if not isinstance(values, np.ndarray):
        raise InputError(
            "The answer is a sparse matrix, which no frame holds. Call "
            f"set_output(transform='default') or fit with dense output, not {library}."
        )
    blocks = [(node, dtype or node.type.dtype) for node, dtype in output.blocks]
    ends = np.cumsum([0, *(node.type.width for node, _ in blocks)]).tolist()
    values = values.reshape(len(values), ends[-1])
    passed = _positions(blocks, values.dtype, library, x)
    parts: list[Part] = []
    for (_, dtype), positions, start, end in zip(blocks, passed, ends[:-1], ends[1:], strict=True):
        part: Part = positions or _Values(start, end, dtype)
        parts[-1:] = _joined(parts[-1], part) if parts else [part]
    frames = [_taken(part, values, library, x) for part in parts]
    named = list(x.columns) if names is None else list(names)
    return _pandas(frames, named, x) if library == "pandas" else _polars(frames, named)


@dataclass(frozen=True)
class _Values:
    """Columns of the answer's values from one to another, in a dtype."""

    start: int
    end: int
    dtype: str


Part = _Values | list[int]
"""Values, or the positions of columns in the frame given."""


def _positions(
    blocks: Sequence[tuple[Node, str]], dtype: np.dtype[Any], library: str, x: Any
) -> list[list[int]]:
    """Return where the frame x has the columns that each block passes unchanged.

    None where values are the same: pandas takes 0.4 ms for columns of a frame. No columns are
    values: taken from a frame of polars, they would lose the number of rows.
    """
    if type(x).__module__.partition(".")[0] != library or not hasattr(x, "columns"):
        return [[] for _ in blocks]
    places = {name: i for i, name in reversed(list(enumerate(x.columns)))}
    same = [kind == dtype for kind in x.dtypes] if library == "pandas" else [False] * len(places)

    def find(node: Node, wanted: str) -> list[int]:
        passing = _passing(node, library)
        if passing is None:
            return []
        found = [places.get(passing.schema.names[i], i) for i in passing.columns]
        return [] if wanted == dtype and all(same[i] for i in found) else found

    return [find(node, wanted) for node, wanted in blocks]


def _joined(before: Part, part: Part) -> list[Part]:
    """Join neighbours of one kind: many columns take the time of one."""
    if isinstance(before, list) and isinstance(part, list):
        return [before + part]
    if isinstance(before, _Values) and isinstance(part, _Values) and before.dtype == part.dtype:
        return [_Values(before.start, part.end, part.dtype)]
    return [before, part]


def _taken(part: Part, values: npt.NDArray[Any], library: str, x: Any) -> Any:
    """Return columns of the frame x by their positions, or values in memory of their own."""
    if isinstance(part, _Values):
        own = values[:, part.start : part.end].astype(part.dtype, copy=False)
        return own if own.flags.writeable else own.copy()
    return x.iloc[:, part] if library == "pandas" else x[:, part]


def _passing(node: Node, library: str) -> Columns | None:
    """Return the input columns that a node passes unchanged; None if it computes.

    scikit-learn takes selected columns of pandas from the frame itself.
    """
    if isinstance(node, Select) and isinstance(node.x, Columns) and library == "pandas":
        return Columns(node.x.schema, Array(node.x.indices.data[node.indices.data]))
    return node if isinstance(node, Columns) else None


def _pandas(parts: Sequence[Any], names: list[str], x: Any) -> Any:
    import pandas as pd

    index = x.index if isinstance(x, pd.DataFrame | pd.Series) else None
    frames = [pd.DataFrame(part, index=index, copy=False) for part in parts]
    frame = frames[0] if len(frames) == 1 else pd.concat(frames, axis=1)
    if not names or list(frame.columns) != names:  # an own Index of no columns is one of ints
        frame.columns = names
    return frame


def _polars(parts: Sequence[Any], names: list[str]) -> Any:
    import polars as pl

    frames = [
        pl.DataFrame(part, orient="row") if isinstance(part, np.ndarray) else part for part in parts
    ]
    if not names:
        return frames[0]
    columns = [frame.to_series(i) for frame in frames for i in range(frame.width)]
    return pl.DataFrame([column.alias(name) for column, name in zip(columns, names, strict=True)])
