"""Random forests of every shape, and rows made to hurt them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.trees.covered_forest import CoveredForest
from hbconv.trees.forest import CategoryTables, Forest, Slopes

__all__ = [
    "categorical",
    "chain_forest",
    "forests",
    "hostile_rows",
    "known_value",
    "random_forest",
    "with_random_shares",
    "with_random_slopes",
]

Tree = tuple["Tree | None", "Tree | None"]

AWKWARD = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.1,
    1 / 3,
    1e-35,
    5e-324,
    1e-45,
    -1e-45,
    1e300,
    -1e300,
    1.7976931348623157e308,
    -3.4028234663852886e38,
    16777217.0,
    np.inf,
    -np.inf,
)
"""Thresholds that break careless code: no float32 equal, denormal, beyond float32, infinite."""


def random_forest(
    rng: np.random.Generator,
    n_trees: int = 5,
    n_features: int = 4,
    max_depth: int = 5,
    n_outputs: int = 1,
    *,
    vector: bool = False,
    strict: bool = False,
    dtype: str = "float64",
    accumulate: str = "float64",
    missing: str = "mixed",
    awkward: float = 0.3,
    n_categorical: int = 0,
) -> Forest:
    """Grow trees that are full, ragged, one-sided or a single leaf, at random.

    Parameters
    ----------
    n_outputs : int
        Trees of scalar leaves add to output ``t % n_outputs``; with ``vector`` each leaf has n_outputs values.
    dtype, accumulate : str
        Dtypes of the thresholds and of the leaf values.
    missing : {"left", "right", "mixed"}
        Where NaN goes.
    awkward : float
        Share of thresholds taken from AWKWARD; the others are normal deviates, some of them twice.
    n_categorical : int
        The first so many features hold codes, which tests look up.
    """
    shapes = [_grow(rng, max_depth) if n_features else None for _ in range(n_trees)]
    left, right, roots, first_leaf = _flatten(shapes)
    n_tests, n_leaves = len(left), first_leaf[-1]
    default_left = {
        "left": np.ones(n_tests, bool),
        "right": np.zeros(n_tests, bool),
        "mixed": rng.random(n_tests) < 0.5,
    }[missing]
    feature = rng.integers(0, max(n_features, 1), n_tests, dtype=np.int32)
    return Forest(
        feature=Array(feature),
        threshold=Array(_thresholds(rng, n_tests, dtype, awkward)),
        default_left=Array(default_left),
        left=Array.of(left, "int32"),
        right=Array.of(right, "int32"),
        roots=Array.of(roots, "int32"),
        first_leaf=Array.of(first_leaf, "int32"),
        values=Array.of(rng.standard_normal((n_leaves, n_outputs if vector else 1)), accumulate),
        target=Array.of(np.zeros(n_trees) if vector else np.arange(n_trees) % n_outputs, "int32"),
        start=Array.of(rng.standard_normal(n_outputs), accumulate),
        strict=strict,
        n_features=n_features,
        leaf_id=Array(rng.permutation(n_leaves).astype(np.int32)),
        tables=_tables(rng, feature < n_categorical) if (feature < n_categorical).any() else None,
    )


def categorical(n_codes: int = 40, n_categorical: int = 2, repeat: int = 3) -> Forest:
    """Trees of which several tests ask for one set, of codes up to a number."""
    rng = np.random.default_rng(n_codes)
    forest = random_forest(rng, n_trees=25, n_features=3, max_depth=5, n_categorical=n_categorical)
    listed = np.flatnonzero(forest.on_category)
    sizes, bits = (
        rng.integers(1, n_codes, len(listed) // repeat),
        rng.random(n_codes * len(listed)) < 0.3,
    )
    own = rng.integers(0, len(sizes), len(listed))
    goes_left = np.concatenate(
        [bits[:size] if i % 2 else bits[-size:] for i, size in enumerate(sizes[own])]
    )
    of_test = np.full(forest.n_tests, -1)
    of_test[listed] = np.arange(len(listed))
    start = np.cumsum(np.append(0, sizes[own]))
    return replace(
        forest,
        tables=CategoryTables(
            Array.of(of_test, "int32"), Array.of(start, "int32"), Array(goes_left)
        ),
    )


def chain_forest(length: int) -> Forest:
    """A tree in which each test has a leaf on its left, and the next test on its right."""
    tests = np.arange(length)
    right = np.append(tests[1:], ~np.int64(length))
    leaves = np.arange(length + 1)
    return Forest(
        feature=Array.of(tests % 4, "int32"),
        threshold=Array(tests / length),
        default_left=Array(np.zeros(length, bool)),
        left=Array.of(~tests, "int32"),
        right=Array.of(right, "int32"),
        roots=Array.of([0], "int32"),
        first_leaf=Array.of([0, length + 1], "int32"),
        values=Array(leaves[:, None] / 2),
        target=Array.of([0], "int32"),
        leaf_id=Array.of(leaves, "int32"),
        start=Array([0.0]),
        strict=False,
        n_features=4,
    )


def random_symmetric_forest(
    rng: np.random.Generator,
    depths: Sequence[int],
    n_features: int = 4,
    n_outputs: int = 1,
    *,
    vector: bool = False,
    n_categorical: int = 0,
) -> Forest:
    """Grow trees of which a level has one test; their tests are numbered level by level.

    Parameters
    ----------
    depths : sequence of int
        Of each tree.
    n_outputs, vector, n_categorical
        As of ``random_forest``.
    """
    depth = np.asarray(depths)
    sizes = 2**depth
    first_test, first_leaf, first_level = (
        np.concatenate([[0], np.cumsum(counts)]) for counts in (sizes - 1, sizes, depth)
    )
    nodes = [np.arange(size - 1) for size in sizes]
    left = np.concatenate(
        [
            np.where(2 * own + 1 < len(own), 2 * own + 1 + test, ~(2 * own + 1 - len(own) + leaf))
            for own, test, leaf in zip(nodes, first_test, first_leaf, strict=False)
        ]
    )
    level = np.concatenate(
        [first + np.frexp(own + 1.0)[1] - 1 for own, first in zip(nodes, first_level, strict=False)]
    ).astype(np.int64)
    feature = rng.integers(0, n_features, first_level[-1], dtype=np.int32)
    listed = feature < n_categorical
    tables = _tables(rng, listed) if listed.any() else None
    return Forest(
        feature=Array(feature[level]),
        threshold=Array(rng.standard_normal(first_level[-1])[level]),
        default_left=Array((rng.random(first_level[-1]) < 0.5)[level]),
        left=Array.of(left, "int32"),
        right=Array.of(np.where(left >= 0, left + 1, left - 1), "int32"),
        roots=Array.of(np.where(depth > 0, first_test[:-1], ~first_leaf[:-1]), "int32"),
        first_leaf=Array.of(first_leaf, "int32"),
        values=Array(rng.standard_normal((first_leaf[-1], n_outputs if vector else 1))),
        target=Array.of(
            np.zeros(len(depth)) if vector else np.arange(len(depth)) % n_outputs, "int32"
        ),
        start=Array(rng.standard_normal(n_outputs)),
        strict=False,
        n_features=n_features,
        leaf_id=Array.of(np.arange(first_leaf[-1]), "int32"),
        tables=tables and replace(tables, of_test=Array(tables.of_test.data[level])),
    )


def with_random_slopes(forest: Forest, rng: np.random.Generator, most: int = 3) -> Forest:
    """Return the forest, of scalar leaves, with linear models of up to so many terms in its
    leaves.
    """
    counts = rng.integers(0, most + 1, forest.n_leaves)
    start = Array.of(np.concatenate([[0], np.cumsum(counts)]), "int32")
    feature = Array.of(rng.integers(0, forest.n_features, start.data[-1]), "int32")
    numbers = [
        Array.of(rng.standard_normal(size), forest.accumulate)
        for size in (forest.n_leaves, start.data[-1])
    ]
    return replace(forest, slopes=Slopes(numbers[0], start, feature, numbers[1]))


def with_random_shares(
    forest: Forest, rng: np.random.Generator, n_features: int | None = None
) -> CoveredForest:
    """Return the forest with shares of training rows, some of them zero.

    With ``n_features`` the columns are of so many features, several of one.
    """
    left = rng.random(forest.n_tests).round(2)
    left[rng.random(forest.n_tests) < 0.1] = 0.0
    owner = np.arange(max(forest.n_features, 1))
    if n_features is not None:
        owner = rng.integers(0, n_features, len(owner))
    return CoveredForest(
        forest,
        Array(left),
        Array(1 - left),
        Array.of(owner[forest.feature.data], "int32"),
        forest.n_features if n_features is None else n_features,
        Array.of(rng.standard_normal(forest.n_outputs), "float64"),
    )


def _tables(rng: np.random.Generator, listed: npt.NDArray[np.bool_]) -> CategoryTables:
    """Tables of one to 40 entries, a table for each test."""
    sizes = rng.integers(1, 41, int(listed.sum()))
    start = np.concatenate([[0], np.cumsum(sizes)])
    return CategoryTables(
        Array.of(np.where(listed, np.cumsum(listed) - 1, -1), "int32"),
        Array.of(start, "int32"),
        Array(rng.random(start[-1]) < 0.5),
    )


def hostile_rows(
    rng: np.random.Generator, forest: Forest, dtype: str = "float64", n: int = 64
) -> npt.NDArray[Any]:
    """Rows of the forest's own thresholds and their neighbours, NaN, infinities, zeros,
    denormals and ordinary values.
    """
    low, high = np.array(-np.inf, dtype), np.array(np.inf, dtype)
    with np.errstate(over="ignore"):
        thresholds = forest.threshold.data.astype(dtype)
        around = [thresholds, np.nextafter(thresholds, low), np.nextafter(thresholds, high)]
    smallest = np.finfo(dtype).smallest_subnormal
    special = np.array(
        [0.0, -0.0, np.nan, np.inf, -np.inf, np.finfo(dtype).tiny, smallest, -smallest], dtype
    )
    pool = np.concatenate([*around, np.tile(special, 1 + len(thresholds) // 8)])
    rows = rng.standard_normal((n, forest.n_features)).astype(dtype)
    hostile = rng.random(rows.shape) < 0.7
    rows[hostile] = rng.choice(pool, int(hostile.sum()))
    for feature in np.unique(forest.feature.data[forest.on_category]):
        rows[:, feature] = rng.choice([0, 1, 2, 3, 10, 39, 40, 41, 2**24, *range(40)], n)
    return rows


@st.composite
def forests(draw: st.DrawFn, max_trees: int = 6, max_depth: int = 6) -> Forest:
    """Any forest: no trees, no features, single leaves, deep and skinny, scalar or vector
    leaves.
    """
    n_outputs = draw(st.integers(1, 3))
    return random_forest(
        np.random.default_rng(draw(st.integers(0, 2**32 - 1))),
        n_trees=draw(st.integers(0, max_trees)),
        n_features=draw(st.integers(0, 5)),
        max_depth=draw(st.integers(0, max_depth)),
        n_outputs=n_outputs,
        vector=n_outputs > 1 and draw(st.booleans()),
        strict=draw(st.booleans()),
        dtype=draw(st.sampled_from(["float32", "float64"])),
        accumulate=draw(st.sampled_from(["float32", "float64"])),
        missing=draw(st.sampled_from(["left", "right", "mixed"])),
        n_categorical=draw(st.sampled_from([0, 0, 1, 3])),
    )


def _thresholds(rng: np.random.Generator, n: int, dtype: str, awkward: float) -> npt.NDArray[Any]:
    with np.errstate(over="ignore"):
        ordinary, traps = (
            rng.standard_normal(max(n // 2, 1)).astype(dtype),
            np.array(AWKWARD).astype(dtype),
        )
    return np.where(rng.random(n) < awkward, rng.choice(traps, n), rng.choice(ordinary, n))


def _grow(rng: np.random.Generator, max_depth: int) -> Tree | None:
    """Return nested pairs of children; a leaf is None."""
    kind = rng.choice(["leaf", "full", "ragged", "ragged", "one-sided"])
    if kind == "full":
        return _split(rng, min(max_depth, 6), 1.0)
    if kind == "ragged":
        return _split(rng, max_depth, 0.6)
    tree: Tree | None = None
    for _ in range(max_depth if kind == "one-sided" else 0):
        tree = (tree, None) if rng.random() < 0.5 else (None, tree)
    return tree


def known_value(covered: Any, row: Any, known: Any, child: int, values: Any) -> Any:
    """Value of a branch where some features are known: both sides of others, by their shares."""
    forest = covered.forest
    if child < 0:
        return values[~child]
    column = forest.feature[child]
    left, right = (
        known_value(covered, row, known, side[child], values)
        for side in (forest.left, forest.right)
    )
    if covered.feature[child] in known:
        return left if forest.decide(np.array([child]), row[[column]])[0] else right
    return covered.left_share[child] * left + covered.right_share[child] * right


def _split(rng: np.random.Generator, depth: int, chance: float) -> Tree | None:
    if depth == 0 or rng.random() >= chance:
        return None
    return (_split(rng, depth - 1, chance), _split(rng, depth - 1, chance))


def _flatten(shapes: list[Tree | None]) -> tuple[list[int], list[int], list[int], list[int]]:
    """Number tests in the order they are met from the root, leaves from left to right."""
    left: list[int] = []
    right: list[int] = []
    first_leaf = [0]

    def visit(tree: Tree | None) -> int:
        if tree is None:
            first_leaf[-1] += 1
            return ~(first_leaf[-1] - 1)
        test = len(left)
        left.append(0)
        right.append(0)
        left[test] = visit(tree[0])
        right[test] = visit(tree[1])
        return test

    roots = []
    for tree in shapes:
        first_leaf.append(first_leaf[-1])
        roots.append(visit(tree))
    return left, right, roots, first_leaf
