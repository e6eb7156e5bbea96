"""The printed forms of pipelines: as parsed, as optimized, as a program."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from golden.conftest import EXPECTED
from golden.pipelines import PIPELINES, fitted
from golden.test_cuda_code import ARCHITECTURES
from golden.test_tree_code import MACHINES

from hbconv.containers import show, verify_graph
from hbconv.lower import lower
from hbconv.optimize import RULES, optimize
from hbconv.parse import parse
from hbconv.tensor import verify_program


@pytest.mark.parametrize("name", PIPELINES)
def test_forms(name: str, golden: Callable[[str], None]) -> None:
    """A change of what any stage makes of a pipeline shows in the diff of a text file."""
    parsed = verify_graph(parse(fitted(name)))
    optimized = verify_graph(optimize(parsed.for_rows(sparse=False)).graph)
    program = verify_program(lower(optimized).program)
    golden(f"{show(parsed)}\n---- optimized ----\n{show(optimized)}\n---- program ----\n{program}")


def test_no_golden_is_left_over() -> None:
    """Each file belongs to a pipeline, a rule, the CUDA kernels or the kernels of trees."""
    code = {f"{kind}_code_{name}" for kind in ("cuda", "row") for name in ARCHITECTURES}
    cuda = {"cuda_choices", "row_source", *code}
    trees = {f"tree_code_{name}" for name in MACHINES}
    assert {path.stem for path in EXPECTED.glob("*.txt")} == cuda | trees | {
        f"forms_{name}" for name in PIPELINES
    } | {f"rule_{rule.name}" for rule in RULES}
