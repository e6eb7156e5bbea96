"""A pipeline to compile: its name, the table it reads, and how it is made and fitted."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["Estimator", "Fitted", "PipelineCase"]

Estimator = Any
"""An estimator as scikit-learn knows them."""

METHODS = ("predict_proba", "predict")
"""What is asked: the first that the model has."""

FIT_SEED = 0
NEW_SEED = 1


@dataclass(frozen=True)
class PipelineCase:
    """A pipeline that is not fitted yet.

    Parameters
    ----------
    name : str
    draw : callable
        ``draw(rows, seed)`` gives a table and its target.
    make : callable
        ``make(trees)`` gives the estimator. ``trees`` is the size of its largest ensemble.
    """

    name: str
    draw: Callable[[int, int], tuple[Any, Any]]
    make: Callable[[int], Estimator]

    def fitted(self, rows: int = 4000, trees: int = 100) -> Fitted:
        """Fit to so many rows. Models need not converge, so warnings are silenced."""
        table, target = self.draw(rows, FIT_SEED)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return Fitted(self, self.make(trees).fit(table, target))


@dataclass(frozen=True)
class Fitted:
    """A fitted pipeline, and where new rows for it come from."""

    case: PipelineCase
    model: Estimator

    @property
    def method(self) -> str:
        """The method to ask."""
        return next(method for method in METHODS if hasattr(self.model, method))

    def rows(self, count: int) -> Any:
        """Draw rows that it was not fitted to."""
        return self.case.draw(count, NEW_SEED)[0]
