"""What a fitted estimator is made of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

__all__ = ["last_step", "members"]


def members(estimator: Any) -> list[Any]:
    """List an estimator and all estimators inside it, each once."""
    return list(_walk(estimator, set()))


def _walk(held: Any, seen: set[int]) -> Iterator[Any]:
    if id(held) in seen:
        return
    seen.add(id(held))
    if isinstance(held, list | tuple):
        for part in held:
            yield from _walk(part, seen)
    elif isinstance(held, np.ndarray) and held.dtype.hasobject:
        for part in np.ravel(held):
            yield from _walk(part, seen)
    elif hasattr(held, "get_params") and not isinstance(held, type):
        yield held
        for value in list(vars(held).values()):
            yield from _walk(value, seen)


def last_step(model: Any) -> Any:
    """Return what stands at the end of a pipeline, or the model itself."""
    while hasattr(model, "steps"):
        model = model.steps[-1][1]
    return model
