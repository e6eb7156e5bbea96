"""Ask hbconv whatever a fitted model is asked, and compare the answers.

As a pytest plugin it watches the tests of a project that uses scikit-learn, LightGBM, XGBoost or
CatBoost (docs/testing.md)::

    pytest -p hbconv.testing --hbconv-backend tvm

Elsewhere it watches a block of code, or asks one estimator:

>>> import numpy as np
>>> from sklearn.preprocessing import StandardScaler
>>> from hbconv.testing import asking, assert_same
>>> X = np.arange(6.0).reshape(3, 2)
>>> scaler = StandardScaler().fit(X)
>>> with asking() as report:
...     _ = scaler.transform(X)
>>> report.counts["right"], report.failures
(1, [])
>>> assert_same(scaler, X)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hbconv.testing.judge import Judge
from hbconv.testing.outcomes import Outcome, Outcomes
from hbconv.testing.watch import call_unseen, watching

if TYPE_CHECKING:
    import pytest

__all__ = ["Outcome", "Outcomes", "asking", "assert_same"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the plugin; this module itself needs no pytest."""
    from hbconv.testing.plugin import add_options

    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Begin to watch the run's tests."""
    from hbconv.testing.plugin import Plugin

    config.pluginmanager.register(Plugin(config), "hbconv-asking")


@contextmanager
def asking(*backends: str, limit: float = 60.0) -> Iterator[Outcomes]:
    """Ask hbconv too whatever fitted models are asked in the block.

    Parameters
    ----------
    *backends : str
        Those to ask; by default ``"reference"``.
    limit : float
        Seconds for one conversion and its answer, on platforms with interval timers.

    Yields
    ------
    Outcomes
        It grows with each call. Models answer and raise as without it.
    """
    report = Outcomes()
    judge = Judge(backends or ("reference",), limit)
    with watching(lambda call: report.add(judge.outcomes(call))):
        yield report


def assert_same(
    estimator: Any,
    X: Any,  # noqa: N803
    methods: Iterable[str] | None = None,
    *,
    backend: str = "reference",
) -> None:
    """Assert that hbconv answers as a fitted estimator does, to form, dtype and values.

    Parameters
    ----------
    estimator : object
        Of any class, your own with a parser too.
    X : table or array
        Rows, in a form that the estimator takes.
    methods : iterable of str, optional
        By default all that compute something on rows, and that both have.
    backend : str

    Raises
    ------
    AssertionError
        An answer differs, or hbconv refuses the estimator, a method or the rows; it lists each.
    """
    judge = Judge((backend,))
    named = judge.shared(estimator, X, backend) if methods is None else methods
    outcomes = [o for method in named for o in judge.outcomes(call_unseen(estimator, method, X))]
    if not all(outcome.kind == "right" for outcome in outcomes):
        raise AssertionError("\n".join(str(o) for o in outcomes if o.kind != "right"))
