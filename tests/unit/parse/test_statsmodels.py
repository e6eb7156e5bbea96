"""Results of statsmodels that are refused by name."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from late import late

import hbconv
from hbconv.errors import UnsupportedError

sm = late("statsmodels.api")
smf = late("statsmodels.formula.api")

ROWS = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 2)), columns=["a", "b"])
FLAGS = (np.arange(40) % 3 == 0).astype(int)


def test_refuses_formulas() -> None:
    """A formula computes columns, which hbconv does not read."""
    model = smf.ols("y ~ a + np.log(abs(b))", ROWS.assign(y=FLAGS)).fit()
    with pytest.raises(UnsupportedError, match="the design matrix that the formula makes"):
        hbconv.convert(model, "reference")


def test_refuses_models_by_name() -> None:
    """Results of other models share the class of wrappers, yet predict otherwise."""
    model = sm.Probit(FLAGS, ROWS).fit(disp=0)
    with pytest.raises(UnsupportedError, match="model='Probit'"):
        hbconv.convert(model, "reference")


def test_refuses_links_by_name() -> None:
    """A link that hbconv does not have is named."""
    family = sm.families.Binomial(sm.families.links.Cauchy())
    model = sm.GLM(FLAGS, ROWS, family=family).fit()
    with pytest.raises(UnsupportedError, match="link='Cauchy'"):
        hbconv.convert(model, "reference")


def test_refuses_a_link_of_the_user_that_has_a_known_name() -> None:
    """A link is known by its class, not by the name of one."""

    class Log(sm.families.links.Log):
        pass

    model = sm.GLM(FLAGS, ROWS, family=sm.families.Poisson(Log(), check_link=False)).fit()
    with pytest.raises(UnsupportedError, match="link='Log'"):
        hbconv.convert(model, "reference")


@pytest.mark.parametrize("penalties", [[0.0, 9.0], [9.0, 9.0]])
def test_a_parameter_of_zero_keeps_what_is_not_finite(penalties: list[float]) -> None:
    """Zero times NaN or infinity is NaN, as in the product of numpy."""
    model = sm.OLS(FLAGS, ROWS.to_numpy()).fit_regularized(alpha=penalties, L1_wt=1.0)
    assert np.array_equal(model.params == 0, np.array(penalties) > 0)
    rows = np.ones((4, 2))
    rows[:3, 1] = [np.nan, np.inf, -np.inf]
    with np.errstate(invalid="ignore"):
        want = model.predict(rows)
    np.testing.assert_allclose(hbconv.convert(model, "torch").predict(rows), want, rtol=1e-12)
