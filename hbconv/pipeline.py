"""The compiler on one page: each stage, from the graph of the parsers to what a backend runs.

========= =============================================================== ======================
stage     what it makes                                                   function
========= =============================================================== ======================
parsed    the model as a graph of containers                              ``hbconv.parse.parse``
typed     the same, over columns of the dtypes at hand                    ``with_dtypes``
optimized the same, rewritten by rules that the cost chooses              ``optimize``
planned   the same, with one strategy for each forest                     ``choose_strategies``
guarded   where each check is answered                                    ``guard_rows``
lowered   the outputs as one tensor program, and what feeds it            ``lower``
prepared  the program in the backend's primitives, or refused by name     ``prepare``
emitted   the compiled program                                            ``emit``
========= =============================================================== ======================

``Planned`` runs the stages that all methods share, and ``Compilation`` the others. Each stage runs
when it is first asked for, so that ``explain``, ``export`` and ``convert`` stop where they need to.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from time import perf_counter

from hbconv.backends import Artifact, find_backend
from hbconv.containers import ChoosesNearest, Graph, Node
from hbconv.containers.guard import Guard, find_guard
from hbconv.cost_model.tuning_record import Tuning
from hbconv.errors import log_compiled, log_optimized
from hbconv.lower import DENSE, Lowered, Padding, find_choosing, is_costly, lower
from hbconv.optimize import optimize, simplify_exactly
from hbconv.optimize.contender import Contender, Problem, Tuned, find_tuned
from hbconv.optimize.late_rewrites import narrow_to, share_codes
from hbconv.optimize.plan import Plan, RowPlan, make_plan, plan_like, plan_rows
from hbconv.optimize.program_cost import predict_slowdown
from hbconv.optimize.search import Optimized
from hbconv.target import Target
from hbconv.tensor import TensorProgram

__all__ = [
    "Compilation",
    "Planned",
    "choose_strategies",
    "emit",
    "guard_rows",
    "prepare",
    "share_guarded",
    "with_dtypes",
]


@dataclass(frozen=True)
class Planned:
    """The stages that all methods share.

    Parameters
    ----------
    parsed : Graph
    dtypes : tuple of str
        Dtype of each column.
    target : Target
    sparse : bool
        Rows come as a sparse matrix.
    tuning : Tuning, optional
        Times measured, which overrule predictions where they are of this graph and machine.
    taken : Contender, optional
        Overrules both.
    """

    parsed: Graph
    dtypes: tuple[str, ...]
    target: Target
    sparse: bool = False
    tuning: Tuning | None = None
    taken: Contender | None = None

    @cached_property
    def typed(self) -> Graph:
        """The graph over columns of these dtypes."""
        return with_dtypes(self.parsed, self.dtypes, sparse=self.sparse)

    @cached_property
    def problem(self) -> Problem:
        """What the rules make of the graph by prediction."""
        backend = find_backend(self.target.backend)
        began = perf_counter()
        optimized = optimize(self.typed, self.target)
        seconds = perf_counter() - began
        log_optimized(len(self.typed.nodes()), len(optimized.graph.nodes()), seconds)
        return Problem(self.typed, self.target, backend, optimized)

    @cached_property
    def tuned(self) -> Tuned | None:
        """What was measured to be the best, where it was."""
        if self.taken:
            return Tuned(self.taken)
        return find_tuned(self.problem, self.tuning) if self.tuning else None

    @property
    def optimization(self) -> Optimized:
        """What the rules make of the graph, and the rewrites they chose."""
        return self.tuned.fitted.optimization if self.tuned else self.problem.optimization

    @property
    def optimized(self) -> Graph:
        """The graph as the rules leave it."""
        return self.optimization.graph

    @cached_property
    def plan(self) -> Plan:
        """The strategy of each forest."""
        if self.tuned:
            return self.tuned.fitted.plan
        return choose_strategies(self.optimized, self.target)

    @cached_property
    def row_plans(self) -> tuple[RowPlan, ...]:
        """The plans of other numbers of rows, where they are worth programs of their own."""
        measured = self.tuned.records if self.tuned else {}
        predicted = plan_rows(self.optimized, self.target, self.problem.backend, self.plan)
        # Times that were measured overrule predictions.
        chosen = [plan for plan in predicted if plan.bucket not in measured]
        return (*chosen, *(self.tuned.row_plans if self.tuned else ()))

    @cached_property
    def graph(self) -> Graph:
        """The optimized graph with its strategies chosen."""
        return self.plan.apply(self.optimized)


@dataclass(frozen=True)
class Compilation:
    """The stages of some methods, compiled as one program.

    Parameters
    ----------
    planned : Planned
    methods : tuple of str
    padding : Padding
        How sparse rows come.
    plan : Plan, optional
        Strategies for other numbers of rows than the target's.
    """

    planned: Planned
    methods: tuple[str, ...]
    padding: Padding = DENSE
    plan: Plan | None = None

    @property
    def target(self) -> Target:
        """What is compiled for."""
        return self.planned.target

    @cached_property
    def graph(self) -> Graph:
        """The planned graph with these methods alone."""
        planned = self.planned
        whole = planned.graph if self.plan is None else self.plan.apply(planned.optimized)
        return narrow_to(whole, self.methods, self.target)

    @cached_property
    def guard(self) -> Guard:
        """Where each check is answered."""
        return guard_rows(self.graph, self.target, self.padding)

    @cached_property
    def written(self) -> tuple[Graph, tuple[Node, ...]]:
        """The graph as it is lowered, and the conditions by which the program flags rows."""
        return share_guarded(self.graph, self.guard, self.target)

    @cached_property
    def lowered(self) -> Lowered:
        """The methods as a program that no backend has seen."""
        graph, flags = self.written
        return lower(graph, self.target.precision, self.padding, flags, self.choosing)

    @cached_property
    def choosing(self) -> tuple[ChoosesNearest, ...]:
        """What chooses among equally near rows, of which the program tells ties."""
        return find_choosing(self.written[0])

    @cached_property
    def prepared(self) -> TensorProgram:
        """The program as the backend will emit it."""
        return prepare(self.lowered, self.target)

    @cached_property
    def slowdown(self) -> float:
        """The predicted time over that of the source model."""
        source = self.planned.parsed.traits.source
        return predict_slowdown(self.lowered.program, source, self.target)

    def emitted(self) -> Artifact:
        """Compile the program, and log it."""
        began = perf_counter()
        artifact = emit(self.prepared, self.target)
        seconds = perf_counter() - began
        log_compiled(self.methods, self.planned.dtypes, self.target.backend, seconds)
        return artifact


class Unguarded(Compilation):
    """The stages of some methods that flag no rows, as a module has that users build on."""

    @cached_property
    def guard(self) -> Guard:
        """No check."""
        return Guard()

    @cached_property
    def choosing(self) -> tuple[ChoosesNearest, ...]:
        """No ties told."""
        return ()


def with_dtypes(parsed: Graph, dtypes: tuple[str, ...], *, sparse: bool = False) -> Graph:
    """Give the columns their dtypes, from which the types of all nodes follow.

    Checks that no row of these dtypes violates are left out.
    """
    graph = parsed.for_rows(sparse=sparse)
    typed = graph.with_schema(graph.schema.with_dtypes(dtypes))
    # As infinity among ints: the dtype rules it out.
    return replace(typed, checks=tuple(check for check in typed.checks if not check.node.never))


def choose_strategies(graph: Graph, target: Target) -> Plan:
    """Choose the cheapest strategy for each forest, or the one that the target forces."""
    return make_plan(graph, target, find_backend(target.backend))


def guard_rows(graph: Graph, target: Target, padding: Padding = DENSE) -> Guard:
    """Decide where each check is answered.

    The program flags rows itself where that costs no memory, or the host would have to copy rows
    from a device. It must be as exact as on the host.
    Conditions on what costly members of the model compute are asked of the program's own values on
    every backend: numpy took 200 times as long for the distances of a stacked KNeighborsClassifier.
    """
    guards = find_backend(target.backend).tiled or target.device != "cpu"
    flags = guards and target.precision == "exact" and padding == DENSE
    return find_guard(graph, flags=flags, is_costly=partial(is_costly, graph, padding=padding))


def share_guarded(graph: Graph, guard: Guard, target: Target) -> tuple[Graph, tuple[Node, ...]]:
    """Return the graph with the codes that it shares with its flags, and these flags."""
    inside = simplify_exactly(graph, [check.node for check in guard.inside])
    inside = plan_like(graph, inside)
    # Flags look codes up as outputs do: one look-up serves both.
    if "merge_codes" not in target.without:
        graph, inside = share_codes(graph, inside)
    return graph, (*inside, *guard.proofs)


def prepare(lowered: Lowered, target: Target) -> TensorProgram:
    """Rewrite the program into primitives that the backend emits, or raise BackendError."""
    return find_backend(target.backend).prepare(lowered.program, target)


def emit(program: TensorProgram, target: Target) -> Artifact:
    """Compile a prepared program."""
    return find_backend(target.backend).emit(program, target)
