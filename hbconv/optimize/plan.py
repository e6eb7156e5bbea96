"""The plan: the strategy chosen for each forest, all predicted costs, and all refusals.

The plan of ``Target.rows`` is the fitted one. A call of few rows may be best served by other
strategies. So another bucket of rows gets a plan of its own where the fitted one is predicted to be
clearly slower there. Strategies find the same leaves, and leaves are added in one order, so the
outputs of all plans are equal in bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from hbconv.array import Array
from hbconv.backends.base import Backend
from hbconv.containers import Graph, Node, TreeEnsemble, TreeLeaves, rewrite
from hbconv.cost_model.tuning_record import BUCKETS, Bucket
from hbconv.errors import BackendError
from hbconv.markup import html_table
from hbconv.names import abridge
from hbconv.optimize.program_cost import strategy_costs, strategy_refusals, tree_work
from hbconv.target import Target
from hbconv.trees.forest import Forest
from hbconv.trees.strategy import find_strategy, strategies

__all__ = [
    "LEAST_GAIN",
    "Choice",
    "Plan",
    "RowPlan",
    "make_plan",
    "plan_like",
    "plan_rows",
    "show_plan",
]


@dataclass(frozen=True)
class Choice:
    """The decision for one forest.

    Parameters
    ----------
    source : str
        Step of the pipeline that the forest comes from.
    strategy : str
        The strategy taken.
    costs : mapping of str to float
        Predicted seconds for ``target.rows`` rows, of each strategy that may be used.
    refusals : mapping of str to str
        The reason, for each strategy that may not.
    native : bool
        The backend runs these trees by its own kernel, not as plain primitives.
    forced : bool
        The target named the strategy.
    remarks : tuple of str
        Parts that the backend does not run by its own kernel, with the reason.
    measured : bool
        The strategy was taken for its measured time.
    table_bytes : int
        Bytes that the strategy makes of the forest.
    """

    source: str
    strategy: str
    costs: Mapping[str, float] = field(default_factory=dict)
    refusals: Mapping[str, str] = field(default_factory=dict)
    native: bool = False
    forced: bool = False
    remarks: tuple[str, ...] = ()
    measured: bool = False
    table_bytes: int = 0

    def __str__(self) -> str:
        kernel = ", native kernel" if self.native else ""
        tables = f", {self.table_bytes / 1e6:,.0f} MB of tables" if self.table_bytes >= 1e6 else ""
        return f"{self.strategy} ({self._reason}{kernel}{tables})"

    @property
    def _reason(self) -> str:
        if self.forced:
            return "forced"
        if self.measured:
            return "measured"
        return "the cheapest" if len(self.costs) > 1 else "the only one"


@dataclass(frozen=True)
class Plan:
    """The choices of a graph, by forest."""

    choices: tuple[tuple[Forest, Choice], ...] = ()

    @property
    def strategies(self) -> tuple[str, ...]:
        """The strategy of each forest."""
        return tuple(choice.strategy for _, choice in self.choices)

    def apply(self, graph: Graph) -> Graph:
        """Write the chosen strategies into the graph's tree nodes."""
        chosen = {forest: choice.strategy for forest, choice in self.choices}

        def visit(node: Node) -> Node:
            return (
                node.planned(chosen[node.forest])
                if isinstance(node, TreeEnsemble | TreeLeaves)
                else node
            )

        return graph.rewritten(visit)

    def to_dict(self) -> list[dict[str, Any]]:
        """Return plain values for JSON, an entry for each forest."""
        return [{**_size(forest), **asdict(choice)} for forest, choice in self.choices]

    def __str__(self) -> str:
        return show_plan(self)

    def __repr__(self) -> str:
        return abridge(str(self))

    def _repr_html_(self) -> str:
        if not self.choices:
            return html_table(show_plan(self), (), ())
        return "".join(_show_html(forest, choice) for forest, choice in self.choices)


def make_plan(graph: Graph, target: Target, backend: Backend) -> Plan:
    """Ask every strategy what it would cost, and take the cheapest, or the one the target forces.

    Raises
    ------
    OptionError
        The target names a strategy that does not exist.
    BackendError
        The strategy it names, or every one, may not be used; the message holds the reasons.
    """
    if target.strategy is not None:
        find_strategy(target.strategy)
    readers: dict[Forest, TreeEnsemble | TreeLeaves] = {}
    for node in graph.nodes():
        if isinstance(node, TreeEnsemble | TreeLeaves):
            # One plan for a forest that several nodes read: they share its leaves.
            readers.setdefault(node.forest, node)
    choices = (
        (forest, _choose(forest, reader, target, backend)) for forest, reader in readers.items()
    )
    return Plan(
        tuple(
            (forest, replace(choice, remarks=backend.remarks(forest, target)))
            for forest, choice in choices
        )
    )


