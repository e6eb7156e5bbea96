"""Every decomposition is its primitive, over inputs made to hurt: to the bit where it says so."""

from __future__ import annotations

import pytest
from primitive_cases import CASES, Case, equal, same_bits

from hbconv.backends.base import Artifact, Backend
from hbconv.backends.reference import ReferenceArtifact, evaluate
from hbconv.target import Target
from hbconv.tensor import PRIMITIVES, TensorProgram
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
    assert len(CORE) == 38


def test_every_rule_has_a_case() -> None:
    assert {run.values[0].primitive for run in DECOMPOSED} == RULES.keys()
    assert EXACT.keys() <= DECOMPOSITIONS.keys() <= PRIMITIVES.keys()
