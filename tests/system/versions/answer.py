"""What became of one question of the battery."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BACKENDS", "Answer"]

BACKENDS = ("reference", "onnx", "tvm")
"""What answers each first case, and random pipelines in turns."""


@dataclass(frozen=True)
class Answer:
    """How a model of some versions answered.

    Parameters
    ----------
    kind : str
        ``"first case"``, ``"primitive"`` or ``"pipeline"``.
    name : str
    backend : str
    verdict : str
        ``"agrees"``, ``"refused"`` by name, ``"differs"``, or ``"absent"``: the versions at hand
        cannot fit it.
    detail : str
    """

    kind: str
    name: str
    backend: str
    verdict: str
    detail: str = ""
