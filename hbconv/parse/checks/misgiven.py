"""Objects given in place of an estimator: where they hold one, and what to give instead.

Estimators that cannot answer new rows, each with the reason that ``find_parser`` gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import islice
from typing import Any

import numpy as np

__all__ = ["UNPREDICTIVE", "say_instead"]

_DEEPEST = 3
_SHOWN = 3
"""Largest number of estimators that a message lists."""

_MOST_ITEMS = 1000
"""Largest number of items looked at, of each holder and at each depth: rows are lists too."""


def say_instead(value: object, has_parser: Callable[[type], bool]) -> str:
    """Say what to give instead of a value that is no estimator; empty where nothing is known.

    Examples
    --------
    >>> say_instead({"model": 0.5, "names": ["a"]}, lambda cls: cls is float)
    "Give what it holds at ['model'] (float)."
    """
    if hasattr(type(value), "read"):
        return "Give its bytes: what read() returns."
    found = _estimators(value, cache(has_parser))
    more = ", ..." if len(found) > _SHOWN else ""
    return f"Give what it holds at {' or '.join(found[:_SHOWN])}{more}." if found else ""


def _estimators(value: object, has_parser: Callable[[type], bool]) -> list[str]:
    """Return places and classes of the estimators that lie least deep in a value."""
    level: list[tuple[str, object]] = [("", value)]
    for _ in range(_DEEPEST):
        items = (
            (f"{place}{key}", item)
            for place, holder in level
            for key, item in islice(_items(holder), _MOST_ITEMS)
        )
        level = list(islice(items, _MOST_ITEMS))
        found = [
            f"{place} ({type(item).__name__})" for place, item in level if has_parser(type(item))
        ]
        if found:
            return found
    return []


def _items(value: Any) -> Iterator[tuple[str, object]]:
    """Yield what a mapping, a sequence or an object of attributes holds."""
    if isinstance(value, Mapping):
        yield from ((f"[{key!r}]", item) for key, item in value.items())
    elif isinstance(value, list | tuple):
        yield from ((f"[{place}]", item) for place, item in enumerate(value))
    elif isinstance(value, np.ndarray) and value.dtype == object and value.ndim == 1:
        yield from _items(value.tolist())
    elif not isinstance(value, type):
        yield from ((f".{name}", item) for name, item in getattr(value, "__dict__", {}).items())


_LABELS_FITTED = "it labels the rows it was fitted on and has no rule for others"
_PLACES_FITTED = (
    "it places the rows it was fitted on relative to each other and has no rule for others"
)
_BLOCKS_FITTED = (
    "it groups rows and columns of the one matrix it was fitted on and has no rule for other rows"
)
_TOGETHER = "it answers rows together, so that each answer depends on the others"
_MANY_ROWS = "it makes many rows of one image, and a model gives one answer a row"

_FITTING_ONLY = (
    "it changes the very rows it was fitted on, and passes others on; leave it out of the pipeline"
)

UNPREDICTIVE: dict[str, str] = {
    "lightgbm.CVBooster": "it holds a model of each fold; convert one of its .boosters",
    "sklego.preprocessing.OutlierRemover": _FITTING_ONLY,
    "sklego.preprocessing.RandomAdder": _FITTING_ONLY,
    "sklearn.cluster.AgglomerativeClustering": _LABELS_FITTED,
    "sklearn.cluster.DBSCAN": _LABELS_FITTED,
    "sklearn.cluster.HDBSCAN": _LABELS_FITTED,
    "sklearn.cluster.OPTICS": _LABELS_FITTED,
    "sklearn.cluster.SpectralBiclustering": _BLOCKS_FITTED,
    "sklearn.cluster.SpectralClustering": _LABELS_FITTED,
    "sklearn.cluster.SpectralCoclustering": _BLOCKS_FITTED,
    "sklearn.decomposition.MiniBatchNMF": _TOGETHER,
    "sklearn.feature_extraction.image.PatchExtractor": _MANY_ROWS,
    "sklearn.manifold.ClassicalMDS": _PLACES_FITTED,
    "sklearn.manifold.MDS": _PLACES_FITTED,
    "sklearn.manifold.SpectralEmbedding": _PLACES_FITTED,
    "sklearn.manifold.TSNE": _PLACES_FITTED,
}
"""By public dotted name: why no model can be made of it."""
