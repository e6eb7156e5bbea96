"""Write a page on a model: one file of HTML that loads nothing from elsewhere.

Names of columns and steps come from users: all text is escaped, and the data for the script is JSON
in which no tag can end.

Draw the graphs of a model, for a page of its own or for a notebook.

MethodKernel: what the kernel of a method reads and writes, and what its operators cost.

Names of users and of files, as a page shows them: cut, and without what would act in it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from html import escape
from importlib import resources
from typing import Any

from hbconv import __version__
from hbconv.backends import find_backend
from hbconv.backends.base import DeviceReport, KernelReport
from hbconv.containers import Node
from hbconv.cost_model import CLOCK, OperatorCost, predict
from hbconv.markup import cut_name, shown, shown_lines
from hbconv.names import unknown
from hbconv.optimize.plan import Choice
from hbconv.optimize.program_cost import is_added, tree_seconds
from hbconv.optimize.trace import Applied
from hbconv.picture.scene import Scene, make_scene
from hbconv.picture.svg import write_svg
from hbconv.pipeline import Planned
from hbconv.runtime.report.derivations import show_rewrite, tell_prediction
from hbconv.target import Target
from hbconv.tensor import Op, TensorProgram

__all__ = ["MethodKernel", "Told", "draw_graph", "embed", "write_page"]

MOST_REWRITES = 12
"""Rewrites that are listed at once; the others unfold."""


@dataclass(frozen=True)
class Told:
    """What a page tells.

    Parameters
    ----------
    where : str
        Backend, device and precision.
    planned : Planned
    applied : tuple of Applied
        The rewrites in their order.
    kernels : tuple of MethodKernel, or str
        Of each method, or why there are none.
    text : str
        All of it as text.
    """

    where: str
    planned: Planned
    applied: tuple[Applied, ...]
    kernels: tuple[MethodKernel, ...] | str
    text: str


def write_page(told: Told) -> str:
    """Return the page: both graphs, rewrites, plan and kernels."""
    planned = told.planned
    title = planned.parsed.traits.estimator or "Graph"
    after = scene_of(planned, "optimized", told.applied)
    before = scene_of(planned, "parsed", told.applied)
    parts = {
        "title": shown(title),
        "where": shown(told.where),
        "facts": _facts(told),
        "count_after": _count(len(planned.graph.nodes())),
        "count_before": _count(len(planned.typed.nodes())),
        "after": write_svg(after, f"{title}, as it runs"),
        "before": write_svg(before, f"{title}, as it was read"),
        "rewrites": _rewrites(told),
        "plan": _plan(planned),
        "kernels": _kernels(told.kernels),
        "text": shown_lines(told.text),
        "version": escape(__version__),
        "boxes": _data({"after": after, "before": before}),
    }
    page = resources.files("hbconv.runtime.report").joinpath("page.html").read_text("utf-8")
    # One pass: what is put in is not searched for marks, which users may write.
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], page)


def _count(nodes: int) -> str:
    return f"{nodes} nodes" if nodes != 1 else "1 node"


def _facts(told: Told) -> str:
    planned = told.planned
    schema = planned.parsed.schema
    seconds = planned.optimization.seconds / planned.target.rows
    facts = {
        "reads": f"{len(schema.columns)} columns, {', '.join(sorted(set(schema.dtypes)))}",
        "answers": ", ".join(planned.parsed.outputs),
        "rewrites": str(len(told.applied)),
        "all answers, predicted": f"{seconds * 1e9:,.3g} ns a row",
    }
    return "".join(
        f"<div><dt>{shown(name)}</dt><dd>{shown(fact)}</dd></div>" for name, fact in facts.items()
    )


def _rewrites(told: Told) -> str:
    if not told.applied:
        return "<p>None: the graph runs as it was read.</p>"
    lines = [_rewrite(applied, told.planned) for applied in told.applied]
    rest = len(lines) - MOST_REWRITES
    if rest > 0:
        more = "\n".join(lines[MOST_REWRITES:])
        lines = [*lines[:MOST_REWRITES], f"<details><summary>{rest} more</summary>{more}</details>"]
    return "\n".join(lines)


def _rewrite(applied: Applied, planned: Planned) -> str:
    why = f"{applied.rule.exactness}, {applied.proof}"
    why += tell_prediction(applied, planned.optimization, planned.target)
    return (
        f"<details><summary><b>{shown(applied.rule.name)}</b> at "
        f"{shown(applied.step or 'the model')} <span>{shown(why)}</span></summary>"
        f"<pre>{shown(show_rewrite(applied))}</pre></details>"
    )


def _plan(planned: Planned) -> str:
    choices = [choice for _, choice in planned.plan.choices]
    if not choices:
        return "<p>No trees, so nothing to choose.</p>"
    head = f"<p>Predicted for calls of {planned.target.rows:,} rows.</p>"
    return f'{head}<div class="cards">{"".join(map(_choice, choices))}</div>'


def _choice(choice: Choice) -> str:
    """Draw the predicted time of each strategy as a bar, the one taken first."""
    # False sorts before True, so that the strategy taken is first.
    costs = sorted(choice.costs.items(), key=lambda cost: (cost[0] != choice.strategy, cost[1]))
    most = max(choice.costs.values(), default=0.0)
    bars = [
        _bar(name, f"{seconds * 1e3:,.3f} ms", seconds, most, best=name == choice.strategy)
        for name, seconds in costs
    ]
    refused = [_bar(name, "refused", 0.0, most) for name in choice.refusals]
    why = "".join(f"<p>{shown(f'{n}: {reason}')}</p>" for n, reason in choice.refusals.items())
    step = choice.source or "trees"
    head = f"<h3>{shown(f'{step}: {choice}')}</h3>"
    return f'<div class="card">{head}{"".join([*bars, *refused])}{why}</div>'


def _kernels(kernels: tuple[MethodKernel, ...] | str) -> str:
    if isinstance(kernels, str):
        return f"<p>{shown(kernels)}</p>"
    return f'<div class="cards">{"".join(map(_kernel, kernels))}</div>'


def _kernel(kernel: MethodKernel) -> str:
    """Draw the predicted cycles of each operator as a bar, the dearest first."""
    dearest: Sequence[tuple[str, float]] = [
        (f"{cost.operator}  {cost.source}".strip(), cost.cycles) for cost in kernel.costs[:SHOWN]
    ]
    rest = kernel.costs[SHOWN:]
    others = [(f"{len(rest)} others", sum(cost.cycles for cost in rest))] if rest else []
    most = max((cycles for _, cycles in dearest), default=0.0)
    total = sum(cost.seconds for cost in kernel.costs) * 1e9
    bars = [
        _bar(name, f"{cycles:,.1f} cycles", cycles, most) for name, cycles in (*dearest, *others)
    ]
    report = "".join(f"<p>{shown(line)}</p>" for line in str(kernel.report).splitlines())
    head = f"<h3>{shown(kernel.method)}: {total:,.1f} ns a row, predicted</h3>"
    return f'<div class="card">{head}{"".join(bars)}{report}</div>'


def _bar(name: str, figure: str, value: float, most: float, *, best: bool = False) -> str:
    share = 100 * min(value / most, 1.0) if most else 0.0
    return (
        f'<div class="bar{" best" if best else ""}"><b>{shown(name)}</b>'
        f'<span>{shown(figure)}</span><i style="width:{share:.1f}%"></i></div>'
    )


def _data(scenes: dict[str, Scene]) -> str:
    """Return what the script tells of boxes: JSON without any character that markup begins with."""
    boxes = {
        name: [_told(box.title, box.facts.items()) for box in scene.boxes]
        for name, scene in scenes.items()
    }
    # Escapes of JSON: a script must not meet "</script>" in a name.
    text = json.dumps(boxes)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _told(title: str, facts: Iterable[tuple[str, str]]) -> dict[str, object]:
    named = [[name, cut_name(fact)] for name, fact in facts if fact]
    return {"title": cut_name(title), "facts": named}


STAGES = ("optimized", "parsed")
"""Stages that have a picture."""


def draw_graph(
    planned: Planned,
    stage: str = "optimized",
    applied: Sequence[Applied] = (),
    methods: Sequence[str] = (),
) -> str:
    """Return the picture of a graph, as SVG.

    Raises
    ------
    OptionError
        There is no picture of that stage, or the graph has no such method.
    """
    if stage not in STAGES:
        raise unknown("stage", stage, STAGES)
    for method in methods:
        if method not in planned.graph.outputs:
            raise unknown("method", method, planned.graph.outputs)
    title = f"{planned.parsed.traits.estimator or 'graph'}, {stage}"
    return write_svg(scene_of(planned, stage, applied, methods), title)


def scene_of(
    planned: Planned, stage: str, applied: Sequence[Applied] = (), methods: Sequence[str] = ()
) -> Scene:
    """Return what a picture shows; boxes tell the rules that made or replaced their nodes."""
    parsed = stage == "parsed"
    remarks: dict[Node, str] = {}
    for rewrite in applied:
        for before, after in rewrite.replacements.items():
            node = before if parsed else after
            remarks[node] = f"{'replaced' if parsed else 'made'} by {rewrite.rule.name}"
    return make_scene(planned.typed if parsed else planned.graph, planned.target, remarks, methods)


def embed(facts: str, picture: str) -> str:
    """Return a picture and a text above it for a notebook; wide pictures scroll."""
    text = shown_lines(facts)
    return (
        '<div style="overflow-x:auto;max-width:100%">'
        f'<pre style="margin:0 0 8px;white-space:pre-wrap">{text}</pre>{picture}</div>'
    )


SHOWN = 12
"""Operators that are printed, the dearest."""


@dataclass(frozen=True)
class MethodKernel:
    """The kernel of one method.

    Parameters
    ----------
    method : str
    report : KernelReport or DeviceReport
    costs : tuple of OperatorCost
        Predicted, the dearest first.
    """

    method: str
    report: KernelReport | DeviceReport
    costs: tuple[OperatorCost, ...]

    @staticmethod
    def of(method: str, program: TensorProgram, target: Target) -> MethodKernel:
        """Report on a method's program, prepared for the backend."""
        backend = find_backend(target.backend)

        def price(op: Op) -> float:
            dtype = program.instructions[op.operands[0]].type.dtype
            forest, strategy = op.attributes["forest"], op.attributes["strategy"]
            return tree_seconds(forest, strategy, target, backend, dtype, added=is_added(op))

        predicted = predict(program, target, price)
        costs = sorted(predicted, key=lambda cost: -cost.seconds)
        return MethodKernel(method, backend.report(program, target), tuple(costs))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "method": self.method,
            **asdict(self.report),
            "operators": [{**asdict(cost), "cycles": cost.cycles} for cost in self.costs],
        }

    def __str__(self) -> str:
        title, total = f"Kernel of {self.method}", sum(cost.seconds for cost in self.costs)
        shown = [
            f"  {cost.cycles:>12,.1f} cycles  {cost.operator}  {cost.source}".rstrip()
            for cost in self.costs[:SHOWN]
        ]
        rest = self.costs[SHOWN:]
        others = (
            [f"  {sum(cost.cycles for cost in rest):>12,.1f} cycles  {len(rest)} others"]
            if rest
            else []
        )
        basis = (
            f"{total * 1e9:,.1f} ns a row predicted, {total * CLOCK:,.0f} cycles at {CLOCK / 1e9} "
            "GHz: counted work at the prices measured on one machine"
        )
        return "\n".join([title, "-" * len(title), str(self.report), basis, *shown, *others])
