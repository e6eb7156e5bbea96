"""What every loader returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

__all__ = ["Dataset"]


@dataclass(frozen=True)
class Dataset:
    """A named table and its target.

    Parameters
    ----------
    name : str
        Name it is asked for by.
    X : numpy.ndarray or pandas.DataFrame, shape (rows, features)
        Matrices are float32 and C-contiguous; tables have named, typed columns.
    y : numpy.ndarray, shape (rows,)
        Labels (ints or strings) or float64 targets.
    task : {"binary", "multiclass", "regression"}
        What a model of it predicts.
    """

    name: str
    X: Any
    y: npt.NDArray[Any]
    task: Literal["binary", "multiclass", "regression"]

    def split(self, test: float = 0.2, seed: int = 0) -> tuple[Dataset, Dataset]:
        """Cut the shuffled rows into a training part and a test part."""
        order = np.random.default_rng(seed).permutation(len(self.y))
        cut = round(len(order) * (1 - test))
        return self._rows(np.sort(order[:cut])), self._rows(np.sort(order[cut:]))

    def _rows(self, index: npt.NDArray[np.intp]) -> Dataset:
        rows = self.X.iloc[index] if hasattr(self.X, "iloc") else self.X[index]
        return Dataset(self.name, rows, self.y[index], self.task)
