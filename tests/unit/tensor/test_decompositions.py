"""Every decomposition is its primitive, over inputs made to hurt: to the bit where it says so."""

from __future__ import annotations

from graphlib import TopologicalSorter
from typing import ClassVar

import pytest
from primitive_cases import CASES, Case, equal, same_bits

from hbconv.backends.base import MAX_DEPTH, Artifact, Backend
from hbconv.backends.reference import ReferenceArtifact, evaluate
from hbconv.errors import BackendError
from hbconv.target import Target
from hbconv.tensor import PRIMITIVES, Builder, TensorProgram
from hbconv.tensor.decompositions import DECOMPOSITIONS, EXACT, rewrite_program
from hbconv.trees import contributions

RULES = {**DECOMPOSITIONS, **contributions.DECOMPOSITIONS}
SEARCHES = {"heap_search", "tree_search"}
FORESTS = {"tree_scores", "tree_leaves", "tree_interaction_matrices"}
"""What strategies lower, with or without a backend's own kernels."""
CORE = frozenset(PRIMITIVES.keys() - RULES.keys() - SEARCHES - FORESTS)
RUNS = [
    pytest.param(case, dtype, id=f"{case}-{dtype}")
    for case in CASES
    for dtype in case.dtypes
    if case.primitive not in SEARCHES
]
DECOMPOSED = [run for run in RUNS if run.values[0].primitive in RULES]
ROWS = (0, 1, 64, 301)


class Smallest(Backend):
    """What a new backend starts with: numpy, of the primitives that no rule is for."""

    name = "smallest"
    emits = CORE

    def emit(self, program: TensorProgram, target: Target) -> Artifact:
        """Keep the program."""
        assert program.primitives <= CORE
        return ReferenceArtifact(program)


def check(case: Case):
    """Return how answers must agree; numpy leaves open the sign of some zeros (``equal``)."""
    exact = case.primitive in EXACT or case.agrees in (equal, same_bits)
    return (equal if case.agrees is equal else same_bits) if exact else case.agrees


@pytest.mark.parametrize(("case", "dtype"), DECOMPOSED)
def test_a_rule_is_its_primitive(case: Case, dtype: str) -> None:
    program = case.program(dtype)
    written = rewrite_program(program, {case.primitive: RULES[case.primitive]})
    assert case.primitive not in written.primitives
    for n in ROWS:
        rows = case.rows(n, dtype)
        answer = evaluate(written, rows)
        for name, values in evaluate(program, rows).items():
            assert (answer[name].dtype, answer[name].shape) == (values.dtype, values.shape)
            check(case)(answer[name], values)


@pytest.mark.parametrize(("case", "dtype"), RUNS)
def test_the_smallest_backend_runs_everything(case: Case, dtype: str) -> None:
    """All rules at once, and the forests: nothing is left but the primitives of the core."""
    program = case.program(dtype)
    artifact = Smallest().compile(program, Target())
    for n in ROWS[:3]:
        rows = case.rows(n, dtype)
        answer = artifact.run(rows)
        for name, values in evaluate(program, rows).items():
            check(case)(answer[name], values)


def test_the_core_is_small() -> None:
    """The page on backends names the number."""
    assert len(CORE) == 40


def test_every_rule_has_a_case() -> None:
    assert {run.values[0].primitive for run in DECOMPOSED} == RULES.keys()
    assert EXACT.keys() <= DECOMPOSITIONS.keys() <= PRIMITIVES.keys()


def test_no_rules_form_a_circle() -> None:
    """However few primitives a backend emits, rewriting ends."""
    writes: dict[str, set[str]] = {name: set() for name in RULES}
    for run in DECOMPOSED:
        case, dtype = run.values
        program = case.program(dtype)
        written = rewrite_program(program, {case.primitive: RULES[case.primitive]})
        writes[case.primitive] |= written.primitives - program.primitives
    order = list(TopologicalSorter(writes).static_order())
    depth = dict.fromkeys(order, 0)
    for name in order:
        depth[name] = 1 + max((depth[n] for n in writes.get(name, ())), default=-1)
    assert max(depth.values()) < MAX_DEPTH


def test_a_backend_has_the_last_word() -> None:
    """What it emits or refuses is not rewritten, and its own rules come before those of all."""

    class Particular(Smallest):
        emits = CORE | {"relu"}
        refuses: ClassVar = {"sort": "it has no order"}
        rewrites: ClassVar = {"neg": RULES["abs"]}

    rules = Particular().rules
    assert not {"relu", "sort"} & rules.keys()
    assert rules["neg"] is RULES["abs"]
    assert rules["abs"] is RULES["abs"]
    b = Builder()
    program = b.program({"y": b.reduce("sort", b.input("x", "float32", 3))})
    with pytest.raises(BackendError, match="it has no order"):
        Particular().compile(program, Target())
