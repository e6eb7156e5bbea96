"""check_forest takes every forest that is one, and names what is wrong with every other."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from forests import forests, random_forest, with_random_slopes
from hypothesis import given
from pairwise import failing

from hbconv.array import Array
from hbconv.trees.forest import Forest
from hbconv.trees.forest_check import ForestError, check_forest

RNG = np.random.default_rng(0)
PLAIN = random_forest(RNG, n_trees=4, max_depth=4, n_outputs=2)
VECTOR = random_forest(RNG, n_trees=4, max_depth=4, n_outputs=3, vector=True)
LISTED = random_forest(RNG, n_trees=6, max_depth=4, n_categorical=2)
LINEAR = with_random_slopes(random_forest(RNG, n_trees=4, max_depth=4), RNG)
KINDS = {"plain": PLAIN, "vector": VECTOR, "listed": LISTED, "linear": LINEAR}


def changed(forest: Forest, path: str, value: object, at: object = ...) -> Forest:
    """Return the forest with an array (``"tables.start"``: of its tables) written over at some
    places.
    """
    part, _, name = path.rpartition(".")
    owner = getattr(forest, part) if part else forest
    data = getattr(owner, name).data.copy()
    data[at] = value
    made = replace(owner, **{name: Array(data)})
    return replace(forest, **{part: made}) if part else made


@given(forests())
def test_every_forest_passes(forest):
    assert check_forest(forest) is forest


def assert_passes(kind):
    assert check_forest(KINDS[kind]) is KINDS[kind]


def test_every_kind_passes():
    assert failing(assert_passes, [(kind,) for kind in KINDS]) == {}


ARRAYS = (
    "feature",
    "threshold",
    "default_left",
    "left",
    "right",
    "roots",
    "first_leaf",
    "values",
    "target",
    "leaf_id",
)


def assert_refused_otherwise(kind, name):
    """Assert that an array of another length, shape, dtype or class is refused."""
    forest = KINDS[kind]
    array = getattr(forest, name)
    wrong = [
        array[:-1],
        np.concatenate([array.data, array.data[:1]]),
        array.data[:, None],
        *(np.zeros(array.shape, d) for d in ("float16", "complex64")),
    ]
    for data in wrong:
        with pytest.raises(ForestError):
            check_forest(replace(forest, **{name: Array(data)}))
    for value in (None, 3, "text", (1, 2)):
        with pytest.raises(ForestError):
            check_forest(replace(forest, **{name: value}))


def test_each_array_has_its_dtype_and_length():
    assert failing(assert_refused_otherwise, product(KINDS, ARRAYS)) == {}


OUT_OF_RANGE = [
    ("plain", "roots", 10**6, "does not exist"),
    ("plain", "roots", -(10**6), "does not exist"),
    ("plain", "left", -(2**31), "does not exist"),
    ("plain", "right", 2**31 - 1, "does not exist"),
    ("plain", "left", 0, "more than once"),
    ("plain", "roots", -1, "never"),
    ("plain", "feature", 4, "feature"),
    ("plain", "feature", -1, "feature"),
    ("plain", "target", 2, "output"),
    ("plain", "target", -1, "output"),
    ("vector", "target", 1, "output"),
    ("plain", "first_leaf", 0, "first_leaf"),
    ("listed", "tables.of_test", 10**6, "table"),
    ("listed", "tables.of_test", -2, "table"),
    ("listed", "tables.of_test", 0, "share"),
    ("listed", "tables.start", 0, "cover"),
    ("listed", "tables.start", -1, "cover"),
    ("linear", "slopes.feature", 4, "feature"),
    ("linear", "slopes.feature", -1, "feature"),
    ("linear", "slopes.start", 0, "cover"),
]


def assert_named(kind, path, value, says):
    with pytest.raises(ForestError, match=says):
        check_forest(changed(KINDS[kind], path, value))


def test_what_is_out_of_range_is_named():
    assert failing(assert_named, OUT_OF_RANGE) == {}


def test_what_is_not_refused_is_found(monkeypatch):
    """All of it, where nothing is checked."""
    monkeypatch.setitem(globals(), "check_forest", lambda forest: forest)
    assert len(failing(assert_named, OUT_OF_RANGE)) == len(OUT_OF_RANGE)
    assert len(failing(assert_refused_otherwise, product(KINDS, ARRAYS))) == len(KINDS) * len(
        ARRAYS
    )


def test_offsets_must_not_fall():
    for forest, path in ((LISTED, "tables.start"), (LINEAR, "slopes.start")):
        with pytest.raises(ForestError):
            check_forest(changed(forest, path, 10**6, at=1))


def test_a_test_that_is_its_own_child_is_a_cycle():
    chain = Array.of([0, -1], "int32"), Array.of([-2, 1], "int32")
    with pytest.raises(ForestError, match=r"more than once|cycle"):
        check_forest(replace(two_tests(), left=chain[0], right=chain[1]))


def test_a_cycle_beside_the_roots_is_seen():
    """Each test is reached once, but two of them from each other alone."""
    forest = two_tests()
    left, right = Array.of([1, -1], "int32"), Array.of([-2, 0], "int32")
    with pytest.raises(ForestError, match="cycle"):
        check_forest(replace(forest, left=left, right=right, roots=Array.of([-3], "int32")))


def two_tests() -> Forest:
    """A forest of one tree of two tests."""
    deep = random_forest(np.random.default_rng(1), n_trees=1, n_features=1, max_depth=3)
    two = {
        "feature": [0, 0],
        "left": [1, -1],
        "right": [-3, -2],
        "roots": [0],
        "first_leaf": [0, 3],
        "target": [0],
        "leaf_id": [0, 1, 2],
    }
    arrays = {name: Array.of(data, "int32") for name, data in two.items()}
    forest = replace(
        deep,
        **arrays,
        threshold=Array([0.0, 1.0]),
        default_left=Array([True, False]),
        values=Array(np.zeros((3, 1))),
    )
    return check_forest(forest)


def test_leaves_stand_left_to_right():
    forest = two_tests()
    with pytest.raises(ForestError, match="left to right"):
        check_forest(replace(forest, right=Array.of([-2, -3], "int32")))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("strict", 1),
        ("strict", None),
        ("n_features", 4.0),
        ("n_features", -1),
        ("n_features", True),
    ],
)
def test_plain_fields_have_their_types(name, value):
    with pytest.raises(ForestError, match=name):
        check_forest(replace(PLAIN, **{name: value}))


def test_linear_leaves_are_scalars():
    with pytest.raises(ForestError, match="vectors"):
        check_forest(replace(VECTOR, slopes=with_random_slopes(VECTOR, RNG).slopes))


def assert_walked(kind, seed):
    """Change a number or two of a forest at random: it is refused by name, or every row reaches a
    leaf of each tree.
    """
    rng = np.random.default_rng(seed)
    paths = ["left", "right", "roots", "feature", "first_leaf", "target"]
    paths += [f"tables.{n}" for n in ("of_test", "start")] * (kind == "listed") + [
        f"slopes.{n}" for n in ("start", "feature")
    ] * (kind == "linear")
    forest = KINDS[kind]
    for path in rng.choice(paths, 2):
        part, _, name = path.rpartition(".")
        array = getattr(getattr(forest, part) if part else forest, name)
        forest = (
            changed(forest, path, rng.integers(-9, 30), at=rng.integers(len(array)))
            if len(array)
            else forest
        )
    try:
        check_forest(forest)
    except ForestError:
        return
    rows = np.abs(np.random.default_rng(0).standard_normal((5, forest.n_features)))
    leaves = forest.leaves(rows)
    assert ((leaves >= forest.first_leaf.data[:-1]) & (leaves < forest.first_leaf.data[1:])).all()
    assert forest.scores(rows).shape == (5, forest.n_outputs)
    assert forest.depth <= forest.n_tests


def test_what_passes_can_be_walked():
    assert failing(assert_walked, product(KINDS, range(60))) == {}


def test_a_chain_as_deep_as_it_is_long_takes_no_longer():
    size = 300_000
    ids = np.arange(size)
    arrays = {
        "left": np.where(ids < size - 1, ids + 1, -1),
        "right": -(size - ids) - 1,
        "feature": ids * 0,
        "roots": [0],
        "first_leaf": [0, size + 1],
    }
    arrays |= {"target": [0], "leaf_id": np.arange(size + 1)}
    chain = replace(
        PLAIN,
        **{name: Array.of(data, "int32") for name, data in arrays.items()},
        start=Array([0.0]),
    )
    check_forest(
        replace(
            chain,
            threshold=Array(ids * 1.0),
            default_left=Array(ids < 0),
            values=Array(np.zeros((size + 1, 1))),
        )
    )
