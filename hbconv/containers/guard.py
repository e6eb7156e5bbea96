"""Row guard: where each check of a graph is answered. Most rows need no check of their own.

Three analyses decide it.

- Intervals: how large each node gets, from how large the input columns are. Most checks ask whether
  a value is finite, and an interval that no node can leave for infinity answers that.
- Finite outputs: a sum of products is finite only if all its factors are. So a row with such an
  output needs no check whether its input is finite.
- Looks: conditions on the input columns themselves, for a program that reads them anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from hbconv.array import Array
from hbconv.containers import (
    Check,
    Columns,
    Entries,
    Graph,
    IsBeyond,
    IsNonFinite,
    Node,
    topological,
)
from hbconv.containers.interval import FINITE, LARGEST, Interval
from hbconv.containers.nodes.affine import Affine, AffineStep
from hbconv.containers.nodes.column_wise import Select
from hbconv.containers.nodes.elementwise import Map
from hbconv.containers.nodes.linear import Linear
from hbconv.containers.nodes.wiring import Cast, Concat

__all__ = ["Guard", "find_finite_output", "find_guard", "find_interval", "find_looks"]

# Squares of 1e18 stay below the bound of float32, 1e37, so sums of squares are settled too.
BOUNDS = (1e18, 1e15, 1e12, 1e9, 1e6, 1e3)
"""Magnitudes of the input that are tried, the largest first: ordinary rows are within each."""


@dataclass(frozen=True)
class Guard:
    """Where each check is answered: each is in exactly one of the five places.

    Parameters
    ----------
    checks : tuple of Check
        All of them, in the order of the source, whose first message is reported.
    settled : tuple of Check
        They hold for all rows within ``bound``: one look at the input answers them.
    watched : tuple of Check
        They would be settled, but the program takes the look: ``looks`` flag every row that may
        violate one of them.
    proven : tuple of Check
        They would be settled, but not even the input is looked at: ``finite_output`` flags every
        row that violates one of them.
    inside : tuple of Check
        The program computes them next to its outputs. Warnings among them flag rows too.
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
        Conditions that the source only warns about. The host evaluates them, those that are inside
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
        """Whether there are rows that the source refuses or warns about."""
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
        case, next to outputs that cost as much.

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
    # Walked backwards, so that of equal conditions the
    # first check stays: its message is the source's.
    distinct = {(check.node, check.every): check for check in reversed(graph.checks)}
    checks = tuple(distinct.values())[::-1]
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
    # Intervals bound magnitudes, so they settle questions about infinity and NaN alone.
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


FLOATS = ("float32", "float64")
LARGE = 1e30
"""Far from overflow, and its reciprocal from underflow, in float32 too."""


def find_finite_output(graph: Graph, checked: Iterable[IsNonFinite]) -> Node | None:
    """Find a condition on the outputs that flags every row in which a given condition holds.

    It may flag other rows too, as where a sum overflows. It costs little, because the outputs are
    computed anyway. Returns None if no output has the property.

    Parameters
    ----------
    graph : Graph
    checked : iterable of IsNonFinite

    Examples
    --------
    >>> from hbconv.containers import Columns, Output, Schema
    >>> x = Columns.of(Schema.matrix(2))
    >>> sums = Linear.of(Affine.of(x, div=[2.0, 3.0]), [6.0, 8.0])
    >>> graph = Graph(x.schema, {"predict": Output(sums)})
    >>> found = find_finite_output(graph, [IsNonFinite(x, allow_nan=False)])
    >>> found.name, found.x.name
    ('is_non_finite', 'linear')
    """
    conditions = tuple(checked)
    return (
        _find_infinite_output(graph, conditions)
        if all(c.allow_nan for c in conditions)
        else _find_infinite_sum(graph, conditions)
    )


def _find_infinite_output(graph: Graph, conditions: tuple[IsNonFinite, ...]) -> Node | None:
    """Find an output that is infinite wherever a checked value is."""
    output = next(
        (node for node in graph.output_roots if all(_shows(c.x, node) for c in conditions)), None
    )
    return None if output is None else IsNonFinite(output, allow_nan=True)


def _find_infinite_sum(graph: Graph, conditions: tuple[IsNonFinite, ...]) -> Node | None:
    """Find a sum over all checked values: it is not finite if one of them is not."""
    nodes = graph.nodes()
    # A sum that only a relu reads is clipped as part of the product: one more reader would keep it.
    clipped = {node.x for node in nodes if isinstance(node, Map) and node.function == "relu"}
    sums = (
        node
        for node in nodes
        if isinstance(node, Linear) and node not in clipped and _weighs_all(node)
    )
    total = next((node for node in sums if all(_spoils(c.x, node.x) for c in conditions)), None)
    if total is None:
        return None
    return IsNonFinite(
        # One column is enough, for each of them sums all inputs.
        total if total.type.width == 1 else Select(total, Array([0])),
        allow_nan=False,
    )


def _shows(x: Node, node: Node) -> bool:
    """Whether the node is infinite in every row in which x is."""
    # Only affine steps: a product of matrices may cancel infinities to NaN.
    if not isinstance(node, Affine) or not all(_keeps_infinite(step) for step in node.steps):
        return False
    return node == x or node.x == x or _shows(x, node.x)