def plan_like(graph: Graph, nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Run the trees of nodes by the strategies that a planned graph runs equal trees by.

    Outputs and conditions then share them. Trees that the graph does not have stay as they are.
    """
    trees = [node for node in graph.nodes() if isinstance(node, TreeEnsemble | TreeLeaves)]
    chosen = {node.forest: node.strategy for node in trees}

    def visit(node: Node) -> Node:
        if isinstance(node, TreeEnsemble | TreeLeaves):
            return node.planned(chosen.get(node.forest, node.strategy))
        return node

    mapping = rewrite(tuple(nodes), visit)
    return tuple(mapping[node] for node in nodes)


def _choose(
    forest: Forest, reader: TreeEnsemble | TreeLeaves, target: Target, backend: Backend
) -> Choice:
    source, dtype = reader.step, reader.x.type.dtype
    added = isinstance(reader, TreeEnsemble)
    native = backend.native_trees(target)
    # ONNX's operator walks trees its own way, whatever the strategy is called.
    if native >= strategies().keys():
        name = target.strategy or "tree_traversal"
        (cost,) = strategy_costs(forest, target, backend, added=added).values()
        return Choice(source, name, {name: cost}, native=True, forced=target.strategy is not None)
    refusals = strategy_refusals(forest, target, backend)
    # Kernels over float32 compare half the bytes, so the dtype of the rows counts for the price.
    compared = "float32" if dtype == "float32" or target.precision == "fast" else "float64"
    costs = strategy_costs(forest, target, backend, compared, added=added)
    if target.strategy in refusals:
        hint = f"Leave strategy out to take {' or '.join(costs)}." if costs else ""
        refused = f"Strategy {target.strategy!r} cannot be used for the trees of {_step(source)}"
        raise BackendError(f"{refused}: it {refusals[target.strategy]}. {hint}".strip())
    if not costs:
        reasons = "; ".join(f"{name} {reason}" for name, reason in refusals.items())
        raise BackendError(
            f"No strategy can be used for the trees of {_step(source)}: {reasons}. "
            "Allow more with memory=."
        )
    chosen = target.strategy or min(costs, key=costs.__getitem__)
    forced = target.strategy is not None
    tables = tree_work(forest, chosen, target, backend, compared, added=added).tables
    return Choice(
        source, chosen, costs, refusals, chosen in native, forced=forced, table_bytes=tables
    )


def show_plan(plan: Plan) -> str:
    """Print a plan: a heading for each forest, then a line for each strategy, cheapest first.

    Examples
    --------
    >>> import numpy as np
    >>> from hbconv.array import Array
    >>> none, leaf = Array(np.zeros(0, np.int32)), Array(np.zeros(1, np.int32))
    >>> root, first_leaf = Array.of([-1], "int32"), Array.of([0, 1], "int32")
    >>> forest = Forest(none, Array(np.zeros(0)), Array(np.zeros(0, bool)), none, none, root,
    ...                 first_leaf, Array([[1.0]]), leaf, Array([0.0]), False, 4, leaf)
    >>> costs, refusals = {"gemm": 2e-3, "select": 1e-3}, {"other": "needs 3.1 GB"}
    >>> choice = Choice("RandomForestRegressor", "select", costs, refusals)
    >>> print(show_plan(Plan(((forest, choice),))))
    RandomForestRegressor: 1 trees, 0 tests, depth 0 -> select (the cheapest)
      select                          1.000 ms predicted
      gemm                            2.000 ms predicted
      other                       refused: needs 3.1 GB
    """
    lines = []
    for forest, choice in plan.choices:
        lines.append(_heading(forest, choice))
        lines += [
            f"  {name:<26} {seconds * 1e3:10.3f} ms predicted"
            for name, seconds in sorted(choice.costs.items(), key=lambda item: item[1])
        ]
        lines += [f"  {name:<26}  refused: {reason}" for name, reason in choice.refusals.items()]
        lines += [f"  {remark}" for remark in choice.remarks]
    return "\n".join(lines) or "No trees, so nothing to choose."


def _heading(forest: Forest, choice: Choice) -> str:
    size = ", ".join(
        f"{count} {what}" if what != "depth" else f"depth {count}"
        for what, count in _size(forest).items()
    )
    return f"{choice.source or 'trees'}: {size} -> {choice}"


def _show_html(forest: Forest, choice: Choice) -> str:
    """Return a forest's strategies as a table, cheapest first."""
    costs = sorted(choice.costs.items(), key=lambda item: item[1])
    rows = [(name, f"{seconds * 1e3:,.3f}", "") for name, seconds in costs]
    rows += [(name, "refused", reason) for name, reason in choice.refusals.items()]
    head = ("strategy", "ms predicted", "")
    return html_table(_heading(forest, choice), head, rows, "; ".join(choice.remarks))


def _size(forest: Forest) -> dict[str, int]:
    return {"trees": forest.n_trees, "tests": forest.n_tests, "depth": forest.depth}


def _step(source: str) -> str:
    return f"step {source!r}" if source else "the model"


# For one row another strategy was up to 3.2 times as fast on torch, and at most 1.2 times on tvm.
LEAST_GAIN = 1.25
"""Ratio of predicted times from which another plan is worth a program of its own.

Predictions are off by a third, and the program takes memory and time to compile.
"""

MOST_CONSTANT_BYTES = 64 << 20
"""Bytes of constants other than the forests, above which a model keeps one program."""


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
    # tvm has a loop for few rows in the one program,
    # and a second one takes half a second to compile.
    if not backend.plans_by_rows or target.strategy is not None or not fitted.choices:
        return ()
    # Each program holds its own copy of the constants.
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
