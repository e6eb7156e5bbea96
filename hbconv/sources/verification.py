"""Compare a model with the estimator it came from."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.errors import OptionError
from hbconv.markup import html_table
from hbconv.model import Model
from hbconv.names import abridge
from hbconv.runtime.inputs.read import read_table

__all__ = [
    "TOLERANCE",
    "Difference",
    "Report",
    "coarsest",
    "compare",
    "is_alike",
    "plain",
    "verify",
]

TOLERANCE = {"float16": 1e-2, "float32": 1e-4, "float64": 1e-10}
"""Largest difference that another order of the same arithmetic explains, by the coarsest dtype.

It is relative to values above one. A source model rounds float32 rows after each step; a fused
model rounds them less often.
"""


HEAD = ("method", "values", "absolute", "relative", "ulp", "flipped", "")
"""Heads of the columns of a table of differences."""


@dataclass(frozen=True)
class Difference:
    """How one method's answers differ from the source's.

    Parameters
    ----------
    method : str
    values : int
        Values compared.
    absolute, relative : float
        Largest differences of numbers. Infinity or NaN on one side only counts as infinite.
    ulp : float
        Largest difference in units of the last place of the source's value, in the coarsest dtype
        of rows and answers. Here and in ``relative``, values below the tolerance count as it.
    flipped : int
        Rows whose label, code or leaf differs, in answers that are not floats.
    tolerance : float
        Largest ``absolute`` allowed for values up to one; relative to larger values.
    within : bool
        Shapes are equal, no row flipped, and all numbers within the tolerance.
    """

    method: str
    values: int
    absolute: float
    relative: float
    ulp: float
    flipped: int
    tolerance: float
    within: bool

    @property
    def cells(self) -> tuple[str, ...]:
        """What a table shows, under ``HEAD``."""
        if not self.within:
            verdict = "DIFFERENT"
        else:
            verdict = "within tolerance" if self.absolute else "equal"
        return (
            self.method,
            f"{self.values:,}",
            f"{self.absolute:.2e}",
            f"{self.relative:.2e}",
            f"{self.ulp:.1f}" if self.ulp < 1e4 else f"{self.ulp:.3g}",
            str(self.flipped),
            verdict,
        )

    def __str__(self) -> str:
        method, values, absolute, relative, ulp, flipped, verdict = self.cells
        return (
            f"{method:<20} {values:>10} values  largest difference {absolute} "
            f"absolute, {relative} relative,"
            f" {ulp} ulp  {flipped} flipped  {verdict}"
        )


@dataclass(frozen=True)
class Report:
    """What ``verify`` found: print it, or read it as a dict."""

    rows: int
    backend: str
    differences: tuple[Difference, ...]

    @property
    def ok(self) -> bool:
        """Whether every method answers as the source does."""
        return all(d.within for d in self.differences)

    @property
    def flipped(self) -> int:
        """Decisions that differ, in all methods."""
        return sum(d.flipped for d in self.differences)

    @property
    def largest(self) -> float:
        """Largest absolute difference of all methods."""
        return max((d.absolute for d in self.differences), default=0.0)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "ok": self.ok,
            "rows": self.rows,
            "backend": self.backend,
            "methods": {d.method: asdict(d) for d in self.differences},
        }

    def __str__(self) -> str:
        verdict = (
            "The model answers as its source does."
            if self.ok
            else "The model differs from its source."
        )
        return "\n".join(
            [f"{self.rows:,} rows on backend {self.backend}", *map(str, self.differences), verdict]
        )

    def __repr__(self) -> str:
        return abridge(str(self))

    def _repr_html_(self) -> str:
        title, *_, verdict = str(self).splitlines()
        return html_table(title, HEAD, (d.cells for d in self.differences), verdict)


def verify(estimator: Any, model: Model, X: Any) -> Report:  # noqa: N803
    """Run both on the same rows and compare every method that both have.

    Parameters
    ----------
    estimator : object
        The fitted source.
    model : Model
        What it was converted to.
    X : table or array
        Rows, in a form that the source takes too. The source is asked for one row after another
        where a step of it answers a row alone otherwise than among others, such as NMF.

    Raises
    ------
    OptionError
        The model is not one that hbconv made.
    """
    if not hasattr(model, "methods"):
        raise OptionError(
            f"The second argument is a {type(model).__name__}, not a converted model: "
            "verify(estimator, model, X)."
        )
    methods = [m for m in model.methods if hasattr(estimator, m)]
    dtype = coarsest(model, X)
    with np.errstate(all="ignore"):
        differences = tuple(
            compare(m, _expected(estimator, model, m, X), getattr(model, m)(X), dtype)
            for m in methods
        )
    return Report(_count_rows(X), model.backend, differences)


def _count_rows(rows: Any) -> int:
    return int(rows.shape[0]) if hasattr(rows, "shape") else len(rows)


def _expected(estimator: Any, model: Model, method: str, rows: Any) -> Any:
    """Return the source's answer to the rows, alone where the model answers them alone."""
    ask = getattr(estimator, method)
    # NMF, for example, iterates until all rows of a batch have converged.
    if not any(node.alone for node in model.parsed.nodes()):
        return ask(rows)
    cut = rows.iloc if hasattr(rows, "iloc") else rows
    return np.concatenate([plain(ask(cut[i : i + 1])) for i in range(_count_rows(rows))])


