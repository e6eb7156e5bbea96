"""The CUDA kernels, emulated on the CPU: every leaf, and every sum to the last bit, for threads
started in either order over poisoned memory.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import emulated_cuda
import numpy as np
import pytest
from emulated_cuda import Emulated, GuardedArray, run_kernel
from forests import forests, hostile_rows, random_forest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestRegressor

from hbconv.array import Array
from hbconv.backends.cuda import choose, plan
from hbconv.backends.cuda.choose import Candidate, TreeKernels, refuse
from hbconv.backends.cuda.clocks import A100, H100, Device
from hbconv.backends.cuda.columns import ALL, join_columns
from hbconv.backends.cuda.compile import source_of
from hbconv.backends.cuda.deep import pair_bits, place_pairs
from hbconv.backends.cuda.plan import CudaKernel
from hbconv.backends.cuda.tree_order import order_nodes
from hbconv.containers import TreeEnsemble
from hbconv.parse import parse
from hbconv.trees.forest import CategoryTables, Forest

ALL_KERNELS = {"bin", "bits", "walk", "deep", "few"}
DTYPES = st.sampled_from(["float32", "float64"])


@pytest.mark.parametrize("n", [1, 7, 4096, 100_000])
def test_every_form_takes_any_rows(n):
    """`few` takes a block a row: 100,000 of them are emulated apart."""
    check_forms(n, lambda form: form.slices <= 2 and (form.main.name != "few" or n < 100_000))


@pytest.mark.rooms("hbconv/backends/cuda/few.py", "hbconv/backends/cuda/kernels/few.cu")
def test_a_block_for_each_of_many_rows():
    check_forms(100_000, lambda form: form.main.name == "few")


def check_forms(n: int, asked: Callable[[Candidate], bool]) -> None:
    """Compare sums of two trees with their definition."""
    rng = np.random.default_rng(15)
    forest = random_forest(rng, 2, 3, 4)
    x = hostile_rows(rng, forest, "float32", n)
    want = forest.scores(x).tobytes()
    forms = [f for f in TreeKernels(forest, "float32", True, H100).candidates() if asked(f)]
    assert forms
    for form in forms:
        assert run_kernel(form.kernel, x, Emulated()).tobytes() == want, str(form)


def test_a_write_beside_an_array_is_noticed():
    memory = GuardedArray((3,), "uint8")
    assert memory.kept
    ctypes.memset(memory.array.ctypes.data + 3, 0, 1)
    assert not memory.kept


def kernel_names(candidate: Candidate) -> list[str]:
    return [launch.kernel.name for launch in candidate.kernel.plan.launches]


def check(forest: Forest, x: Any, device: Device = H100) -> set[str]:
    """Run every form that takes the forest; return the names of the kernels that ran."""
    ran = set()
    for scores in (True, False):
        want = forest.scores(x) if scores else forest.leaves(x)
        for candidate in TreeKernels(forest, x.dtype.name, scores, device).candidates():
            orders = (False, True) if candidate.slices == 1 else (candidate.slices in (4, 16),)
            for reversed_order in orders:
                out = run_kernel(candidate.kernel, x, Emulated(reversed_order))
                got = out.reshape(want.shape) if scores else out.T
                assert got.dtype == want.dtype
                assert got.tobytes() == want.tobytes(), (str(candidate), reversed_order)
            ran.update(kernel_names(candidate))
    return ran


@given(forest=forests(max_trees=9, max_depth=7), dtype=DTYPES, seed=st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=15, derandomize=True)
def test_any_forest(forest, dtype, seed):
    assume(not refuse(forest))
    check(forest, hostile_rows(np.random.default_rng(seed), forest, dtype, 40))


@pytest.mark.parametrize("n", [1, 7, 31, 33, 1025])
def test_tiles_that_are_not_full(n):
    rng = np.random.default_rng(n)
    forest = random_forest(rng, 37, 3, 5, n_outputs=2)
    assert check(forest, hostile_rows(rng, forest, "float32", n)) == {*ALL_KERNELS, "terms"}


@pytest.mark.parametrize("depth", [1, 2, 3, 4, 5, 6])
def test_every_number_of_bits(depth):
    rng = np.random.default_rng(depth)
    forest = random_forest(rng, 12, 4, depth, awkward=0.1)
    assert "bits" in check(forest, hostile_rows(rng, forest, "float32", 90))


def test_deep_trees_are_walked():
    rng = np.random.default_rng(0)
    forest = random_forest(rng, 9, 4, 30, awkward=0.1)
    ran = check(forest, hostile_rows(rng, forest, "float64", 90))
    assert ran == {*ALL_KERNELS, "terms"} - {"bits"}


@pytest.mark.parametrize("missing", ["left", "right", "mixed"])
def test_more_thresholds_than_a_byte_holds(missing):
    rng = np.random.default_rng(3)
    forest = random_forest(rng, 120, 1, 5, missing=missing, awkward=0.02)
    assert forest.count_thresholds("float64")[0] > 255
    check(forest, hostile_rows(rng, forest, "float64", 200))


@pytest.mark.parametrize(("n_features", "most"), [(40, 32), (70, 16)])
def test_many_columns_take_smaller_tiles(n_features, most):
    rng = np.random.default_rng(4)
    forest = random_forest(rng, 80, n_features, 4, missing="left")
    x = hostile_rows(rng, forest, "float32", 50)
    best = min(bits_of(forest, H100), key=lambda candidate: candidate.clocks.total)
    assert dict(best.main.constants)["LANES"] == most
    assert best.chunks == 1
    check(forest, x)


def bits_of(forest: Forest, device: Device) -> list[Candidate]:
    kernels = TreeKernels(forest, "float32", True, device)
    return [c for c in kernels.candidates() if c.main.name == "bits" and c.slices == 1]


@pytest.mark.parametrize("n", [5, 1030])
def test_more_columns_than_fit_come_in_chunks(n):
    """Chunks end inside groups of trees, and inside outputs; tiles begin with the first again."""
    rng = np.random.default_rng(5)
    forest = random_forest(rng, 70, 300, 5, n_outputs=2)
    x = hostile_rows(rng, forest, "float32", n)
    kernels = TreeKernels(forest, "float32", True, H100)
    assert {c.main.name for c in kernels.candidates() if c.chunks > 1} == {"bits", "walk"}
    assert all(("chunks" in str(c)) == (c.chunks > 1) for c in kernels.candidates())
    assert check(forest, x) == {*ALL_KERNELS, "terms"}


def test_a_forest_as_deep_as_it_grows_is_compared_with_thresholds():
    """It has too many thresholds for codes, and more nodes than shared memory holds."""
    rng = np.random.default_rng(11)
    x = rng.standard_normal((4000, 6)).astype("float32")
    y = x[:, 0] * x[:, 1] + rng.standard_normal(4000)
    model = RandomForestRegressor(12, max_features=2, random_state=0).fit(x, y)
    (forest,) = (n.forest for n in parse(model).nodes() if isinstance(n, TreeEnsemble))
    kernels = TreeKernels(forest, "float32", True, H100)
    assert kernels.choose(100_000).main.name == "deep"
    check(forest, hostile_rows(rng, forest, "float32", 300))


def test_most_rows_go_on_within_a_sector():
    forest = random_forest(np.random.default_rng(16), 9, 4, 30, awkward=0.1)
    nodes = order_nodes(forest, np.arange(9, dtype=np.int32))
    pairs = place_pairs(nodes)
    slots = pairs.slots(nodes)
    assert len(np.unique(slots)) == len(slots)
    assert not np.isin(slots, pairs.first).any()
    sector = slots // 4
    inner = np.flatnonzero(nodes.is_test)
    fresh = sector[nodes.left[inner]] != sector[inner]
    leaves = nodes.leaf_counts[inner]
    assert leaves[fresh].sum() / leaves.sum() == pairs.fresh < 0.7


@pytest.mark.parametrize("change", ["categories", "no number is at or below it", "features"])
def test_what_no_branch_holds_is_left_to_other_kernels(change):
    rng = np.random.default_rng(12)
    forest = random_forest(rng, 5, 3, 3, n_categorical=change == "categories", missing="left")
    if change == "features":
        forest = replace(forest, n_features=1 << 28)
    if change == "no number is at or below it":
        thresholds = forest.threshold.data.copy()
        thresholds[0] = np.nan
        forest = replace(forest, threshold=Array(thresholds))
    nodes = order_nodes(forest, np.arange(5, dtype=np.int32))
    assert pair_bits(forest, nodes, "float32") is None


def test_rows_that_shared_memory_does_not_hold_stay_where_they_are():
    rng = np.random.default_rng(13)
    forest = random_forest(rng, 9, 400, 8)
    *_, deep = (c for c in TreeKernels(forest, "float32", True, H100).candidates() if c.slices == 1)
    assert dict(deep.main.constants)["STAGED"] == 0
    assert deep.shared_bytes == 0
    check(forest, hostile_rows(rng, forest, "float64", 33))


def test_trees_of_more_columns_than_a_word_names_have_no_codes():
    rng = np.random.default_rng(5)
    forest = random_forest(rng, 9, 5000, 20, missing="left", awkward=0)
    kernels = TreeKernels(forest, "float32", True, H100)
    assert {candidate.main.name for candidate in kernels.candidates()} == {"deep", "few"}
    assert check(forest, hostile_rows(rng, forest, "float32", 5)) == {"deep", "terms", "few"}


def test_the_kernel_for_few_rows_takes_batches_where_it_is_faster():
    """Columns that each row reads once are not worth their codes."""
    rng = np.random.default_rng(5)
    forest = random_forest(rng, 150, 30_000, 6, missing="left", awkward=0, n_categorical=15_000)
    kernels = TreeKernels(forest, "float32", True, H100)
    assert {c.main.name for c in kernels.candidates()} == {"few", "bits", "walk"}
    assert kernels.forms == (kernels.few,)
    assert str(kernels) == str(kernels.few)


def test_more_trees_than_shared_memory_holds_terms():
    rng = np.random.default_rng(6)
    forest = random_forest(rng, 4200, 3, 2, n_outputs=3)
    x = hostile_rows(rng, forest, "float32", 3)
    few = TreeKernels(forest, "float32", True, H100).few
    out = run_kernel(few.kernel, x, Emulated())
    assert out.reshape(3, 3).tobytes() == forest.scores(x).tobytes()


def test_an_output_without_trees_is_its_start():
    rng = np.random.default_rng(7)
    forest = random_forest(rng, 6, 3, 3, n_outputs=3)
    alone = replace(forest, target=Array.of([1] * 6, "int32"))
    check(alone, hostile_rows(rng, alone, "float32", 20))


def test_sets_of_as_many_classes_as_a_byte_tells_apart():
    rng = np.random.default_rng(8)
    forest = random_forest(rng, 30, 1, 2, n_categorical=1)
    count = forest.n_tests
    tables = CategoryTables(
        Array.of(np.arange(count), "int32"),
        Array.of(256 * np.arange(count + 1), "int32"),
        Array(rng.random(256 * count) < 0.5),
    )
    wide = replace(forest, tables=tables)
    _, cutoffs = join_columns(wide, "float32")
    assert cutoffs.cutoff.max() == ALL
    x = rng.choice([*range(256), 10**6], (300, 1)).astype("float32")
    assert "bits" in check(wide, x)


def test_more_outputs_than_a_grid_has_passes(monkeypatch):
    monkeypatch.setattr(plan, "MAX_PASSES", 2)
    rng = np.random.default_rng(9)
    forest = random_forest(rng, 6, 3, 3, n_outputs=5, vector=True)
    assert "vectors" in check(forest, hostile_rows(rng, forest, "float32", 20))


def test_more_columns_than_a_grid_has_passes_leave_the_kernel_for_few_rows(monkeypatch):
    monkeypatch.setattr(choose, "MAX_PASSES", 2)
    for n_features, names in ((40, {"few", "bits", "walk", "deep"}), (70, {"few", "deep"})):
        forest = random_forest(np.random.default_rng(4), 80, n_features, 4, missing="left")
        kernels = TreeKernels(forest, "float32", True, H100)
        assert {candidate.main.name for candidate in kernels.candidates()} == names


def test_an_older_device_takes_smaller_tiles_sooner():
    rng = np.random.default_rng(9)
    forest = random_forest(rng, 60, 36, 4, missing="left")
    for device, fits in ((H100, True), (A100, False)):
        large, small = bits_of(forest, device)
        assert (large.chunks == 1, small.chunks) == (fits, 1)
        assert max(large.shared_bytes, small.shared_bytes) <= device.shared_bytes
    check(forest, hostile_rows(rng, forest, "float32", 20), A100)


@pytest.mark.parametrize(("n", "n_trees", "n_outputs"), [(4096, 40, 2), (30_000, 6, 1)])
def test_slices_of_many_rows(n, n_trees, n_outputs):
    """Blocks go from tile to tile, and an output's sum is of several slices."""
    rng = np.random.default_rng(11)
    forest = random_forest(rng, n_trees, 3, 4, n_outputs=n_outputs, accumulate="float32")
    x = hostile_rows(rng, forest, "float32", n)
    for form in TreeKernels(forest, "float32", True, H100).candidates():
        if form.slices > 1:
            out = run_kernel(form.kernel, x, Emulated())
            assert out.reshape(-1, n_outputs).tobytes() == forest.scores(x).tobytes(), str(form)


