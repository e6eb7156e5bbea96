"""XGBoost's objectives: from ``base_score`` to the margin that sums start from, and from margins to predictions."""

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
"""From ``base_score`` to the margin, by objective."""

_EDGE = np.float32(1e-6)
"""The logit is taken of probabilities no nearer to 0 and 1."""


def base_scores(text: str) -> Floats:
    """Read the score of one output, or of each: since XGBoost 3.1 the text holds a number for each, such as ``"[5E-1,2E-1]"``."""
    return np.array([float(number) for number in str(text).strip("[]").split(",")], np.float32)


def margins(scores: Floats, objective: str) -> Floats:
    """Make of base scores what sums start from."""
    one = np.float32(1)
    link = LINKS[objective]
    if link == "logit":
        return np.array(
            [-_log(one / p - one) for p in np.clip(scores, _EDGE, one - _EDGE)], np.float32
        )
    return np.array([_log(p) for p in scores], np.float32) if link == "log" else scores


def predictions(margin: Node, objective: str) -> Node:
    """Make of the margins what ``Booster.predict`` returns."""
    return _TRANSFORMS[objective](margin) if objective in _TRANSFORMS else margin


def _log(x: np.float32) -> np.float32:
    """Natural logarithm in float32 as the C library computes it, which XGBoost calls; numpy's own differs in the last bit."""
    try:
        logf = ctypes.CDLL(None).logf
    except (AttributeError, OSError, TypeError):
        return np.float32(math.log(x))
    logf.argtypes = [ctypes.c_float]
    logf.restype = ctypes.c_float
    return np.float32(logf(x))


def _exp(x: Node) -> Node:
    """Round the float64 exponential, which gives the float32 one of the C library but for some ties."""
    return Cast(Map(Cast(x, "float64"), "exp"), "float32")


def _sigmoid(margin: Node) -> Node:
    """Take ``1 / (exp(min(-x, 88.7)) + 1)``, each step in float32."""
    return Map(Affine.of(_exp(Clip.of(Map(margin, "neg"), -np.inf, 88.7)), add=1.0), "reciprocal")


_TRANSFORMS: dict[str, Callable[[Node], Node]] = {
    **{name: _exp for name, link in LINKS.items() if link == "log"},
    **dict.fromkeys(("binary:logistic", "reg:logistic"), _sigmoid),
    "binary:hinge": lambda margin: Compare.of(margin, "gt", 0.0, "float32"),
    "multi:softprob": lambda margin: Softmax(margin, within="float64"),
    "multi:softmax": ArgMax,
}
"""Of the objectives whose predictions are not the margins."""
