"""Select on bit planes: trees split by their leaves, and the program over planes that they
become, run here in numpy.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from forests import hostile_rows, random_forest
from shaped_forests import grown

from hbconv.array import Array
from hbconv.backends.tvm import BACKEND
from hbconv.backends.tvm.compile import compile_program
from hbconv.backends.tvm.machine.machine import Machine
from hbconv.backends.tvm.machine.schedule import Schedule
from hbconv.backends.tvm.trees.bins.tables import make_bins
from hbconv.backends.tvm.trees.bitwise import emit as bitwise
from hbconv.backends.tvm.trees.bitwise import tables
from hbconv.backends.tvm.trees.bitwise.masks import (
    ONES_PLANE,
    PLANE_WORD,
    WINDOW_BITS,
    make_masks,
)
from hbconv.backends.tvm.trees.bitwise.rank_masks import RankMasks
from hbconv.backends.tvm.trees.bitwise.tables import CHAIN, KINDS, make_bit_tables, words_of
from hbconv.backends.tvm.trees.choose import find_kernel
from hbconv.backends.tvm.trees.tree_kernel import TreeTask
from hbconv.backends.tvm.trees.tree_order import Trees
from hbconv.target import Target
from hbconv.tensor import Builder
from hbconv.trees.forest import Forest
from hbconv.trees.leaf_splits import split_leaves

pytestmark = [pytest.mark.usefixtures("vector"), pytest.mark.share("vector")]


GROUP = 8
SHAPES = [
    ("chain", 31),
    ("chain", 256),
    ("random", 5),
    ("random", 31),
    ("random", 200),
    ("balanced", 8),
    ("balanced", 256),
    ("balanced", 2),
    ("random", 1),
]


def planes_of(forest, bins, tables, x):
    """Decide the tests on the places that the tables give them."""
    planes = np.zeros((tables.planes, len(x)), bool)
    planes[ONES_PLANE] = True
    goes_left = np.where(
        np.isnan(x[:, forest.feature.data]),
        forest.default_left.data,
        x[:, forest.feature.data] <= forest.threshold.data,
    )
    planes[tables.masks.start[bins.column] + bins.threshold_bin + 1] = goes_left.T
    return planes


def joined(planes, splits, below):
    """The planes of a window or a top: those at its splits, as a heap, and those below it."""
    if not len(splits):
        return below[0]
    order = heap_sides((len(splits) + 1).bit_length() - 1)
    half = len(below) // 2
    left, right = (
        joined(planes, splits[side], part)
        for side, part in zip(order, (below[:half], below[half:]), strict=True)
    )
    before = planes[splits[0]]
    return [*(np.where(before, a, b) for a, b in zip(left, right, strict=True)), before]


def heap_sides(levels):
    """Positions of the splits on either side of the first one."""
    sides = [[], []]
    for level in range(1, levels):
        row = np.arange((1 << level) - 1, (2 << level) - 1)
        for side, part in zip(sides, np.split(row, 2), strict=True):
            side.extend(part.tolist())
    return sides


def compute(planes, kind, words):
    name, size = kind
    result, *others = words // PLANE_WORD
    if name == CHAIN:
        decided = planes[others[0]].copy()
        for both, either in zip(others[1::2], others[2::2], strict=True):
            decided = (decided & planes[both]) | planes[either]
        planes[result] = decided
    else:
        found = joined(planes, np.array(others), [[]] * (1 << size))
        planes[result : result + WINDOW_BITS] = 0
        planes[result : result + size] = found


def run(tables, planes):
    """Yield the code of each tree's leaf."""
    for group in range(tables.n_groups):
        for number, first, count in tables.runs[
            tables.group_start[group] : tables.group_start[group + 1]
        ]:
            kind = KINDS[number]
            width = words_of(kind)
            for words in tables.words[first : first + count * width].reshape(count, width):
                assert words[0] // PLANE_WORD >= tables.masks.count
                compute(planes, kind, words)
        for tree in range(group * GROUP, (group + 1) * GROUP):
            words = tables.codes[tree] // PLANE_WORD
            splits = (1 << tables.levels) - 1
            below = [planes[first : first + WINDOW_BITS] for first in words[splits:]]
            code = joined(planes, words[:splits], below or [[]] * (splits + 1))
            yield sum(plane.astype(int) << bit for bit, plane in enumerate(code))


@pytest.mark.parametrize(("lean", "leaves"), SHAPES)
def test_the_program_finds_the_leaves(lean, leaves):
    rng = np.random.default_rng(1)
    forest = grown(rng, 19, leaves, lean)
    bins = make_bins(forest, "float64")
    splits = split_leaves(forest)
    codes = splits.codes(forest.n_leaves)
    trees = Trees.by_number(forest, GROUP, codes)
    program = make_bit_tables(forest, bins, splits, trees, make_masks(bins))
    x = hostile_rows(rng, forest, "float64", 200)
    want = codes[forest.leaves(x)]
    got = list(run(program, planes_of(forest, bins, program, x)))
    for tree in range(19):
        np.testing.assert_array_equal(got[tree] + np.zeros(200, int), want[:, tree])


