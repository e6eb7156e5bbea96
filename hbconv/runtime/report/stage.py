"""StageReport: what one stage of the compiler makes of a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from hbconv.containers import show
from hbconv.names import unknown
from hbconv.pipeline import Compilation, Planned

__all__ = ["STAGES", "StageReport", "report_stage"]

_SHARED: dict[str, Callable[[Planned], str]] = {
    "parsed": lambda planned: show(planned.parsed),
    "typed": lambda planned: show(planned.typed),
    "optimized": lambda planned: show(planned.optimized),
    "planned": lambda planned: "\n".join(
        [*map(str, (planned.plan, *planned.row_plans)), "", show(planned.graph)]
    ),
}
_OF_A_METHOD: dict[str, Callable[[Compilation], str]] = {
    "guarded": lambda method: str(method.guard),
    "lowered": lambda method: str(method.lowered.program),
    "prepared": lambda method: str(method.prepared),
}
STAGES = (*_SHARED, *_OF_A_METHOD)
"""Stages that make something to read, in their order."""


@dataclass(frozen=True)
class StageReport:
    """What ``Model.explain(stage=...)`` returns: print it, or read it as a dict.

    Parameters
    ----------
    stage : str
    texts : mapping of str to str
        By method, or under ``"model"`` where the stage is one for all methods.
    """

    stage: str
    texts: Mapping[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        titles = {name: f"{name}, {self.stage}" for name in self.texts}
        return "\n\n".join(
            f"{titles[name]}\n{'-' * len(titles[name])}\n{text}"
            for name, text in self.texts.items()
        )


def report_stage(planned: Planned, stage: str) -> StageReport:
    """Run the compiler up to a stage, each method as a program of its own, and show what it made.

    Raises
    ------
    OptionError
        There is no such stage.
    """
    if stage in _SHARED:
        return StageReport(stage, {"model": _SHARED[stage](planned)})
    if stage not in _OF_A_METHOD:
        raise unknown("stage", stage, STAGES)
    write = _OF_A_METHOD[stage]
    methods = planned.parsed.outputs
    return StageReport(stage, {name: write(Compilation(planned, (name,))) for name in methods})
