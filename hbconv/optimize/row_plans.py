"""Plans by the number of rows: a call of few rows may be best served by other strategies.

The plan of ``Target.rows`` is the fitted one. Another bucket of rows gets a plan of its own only
where the fitted one is predicted to be clearly slower there. Strategies find the same leaves, and
leaves are added in one order, so the answers of all plans are equal in bits.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from hbconv.array import Array
from hbconv.backends.base import Backend
from hbconv.containers import Graph
from hbconv.optimize.plan import Plan, make_plan
from hbconv.row_buckets import BUCKETS, Bucket
from hbconv.target import Target

__all__ = ["LEAST_GAIN", "RowPlan", "plan_rows"]

LEAST_GAIN = 1.25
"""Ratio of predicted times from which another plan is worth a program of its own.

Predictions are off by a third, and the program takes memory and time to compile.
"""

MOST_CONSTANT_BYTES = 64 << 20
"""Bytes of constants beside the forests, beyond which a model keeps one program."""


@dataclass(frozen=True)
class RowPlan:
    """The plan of a bucket, where it is worth a program of its own.

    Parameters
    ----------
    bucket : Bucket
    plan : Plan
    gain : float
        Time of the fitted plan for such rows, over that of this one.
    measured : bool
        The gain was measured, not predicted.
    """

    bucket: Bucket
    plan: Plan
    gain: float
    measured: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        rows = [self.bucket.least, self.bucket.most]
        gain = {"gain": self.gain, "measured": self.measured}
        return {"rows": rows, **gain, "plan": self.plan.to_dict()}

    def __str__(self) -> str:
        head = f"Calls of {self.bucket} have a program of their own"
        how = "measured" if self.measured else "predicted"
        return f"{head}, {how} to be {self.gain:.1f} times as fast:\n{self.plan}"


def plan_rows(graph: Graph, target: Target, backend: Backend, fitted: Plan) -> tuple[RowPlan, ...]:
    """Plan for the buckets that the target's rows are not in; leave out those that gain little.

    Parameters
    ----------
    graph : Graph
        Optimized.
    target : Target
    backend : Backend
    fitted : Plan
        The plan for ``target.rows``.
    """
    if not backend.plans_by_rows or target.strategy is not None or not fitted.choices:
        return ()
    if _constant_bytes(graph) > MOST_CONSTANT_BYTES:
        return ()
    others = [bucket for bucket in BUCKETS if target.rows not in bucket]
    plans = [make_plan(graph, target.replace(rows=b.typical), backend) for b in others]
    row_plans = [
        RowPlan(bucket, plan, _gain(fitted, plan))
        for bucket, plan in zip(others, plans, strict=True)
    ]
    return tuple(row_plan for row_plan in row_plans if row_plan.gain >= LEAST_GAIN)


def _gain(fitted: Plan, plan: Plan) -> float:
    """Return how many times the trees of a plan are as fast as those of the fitted one."""
    pairs = zip(fitted.choices, plan.choices, strict=True)
    before = sum(new.costs.get(old.strategy, 0.0) for (_, old), (_, new) in pairs)
    after = sum(choice.costs[choice.strategy] for _, choice in plan.choices)
    return before / after


def _constant_bytes(graph: Graph) -> int:
    """Return the bytes of the arrays in all nodes, which each program holds for itself."""
    values = [getattr(node, field.name) for node in graph.nodes() for field in fields(node)]
    return sum(value.data.nbytes for value in values if isinstance(value, Array))
