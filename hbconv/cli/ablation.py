"""Time a model with each rule of the optimizer left out that matters to it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from hbconv.model import Model
from hbconv.optimize import rule_names
from hbconv.runtime.inputs.read import read_table
from hbconv.runtime.report.effective_rules import find_effective_rules

__all__ = ["ablate", "show_ablation"]

WHOLE = "all rules"
NONE = "no rule"


def ablate(model: Model, method: str, rows: Any, repeat: int) -> list[dict[str, Any]]:
    """Time a method with all rules, without each that matters, and without any.

    The calls go by turns. A figure is the least processor time of a call, for what else runs on
    the machine counts little in it.
    """
    calls = {name: getattr(m, method) for name, m in _variants(model, method, rows).items()}
    seconds = _by_turns(calls, rows, repeat)
    return [
        {
            "backend": model.backend,
            "rows": len(rows),
            "rules": name,
            "processor_seconds": found,
            "times_slower": found / seconds[WHOLE],
        }
        for name, found in seconds.items()
    ]


def show_ablation(method: str, figures: list[dict[str, Any]]) -> str:
    """Print the figures as a table."""
    head = f"{'backend':<12} {'rows':>9} {'us a call':>12} {'times':>7}   rules"
    about = f"{method}: least processor time, and how many times that of all rules"
    return "\n".join([about, head, *map(_line, figures)])


def _line(figure: dict[str, Any]) -> str:
    where = f"{figure['backend']:<12} {figure['rows']:>9,}"
    seconds = f"{figure['processor_seconds'] * 1e6:>12,.1f} {figure['times_slower']:>7.2f}"
    return f"{where} {seconds}   {figure['rules']}"


def _variants(model: Model, method: str, rows: Any) -> dict[str, Model]:
    planned = model.programs.planned(read_table(rows, model.reads).dtypes)
    rules = find_effective_rules(planned, method)
    without = model.target.without
    variants = {f"without {n}": model.for_target(without=(*without, n)) for n in rules}
    return {WHOLE: model, **variants, NONE: model.for_target(without=rule_names())}


def _by_turns(
    calls: Mapping[str, Callable[[Any], Any]], rows: Any, repeat: int
) -> dict[str, float]:
    """Return the least processor time of each call; a first call is not timed."""
    for call in calls.values():
        call(rows)
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(repeat):
        for name, call in calls.items():
            began = time.process_time()
            call(rows)
            best[name] = min(best[name], time.process_time() - began)
    return best
