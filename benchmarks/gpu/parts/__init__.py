"""The parts, least known first: each module yields what it finds, and knows nothing of limits."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PARTS", "PREDICTED", "Part"]


@dataclass(frozen=True)
class Part:
    """A module of this folder, and the seconds that it may take.

    Parameters
    ----------
    name : str
    seconds : float
    asks : str
    """

    name: str
    seconds: float
    asks: str


PARTS = (
    Part("unproven", 100, "tests that have not ended on a device"),
    Part("calls", 50, "calls of one row and of few rows, and a mixed pipeline"),
    Part("paper", 65, "what the Hummingbird paper measured"),
    Part("score", 60, "files of rows: from which size of a model a device pays"),
    Part("sanitize", 45, "wrong accesses and races, by compute-sanitizer"),
    Part("memory", 20, "memory and bits of a thousand small batches"),
    Part("kernels", 110, "bits and times of every kernel of trees"),
    Part("products", 30, "neighbours, kernels and networks beside the same lines by hand"),
)
"""Together eight minutes at most."""
PREDICTED = Part("predicted", 120, "clocks that are predicted: needs no device")
