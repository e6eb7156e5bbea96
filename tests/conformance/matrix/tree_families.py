"""The cases that single trees and averages of trees share."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from types import ModuleType
from typing import Any

from matrix.case import Case
from matrix.fitting import Trees, fit

__all__ = ["of_family"]


def of_family(module: ModuleType, family: str, **settings: Any) -> Iterator[Case]:
    """Yield cases of a classifier and a regressor, such as those of ``tree`` and
    ``"ExtraTree"``.
    """
    name = f"{module.__name__}.{family}"
    classify = partial(getattr(module, f"{family}Classifier"), **settings)
    classifier = partial(Trees, f"{name}Classifier")
    yield classifier("three text", fit(classify(), "three_text"))
    yield classifier("three labels a row", fit(classify(), "labels"))
    yield classifier("two bool, missing values", fit(classify(), "two_bool", missing=True))
    regress = partial(getattr(module, f"{family}Regressor"), **settings)
    regressor = partial(Trees, f"{name}Regressor")
    yield regressor("one target", fit(regress(), "value"))
    yield regressor("two targets, missing values", fit(regress(), "values", missing=True))
    yield regressor("one leaf", fit(regress(min_samples_leaf=200), "value"))
