"""Values to try for a constructor parameter: those that scikit-learn's own constraints name,
and hand-made ones for objects and functions.
"""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral
from typing import Any

import numpy as np
from breadth.made import FIT_ONLY, MADE
from sklearn.utils._param_validation import Hidden, Interval, Options, StrOptions

__all__ = ["parameters", "values"]

NUMBERS = {True: (-2, 0, 1, 2, 5), False: (-1.5, 0.0, 0.05, 0.3, 0.9, 1.0, 2.5)}
"""Candidates inside an interval, of integers and of other numbers."""


def parameters(estimator: Any) -> tuple[str, ...]:
    """Names of the constructor's parameters."""
    return tuple(estimator.get_params(deep=False))


def values(estimator: Any, parameter: str) -> list[Any]:
    """Return other values of a parameter than the one the estimator has.

    A parameter of the fit alone gets one; every other what its constraints name and what is made
    for it by hand.
    """
    name = type(estimator).__name__
    now = estimator.get_params(deep=False)[parameter]
    if (name, parameter) not in MADE and parameter in FIT_ONLY:
        found = [FIT_ONLY[parameter]]
    else:
        constraints = _constraints(estimator, parameter)
        found = [
            *MADE.get((name, parameter), MADE.get(("*", parameter), [])),
            *(v for c in constraints for v in _named(c)),
        ]
    return list({_key(v): v for v in found if _key(v) != _key(now)}.values())


def _constraints(estimator: Any, parameter: str) -> list[Any]:
    """What the class allows; the names of all metrics are left out, which choose among fits
    alone.
    """
    found = getattr(type(estimator), "_parameter_constraints", {}).get(parameter, [])
    return found if isinstance(found, list) and parameter != "scoring" else []


def _key(value: Any) -> tuple[str, str]:
    return type(value).__name__, np.array2string(value) if isinstance(value, np.ndarray) else repr(
        value
    )


def _named(constraint: Any) -> Iterator[Any]:
    """Values that a constraint names; nothing for functions, objects and arrays, which are made
    by hand.
    """
    if constraint is None:
        yield None
    elif isinstance(constraint, str):
        yield from {"boolean": (False, True), "random_state": (7,), "verbose": (1,)}.get(
            constraint, ()
        )
    elif isinstance(constraint, Hidden):
        return  # what scikit-learn does not document
    elif isinstance(constraint, Interval):
        yield from _inside(constraint)
    elif isinstance(constraint, StrOptions | Options):
        yield from sorted(constraint.options, key=repr)


def _inside(interval: Interval) -> Iterator[Any]:
    """Ends that belong to the interval, the integer next to the lower one, and one or two
    numbers inside.
    """
    whole = interval.type is Integral
    kind = int if whole else float
    ends = [
        kind(end) for end in (interval.left, interval.right) if end is not None and abs(end) < 1e6
    ]
    inside = [n for n in NUMBERS[whole] if interval.is_satisfied_by(n) and n not in ends]
    yield from (end for end in ends if interval.is_satisfied_by(end))
    yield from (inside[0], inside[-1]) if len(inside) > 1 else inside