@pytest.mark.parametrize(
    ("lean", "leaves", "words"),
    [
        ("chain", 40, None),
        ("random", 31, None),
        ("random", 31, np.int32),
        ("random", 200, None),
        ("random", 200, np.int32),
        ("balanced", 8, None),
    ],
)
def test_kernels_on_planes(lean, leaves, words, monkeypatch):
    """Forests of more planes than words of 16 bits count have longer ones."""
    monkeypatch.setattr(bitwise, "MAX_MASKS_PER_SPLIT", 100)
    if words:
        monkeypatch.setattr(tables, "_word_dtype", lambda _: words)
    rng = np.random.default_rng(2)
    forest = grown(rng, 21, leaves, lean)
    b = Builder()
    x = b.input("x", "float32", forest.n_features)
    outputs = {
        "scores": b.op("tree_scores", x, forest=forest, strategy="select"),
        "leaves": b.op("tree_leaves", x, forest=forest, strategy="select"),
    }
    artifact = BACKEND.compile(b.program(outputs), Target("tvm"))
    for rows in (1, 255, 256, 257, 513, 1100):
        x = hostile_rows(rng, forest, "float32", rows)
        found = artifact.run({"x": x})
        np.testing.assert_array_equal(found["scores"], forest.scores(x))
        np.testing.assert_array_equal(found["leaves"], forest.leaves(x))


@pytest.mark.parametrize(
    "kinds",
    [
        {"n_categorical": 2},
        {"n_outputs": 3},
        {"n_outputs": 2, "vector": True},
        {"accumulate": "float32"},
        {"max_depth": 1},
    ],
)
def test_planes_serve_all_kinds_of_forests(kinds, monkeypatch):
    monkeypatch.setattr(bitwise, "MAX_MASKS_PER_SPLIT", 100)
    rng = np.random.default_rng(3)
    forest = random_forest(rng, **{"n_trees": 9, "n_features": 4, "max_depth": 5} | kinds)
    b = Builder()
    scores = b.op(
        "tree_scores", b.input("x", "float64", forest.n_features), forest=forest, strategy="select"
    )
    artifact, x = (
        BACKEND.compile(b.program({"scores": scores}), Target("tvm")),
        hostile_rows(rng, forest, "float64", 600),
    )
    np.testing.assert_array_equal(artifact.run({"x": x})["scores"], forest.scores(x))


@pytest.mark.parametrize("accumulate", ["float32", "float64"])
@pytest.mark.parametrize("leaves", [8, 30, 60, 120, 200])
def test_leaves_of_trees_of_all_sizes_are_added(leaves, accumulate, monkeypatch):
    """Each size has a look-up of its own, as far as the processor has the instructions."""
    monkeypatch.setattr(bitwise, "MAX_MASKS_PER_SPLIT", 100)
    rng = np.random.default_rng(6)
    forest = grown(rng, 9, leaves, "random")
    sums = {
        name: Array(getattr(forest, name).data.astype(accumulate)) for name in ("values", "start")
    }
    forest = replace(forest, **sums)
    assert forest.accumulate == accumulate
    b = Builder()
    x = b.input("x", "float32", forest.n_features)
    scores = b.op("tree_scores", x, forest=forest, strategy="select")
    artifact = BACKEND.compile(b.program({"scores": scores}), Target("tvm"))
    for rows in (1, 63, 600):
        x = hostile_rows(rng, forest, "float32", rows)
        np.testing.assert_array_equal(artifact.run({"x": x})["scores"], forest.scores(x))


def kernel_of(forest):
    """The name of the kernel that runs select, with 1 MB of second-level cache."""
    machine = Machine(level2=1 << 20)
    return find_kernel(TreeTask(forest, "float64", "select", Schedule(), machine)).name


def test_planes_are_for_thresholds_tested_often():
    rng = np.random.default_rng(4)
    assert kernel_of(grown(rng, 20, 31, "random")) == "bitwise"
    assert kernel_of(grown(rng, 20, 31, "random", n_thresholds=10**6)) == "bytewise"
    assert kernel_of(grown(rng, 5, 300, "random")) == "bytewise"


def test_nan_that_counts_as_zero_takes_no_second_column():
    forest = grown(np.random.default_rng(5), 4, 31, "random", n_features=1)
    as_zero = {"default_left": Array(forest.threshold.data >= 0)}
    assert make_bins(forest, "float64").columns == 2
    assert (
        make_bins(
            Forest(
                **{name: getattr(forest, name) for name in forest.__dataclass_fields__} | as_zero
            ),
            "float64",
        ).columns
        == 1
    )


