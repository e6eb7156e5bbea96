"""Chunks of rows stay within memory, whatever an operator holds beside its result."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from forests import random_forest
from sklearn.decomposition import NMF

import hbconv
from hbconv.backends import reference
from hbconv.optimize.program_cost import program_seconds
from hbconv.runtime import batching
from hbconv.runtime.batching import bytes_alive, bytes_per_row, rows_in_time, rows_per_chunk
from hbconv.target import Target
from hbconv.tensor import Builder, TensorProgram

POINTS = 4_000


def neighbors(primitive: str, **attributes: object) -> TensorProgram:
    b = Builder()
    x = b.input("x", "float64", 16)
    points = b.constant(np.zeros((POINTS, 16)))
    return b.program({"y": b.op(primitive, x, points, **attributes)})


@pytest.mark.parametrize(
    ("primitive", "attributes", "entries"),
    [
        ("nearest", {"k": 5}, 5),
        ("nearest_donors", {"k": 5}, 80),
        ("pairwise", {"kind": "square", "p": 2.0}, POINTS),
    ],
)
def test_distances_to_all_points_count(
    primitive: str, attributes: dict[str, object], entries: int
) -> None:
    program = neighbors(primitive, **attributes)
    size = np.dtype(program.instructions[-1].type.dtype).itemsize
    assert bytes_alive(program) == 3 * POINTS * 8 + entries * size
    assert bytes_per_row(program) == 16 * 8 + bytes_alive(program)


def test_a_chunk_holds_the_distances_of_its_rows_alone() -> None:
    target = Target(backend="onnx")
    chunk = rows_per_chunk(neighbors("nearest", k=5), target)
    assert chunk * 3 * POINTS * 8 <= 8 << 20
    assert chunk >= 64


def test_trees_fill_the_cache_and_other_programs_a_quarter() -> None:
    forest = random_forest(np.random.default_rng(0), 500, 28, 2)
    b = Builder()
    x = b.input("x", "float32", 28)
    scores = b.op("tree_scores", x, forest=forest, strategy="tree_traversal")
    trees, others = b.program({"y": scores}), repeated(100)
    for program, room in ((trees, 32 << 20), (others, 8 << 20)):
        chunk = rows_per_chunk(program, Target("torch"))
        assert room / 2 < chunk * bytes_alive(program) <= room


def test_kernels_of_a_gpu_hold_a_code_for_each_column() -> None:
    """A million rows of 500 trees came in eight chunks, each with its launches."""
    forest = random_forest(np.random.default_rng(0), 500, 28, 2)
    b = Builder()
    x = b.input("x", "float32", 28)
    program = b.program({"y": b.op("tree_scores", x, forest=forest, strategy="tree_traversal")})
    assert bytes_alive(program, "cuda") == 28 + 8
    assert bytes_alive(program) == 16 * 500 + 8
    assert rows_per_chunk(program, Target("torch", device="cuda")) > 10_000_000


def repeated(steps: int) -> TensorProgram:
    b = Builder()
    x = b.input("x", "float64", 4)
    return b.program({"y": b.iterate(steps, x, x, lambda inner, state, given: state + given)})


def test_runs_are_cut_by_the_time_of_all_rounds() -> None:
    rows = [rows_in_time(repeated(steps), Target("tvm")) for steps in (100, 10_000, 10**11)]
    assert rows[0] > 50 * rows[1] > rows[1]
    assert rows[2] == 1
    assert rows_in_time(repeated(10**11), Target("torch", device="cuda")) == sys.maxsize


def test_runs_of_costly_rows_stay_wide() -> None:
    """Rows rarely take all their rounds, and runs of few rows waste what they share."""
    program, target = repeated(10**7), Target("tvm")
    seconds = program_seconds(program, target) / target.rows
    assert batching.RUN_SECONDS / seconds < batching.FULL_RUN
    assert rows_in_time(program, target) == batching.FULL_RUN


def test_a_call_of_many_rounds_is_answered_run_by_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """And as without cuts, but for the order in which a product adds."""
    x = np.abs(np.random.default_rng(0).normal(size=(40, 5)))
    source = NMF(2, max_iter=500).fit(x)
    want = hbconv.convert(source, backend="reference").transform(x)
    monkeypatch.setattr(batching, "RUN_SECONDS", 1e-9)
    model = hbconv.convert(source, backend="reference")
    runs = []
    evaluate = reference.evaluate
    monkeypatch.setattr(
        reference, "evaluate", lambda p, given: runs.append(len(given["x"])) or evaluate(p, given)
    )
    np.testing.assert_allclose(model.transform(x), want, rtol=1e-12)
    assert runs.count(1) >= 40
