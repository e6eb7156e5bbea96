"""Parameter searches: the best estimator answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hbconv.containers import Output, Schema
from hbconv.errors import UnsupportedError
from hbconv.parse.registry import find_parser, parses
from hbconv.parse.step import Step


def _best(search: Any, path: str = "") -> Any:
    if not search.refit:
        hint = "Without refit it cannot predict: fit it with refit=True, or convert an estimator fitted with best_params_."
        raise UnsupportedError(type(search).__name__, path, "refit", search.refit, hint)
    return search.best_estimator_


def _features(search: Any) -> Sequence[str] | int | Schema:
    """Input columns as the best estimator's own parser reads them."""
    best = _best(search)
    entry = find_parser(best)
    if entry.features is not None:
        return entry.features(best)
    names = getattr(best, "feature_names_in_", None)
    return int(best.n_features_in_) if names is None else [str(name) for name in names]


@parses(
    "sklearn.model_selection.GridSearchCV",
    "sklearn.model_selection.HalvingGridSearchCV",
    "sklearn.model_selection.HalvingRandomSearchCV",
    "sklearn.model_selection.RandomizedSearchCV",
    features=_features,
)
def parse_search(step: Step) -> dict[str, Output]:
    """Keep the methods that a search passes on to its best estimator."""
    outputs = step.child(_best(step.estimator, step.where), step.x, "", sparse=step.sparse)
    return {name: output for name, output in outputs.items() if name != "apply"}