SMALL_CACHE = 1 << 12
"""Bytes for each byte of a plane in a second-level cache that holds 4,096 of them."""


def apart(n_trees, leaves, n_features, **fields):
    """Trees that test other thresholds than each other."""
    rng = np.random.default_rng(8)
    forest = grown(rng, n_trees, leaves, "random", n_features, n_thresholds=10**6)
    return replace(forest, **fields)


def in_small_cache(forest, dtype):
    """Compile the scores and the leaves for a machine whose cache holds few planes."""
    host = Machine.host()
    machine = replace(host, level2=SMALL_CACHE * max(32, host.vector))
    b = Builder()
    x = b.input("x", dtype, forest.n_features)
    outputs = {
        name: b.op(f"tree_{name}", x, forest=forest, strategy="select")
        for name in ("scores", "leaves")
    }
    program = b.program(outputs)
    schedule = Schedule.construct(program, machine)
    task = TreeTask(forest, dtype, "select", schedule, machine)
    return task, compile_program(program, schedule, machine, Target("tvm"))


def beside_thresholds(rng, forest, dtype, rows):
    """Rows on thresholds of their features, one unit in the last place beside, and NaN."""
    x = np.empty((rows, forest.n_features), dtype)
    for feature in range(forest.n_features):
        own = forest.threshold.data[forest.feature.data == feature].astype(dtype)
        x[:, feature] = rng.choice(own, rows)
    for part, end in ((slice(0, None, 4), -np.inf), (slice(1, None, 4), np.inf)):
        x[part] = np.nextafter(x[part], x.dtype.type(end))
    x[rng.random(x.shape) < 0.05] = np.nan
    x[2:3], x[3:4] = -np.inf, np.inf
    return x


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("n_trees", "leaves", "n_features"), [(90, 31, 3), (20, 200, 2), (150, 31, 1), (240, 12, 5)]
)
def test_trees_whose_planes_leave_the_cache_are_decided_in_parts(
    n_trees, leaves, n_features, dtype
):
    """150 trees of one column have more thresholds than two digits of six bits tell apart."""
    forest = apart(n_trees, leaves, n_features)
    task, artifact = in_small_cache(forest, dtype)
    kernel = find_kernel(task)
    assert kernel.name == "bitwise"
    masks = kernel.tables(task, kernel.trees(task)).masks
    assert isinstance(masks, RankMasks)
    assert masks.n_parts > 1
    assert masks.n_digits == (3 if n_features == 1 else 2)
    for rows in (1, 255, 513, 1100):
        x = beside_thresholds(np.random.default_rng(9), forest, dtype, rows)
        found = artifact.run({"x": x})
        np.testing.assert_array_equal(found["scores"], forest.scores(x))
        np.testing.assert_array_equal(found["leaves"], forest.leaves(x))


def test_sums_of_parts_are_added_in_the_order_of_the_trees():
    """Outputs take turns, and their trees are cut where a group ends."""
    rng = np.random.default_rng(10)
    forest = apart(
        91, 31, 3, target=Array(np.arange(91, dtype=np.int32) % 3), start=Array(rng.random(3))
    )
    _, artifact = in_small_cache(forest, "float32")
    x = beside_thresholds(rng, forest, "float32", 700)
    np.testing.assert_array_equal(artifact.run({"x": x})["scores"], forest.scores(x))


def test_columns_that_few_splits_of_a_part_read_are_not_cut():
    machine = Machine(level2=SMALL_CACHE * 32)
    few, many = (
        TreeTask(apart(90, 31, width), "float32", "select", Schedule(), machine)
        for width in (3, 400)
    )
    assert find_kernel(few).name == "bitwise"
    assert find_kernel(many).name == "bytewise"


def test_parts_are_decided_in_the_order_in_which_trees_are_evaluated():
    """By output, a part reads the columns of a few outputs; by number, it reads all columns."""
    n_outputs = 200
    target = np.arange(800, dtype=np.int32) % n_outputs
    forest = apart(800, 8, n_outputs, target=Array(target), start=Array(np.zeros(n_outputs)))
    forest = replace(forest, feature=Array.of(target[forest.tree_of_tests], "int32"))
    machine = Machine(level2=SMALL_CACHE * 32)
    scores, leaves = (
        TreeTask(forest, "float32", "select", Schedule(), machine, added) for added in (True, False)
    )
    kernel = find_kernel(scores)
    assert kernel.name == "bitwise"
    assert isinstance(kernel.tables(scores, kernel.trees(scores)).masks, RankMasks)
    assert find_kernel(leaves).name == "bytewise"


def test_words_are_short_while_they_count_all_planes():
    assert tables._word_dtype(8191) is np.uint16
    assert tables._word_dtype(8192) is np.int32
