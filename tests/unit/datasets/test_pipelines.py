"""The pipelines that measure and judge the optimizer."""

import numpy as np
import pandas as pd
import pytest

from hbconv_datasets.pipelines import PIPELINES, STRESS

CASES = (*PIPELINES, *STRESS)


def test_the_34_are_numbered_in_order():
    assert [case.name[:2] for case in PIPELINES] == [f"{number:02}" for number in range(1, 35)]


def test_names_are_unique():
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_tables_repeat_and_new_rows_are_others(case):
    first, again, other = case.draw(50, 0), case.draw(50, 0), case.draw(50, 1)
    for one, same, new in zip(first, again, other, strict=True):
        assert pd.DataFrame(one).equals(pd.DataFrame(same))
        assert not pd.DataFrame(one).equals(pd.DataFrame(new))


@pytest.mark.parametrize("number", [1, 19, 24, 33])
def test_size_is_a_parameter(number):
    case = PIPELINES[number - 1]
    small, larger = (case.fitted(300, trees) for trees in (2, 40))
    assert _trees(larger.model) > _trees(small.model)


def _trees(model):
    import hbconv
    from hbconv.containers import TreeEnsemble

    graph = hbconv.convert(model, backend="reference").parsed
    return sum(n.forest.n_trees for n in graph.nodes() if isinstance(n, TreeEnsemble))


def test_missing_values_stand_where_they_are_said_to():
    holes = {case.name: pd.DataFrame(case.draw(400, 0)[0]).isna().to_numpy() for case in CASES}
    assert holes["01 impute+scale+LightGBM"].any(axis=0).all()
    assert not holes["10 scale+PCA+logistic"].any()
    assert np.flatnonzero(~holes["15 three branches"].any(axis=0)).tolist() == [*range(12, 20)]
