"""Results of statsmodels' models, on arrays and on frames."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pandas as pd
import statsmodels.api as sm
from matrix.case import Case
from matrix.data import WIDTH, fit_rows, target
from matrix.fitting import MODERATE

_FAMILIES = sm.families
_LINKS = sm.families.links


def _fit(model: Any, y: str, **options: Any) -> Callable[[], Any]:
    return lambda: model(target(y), fit_rows()).fit(**options)


def _glm(y: str, family: Any) -> Callable[[], Any]:
    return lambda: sm.GLM(target(y), fit_rows() / 30, family=family).fit(maxiter=5)


def _frame(n: int) -> pd.DataFrame:
    return pd.DataFrame(MODERATE(n), columns=[f"c{i}" for i in range(WIDTH)])


def results() -> Iterator[Case]:
    """Each kind of model, and the links of generalized ones."""
    case = partial(Case, "statsmodels.base.wrapper.ResultsWrapper", rows=MODERATE)
    named = pd.DataFrame(fit_rows(), columns=[f"c{i}" for i in range(WIDTH)])
    for model in (sm.OLS, sm.WLS, sm.GLS, sm.RLM, sm.QuantReg):
        yield case(model.__name__, _fit(model, "value"))
    yield case("OLS of a frame", lambda: sm.OLS(target("value"), named).fit(), rows=_frame)
    quiet = {"disp": 0, "maxiter": 3, "warn_convergence": False}
    for model, y in ((sm.Logit, "flag"), (sm.MNLogit, "three"), (sm.Poisson, "count")):
        yield case(model.__name__, _fit(model, y, **quiet), rows=partial(MODERATE, large=3.0))
    binomial = _FAMILIES.Binomial
    for link in (_LINKS.Logit, _LINKS.CLogLog, _LINKS.LogLog):
        yield case(f"GLM, {link.__name__}", _glm("flag", binomial(link())))
    yield case("GLM, Log", _glm("count", _FAMILIES.Poisson()))
    yield case("GLM, Identity", _glm("value", _FAMILIES.Gaussian()))
    yield case("GLM, Sqrt", _glm("count", _FAMILIES.Poisson(_LINKS.Sqrt())))
    yield case("GLM, InversePower", _glm("positive", _FAMILIES.Gamma(_LINKS.InversePower())))


CASES = (*results(),)