def test_the_form_is_the_fastest_or_nearly_so_for_each_number_of_rows():
    forest = random_forest(np.random.default_rng(0), 300, 28, 5, missing="left", awkward=0)
    kernels = TreeKernels(forest, "float32", True, H100)
    assert [kernels.choose(n) for n in (*kernels.limits, 1 << 40)] == list(kernels.forms)
    assert kernels.choose(1) is kernels.few
    assert {kernels.choose(n).slices > 1 for n in (4096, 1 << 20)} == {True, False}
    candidates = list(kernels.candidates())
    for n in choose.STEPS:
        best = min(form.seconds(n, H100) for form in candidates if form.fits(n))
        assert best <= kernels.choose(n).seconds(n, H100) <= choose.WORTH * best


def test_rows_whose_terms_exceed_the_memory_take_whole_trees(monkeypatch):
    forest = random_forest(np.random.default_rng(0), 300, 28, 5, missing="left", awkward=0)
    assert TreeKernels(forest, "float32", True, H100).choose(8192).slices > 1
    monkeypatch.setattr(plan, "BUFFER_BYTES", 6000 * 300 * 8)
    kernels = TreeKernels(forest, "float32", True, H100)
    assert kernels.choose(8192).slices == 1
    assert all(kernels.choose(n).fits(n) for n in choose.STEPS)


