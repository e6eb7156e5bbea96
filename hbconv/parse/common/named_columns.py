"""Columns of the input by their names, for transformers that choose some.

Answers that are frames: columns side by side, each of its own dtype.
"""

from __future__ import annotations

from collections.abc import Sequence

from hbconv.containers import Beside, Blocks, Columns, Node, Output
from hbconv.parse.step import Step

__all__ = ["positions_by_name", "transform_frame"]


def positions_by_name(step: Step, parameter: str, names: Sequence[object]) -> list[int]:
    """Return the places in x of columns of the input, by name.

    Raises
    ------
    UnsupportedError
        A step before makes the columns, whose names are not known here.
    """
    step.refuse_sparse("reads columns by name")
    columns = _input_columns(step.x)
    if columns is None:
        hint = "It finds columns by name in what a step before makes: put it first."
        raise step.refuse(parameter, list(names), hint)
    return [columns.index(str(name)) for name in names]


def _input_columns(x: Node) -> list[str] | None:
    """Return the names of columns of the input that nothing has changed; None of others."""
    parts = x.xs if isinstance(x, Beside) else (x,)
    names: list[str] = []
    for part in parts:
        if not isinstance(part, Columns):
            return None
        names += [part.schema.names[column] for column in part.columns]
    return names


def transform_frame(columns: Sequence[Node]) -> dict[str, Output]:
    """Return columns as what ``transform`` answers, each of its own dtype."""
    blocks = Blocks(tuple((column, None) for column in columns))
    return {"transform": Output(Beside(tuple(columns)), blocks)}