def coarsest(model: Model, X: Any) -> str:  # noqa: N803
    """Return the coarsest dtype that a model computes in, for these rows."""
    dtypes = read_table(X, model.reading(X).reads).dtypes
    return "float32" if "float32" in dtypes or model.target.precision == "fast" else "float64"


def compare(
    method: str, expected: Any, answer: Any, coarsest: str, scale: float = 1.0
) -> Difference:
    """Compare an answer with the source's, of the same rows.

    Parameters
    ----------
    method : str
    expected, answer : object
        Answers of any form: arrays, frames, sparse matrices, lists of these.
    coarsest : {"float32", "float64"}
        What the function of that name returns.
    scale : float
        Factor of the tolerance, such as the largest input of sums of products: their rounding
        grows with it.
    """
    expected, answer = plain(expected), plain(answer)
    if expected.shape != answer.shape:
        return Difference(
            method, expected.size, np.inf, np.inf, np.inf, len(expected), 0.0, within=False
        )
    if expected.dtype.kind != "f" or answer.dtype.kind != "f":
        differ = ~is_alike(expected, answer)
        flipped = int(differ.reshape(len(differ), -1).any(axis=1).sum()) if differ.size else 0
        return Difference(method, expected.size, 0.0, 0.0, 0.0, flipped, 0.0, within=flipped == 0)
    return _compare_floats(method, expected, answer, coarsest, scale)


def is_alike(expected: npt.NDArray[Any], answer: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return which entries are equal; among objects, a NaN is another NaN's equal."""
    if not (expected.dtype.hasobject or answer.dtype.hasobject):
        return np.asarray(expected == answer)
    pairs = zip(expected.ravel().tolist(), answer.ravel().tolist(), strict=True)
    return np.array([_is_equal(*pair) for pair in pairs], dtype=np.bool_).reshape(expected.shape)


def _is_equal(a: Any, b: Any) -> bool:
    if isinstance(a, float | np.floating) and isinstance(b, float | np.floating):
        return bool(a == b or (a != a and b != b))
    # What pandas.NA is compared with gives NA again, which is neither true nor false.
    same = a == b
    return a is b or (isinstance(same, bool | np.bool_) and bool(same))


def _compare_floats(
    method: str, expected: npt.NDArray[Any], answer: npt.NDArray[Any], coarsest: str, scale: float
) -> Difference:
    # The coarsest of the three rounds most, so its tolerance is the one that holds.
    coarse = min(expected.dtype, answer.dtype, np.dtype(coarsest), key=lambda dtype: dtype.itemsize)
    a, b = expected.astype(np.float64), answer.astype(np.float64)
    # Infinities are equal, and their difference is NaN: so equality is found first.
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(all="ignore"):
        gap = np.where(same, 0.0, np.where(np.isfinite(a) & np.isfinite(b), np.abs(a - b), np.inf))
        # Values near 0 count as the tolerance: a relative difference to 0 would be infinite.
        size = np.maximum(np.abs(a), TOLERANCE[coarse.name])
        relative = np.where(same, 0.0, gap / size)
        ulp = np.where(same, 0.0, gap / np.spacing(size.astype(coarse)).astype(np.float64))
        beyond = gap > TOLERANCE[coarse.name] * scale * np.maximum(1.0, np.abs(a))
    absolute, relative_gap, ulps = (
        # NaN on one side alone must not vanish in a maximum.
        float(np.nan_to_num(g, nan=np.inf, posinf=np.inf).max(initial=0.0))
        for g in (gap, relative, ulp)
    )
    return Difference(
        method,
        expected.size,
        absolute,
        relative_gap,
        ulps,
        0,
        TOLERANCE[coarse.name],
        within=not beyond.any(),
    )


def plain(values: Any) -> npt.NDArray[Any]:
    """Return an answer of any form as one array.

    Forms are frames, sparse matrices, lists of arrays (one for each output or stage), lists of a
    tuple for each row, and arrays of an array for each row, of another length each.
    """
    if hasattr(values, "toarray"):
        return np.asarray(values.toarray())
    if isinstance(values, tuple):
        return plain(values[0])
    if isinstance(values, list) and all(isinstance(value, tuple) for value in values):
        return np.fromiter(values, dtype=object, count=len(values))
    if isinstance(values, list | Iterator):
        return np.concatenate(
            [v.reshape(len(v), math.prod(v.shape[1:])) for v in map(plain, values)], axis=1
        )
    array = np.asarray(values)
    is_ragged = array.ndim == 1 and isinstance(next(iter(array), None), np.ndarray)
    return _pad(array) if is_ragged else array


def _pad(lists: npt.NDArray[np.object_]) -> npt.NDArray[np.float64]:
    """Return an array for each row as one matrix, with NaN behind the end of each."""
    padded = np.full((len(lists), max(map(len, lists))), np.nan)
    for row, values in zip(padded, lists, strict=True):
        row[: len(values)] = values
    return padded
