"""Estimators that answer no new row on its own are refused with that reason."""

import warnings

import numpy as np
import pytest
from breadth.subjects import classes
from sklearn.cluster import DBSCAN

import hbconv
from hbconv.errors import UnsupportedError
from hbconv.parse.registry import UNPREDICTIVE

X = np.random.default_rng(0).normal(size=(20, 4))


OURS = sorted(name for name in UNPREDICTIVE if name.startswith("sklearn."))
"""Those of scikit-learn; ``tests/unit/parse/test_sklego.py`` has the others."""


@pytest.mark.parametrize("name", OURS)
def test_refused_with_the_reason(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator = classes()[name.rpartition(".")[2]]()
    with pytest.raises(UnsupportedError) as refusal:
        hbconv.convert(estimator, backend="reference")
    assert UNPREDICTIVE[name] in str(refusal.value)


def test_a_subclass_is_refused_too():
    class Scanner(DBSCAN):
        """A user's own."""

    with pytest.raises(
        UnsupportedError, match=r"Scanner is not supported\. It predicts no new row on its own"
    ):
        hbconv.convert(Scanner().fit(X), backend="reference")
