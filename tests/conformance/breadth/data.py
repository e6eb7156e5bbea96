"""Rows to fit on and rows to answer, of each kind that some estimator asks for: numbers,
counts, codes, texts, dicts, labels, kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from matrix.data import WIDTH, fit_rows, rows, with_missing

__all__ = ["FITTED", "KINDS", "SIZE", "Kind"]

SIZE = 80
FITTED = fit_rows()[:SIZE]
"""Fewer rows than the matrix has: thousands of models are fitted."""

WORDS = (
    "red",
    "green",
    "blue",
    "The",
    "sun",
    "été",
    "naïve",
    "x",
    "10",
    "o'clock",
    "snow_man",
    "ﬁn",
    "straße",
)


@dataclass(frozen=True)
class Kind:
    """One kind of data.

    Parameters
    ----------
    fit : callable
        Makes what to fit on.
    rows : callable
        Makes n new rows, hostile ones among them.
    known : callable
        Makes n rows that no estimator refuses; None: as ``rows``.
    """

    fit: Callable[[], Any]
    rows: Callable[[int], Any]
    known: Callable[[int], Any] | None = None


def codes(n: int, most: int = 4) -> np.ndarray:
    """Small whole numbers."""
    return np.random.default_rng(n).integers(0, most, (n, WIDTH)).astype(np.float64)


def odd_codes(n: int) -> np.ndarray:
    """Small whole numbers, some of them never fitted, some no whole numbers at all."""
    x = codes(n)
    rng = np.random.default_rng(n)
    return np.where(
        rng.random(x.shape) < 0.1,
        rng.choice([7.0, -1.0, 1.5, np.nextafter(2.0, 3.0), -0.0, 1e300], x.shape),
        x,
    )


def line(n: int) -> np.ndarray:
    """One column, one-dimensional."""
    return rows(n)[:, 5]


def labels(n: int, known: tuple[Any, ...] = ("green", "red", "blue")) -> np.ndarray:
    """Labels, one-dimensional."""
    return np.random.default_rng(n).choice(known, n)


def label_sets(n: int, known: tuple[str, ...] = ("green", "red", "blue")) -> list[tuple[str, ...]]:
    """Sets of labels."""
    rng = np.random.default_rng(n)
    return [tuple(rng.choice(known, rng.integers(0, 3), replace=False)) for _ in range(n)]


def texts(n: int) -> list[str]:
    """Short texts of words known and not, of marks and of nothing."""
    rng = np.random.default_rng(n)
    marks = [" ", " ", "  ", ", ", "-", "\t", "\n", ". "]
    made = [
        "".join(f"{rng.choice(WORDS)}{rng.choice(marks)}" for _ in range(rng.integers(1, 9)))
        for _ in range(n)
    ]
    return [*made[: n - 3], "", " . ", f"mauve {made[-1].upper()}"] if n > 3 else made


def dicts(n: int) -> list[dict[str, Any]]:
    """Mappings from names to numbers and texts."""
    rng = np.random.default_rng(n)
    return [
        {
            "city": str(rng.choice(["Rome", "Zürich", "Oslo"])),
            "t": float(rng.normal()),
            f"k{rng.integers(4)}": int(rng.integers(-2, 5)),
        }
        for _ in range(n)
    ]


def normalized(x: np.ndarray) -> np.ndarray:
    """Rows without large values, columns of like size."""
    return np.clip((x - FITTED.mean(axis=0)) / FITTED.std(axis=0), -30, 30)


def apart(n: int) -> np.ndarray:
    """Rows of continuous columns, so that no two are equally far from a third, near and far
    ones among them.
    """
    rng = np.random.default_rng(n)
    return rng.normal(size=(n, WIDTH)) * 10.0 ** rng.uniform(-1, 2, (n, 1))


def kernel(n: int | None = None) -> np.ndarray:
    """A Gaussian kernel between rows and the fitted ones: symmetric and positive for the fitted
    rows themselves.
    """
    return np.exp(-(distances(n) ** 2) / 20)


def distances(n: int | None = None) -> np.ndarray:
    """Distances between rows and the fitted ones."""
    x = normalized(FITTED if n is None else rows(n, large=30.0))
    fitted = normalized(FITTED)
    return np.sqrt(((x[:, None] - fitted[None]) ** 2).sum(axis=2))


def _positive(x: np.ndarray) -> np.ndarray:
    return np.abs(x)


def _counts(x: np.ndarray) -> np.ndarray:
    return np.floor(np.abs(x))


KINDS: dict[str, Kind] = {
    "numbers": Kind(lambda: FITTED, rows),
    "moderate": Kind(lambda: FITTED, partial(rows, large=30.0)),
    "normalized": Kind(lambda: normalized(FITTED), lambda n: normalized(rows(n, large=30.0))),
    "positive": Kind(lambda: _positive(FITTED), lambda n: _positive(rows(n, large=30.0))),
    "above zero": Kind(
        lambda: _positive(FITTED) + 0.05, lambda n: _positive(rows(n, large=30.0)) + 0.05
    ),
    "counts": Kind(lambda: _counts(FITTED), lambda n: _counts(rows(n, large=30.0))),
    "codes": Kind(lambda: codes(SIZE), odd_codes, codes),
    "holes": Kind(lambda: with_missing(FITTED), lambda n: with_missing(rows(n))),
    "apart": Kind(lambda: apart(SIZE), apart),
    "line": Kind(lambda: FITTED[:, 5], line),
    "labels": Kind(lambda: labels(SIZE), lambda n: labels(n, ("red", "mauve", "green")), labels),
    "label column": Kind(
        lambda: labels(SIZE),
        lambda n: labels(n, ("red", "mauve", "green"))[:, None],
        lambda n: labels(n)[:, None],
    ),
    "label sets": Kind(
        lambda: label_sets(SIZE), lambda n: label_sets(n, ("red", "mauve", "green")), label_sets
    ),
    "texts": Kind(lambda: texts(SIZE), texts),
    "dicts": Kind(lambda: dicts(SIZE), dicts),
    "kernel": Kind(kernel, kernel),
    "distances": Kind(distances, distances),
}