def _keeps_infinite(step: AffineStep) -> bool:
    # Infinity times 0 is NaN, and so is infinity by infinity; a factor that underflows counts as 0.
    size = np.abs(step.constant.data.astype(np.float64))
    return bool(np.all(size < LARGE) and (step.op != "mul" or np.all(size > 1 / LARGE)))


def _weighs_all(node: Linear) -> bool:
    """Whether the first column sums all inputs: a kernel may skip those of weight zero."""
    return node.weights.shape[1] > 0 and bool(np.all(node.weights.data[:, 0] != 0))


def _spoils(x: Node, node: Node) -> bool:
    """Whether the node is not finite in every row in which x is not: arithmetic keeps it so."""
    if node == x:
        return True
    if isinstance(node, Concat):
        return any(_spoils(x, part) for part in node.xs)
    return (
        isinstance(node, Affine) or (isinstance(node, Cast) and node.type.dtype in FLOATS)
    ) and _spoils(x, node.x)


def find_interval(node: Node, bound: float) -> Interval | None:
    """Return the interval of a node, given that of the input; None if it is not known.

    Parameters
    ----------
    node : Node
    bound : float
        All float columns are within ``[-bound, bound]`` or NaN, and all sparse entries within it.

    Examples
    --------
    >>> from hbconv.containers import Affine, Columns, Schema
    >>> x = Columns.of(Schema.matrix(2))
    >>> found = find_interval(Affine.of(x, sub=[1.0, 2.0], div=0.5), 10.0)
    >>> found.bound, sorted(found.nan_from)
    (24.0, [0, 1])
    """
    return _interval_of(node, Interval(bound), {})


def _interval_of(
    node: Node, input_interval: Interval, intervals: dict[int, Interval | None]
) -> Interval | None:
    """Visit each node once: where each column is computed from all before it, paths are many."""
    # By identity: digests of large constants cost more
    # than the analysis, and the graph keeps nodes alive.
    if id(node) not in intervals:
        intervals[id(node)] = _compute_interval(node, input_interval, intervals)
    return intervals[id(node)]


def _compute_interval(
    node: Node, input_interval: Interval, intervals: dict[int, Interval | None]
) -> Interval | None:
    # Codes, flags and sums of leaves are far from overflow, whatever the rows hold.
    if node.always_finite or node.type.dtype in ("int32", "bool"):
        return Interval(FINITE)
    inputs: list[Interval] = []
    for operand in node.inputs:
        interval = _interval_of(operand, input_interval, intervals)
        if interval is None:
            return None
        inputs.append(interval)
    if not node.inputs:
        return node.interval(input_interval)
    result = node.interval(*inputs)
    # Written so that a bound of NaN counts as no bound.
    if result is None or not result.bound < LARGEST.get(node.type.dtype, 0.0):
        return None
    return result


def find_looks(
    graph: Graph, conditions: Sequence[Node], bound: float, without_nan: frozenset[int]
) -> tuple[Node, ...]:
    """Find nodes that flag each row whose columns are not ordinary.

    A row is ordinary where all float columns that the conditions read are within ``bound``, or NaN
    outside ``without_nan``. The nodes are none where a look at the host is cheaper: a table of
    several dtypes is given to programs by columns, and each column more is copied.

    Parameters
    ----------
    graph : Graph
    conditions : sequence of Node
    bound : float
    without_nan : frozenset of int

    Examples
    --------
    >>> from hbconv.containers import IsNonFinite, Output, Schema
    >>> x = Columns.of(Schema.matrix(3))
    >>> graph = Graph(x.schema, {"transform": Output(x)})
    >>> for look in find_looks(graph, [IsNonFinite(x, True)], 1e18, frozenset({2})):
    ...     print(look.x.detail, look.allow_nan)
    x0, x1 True
    x2 False
    """
    leaves = topological(tuple(conditions))
    if any(isinstance(leaf, Entries) for leaf in leaves):
        return ()
    columns = _floats_read(leaves)
    # A table of several dtypes enters a program column
    # by column, so each column more is one more copy.
    if len(set(graph.schema.dtypes)) > 1 and not columns <= _floats_read(graph.nodes()):
        return ()
    return tuple(_looks(graph, columns, bound, without_nan))


def _floats_read(nodes: Sequence[Node]) -> set[int]:
    leaves = (node for node in nodes if isinstance(node, Columns))
    return {i for leaf in leaves for i in leaf.columns if leaf.schema.dtypes[i] in LARGEST}


def _looks(
    graph: Graph, columns: set[int], bound: float, without_nan: frozenset[int]
) -> Iterator[Node]:
    """Yield a look for each dtype, at columns with NaN and at those without."""
    strict = columns & without_nan
    # A look allows NaN in all of its columns or in none, so both kinds of columns have their own.
    for dtype, (some, allow_nan) in product(LARGEST, ((columns - strict, True), (strict, False))):
        chosen = sorted(i for i in some if graph.schema.dtypes[i] == dtype)
        if chosen:
            x = Columns(graph.schema, Array(np.array(chosen, np.int32)))
            yield IsBeyond(x, bound, allow_nan)
