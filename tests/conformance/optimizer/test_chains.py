"""Transformers before trees: no row reaches another leaf than the source's, on any backend.

By default each chain stands before one library of trees, and float32 rows are asked of backends
that compile in no time. With ``--battery 200 --whole`` it stands before all, and all are asked.
"""

from functools import cache

import numpy as np
import pytest
from optimizer.chains import CHAINS, TREES, chain_rows, fitted_chain, is_imputed, taken_by
from optimizer.hurting import hurting_rows
from optimizer.judge import BACKENDS, FEW, assert_same_rows

ALL = 200
"""``--battery`` from which on everything is asked."""
KINDS = {"XGBoost": "float32 inside"}
ROWS = 300


def pytest_generate_tests(metafunc):
    full = metafunc.config.getoption("--battery") >= ALL
    pairs = [
        (chain, trees)
        for position, chain in enumerate(CHAINS)
        for place, trees in enumerate(TREES)
        if full or place == position % len(TREES)
    ]
    asked = [("float64", b) for b in BACKENDS]
    asked += [("float32", b) for b in (BACKENDS if full else FEW)]
    metafunc.parametrize(("chain", "trees"), pairs)
    metafunc.parametrize(("dtype", "backend"), asked)


@cache
def rows_for(chain, trees):
    """Draw hard rows, and where the source takes NaN the same with every other value missing."""
    missing = is_imputed(chain)
    plain = chain_rows(chain, ROWS, 1)
    hurting = hurting_rows(fitted_chain(chain, trees), plain, ROWS, missing=missing, most=20)
    rows = taken_by(chain, hurting)
    if not missing:
        return rows
    holes = np.arange(rows.size).reshape(rows.shape) % 3 != 0
    return np.concatenate([rows, np.where(holes, np.nan, rows)])


@pytest.mark.share("light")
def test_leaves_are_the_sources(chain, trees, dtype, backend):
    rows = rows_for(chain, trees).astype(dtype)
    kind = KINDS.get(trees, "trees")
    assert_same_rows(fitted_chain(chain, trees), "predict_proba", backend, rows, kind)
