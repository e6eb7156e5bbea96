"""Find the rules of the optimizer that matter to a model."""

from __future__ import annotations

from hbconv.containers import Node
from hbconv.optimize import rule_names
from hbconv.pipeline import Planned

__all__ = ["find_effective_rules"]


def find_effective_rules(planned: Planned, method: str) -> tuple[str, ...]:
    """Find the rules without which a method's optimized graph is another.

    Rules that the target leaves out already are not asked.
    """
    without = planned.target.without
    whole = _optimized(planned, without, method)
    asked = [name for name in rule_names() if name not in without]
    return tuple(n for n in asked if _optimized(planned, (*without, n), method) != whole)


def _optimized(planned: Planned, without: tuple[str, ...], method: str) -> tuple[Node, ...]:
    target = planned.target.replace(without=without)
    other = Planned(planned.parsed, planned.dtypes, target, planned.sparse)
    return other.optimized.only(method).output_roots
