"""Answers of ``transform`` as frames of pandas or polars."""

from __future__ import annotations

import sys
from collections.abc import Sequence
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
    ends = np.cumsum([node.type.width for node, _ in output.blocks])
    values = values.reshape(len(values), ends[-1])
    cut = np.split(values, ends[:-1], axis=1)
    parts = [
        _part(part, node, dtype or node.type.dtype, (library, x))
        for part, (node, dtype) in zip(cut, output.blocks, strict=True)
    ]
    named = list(x.columns) if names is None else names
    return _pandas(parts, named, x) if library == "pandas" else _polars(parts, named)


def _part(values: npt.NDArray[Any], node: Node, dtype: str, given: tuple[str, Any]) -> Any:
    """Return the columns of the frame x that pass unchanged, else values in their own dtype.

    No columns are values: taken from a frame of polars, they would lose the number of rows.
    """
    library, x = given
    passing = _passing(node, library)
    if passing is not None and passing.columns and type(x).__module__.partition(".")[0] == library:
        names = list(x.columns)
        positions = [
            names.index(name) if (name := passing.schema.names[i]) in names else i
            for i in passing.columns
        ]
        return x.iloc[:, positions] if library == "pandas" else x[:, positions]
    values = values.astype(dtype, copy=False)
    return values if values.flags.writeable else values.copy()


def _passing(node: Node, library: str) -> Columns | None:
    """Return the input columns that a node passes unchanged; None if it computes.

    scikit-learn takes selected columns of pandas from the frame itself.
    """
    if isinstance(node, Select) and isinstance(node.x, Columns) and library == "pandas":
        return Columns(node.x.schema, Array(node.x.indices.data[node.indices.data]))
    return node if isinstance(node, Columns) else None


def _pandas(parts: Sequence[Any], names: Sequence[str], x: Any) -> Any:
    import pandas as pd

    index = x.index if isinstance(x, pd.DataFrame | pd.Series) else None
    frames = [pd.DataFrame(part, index=index, copy=False) for part in parts]
    frame = frames[0] if len(frames) == 1 else pd.concat(frames, axis=1)
    return frame.set_axis(list(names), axis=1)


def _polars(parts: Sequence[Any], names: Sequence[str]) -> Any:
    import polars as pl

    frames = [
        pl.DataFrame(part, orient="row") if isinstance(part, np.ndarray) else part for part in parts
    ]
    if not names:
        return frames[0]
    columns = [frame.to_series(i) for frame in frames for i in range(frame.width)]
    return pl.DataFrame([column.alias(name) for column, name in zip(columns, names, strict=True)])
