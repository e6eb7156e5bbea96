"""Answers that are frames: columns side by side, each of its own dtype."""

from __future__ import annotations

from collections.abc import Sequence

from hbconv.containers import Beside, Blocks, Node, Output

__all__ = ["transform_frame"]


def transform_frame(columns: Sequence[Node]) -> dict[str, Output]:
    """Return columns as what ``transform`` answers, each of its own dtype."""
    blocks = Blocks(tuple((column, None) for column in columns))
    return {"transform": Output(Beside(tuple(columns)), blocks)}
