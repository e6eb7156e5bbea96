"""Columns of the input by their names, for transformers that choose some."""

from __future__ import annotations

from collections.abc import Sequence

from hbconv.containers import Columns
from hbconv.parse.step import Step

__all__ = ["positions_by_name"]


def positions_by_name(step: Step, parameter: str, names: Sequence[object]) -> list[int]:
    """Return the places in x of columns of the input, by name.

    Raises
    ------
    UnsupportedError
        A step before makes the columns, whose names are not known here.
    """
    step.refuse_sparse("reads columns by name")
    if not isinstance(step.x, Columns):
        hint = "It finds columns by name in what a step before makes: put it first."
        raise step.refuse(parameter, list(names), hint)
    known = [step.x.schema.names[column] for column in step.x.columns]
    return [known.index(str(name)) for name in names]
