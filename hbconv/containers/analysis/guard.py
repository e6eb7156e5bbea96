"""Row guard: where each check of a graph is answered. Most rows need no check of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from hbconv.containers import Check, Columns, Entries, Graph, IsNonFinite, Node, topological
from hbconv.containers.analysis.finite_outputs import find_finite_output
from hbconv.containers.analysis.intervals import find_interval
from hbconv.containers.analysis.looks import find_looks
from hbconv.containers.interval import LARGEST

__all__ = ["Guard", "find_guard"]

BOUNDS = (1e18, 1e15, 1e12, 1e9, 1e6, 1e3)
"""Magnitudes of the input that are tried, the largest first: ordinary rows are within each."""


@dataclass(frozen=True)
class Guard:
    """Where each check is answered: each stands in exactly one of the five places.

    Parameters
    ----------
    checks : tuple of Check
        All of them, in the order of the source, whose first message is told.
    settled : tuple of Check
        They hold for all rows within ``bound``: one look at the input answers them.
    watched : tuple of Check
        They would be settled, but the program takes the look: ``looks`` flag every row that may
        violate one of them.
    proven : tuple of Check
        They would be settled, but not even the input is looked at: ``finite_output`` flags every
        row that violates one of them.
    inside : tuple of Check
        The program computes them beside its outputs. Warnings among them flag rows too.
    host : tuple of Check
        The host evaluates them at each call.
    bound : float
        Magnitude of the float columns up to which settled, watched and proven checks hold; 0 if
        these read no floats, so that there is nothing to look at.
    without_nan : frozenset of int
        Columns in which NaN violates one of those checks.
    finite_output : Node or None
        A condition on what the outputs compute.
    looks : tuple of Node
        Conditions on the input.
    warnings : tuple of Check
        Conditions of which the source only warns. The host evaluates them, those that stand inside
        only where a row is flagged.
    """

    checks: tuple[Check, ...] = ()
    settled: tuple[Check, ...] = ()
    watched: tuple[Check, ...] = ()
    proven: tuple[Check, ...] = ()
    inside: tuple[Check, ...] = ()
    host: tuple[Check, ...] = ()
    bound: float = 0.0
    without_nan: frozenset[int] = frozenset()
    finite_output: Node | None = None
    looks: tuple[Node, ...] = ()
    warnings: tuple[Check, ...] = ()

    @property
    def refuses_rows(self) -> bool:
        """Whether there are rows that the source refuses, or of which it warns."""
        return bool(self.checks or self.warnings)

    @property
    def flags_rows(self) -> bool:
        """Whether the program has one more output, the rows that a check may refuse."""
        return bool(self.flags)

    @property
    def proofs(self) -> tuple[Node, ...]:
        """What the program computes instead of checks: such rows may violate one."""
        proof = () if self.finite_output is None else (self.finite_output,)
        return (*proof, *self.looks)

    @property
    def flags(self) -> tuple[Node, ...]:
        """All conditions by which the program flags rows."""
        return (*(check.node for check in self.inside), *self.proofs)

    @property
    def warned_by_host(self) -> tuple[Check, ...]:
        """Warnings that the host evaluates at each call."""
        return tuple(warning for warning in self.warnings if warning not in self.inside)

    @property
    def needs_host(self) -> bool:
        """Whether the host evaluates a condition at each call, whatever the rows are."""
        return bool(self.host or self.warned_by_host)

    @property
    def looks_at_rows(self) -> bool:
        """Whether the host looks at the input before it trusts the program."""
        return bool(self.settled) and self.bound > 0

    def __str__(self) -> str:
        places = {
            f"settled while |x| <= {self.bound:g}": self.settled,
            f"watched by the program: |x| <= {self.bound:g}": self.watched,
            "proven by a finite output": self.proven,
            "computed by the program": self.inside,
            "evaluated by the host": self.host,
            "warned of by the host": self.warned_by_host,
        }
        lines = [f"{how}: {check.message}" for how, checks in places.items() for check in checks]
        return "\n".join(lines) or "The source refuses no rows of numbers."


def find_guard(
    graph: Graph, *, flags: bool = False, is_costly: Callable[[Node], bool] = lambda _: False
) -> Guard:
    """Sort the checks of a graph by where they are answered.

    Parameters
    ----------
    graph : Graph
        Over columns of the dtypes at hand, with the outputs of one program.
    flags : bool
        The program may flag rows by all that it can tell: by conditions, by looks at the input, and
        by its outputs.
    is_costly : callable
        Whether a condition costs far more than a look at the rows. The program computes it in any
        case, beside outputs that cost as much.

    Examples
    --------
    >>> from hbconv.containers import Map, Output, Schema
    >>> x = Columns.of(Schema.matrix(2))
    >>> checks = (
    ...     Check(IsNonFinite(x, allow_nan=False), "x is not finite"),
    ...     Check(IsNonFinite(Map(x, "log"), allow_nan=False), "log(x) is not finite"),
    ... )
    >>> print(find_guard(Graph(x.schema, {"transform": Output(Map(x, "log"))}, checks), flags=True))
    watched by the program: |x| <= 1e+18: x is not finite
    computed by the program: log(x) is not finite
    """
    asked = {(check.node, check.every): check for check in reversed(graph.checks)}
    checks = tuple(asked.values())[::-1]
    bounds = {check: _safe_bound(check) for check in checks}
    settled = tuple(check for check in checks if bounds[check] is not None)
    others = tuple(check for check in checks if bounds[check] is None)
    bound = min((b for b in bounds.values() if b is not None), default=0.0)
    inside = tuple(check for check in others if flags or is_costly(check.node))
    guard = Guard(
        checks,
        settled=settled,
        inside=(*inside, *(warning for warning in graph.warnings if is_costly(warning.node))),
        host=tuple(check for check in others if check not in inside),
        bound=bound if _reads_floats(checks) else 0.0,
        without_nan=_without_nan(settled, bound),
        warnings=graph.warnings,
    )
    return _inside_program(guard, graph) if flags and guard.bound else guard


def _inside_program(guard: Guard, graph: Graph) -> Guard:
    """Return the guard whose settled checks the program answers, where it can.

    An output that proves them costs least; otherwise the program looks at the input.
    """
    conditions = [check.node for check in guard.settled if isinstance(check.node, IsNonFinite)]
    finite_output = find_finite_output(graph, conditions)
    if finite_output is not None:
        return replace(guard, settled=(), proven=guard.settled, finite_output=finite_output)
    looks = find_looks(graph, conditions, guard.bound, guard.without_nan)
    return replace(guard, settled=(), watched=guard.settled, looks=looks) if looks else guard


def _safe_bound(check: Check) -> float | None:
    """Return a magnitude of the input within which the check holds; None if there is none."""
    node = check.node
    if not isinstance(node, IsNonFinite):
        return None
    return next((bound for bound in BOUNDS if find_interval(node.x, bound) is not None), None)


def _without_nan(settled: Sequence[Check], bound: float) -> frozenset[int]:
    """Return the columns in which NaN violates one of the checks."""
    conditions = [check.node for check in settled if isinstance(check.node, IsNonFinite)]
    strict = [find_interval(node.x, bound) for node in conditions if not node.allow_nan]
    return frozenset().union(*(interval.nan_from for interval in strict if interval is not None))


def _reads_floats(checks: Sequence[Check]) -> bool:
    leaves = topological(tuple(check.node for check in checks))
    dtypes = {
        dtype
        for node in leaves
        if isinstance(node, Columns | Entries)
        for dtype in _dtypes_read(node)
    }
    return not dtypes.isdisjoint(LARGEST)


def _dtypes_read(node: Columns | Entries) -> set[str]:
    if isinstance(node, Entries):
        return set() if node.extractor.sums_ones else {node.type.dtype}
    return {node.schema.dtypes[i] for i in node.columns}
