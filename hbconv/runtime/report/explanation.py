"""Why a model runs as it does: its plan, its graph before and after rules, its programs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from hbconv.containers import show
from hbconv.cost_model import show_prices
from hbconv.errors import BackendError
from hbconv.optimize.plan import Plan, RowPlan
from hbconv.optimize.program_cost import SLOWER
from hbconv.optimize.search import Optimized
from hbconv.optimize.trace import Applied, trace
from hbconv.pipeline import Compilation, Planned
from hbconv.runtime.batching import bytes_per_row
from hbconv.runtime.report.derivations import show_applied, show_others, to_dict
from hbconv.runtime.report.page import MethodKernel, Told, draw_graph, embed, write_page
from hbconv.target import Target
from hbconv.tensor import Constant

__all__ = ["Explanation", "ProgramSize"]


@dataclass(frozen=True)
class ProgramSize:
    """Size of one method's program, for the column dtypes that ``explain`` shows.

    ``slowdown`` is the predicted time over that of the source model.
    """

    method: str
    instructions: int
    constant_bytes: int
    bytes_per_row: int
    slowdown: float = 1.0

    @staticmethod
    def of(method: str, stages: Compilation) -> ProgramSize:
        """Measure the program of a method for its target."""
        program = stages.lowered.program
        constants = sum(
            i.value.data.nbytes for i in program.instructions if isinstance(i, Constant)
        )
        a_row = bytes_per_row(program, stages.target.device)
        return ProgramSize(
            method, len(program.instructions), constants, a_row, round(stages.slowdown, 2)
        )

    def __str__(self) -> str:
        size = (
            f"{self.method}: {self.instructions} instructions, {self.constant_bytes:,} bytes of "
            f"constants, {self.bytes_per_row:,} bytes a row at most"
        )
        if self.slowdown < SLOWER:
            return size
        return f"{size}, predicted to take {self.slowdown:.1f} times as long as the source"


@dataclass(frozen=True)
class Explanation:
    """What ``Model.explain()`` returns: print it, or read it as a dict."""

    estimator: str
    target: Target
    plan: Plan
    before: str
    after: str
    applied: tuple[Applied, ...]
    optimized: Optimized
    programs: tuple[ProgramSize, ...]
    methods: Mapping[str, Compilation] = field(repr=False, compare=False)
    row_plans: tuple[RowPlan, ...] = ()
    tuning: str = ""
    backend: str = ""

    @staticmethod
    def of(planned: Planned, backend: str = "") -> Explanation:
        """Collect what there is to say of each method, compiled alone.

        Parameters
        ----------
        planned : Planned
        backend : str
            What was asked for, where another one compiles for it.
        """
        graph = planned.graph
        methods = {method: Compilation(planned, (method,)) for method in graph.outputs}
        return Explanation(
            graph.traits.estimator,
            planned.target,
            planned.plan,
            show(planned.typed),
            show(graph),
            trace(planned.typed, planned.target, planned.optimization),
            planned.optimization,
            tuple(ProgramSize.of(name, stages) for name, stages in methods.items()),
            methods,
            planned.row_plans,
            _show_tuning(planned),
            backend or planned.target.backend,
        )

    @property
    def planned(self) -> Planned:
        """The stages that all methods share."""
        return next(iter(self.methods.values())).planned

    def to_svg(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        stage: str = "optimized",
        methods: Sequence[str] = (),
    ) -> str:
        """Draw the graph: steps as frames, kinds of nodes in colours, predicted times as shades.

        Parameters
        ----------
        path : path, optional
            File to write the picture to.
        stage : {"optimized", "parsed"}
            The graph that is compiled, or the one that was read.
        methods : sequence of str
            What the shares of the time are of; by default predict and predict_proba.

        Returns
        -------
        str
            A document that loads nothing and runs nothing.

        Raises
        ------
        OptionError
            There is no picture of that stage, or the model has no such method.
        """
        picture = draw_graph(self.planned, stage, self.applied, methods)
        if path is not None:
            Path(path).write_text(picture, encoding="utf-8")
        return picture

    def to_html(self) -> str:
        """Write a page on the model: both graphs, rewrites, plan and kernels; it loads nothing."""
        try:
            kernels: tuple[MethodKernel, ...] | str = self.kernels
        except BackendError as error:
            kernels = str(error)
        where = self._where.partition(" on ")[2]
        return write_page(Told(where, self.planned, self.applied, kernels, str(self)))

    def __repr__(self) -> str:
        return self.summary

    def _repr_html_(self) -> str:
        return embed(self.summary, self.to_svg())

    @property
    def rules(self) -> tuple[str, ...]:
        """The rewrites in order, each as rule and step."""
        return tuple(f"{a.rule.name} at {a.step}" for a in self.applied)

    @cached_property
    def kernels(self) -> tuple[MethodKernel, ...]:
        """The kernel of each method, as the backend would compile it.

        Raises
        ------
        BackendError
            The backend makes none: it runs operator after operator.
        """
        return tuple(
            MethodKernel.of(name, method.prepared, self.target)
            for name, method in self.methods.items()
        )

    @property
    def summary(self) -> str:
        """Five lines: where it runs, what it reads and answers, how trees run, what was rewritten.

        Several forests are told by the first of them.
        """
        plan = str(self.plan) if self.plan.choices else "none"
        forests = [line for line in plan.splitlines() if not line.startswith(" ")]
        others_of = len(forests) - 1
        more = f", and {others_of} more forest{'s'[: others_of > 1]}" if others_of else ""
        steps = f"{_steps(self.before)} steps as parsed, {_steps(self.after)} as optimized"
        reads, *others = (line for line in self.before.splitlines() if line.startswith("input"))
        rest = f", and {len(others)} more inputs" if others else ""
        return "\n".join(
            (
                self._where,
                f"reads    {reads.removeprefix('input').strip()}{rest}",
                f"answers  {', '.join(self.methods)}",
                f"trees    {forests[0]}{more}",
                f"graph    {steps} by {len(self.applied)} rewrites",
            )
        )

    @property
    def _where(self) -> str:
        target = self.target
        by = "" if self.backend == target.backend else f", compiled by {target.backend}"
        return (
            f"{self.estimator} on backend {self.backend}{by}, device {target.device}, "
            f"precision {target.precision}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "estimator": self.estimator,
            "target": asdict(self.target),
            "prices": show_prices(self.target).removeprefix("prices: "),
            "plan": self.plan.to_dict(),
            "tuning": self.tuning.splitlines(),
            "row_plans": [row_plan.to_dict() for row_plan in self.row_plans],
            "programs": [asdict(size) for size in self.programs],
            "rules": list(self.rules),
            "derivation": to_dict(self.applied, self.optimized, self.target),
            "before": self.before.splitlines(),
            "after": self.after.splitlines(),
        }

    def __str__(self) -> str:
        target = self.target
        parts = {
            "Target": f"{self._where}\n{show_prices(target)}",
            "Plan": "\n".join(map(str, (self.plan, *self.row_plans))),
            **({"Tuned": self.tuning} if self.tuning else {}),
            "Programs": "\n".join(map(str, self.programs)),
            "Graph as parsed": self.before,
            "Rules applied": show_applied(self.applied, self.optimized, target),
            "Rewrites not made": show_others(self.optimized, target),
            "Graph as optimized": self.after,
        }
        return "\n\n".join(f"{title}\n{'-' * len(title)}\n{text}" for title, text in parts.items())


def _steps(graph: str) -> int:
    """Count the nodes of a graph that is shown."""
    return sum(line.startswith("%") for line in graph.splitlines())


def _show_tuning(planned: Planned) -> str:
    """Say what was measured; nothing for a model that was not tuned."""
    if planned.tuning is None:
        return ""
    if planned.tuned is not None:
        return str(planned.tuned)
    reason = planned.tuning.remark or "it was measured for another target, version or machine"
    return f"Predictions decide: {reason}."
