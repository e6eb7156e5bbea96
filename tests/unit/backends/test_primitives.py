"""Every backend gives every primitive its meaning, over inputs made to hurt and any number of
rows.
"""

from __future__ import annotations

import pytest
from primitive_cases import CASES, Case, require_agreement

from hbconv.backends import EXPORTS, backend_names, find_backend
from hbconv.backends.base import Backend
from hbconv.errors import BackendError
from hbconv.target import Target
from hbconv.tensor import PRIMITIVES, verify_program

TREES = {"tree_scores", "tree_leaves", "tree_interaction_matrices"}

RUNS = [pytest.param(case, dtype, id=f"{case}-{dtype}") for case in CASES for dtype in case.dtypes]


@pytest.fixture(params=[name for name in (*backend_names(), *EXPORTS) if name != "reference"])
def backend(request: pytest.FixtureRequest) -> Backend:
    """All but the one that the others are measured by."""
    return find_backend(request.param)


def test_every_primitive_has_a_case() -> None:
    assert {case.primitive for case in CASES} == set(PRIMITIVES)


def test_every_run_has_its_own_name() -> None:
    assert len({run.id for run in RUNS}) == len(RUNS)


def test_backend_says_what_it_does_with_every_primitive(backend: Backend) -> None:
    """Trees are lowered to the others wherever they are not native."""
    assert {*backend.emits, *backend.rules, *backend.refuses} | TREES == set(PRIMITIVES)
    assert not set(backend.refuses) & {*backend.emits, *backend.rules}
    assert not set(backend.emits) & set(backend.rules)


@pytest.mark.parametrize(("case", "dtype"), RUNS)
@pytest.mark.share("case")
def test_primitive(case: Case, dtype: str, backend: Backend) -> None:
    program = verify_program(case.program(dtype))
    target = Target(backend.name)
    if backend.status(program, target).startswith("cannot"):
        # A query may have no room for the two nearest of many points, which it finds otherwise.
        named = "|".join((*backend.refuses, "columns at most", "longer than"))
        with pytest.raises(BackendError, match=named):
            backend.compile(program, target)
        return
    require_agreement(case, dtype, backend)
