"""Read the names of the columns that ``transform`` returns, and the data frame it makes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hbconv.containers import FrameFormat, NamesOut
from hbconv.containers.feature_names import place
from hbconv.parse.registry import find_parser

__all__ = ["read_frame_format", "read_names_out"]


def read_names_out(estimator: Any, width: int) -> NamesOut | None:
    """Read the output names, and how they follow from the names of the input columns.

    None where the source model itself cannot tell.
    """
    default = _names(estimator)
    if default is None:
        return None
    pattern = _names(estimator, [place(i) for i in range(width)])
    checked = _names(estimator, [place(i) for i in range(width + 1)]) is None
    return NamesOut(default, pattern if pattern is not None and pattern != default else (), checked)


def read_frame_format(estimator: Any) -> FrameFormat | None:
    """Read which data frame ``transform`` returns; None where it is always an array."""
    last = _answering(estimator)
    own = None if last is None else find_parser(last).frames
    told = own(last) if own else ""
    if isinstance(told, FrameFormat):
        return told if told.names is not None or last is estimator else None
    names = (
        _names(last) if "transform" in getattr(last, "_sklearn_auto_wrap_output_keys", ()) else None
    )
    if names is None:
        return None
    chosen = getattr(last, "_sklearn_output_config", {}).get("transform", "")
    if told and chosen in ("", "default"):
        return FrameFormat(told, names)
    return FrameFormat(chosen, names, renames=True)


def _names(estimator: Any, given: Sequence[str] | None = None) -> tuple[str, ...] | None:
    try:
        return tuple(
            map(
                str,
                estimator.get_feature_names_out()
                if given is None
                else estimator.get_feature_names_out(given),
            )
        )
    except (AttributeError, IndexError, TypeError, ValueError, NotImplementedError):
        return None


def _answering(estimator: Any) -> Any:
    """Return the estimator that makes the output: the last of a pipeline, the best of a search."""
    if hasattr(estimator, "best_estimator_"):
        return _answering(estimator.best_estimator_)
    if not hasattr(estimator, "named_steps"):
        return estimator
    steps = [step for _, step in estimator.steps if not (step is None or isinstance(step, str))]
    return _answering(steps[-1]) if steps else None
