"""Results of statsmodels that are refused by name."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf

import hbconv
from hbconv.errors import UnsupportedError

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
