"""Contributions and interactions of the tile compiler, against the definitions, in vectors of
every width.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from forests import hostile_rows, random_forest, with_random_shares

from hbconv.backends.tvm import BACKEND
from hbconv.backends.tvm.compile import compile_program
from hbconv.backends.tvm.machine.machine import Machine
from hbconv.backends.tvm.machine.schedule import FEW
from hbconv.target import Target
from hbconv.tensor import Builder
from hbconv.trees.covered_forest import find_pairs, pair_sums

pytestmark = [pytest.mark.usefixtures("vector"), pytest.mark.share("vector")]


def check(covered, dtype, rows=(0, 1, 33, 300)):
    """Compare with the definitions, also in tiles of few rows."""
    told = {"tree_contributions": covered.contributions}
    if len(find_pairs(covered).first):
        told["tree_interactions"] = partial(pair_sums, covered)
    b = Builder()
    x = b.input("x", dtype, covered.forest.n_features)
    program = b.program({name: b.op(name, x, covered=covered) for name in told})
    target = Target("tvm")
    few = compile_program(program, FEW, Machine.host(), target)
    rng = np.random.default_rng(0)
    for n in rows:
        given = {"x": hostile_rows(rng, covered.forest, dtype, n)}
        for artifact in (BACKEND.compile(program, target), few):
            found = artifact.run(given)
            for name, define in told.items():
                want = define(given["x"])
                assert (found[name].shape, found[name].dtype) == (want.shape, want.dtype)
                np.testing.assert_allclose(found[name], want, rtol=0, atol=1e-11)


@pytest.mark.parametrize("seed", range(4))
def test_random_forests(seed):
    rng = np.random.default_rng(seed)
    forest = random_forest(
        rng,
        n_trees=int(rng.integers(1, 9)),
        n_features=int(rng.integers(2, 7)),
        max_depth=int(rng.integers(2, 9)),
        n_outputs=1 + seed % 3,
        vector=seed == 2,
        strict=seed % 2 == 0,
        missing=("mixed", "left", "right")[seed % 3],
        n_categorical=seed,
    )
    covered = with_random_shares(forest, rng, n_features=3 if seed == 3 else None)
    check(covered, ("float32", "float64")[seed % 2])


@pytest.mark.parametrize("kinds", [{"n_trees": 0}, {"max_depth": 0}, {"max_depth": 1}])
def test_forests_of_nearly_nothing(kinds):
    rng = np.random.default_rng(1)
    check(with_random_shares(random_forest(rng, **kinds), rng), "float32")


def test_deep_trees_of_many_features():
    rng = np.random.default_rng(2)
    forest = random_forest(rng, 4, n_features=40, max_depth=30)
    check(with_random_shares(forest, rng), "float64", rows=(70,))