BARRIER_OF_PLANES = "ready = chunk_end[chunk++];\n                    __syncthreads();"
WAIT = "wait_for_copies();\n            "
BARRIER = "__syncthreads();\n            "
COPY = """if (tree + 1 < end)
                copy_tree(words + behind, first[tree + 2] - behind, trees + (~tree & 1) * largest);
            """
WRONG = {
    "no barrier behind planes": ("bits", BARRIER_OF_PLANES, "ready = chunk_end[chunk++];"),
    "no wait for a tree": ("walk", WAIT + BARRIER, BARRIER),
    "no barrier behind a tree": ("walk", WAIT + BARRIER, WAIT),
    "a tree that is copied too early": ("walk", BARRIER + COPY, COPY + BARRIER),
}


@pytest.mark.parametrize(("name", "lines", "instead"), WRONG.values(), ids=WRONG)
def test_a_wait_that_is_missing_or_too_late_is_noticed(monkeypatch, name, lines, instead):
    def wrong(kernel: CudaKernel) -> str:
        return source_of(kernel).replace(lines, instead)

    assert wrong(CudaKernel(name)) != source_of(CudaKernel(name))
    rng = np.random.default_rng(10)
    forest = random_forest(rng, 20, 4, 4, missing="left")
    x = hostile_rows(rng, forest, "float32", 600)
    kernels = TreeKernels(forest, "float32", True, H100)
    *_, candidate = (c for c in kernels.candidates() if c.main.name == name and c.slices == 1)
    monkeypatch.setattr(emulated_cuda, "source_of", wrong)
    emulated_cuda.compile_for_cpu.cache_clear()
    try:
        answers = [run_kernel(candidate.kernel, x, Emulated(order)) for order in (False, True)]
    finally:
        emulated_cuda.compile_for_cpu.cache_clear()
    assert any(answer.tobytes() != forest.scores(x).tobytes() for answer in answers)
