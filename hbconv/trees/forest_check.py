"""Check that arrays from elsewhere are a forest, so that loops and kernels need no checks."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.trees.forest import CategoryTables, Forest, Slopes

__all__ = ["ForestError", "check_fields", "check_forest", "follow_links"]

Ints = npt.NDArray[np.int64]

FLOATS = ("float32", "float64")


class ForestError(ValueError):
    """The arrays are no forest; the sentence says which array, and why."""


def check_forest(forest: Forest) -> Forest:
    """Return the forest if its arrays fit together.

    Afterwards every array has its dtype and length, and each test is reached once, from one root.
    Leaves are contiguous, left to right, tree after tree. Features, targets, tables and terms
    of linear leaves are in range. The time grows with the size alone, not with the depth.

    Raises
    ------
    ForestError
        With one sentence.
    """
    check_fields(forest)
    _check_trees(forest)
    return forest


def check_fields(forest: Forest) -> Forest:
    """Return a forest whose links are trees, if its other arrays fit them.

    Raises
    ------
    ForestError
        With one sentence.
    """
    _check_arrays(forest)
    _check_ranges(forest)
    if forest.tables is not None:
        _check_tables(forest.tables, forest)
    if forest.slopes is not None:
        _check_slopes(forest.slopes, forest)
    return forest


def _check_arrays(forest: Forest) -> None:
    """Dtypes, dimensions and lengths."""
    _require(type(forest.strict) is bool, "strict is not a bool")
    _require(type(forest.n_features) is int and forest.n_features >= 0, "n_features is not a count")
    tests = _length(forest.feature, "feature", "int32")
    trees = _length(forest.roots, "roots", "int32")
    outputs = _length(forest.start, "start", *FLOATS)
    leaves = _length(forest.leaf_id, "leaf_id", "int32")
    _require(outputs > 0, "start holds no output")
    _of_length(tests, {"left": forest.left, "right": forest.right}, "int32")
    _of_length(tests, {"threshold": forest.threshold}, *FLOATS)
    _of_length(tests, {"default_left": forest.default_left}, "bool")
    _of_length(trees, {"target": forest.target}, "int32")
    _of_length(trees + 1, {"first_leaf": forest.first_leaf}, "int32")
    _require(
        isinstance(forest.values, Array) and forest.values.dtype == forest.start.dtype,
        "values has another dtype than start",
    )
    _require(
        forest.values.shape in ((leaves, 1), (leaves, outputs)),
        f"values has shape {forest.values.shape}",
    )


def _check_ranges(forest: Forest) -> None:
    """Look at what each test reads, and what each tree adds to."""
    _require(
        _within(forest.feature, 0, forest.n_features),
        f"a test reads a feature that does not exist (there are {forest.n_features})",
    )
    outputs = forest.n_outputs if forest.values.shape[1] == 1 else 1
    _require(
        _within(forest.target, 0, outputs),
        f"a tree adds to an output that does not exist (there are {forest.n_outputs})",
    )


def _check_trees(forest: Forest) -> None:
    """Check that children lead to the leaves in their order.

    The leaves are in order if one condition holds at each test: the first leaf on the right
    follows the last one on the left.
    """
    left, right, roots = (
        a.data.astype(np.int64) for a in (forest.left, forest.right, forest.roots)
    )
    children = np.concatenate([left, right, roots])
    # First of all: a child out of range would raise IndexError below, or wrap around if negative.
    _require(_within(children, -forest.n_leaves, forest.n_tests), "a child does not exist")
    reached = np.bincount(children[children >= 0], minlength=forest.n_tests)
    # Reached once each, and no cycle: that makes trees.
    _require(bool((reached == 1).all()), "a test is reached more than once, or never")
    follow_links(_parents(left, right))

    first = ~follow_links(left)
    last = ~follow_links(right)
    leaf_after_left = _leaves(left, last) + 1
    _require(
        np.array_equal(leaf_after_left, _leaves(right, first)),
        "the leaves of a tree are not numbered left to right",
    )
    starts = _leaves(roots, first)
    ends = _leaves(roots, last) + 1
    bounds = forest.first_leaf.data
    _require(
        np.array_equal(bounds[:-1], starts) and np.array_equal(bounds[1:], ends),
        "first_leaf is not where the trees' leaves begin",
    )
    _require(bounds[0] == 0 and bounds[-1] == forest.n_leaves, "some leaves belong to no tree")


def _parents(left: Ints, right: Ints) -> Ints:
    """Test above each test, or negative at a root."""
    parents = np.full(len(left), -1, np.int64)
    for children in (left, right):
        inner = np.flatnonzero(children >= 0)
        parents[children[inner]] = inner
    return parents


def follow_links(links: Ints) -> Ints:
    """Follow each test's link to the negative number that it ends at.

    Links grow twice as long each turn, so that a cycle shows after a few turns.
    """
    for _ in range(len(links).bit_length() + 1):
        going = np.flatnonzero(links >= 0)
        if not len(going):
            return links
        links = links.copy()
        links[going] = links[links[going]]
    raise ForestError("The forest cannot be used: some tests form a cycle.")


def _leaves(children: Ints, of_tests: Ints) -> Ints:
    """Leaf of each child: its own number, or what the test that it is has."""
    leaves = ~children
    inner = np.flatnonzero(children >= 0)
    leaves[inner] = of_tests[children[inner]]
    return leaves


def _check_tables(tables: CategoryTables, forest: Forest) -> None:
    _of_length(forest.n_tests, {"tables.of_test": tables.of_test}, "int32")
    entries = _length(tables.goes_left, "tables.goes_left", "bool")
    _check_offsets(tables.start, entries, "tables.start")
    _require(bool((np.diff(tables.start.data) > 0).all()), "a table is empty")
    _require(
        _within(tables.of_test, -1, tables.count),
        f"a test has a table that does not exist (there are {tables.count})",
    )
    listed = forest.on_category
    read = tables.features(forest)[tables.of_test.data[listed]]
    _require(
        np.array_equal(read, forest.feature.data[listed]), "tests of several features share a table"
    )


def _check_slopes(slopes: Slopes, forest: Forest) -> None:
    _require(forest.values.shape[1] == 1, "linear leaves are vectors")
    _of_length(forest.n_leaves, {"slopes.constant": slopes.constant}, forest.accumulate)
    terms = _length(slopes.feature, "slopes.feature", "int32")
    _of_length(terms, {"slopes.coefficient": slopes.coefficient}, forest.accumulate)
    _of_length(forest.n_leaves + 1, {"slopes.start": slopes.start}, "int32")
    _check_offsets(slopes.start, terms, "slopes.start")
    _require(
        _within(slopes.feature, 0, forest.n_features),
        f"a linear leaf reads a feature that does not exist (there are {forest.n_features})",
    )


def _check_offsets(start: Array, entries: int, name: str) -> None:
    """From 0 to the number of entries, never falling."""
    _require(_length(start, name, "int32") > 0, f"{name} is empty")
    _require(
        start.data[0] == 0 and start.data[-1] == entries,
        f"{name} does not cover its {entries} entries",
    )
    # In int32 the difference of hostile offsets could wrap around to a positive one.
    _require(bool((np.diff(start.data.astype(np.int64)) >= 0).all()), f"{name} falls")


def _of_length(length: int, arrays: dict[str, Array], *dtypes: str) -> None:
    for name, array in arrays.items():
        actual = _length(array, name, *dtypes)
        _require(actual == length, f"{name} has {actual} entries, not {length}")


def _length(array: Array, name: str, *dtypes: str) -> int:
    _require(
        isinstance(array, Array) and len(array.shape) == 1,
        f"{name} is not an array of one dimension",
    )
    _require(array.dtype in dtypes, f"{name} is {array.dtype}, not {' or '.join(dtypes)}")
    return len(array)


def _within(numbers: Any, low: int, high: int) -> bool:
    """Whether all are at least low and below high."""
    values = np.asarray(numbers)
    return not values.size or bool(values.min() >= low and values.max() < high)


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise ForestError(f"The forest cannot be used: {what}.")
