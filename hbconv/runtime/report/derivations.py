"""Print how a graph was derived: each rewrite with its proof, and why others were not made.

Find the rules of the optimizer that matter to a model.

StageReport: what one stage of the compiler makes of a model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from hbconv.containers import Node, show
from hbconv.names import unknown
from hbconv.optimize import rule_names
from hbconv.optimize.rule import Declined
from hbconv.optimize.search import Decision, Optimized
from hbconv.optimize.trace import Applied
from hbconv.pipeline import Compilation, Planned
from hbconv.target import Target

__all__ = [
    "STAGES",
    "StageReport",
    "find_effective_rules",
    "report_stage",
    "show_applied",
    "show_others",
    "show_rewrite",
    "tell_prediction",
    "to_dict",
]

WIDTH = 100


def show_applied(applied: tuple[Applied, ...], optimized: Optimized, target: Target) -> str:
    """Print each rewrite: rule, step, exactness, proof, prediction, and nodes before and after."""
    return "\n".join(_show(a, optimized, target) for a in applied) or "None."


def show_others(optimized: Optimized, target: Target) -> str:
    """Print the rewrites that were not made, each with its reason."""
    refused = [d for d in optimized.decisions if not d.applied]
    lines = [f"{_of(d)}: {_why_refused(d, optimized, target)}" for d in refused]
    lines += [_show_declined(d) for d in optimized.declined]
    # A rule may decline many nodes of one step for one reason.
    return "\n".join(dict.fromkeys(lines)) or "None."


def to_dict(applied: tuple[Applied, ...], optimized: Optimized, target: Target) -> dict[str, Any]:
    """Return plain values for JSON."""
    return {
        "predicted_seconds": optimized.seconds,
        "applied": [
            {
                "rule": a.rule.name,
                "step": a.step,
                "exactness": str(a.rule.exactness),
                "proof": a.proof,
                "required": a.required,
                "predicted_seconds_without": a.otherwise,
                "before": [_line(node) for node in a.replacements],
                "after": [_line(node) for node in a.replacements.values()],
            }
            for a in applied
        ],
        "not_made": show_others(optimized, target).splitlines(),
    }


def show_rewrite(applied: Applied) -> str:
    """Print the nodes before and after a rewrite."""
    lines = []
    for before, after in applied.replacements.items():
        lines.append(f"     {_line(before)}")
        lines.append(f"  -> {_line(after)}")
    return "\n".join(lines)


def _show(applied: Applied, optimized: Optimized, target: Target) -> str:
    head = f"{applied.rule.name} at {applied.step}: {applied.rule.exactness}, {applied.proof}"
    head += tell_prediction(applied, optimized, target)
    return f"{head}\n{show_rewrite(applied)}".rstrip()


def tell_prediction(applied: Applied, optimized: Optimized, target: Target) -> str:
    """Say what is predicted with a rewrite and without it; "" where that was not asked."""
    if applied.required:
        return "; required for the source model's own answer"
    if applied.otherwise is None:
        return ""
    return (
        f"; predicted {_ns(optimized.seconds, target)} a row, "
        f"{_ns(applied.otherwise, target)} without"
    )


def _why_refused(decision: Decision, optimized: Optimized, target: Target) -> str:
    if decision.otherwise is None:
        return "predicted to be slower together with others"
    return (
        f"predicted {_ns(decision.otherwise, target)} a row with it, "
        f"{_ns(optimized.seconds, target)} without"
    )


def _show_declined(declined: Declined) -> str:
    return f"{declined.rule} at {declined.node.step}: {declined.reason}"


def _of(decision: Decision) -> str:
    return f"{decision.derivation.rule} at {decision.derivation.step}"


def _ns(seconds: float, target: Target) -> str:
    return f"{seconds / target.rows * 1e9:.3g} ns"


def _line(node: Node) -> str:
    """Print a node with the names of its inputs, on one line."""
    inputs = ", ".join(n.name for n in node.inputs)
    line = " ".join(f"{node.name}({inputs}) {node.detail}".split())
    return line if len(line) <= WIDTH else f"{line[: WIDTH - 3]}..."


def find_effective_rules(planned: Planned, method: str) -> tuple[str, ...]:
    """Find the rules without which a method's optimized graph is another.

    Rules that the target leaves out already are not asked.
    """
    without = planned.target.without
    whole = _optimized(planned, without, method)
    names = [name for name in rule_names() if name not in without]
    # Each rule is left out alone: what two do together may hide either.
    return tuple(n for n in names if _optimized(planned, (*without, n), method) != whole)


def _optimized(planned: Planned, without: tuple[str, ...], method: str) -> tuple[Node, ...]:
    target = planned.target.replace(without=without)
    other = Planned(planned.parsed, planned.dtypes, target, planned.sparse)
    return other.optimized.only(method).output_roots


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
