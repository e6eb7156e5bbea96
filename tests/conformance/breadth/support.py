"""What is known of the support of each estimator: how each backend runs each method, and
whether its answers are right.
"""

from __future__ import annotations

import warnings
from functools import cache

from breadth.subjects import classes
from breadth.sweep import QUICK, answers, changes, public, refusal
from matrix.case import Case, as_dtype, fitted
from matrix.compare import compare
from matrix.estimators import CaseName, first_names
from sources import methods

import hbconv
from hbconv.backends import find_backend
from hbconv.cli.support import BACKENDS, support_data
from hbconv.errors import BackendError, UnsupportedError
from hbconv.model import Model
from hbconv.parse.registry import UNPREDICTIVE

__all__ = ["estimators", "refusals", "right", "statuses"]

ROWS = (40, 1)


def estimators() -> dict[str, CaseName | str]:
    """Every estimator by public name: how to ask it, or why it is not converted."""
    cases: dict[str, CaseName | str] = {first.estimator: first for first in first_names()}
    known = {name.rpartition(".")[2] for name in (*cases, *UNPREDICTIVE)}
    missing = {
        _public(cls): "not yet: it has no parser"
        for name, cls in classes().items()
        if name not in known
    }
    return dict(
        sorted(
            (
                cases | {name: f"cannot: {why}" for name, why in UNPREDICTIVE.items()} | missing
            ).items()
        )
    )


def _public(cls: type) -> str:
    """Dotted name without private modules."""
    return ".".join(
        [part for part in cls.__module__.split(".") if not part.startswith("_")] + [cls.__name__]
    )


def statuses(case: Case) -> dict[str, list[str] | str]:
    """How each backend runs each method; why not, for a method of the source that no backend
    has.
    """
    models = [_with_kernel(case, backend) for backend in BACKENDS]
    known = {method: [_status(model, method) for model in models] for method in models[0].methods}
    return known | {
        method: "cannot: the source draws at random in each call"
        for method in fitted_methods(case)
        if method not in known
    }


def fitted_methods(case: Case) -> tuple[str, ...]:
    """Methods of the source, also those that the matrix leaves out because no two calls answer
    alike.
    """
    return (
        methods(fitted(case))
        if case.methods and case.estimator.startswith("sklearn.")
        else case.names
    )


def _model(case: Case, backend: str) -> Model:
    return hbconv.convert(fitted(case), backend=backend)


def _with_kernel(case: Case, backend: str) -> Model:
    """Take the strategy that most backends have a kernel for, where it may be used.

    Which strategy is the cheapest follows from prices, and is no matter of support. A backend that
    cannot run the model is asked all the same.
    """
    try:
        return hbconv.convert(fitted(case), backend=backend, strategy="select")
    except BackendError:
        return _model(case, "reference").for_target(backend=backend)


def _status(model: Model, method: str) -> str:
    lowered = model.programs.lowered((method,), model.dtypes)
    return find_backend(model.backend).status(lowered.program, model.target)


@cache
def right(case: Case) -> list[str]:
    """Backends that answer as the source does, in every method and all dtypes that it takes.

    Backends that compile slowly are not asked for a case whose programs are another's but for
    their constants.
    """
    quick = [backend for backend in BACKENDS if backend in QUICK and _is_right(case, backend)]
    other = next((c for c in first_names() if c.estimator.rpartition(".")[2] == case.same_as), None)
    slow = (
        [b for b in right(other.made()) if b not in QUICK]
        if other
        else [b for b in BACKENDS if b not in QUICK and _is_right(case, b)]
    )
    return [*quick, *slow]


def _is_right(case: Case, backend: str) -> bool:
    try:
        model = _model(case, backend)
        for dtype in case.dtypes:
            for n in ROWS:
                x = case.rows(n)
                x = as_dtype(x, dtype) if hasattr(x, "dtype") or hasattr(x, "columns") else x
                for method, got in answers(model, x).items():
                    compare(case, method, x, got)
    except (UnsupportedError, BackendError):
        return False
    return True


def refusals(name: str) -> dict[str, str]:
    """Values of single parameters that hbconv refuses, each with the reason or the way out.

    Where the source does not fit a value on this processor (Isomap of rows that are all equally
    far has equal eigenvalues, which LAPACK may not find), the table keeps what another one found.
    """
    known = support_data().get(public(name), {}).get("refused", {})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of deprecated classes
        found = {change.what: refusal(change) for change in changes(name) if change.parameters}
    asked = {what: known.get(what, "") if why is None else why for what, why in found.items()}
    return {what: why for what, why in asked.items() if why}
