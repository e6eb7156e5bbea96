"""The 34 pipelines and those at the ends, on every backend: answers are the source's.

Before trees no row may reach another leaf; elsewhere answers are within the tolerance of products.
"""

from functools import cache

import pandas as pd
import pytest
from optimizer.hurting import hurting_rows
from optimizer.judge import BACKENDS, assert_same_rows

from hbconv_datasets.pipelines import PIPELINES, STRESS

CASES = {case.name: case for case in (*PIPELINES, *STRESS)}
FIT_ROWS, TREES, ROWS = 400, 4, 300
TREE_WORDS = ("LightGBM", "HGB", "+RF", "XGBoost", "three branches", "one versus", "bagged trees")
MIXED = ("19 voting of 5", "20 calibrated LightGBM", "21 stacking of 3")
"""Leaves beside products, or products and powers of sums of leaves."""


def kind_of(name):
    if "XGBoost" in name:
        return "float32 inside"
    projected = "PCA" in name or name in MIXED
    return "trees" if any(word in name for word in TREE_WORDS) and not projected else "linear"


@cache
def fitted(name):
    return CASES[name].fitted(FIT_ROWS, TREES)


@cache
def rows_for(name):
    plain = fitted(name).rows(ROWS)
    complete = pd.DataFrame(plain).notna().all()
    missing = not complete[[c for c in complete.index if not str(c).startswith("c")]].any()
    return hurting_rows(fitted(name).model, plain, ROWS, missing=missing, most=20)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.share("light")
def test_answers_are_the_sources(name, backend):
    found = fitted(name)
    assert_same_rows(found.model, found.method, backend, rows_for(name), kind_of(name))
