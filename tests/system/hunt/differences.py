"""Whether an answer is the source's: its values first, then its form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import scipy.sparse
from tolerances import ORDERED, ULP, allowed, precision, units

__all__ = ["Difference", "Standard", "find_difference", "plain", "plain_parts"]

Array = npt.NDArray[Any]
NARROW = ("float16", "float32")


@dataclass(frozen=True)
class Standard:
    """How near an answer must be.

    Parameters
    ----------
    backend : str
    only_trees : bool
        The model is trees and nothing else: each entry is held to itself, not to its row.
    exact : bool
        Nothing inside adds in an order of its own: each decision is the source's.
    narrow : bool
        Something inside computes in float32 whatever the rows are.
    """

    backend: str
    only_trees: bool = False
    exact: bool = False
    narrow: bool = False

    def limits(self, rows: Any, want: Array) -> Array:
        """Return the largest difference that is allowed, for each entry of an answer."""
        dtype = "float32" if self.narrow or _is_narrow(rows) else precision(rows, want)
        kind = "linear"
        if self.only_trees:
            kind = "float32 inside" if self.narrow else "trees"
        return allowed(kind, dtype, _numbers(rows, len(want)), want)

    def is_near(self, method: str, rows: Any, got: Array, want: Array) -> Array:
        """Return which numbers are near enough; scores of trees are held to units."""
        if self.only_trees and method == "raw_scores":
            return units(method, got, want) <= ULP["raw", self.backend in ORDERED]
        with np.errstate(all="ignore"):
            return np.abs(got - want) <= self.limits(rows, want)


@dataclass(frozen=True)
class Difference:
    """What differs, and an excerpt of it; ``form`` where it is the class or the dtype alone."""

    what: str
    detail: str


def find_difference(
    standard: Standard, method: str, rows: Any, got: Any, want: Any
) -> Difference | None:
    """Compare an answer with the source's, part by part."""
    parts = plain_parts(want)
    found = plain_parts(got)
    if len(found) != len(parts):
        return Difference("shape", f"{len(found)} parts for {len(parts)}")
    for mine, theirs in zip(found, parts, strict=True):
        if mine.shape != theirs.shape:
            return Difference("shape", f"{mine.shape} for {theirs.shape}")
        far = ~_is_same(standard, method, rows, mine, theirs)
        if far.any():
            return Difference(_kind(mine[far], theirs[far]), _shown(far, mine, theirs))
    return _other_form(got, want)


def plain_parts(answer: Any) -> list[Array]:
    """Return the arrays that an answer holds."""
    parts = answer if isinstance(answer, list | tuple) else [answer]
    return [plain(part) for part in parts]


def plain(answer: Any) -> Array:
    """Return a sparse matrix, a frame or a number as an array; numbers among objects as numbers."""
    if scipy.sparse.issparse(answer):
        return answer.toarray()
    array = answer.to_numpy() if isinstance(answer, pd.DataFrame) else np.asarray(answer)
    numbers = array.dtype.hasobject and all(isinstance(v, float) for v in array.flat)
    return array.astype(np.float64) if numbers else array


def _is_same(standard: Standard, method: str, rows: Any, got: Array, want: Array) -> Array:
    """Return which entries are alike: labels equal, numbers near."""
    if got.dtype.hasobject or want.dtype.hasobject:
        pairs = zip(got.ravel(), want.ravel(), strict=True)
        return np.array([_is_alike(a, b) for a, b in pairs], bool).reshape(want.shape)
    same = (got == want) | ((got != got) & (want != want))
    if want.dtype.kind != "f" or got.dtype.kind not in "fiub" or not want.size:
        return same
    is_finite = np.isfinite(got) & np.isfinite(want)
    return same | (is_finite & standard.is_near(method, rows, got, want))


def _is_alike(got: Any, want: Any) -> bool:
    if pd.isna(got) or pd.isna(want):
        return bool(pd.isna(got) and pd.isna(want))
    return bool(got == want)


def _kind(got: Array, want: Array) -> str:
    if want.dtype.kind != "f" or got.dtype.kind != "f":
        return "labels"
    return "values" if np.isfinite(got).all() and np.isfinite(want).all() else "not finite"


def _shown(far: Array, got: Array, want: Array) -> str:
    first = np.unique(np.nonzero(far)[0])[:5] if far.ndim else [0]
    excerpt = f"{got[far][:3]} for {want[far][:3]}"
    farthest = ""
    if want.dtype.kind == "f" and got.dtype.kind == "f":
        with np.errstate(all="ignore"):
            farthest = f", apart by {np.nanmax(np.abs(got[far] - want[far]), initial=0):.3g}"
    return f"{far.sum()} of {far.size}, rows {[int(i) for i in first]}: {excerpt}{farthest}"


def _other_form(got: Any, want: Any) -> Difference | None:
    """Compare classes and dtypes; a number of Python is as good as one of numpy."""
    mine = _form(got)
    theirs = _form(want)
    return Difference("form", f"{mine} for {theirs}") if mine != theirs else None


def _form(answer: Any) -> str:
    if isinstance(answer, list | tuple):
        return f"{type(answer).__name__} of {', '.join(map(_form, answer))}"
    if isinstance(answer, pd.DataFrame):
        return f"DataFrame of {', '.join(map(str, answer.dtypes))}"
    array = np.asarray(answer) if np.isscalar(answer) else answer
    return f"{type(array).__name__} of {getattr(array, 'dtype', None)}"


def _is_narrow(rows: Any) -> bool:
    dtypes = rows.dtypes if hasattr(rows, "columns") else [getattr(rows, "dtype", None)]
    return any(str(dtype).lstrip("<>") in NARROW for dtype in dtypes)


def _numbers(rows: Any, n_rows: int) -> Array:
    """Return the finite numbers of rows; ones where they hold none, or not one row an answer."""
    held = rows.toarray() if scipy.sparse.issparse(rows) else rows
    if isinstance(held, pd.DataFrame):
        held = held.select_dtypes("number").to_numpy(dtype=np.float64, na_value=np.nan)
    try:
        numbers = np.asarray(held, dtype=np.float64)
    except (TypeError, ValueError):
        return np.ones((n_rows, 1))
    return numbers if numbers.shape[:1] == (n_rows,) and numbers.ndim == 2 else np.ones((n_rows, 1))
