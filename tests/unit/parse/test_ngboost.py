"""ngboost: what is refused by name."""

from __future__ import annotations

import numpy as np
import pytest
from late import late
from sklearn.linear_model import Ridge

import hbconv
from hbconv.errors import NotFittedError, UnsupportedError

ngboost = late("ngboost")

ROWS = np.random.default_rng(0).normal(size=(40, 3))
SMALL = {"n_estimators": 2, "verbose": False, "random_state": 0}


def test_refuses_a_distribution_without_a_mean_here() -> None:
    """The mean of a distribution is a formula of its own."""
    model = ngboost.NGBRegressor(Dist=ngboost.distns.Cauchy, **SMALL).fit(ROWS, ROWS[:, 0])
    with pytest.raises(UnsupportedError, match="Dist='Cauchy'"):
        hbconv.convert(model, "reference")


def test_refuses_a_distribution_of_the_user_that_has_a_known_name() -> None:
    """A distribution is known by its class, not by the name of one."""

    class Normal(ngboost.distns.Normal):
        def predict(self) -> np.ndarray:
            return self.loc + 100

    model = ngboost.NGBRegressor(Dist=Normal, **SMALL).fit(ROWS, ROWS[:, 0])
    with pytest.raises(UnsupportedError, match=r"Dist='.*\.Normal'"):
        hbconv.convert(model, "reference")


def test_refuses_members_that_are_no_trees() -> None:
    """Stages of linear models are not read."""
    model = ngboost.NGBRegressor(Base=Ridge(), **SMALL).fit(ROWS, ROWS[:, 0])
    with pytest.raises(UnsupportedError, match="handles scikit-learn's trees"):
        hbconv.convert(model, "reference")


def test_says_what_is_not_fitted() -> None:
    """Before fitting there are no parameters."""
    with pytest.raises(NotFittedError, match="NGBRegressor"):
        hbconv.convert(ngboost.NGBRegressor(), "reference")
