"""What rounding alone decides: labels whose scores tie, and some neighbours at one distance.

The source itself is asked for its scores, and for the distances of its neighbours.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.testing.watch import Call
from hbconv.verification import TOLERANCE, plain

__all__ = ["size", "tied"]

_SCORES = {"decision_function": 0.0, "predict_proba": 0.5}
"""Scores by the limit that decides where there are two classes."""

Answer = npt.NDArray[Any]


def tied(call: Call, want: Any, got: Any, dtype: str) -> bool:
    """Whether two parts of answers differ only in rows where the source meets a tie.

    Parameters
    ----------
    call : Call
    want, got : object
        The same part of the source's answer and of the model's.
    dtype : {"float32", "float64"}
        Which tolerance holds.
    """
    want, got = plain(want), plain(got)
    if want.ndim == 0 or not len(want) or want.shape != got.shape:
        return False
    far = _apart(want, got) > TOLERANCE[dtype] * np.maximum(1.0, _largest(want))
    if not far.any():
        return False
    ties = _scores_tie(call, want, dtype) | _neighbors_tie(call, dtype)
    return bool((ties | ~far).all())


def _scores_tie(call: Call, want: Answer, dtype: str) -> npt.NDArray[np.bool_]:
    """Rows whose two best scores are as good as one, or that have a score on its limit."""
    scored = next((m for m in _SCORES if hasattr(call.estimator, m)), None)
    if call.method not in ("predict", scored) or scored is None or isinstance(call.answer, list):
        return np.zeros(1, bool)
    pairs = _by_pairs(call.estimator)
    scores = np.asarray(getattr(pairs or call.estimator, scored)(call.rows))
    limit = TOLERANCE[dtype] * np.maximum(1.0, _largest(scores))
    if scores.ndim == 1 or pairs is not None:
        scores = scores.reshape(len(scores), -1)
        return np.asarray((np.abs(scores - _SCORES[scored]) <= limit[:, None]).any(axis=1))
    if call.method != "predict" or want.ndim != 1:
        return np.zeros(1, bool)
    best = np.sort(scores, axis=1)[:, -2:]
    return np.asarray(best[:, -1] - best[:, 0] <= limit)


def _by_pairs(estimator: Any) -> Any:
    """Return a support vector machine of several classes that shows each pair's score, a vote."""
    if not hasattr(estimator, "decision_function_shape") or len(estimator.classes_) < 3:
        return None
    pairs = copy.copy(estimator)
    pairs.decision_function_shape = "ovo"
    pairs.break_ties = False
    return pairs


def _neighbors_tie(call: Call, dtype: str) -> npt.NDArray[np.bool_]:
    """Rows whose neighbours the source's rounding decides (docs/fidelity.md).

    They are those that lie on one fitted on, by brute force: products of matrices leave some
    distance. By metrics with weights they are those two of whose neighbours, or the last and the
    next, are as near as each other.
    """
    last, rows = _last(call.estimator, call.rows)
    searcher = _searcher(last)
    if not (_is_brute(searcher) or _is_weighted(searcher)):
        return np.zeros(1, bool)
    distances, _ = searcher.kneighbors(rows, min(_asked(searcher) + 1, searcher.n_samples_fit_))
    found = np.zeros(len(distances), bool)
    if _is_brute(searcher):
        found |= distances[:, 0] <= _own_distance(searcher, rows)
    if _is_weighted(searcher):
        limit = max(1e-8, TOLERANCE[dtype]) * np.maximum(1.0, distances[:, 1:])
        found |= (np.diff(distances) <= limit).any(axis=1)
    return found


def _searcher(estimator: Any) -> Any:
    """Return what finds the neighbours: of a manifold or a label propagation, its own searcher."""
    own = (getattr(estimator, name, None) for name in ("nbrs_", "nn_fit"))
    return next((searcher for searcher in own if searcher is not None), estimator)


def _asked(searcher: Any) -> int:
    """Return how many neighbours are asked for; a transformer to distances asks for one more."""
    count = int(getattr(searcher, "n_neighbors_", searcher.n_neighbors))
    return count + 1 if getattr(searcher, "mode", "") == "distance" else count


def _own_distance(searcher: Any, rows: Any) -> float:
    """Bound the distance that brute force leaves between a row and itself (docs/fidelity.md).

    No row is longer than its largest number allows.
    """
    width = searcher.n_features_in_
    return float(np.sqrt(4.0 * (width + 2) * np.finfo(np.float64).eps * width) * size(rows))


def _is_brute(searcher: Any) -> bool:
    """Whether distances come from products: not from a tree, and not given."""
    given = getattr(searcher, "effective_metric_", "") == "precomputed"
    return getattr(searcher, "_fit_method", "") == "brute" and not given


def _is_weighted(searcher: Any) -> bool:
    """Whether a metric has weights, which hbconv multiplies into the columns."""
    params = getattr(searcher, "effective_metric_params_", None) or {}
    named = getattr(searcher, "effective_metric_", "") in ("seuclidean", "mahalanobis")
    return named or params.get("w") is not None


def _last(estimator: Any, rows: Any) -> tuple[Any, Any]:
    """Return the last step of a pipeline, a stack or a search, and what it reads."""
    if hasattr(estimator, "best_estimator_"):
        return _last(estimator.best_estimator_, rows)
    if hasattr(estimator, "final_estimator_"):
        return _last(estimator.final_estimator_, estimator.transform(rows))
    if hasattr(estimator, "steps"):
        return estimator[-1], estimator[:-1].transform(rows) if len(estimator) > 1 else rows
    return estimator, rows


def _apart(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return the largest difference in each row; of what is no float, one for any."""
    if a.dtype.kind != "f":
        return np.asarray((a != b).reshape(len(a), -1).any(axis=1), np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    gap = np.where(same, 0.0, np.nan_to_num(np.abs(a - b), nan=np.inf))
    return np.asarray(gap.reshape(len(a), -1).max(axis=1, initial=0.0))


def _largest(values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    if values.dtype.kind != "f":
        return np.zeros(len(values))
    finite = np.abs(np.where(np.isfinite(values), values, 0.0))
    return np.asarray(finite.reshape(len(values), -1).max(axis=1, initial=0.0))


def size(rows: Any) -> float:
    """Return the largest number of the rows, at least 1; of rows without numbers, 1."""
    values = getattr(rows, "data", rows) if hasattr(rows, "tocsr") else rows
    if hasattr(values, "select_dtypes"):
        values = values.select_dtypes("number")
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        return 1.0
    return float(np.abs(numbers[np.isfinite(numbers)]).max(initial=1.0))
