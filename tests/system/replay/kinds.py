"""Kinds of rows: the same rows as every library and text holds them, and rows with one fault."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

__all__ = ["FAULTS", "KINDS"]


def _frame(x: Any) -> pd.DataFrame:
    """Return rows as a frame, whose columns have the names that frames of the matrix have."""
    if isinstance(x, pd.DataFrame):
        return x
    x = np.asarray(x)
    return pd.DataFrame(x, columns=[f"c{i}" for i in range(x.shape[1])])


def _matrix(x: Any) -> np.ndarray:
    return x.to_numpy() if isinstance(x, pd.DataFrame) else np.asarray(x)


def _numbers(x: Any, dtype: str) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.ascontiguousarray(_matrix(x).astype(dtype))


def _indexed(x: Any) -> pd.DataFrame:
    """Return a frame whose index counts down, as answers must have it."""
    frame = _frame(x)
    return frame.set_axis(range(len(frame), 0, -1), axis=0)


def _records(x: Any) -> list[dict[str, Any]]:
    return [*_frame(x).to_dict("records")]


def _record(x: Any) -> Any:
    records = _records(x)
    return records[0] if len(records) == 1 else records


def _json(x: Any) -> str:
    return json.dumps(_records(x), default=str)


def _columns(x: Any) -> dict[str, list[Any]]:
    return {str(name): column.tolist() for name, column in _frame(x).items()}


def _arrow(x: Any) -> Any:
    import pyarrow as pa

    return pa.Table.from_pandas(_frame(x), preserve_index=False)


def _polars(x: Any) -> Any:
    import polars as pl

    return pl.from_pandas(_frame(x))


def _csr(x: Any) -> Any:
    from scipy.sparse import csr_matrix

    return csr_matrix(_numbers(x, "float64"))


def _tensor(x: Any) -> Any:
    import torch

    return torch.from_numpy(_numbers(x, "float32"))


KINDS: dict[str, Callable[[Any], Any]] = {
    "float64": lambda x: _numbers(x, "float64"),
    "float32": lambda x: _numbers(x, "float32"),
    "int64": lambda x: _numbers(x, "int64"),
    "objects": lambda x: _matrix(x).astype(object),
    "frame": _indexed,
    "record": _record,
    "json": _json,
    "list": lambda x: _matrix(x).tolist(),
    "columns": _columns,
    "arrow": _arrow,
    "polars": _polars,
    "csr": _csr,
    "tensor": _tensor,
    "items": lambda x: x if isinstance(x, list) else list(x),
}
"""Each makes rows of its kind, or raises what the library raises that cannot hold them."""


def _with(x: Any, value: Any) -> Any:
    """Return rows whose first number has another value."""
    copy = x.copy()
    if isinstance(copy, pd.DataFrame):
        numeric = copy.select_dtypes("number").columns
        copy.loc[copy.index[0], numeric[0]] = value
        return copy
    copy = copy.astype(np.float64)
    copy[0, 0] = value
    return copy


FAULTS: dict[str, Callable[[Any], Any]] = {
    "NaN": lambda x: _with(x, np.nan),
    "infinity": lambda x: _with(x, np.inf),
    "1e300": lambda x: _with(x, 1e300),
    "2**53 + 1": lambda x: _with(x, 2.0**53 + 2),
    "narrow": lambda x: _frame(x).iloc[:, :-1] if isinstance(x, pd.DataFrame) else x[:, :-1],
    "backwards": lambda x: _frame(x).iloc[:, ::-1],
}
"""Each spoils rows, which a table or a matrix holds."""
