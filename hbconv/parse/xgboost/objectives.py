"""XGBoost's objectives: from ``base_score`` to raw scores, and from these to predictions."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from hbconv.containers import Affine, ArgMax, Cast, Clip, Compare, Map, Node, Softmax

__all__ = ["LINKS", "base_scores", "margins", "predictions"]

Floats = npt.NDArray[np.float32]

LINKS: dict[str, str] = {
    **dict.fromkeys(("binary:logistic", "reg:logistic"), "logit"),
    **dict.fromkeys(
        ("count:poisson", "reg:gamma", "reg:tweedie", "survival:cox", "survival:aft"), "log"
    ),
    **dict.fromkeys(
        (
            "reg:squarederror",
            "reg:linear",
            "reg:squaredlogerror",
            "reg:pseudohubererror",
            "reg:absoluteerror",
        ),
        "identity",
    ),
    **dict.fromkeys(
        ("reg:quantileerror", "binary:logitraw", "binary:hinge", "multi:softprob", "multi:softmax"),
        "identity",
    ),
    **dict.fromkeys(("rank:pairwise", "rank:ndcg", "rank:map"), "identity"),
}
"""From ``base_score`` to the raw score that sums start from, by objective."""

_EDGE = np.float32(1e-6)
"""The logit is taken of probabilities no nearer to 0 and 1."""


def base_scores(text: str) -> Floats:
    """Read the base score of one output, or of each.

    Since XGBoost 3.1 the text holds a number for each, such as ``"[5E-1,2E-1]"``. XGBoost writes
    finite numbers, and reads others as if there were none.
    """
    scores = np.array([float(number) for number in str(text).strip("[]").split(",")], np.float32)
    if not np.isfinite(scores).all():
        raise ValueError(f"base_score {text!r:.50} is not finite")
    return scores


def margins(scores: Floats, objective: str) -> Floats:
    """Return what the sums start from, from base scores."""
    one = np.float32(1)
    link = LINKS[objective]
    if link == "logit":
        return np.array(
            [-_log(one / p - one) for p in np.clip(scores, _EDGE, one - _EDGE)], np.float32
        )
    return np.array([_log(p) for p in scores], np.float32) if link == "log" else scores


def predictions(margin: Node, objective: str) -> Node:
    """Return what ``Booster.predict`` makes of the raw scores."""
    return _TRANSFORMS[objective](margin) if objective in _TRANSFORMS else margin


def _log(x: np.float32) -> np.float32:
    """Return the float32 logarithm of the C library, which XGBoost calls.

    numpy's differs in the last bit.
    """
    try:
        logf = ctypes.CDLL(None).logf
    except (AttributeError, OSError, TypeError):
        return np.float32(math.log(x))
    logf.argtypes = [ctypes.c_float]
    logf.restype = ctypes.c_float
    return np.float32(logf(x))


def _exp(x: Node) -> Node:
    """Round the float64 exponential to float32: the value of the C library but for some ties."""
    return Cast(Map(Cast(x, "float64"), "exp"), "float32")


def _sigmoid(margin: Node) -> Node:
    """Return ``1 / (exp(min(-x, 88.7)) + 1)``, each step in float32."""
    return Map(Affine.of(_exp(Clip.of(Map(margin, "neg"), -np.inf, 88.7)), add=1.0), "reciprocal")


_TRANSFORMS: dict[str, Callable[[Node], Node]] = {
    **{name: _exp for name, link in LINKS.items() if link == "log"},
    **dict.fromkeys(("binary:logistic", "reg:logistic"), _sigmoid),
    "binary:hinge": lambda margin: Compare.of(margin, "gt", 0.0, "float32"),
    "multi:softprob": lambda margin: Softmax(margin, within="float64"),
    "multi:softmax": ArgMax,
}
"""Objectives whose predictions are not the raw scores."""
