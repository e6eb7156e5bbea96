"""Classes of users: the methods that they wrote are traced, and fitted attributes are constants.

What a class derives from a library's is read from that, as far as nothing of it is changed.
"""

from __future__ import annotations

import types
from dataclasses import replace
from typing import Any

from hbconv.containers import Output
from hbconv.errors import UnsupportedError
from hbconv.parse.registry import base_entry, parses_others
from hbconv.parse.step import Conditions, Step
from hbconv.parse.tracing.answers import hand_on, with_classes
from hbconv.parse.tracing.function import trace_method
from hbconv.parse.tracing.inner import find_called
from hbconv.parse.tracing.trace import say_way_out
from hbconv.parse.tracing.twin import is_of_library, own_function

__all__ = ["find_own_methods", "is_own_class", "parse_own_class"]

_TRACED = ("transform", "predict", "predict_proba", "decision_function")
_INHERITED = (*_TRACED, "predict_log_proba")
"""Methods that a class has from a library's class that it derives from."""


def find_own_methods(cls: type) -> list[str]:
    """Return the methods of rows that a user wrote.

    Examples
    --------
    >>> from sklearn.preprocessing import StandardScaler
    >>> find_own_methods(StandardScaler), find_own_methods(int)
    ([], [])
    """
    # What computes its attributes itself is not what its class body says.
    if is_of_library(cls) or any("__getattribute__" in vars(c) for c in cls.__mro__[:-1]):
        return []
    return [method for method in _TRACED if _is_written(cls, method)]


def _is_written(cls: type, method: str) -> bool:
    owner = next((base for base in cls.__mro__ if method in vars(base)), None)
    if owner is None or is_of_library(owner):
        return False
    return isinstance(own_function(vars(owner)[method]), types.FunctionType)


def is_own_class(cls: type) -> bool:
    """Tell whether a user wrote the class and one of its methods of rows."""
    return bool(find_own_methods(cls))


@parses_others(is_own_class)
def parse_own_class(step: Step) -> dict[str, Output]:
    """Trace each method that the user wrote; a method that is refused leaves the others.

    Raises
    ------
    UnsupportedError
        Of the first method, where no other is answered, or an estimator around it may ask for it.
    """
    if step.x_sparse is None:
        step.require_dense("has a method of its own, which is followed for arrays and tables alone")
    cls = type(step.estimator)
    own = find_own_methods(cls)
    inherited = [m for m in _INHERITED if m not in own and hasattr(step.estimator, m)]
    changed = {method: find_called(cls, method) for method in inherited}
    outputs = _inherited(step, [method for method in inherited if not changed[method]])
    refused: dict[str, UnsupportedError] = {}
    for method in own:
        try:
            outputs[method] = trace_method(step, method)
        except UnsupportedError as error:
            refused[method] = error
    for method, names in changed.items():
        if names:
            hint = f"Its {method} calls {', '.join(names)}, which the class changes."
            refused[method] = step.refuse(None, None, f"{hint} {say_way_out(step)}")
    # What is around it may ask for any method, and would take another where one is left out.
    asked = [method for method in refused if method in (own if step.path == "" else _TRACED)]
    if asked and (step.path or not outputs.keys() & set(own)):
        raise refused[asked[0]]
    step.conditions.refused.update({method: str(error) for method, error in refused.items()})
    classes = getattr(step.estimator, "classes_", None)
    if "predict" in outputs:
        outputs["predict"] = with_classes(outputs["predict"], classes)
    return outputs


def _inherited(step: Step, methods: list[str]) -> dict[str, Output]:
    """Return the methods of a library's class that compute nothing that the user changed."""
    entry = base_entry(type(step.estimator))
    if entry is None or not methods:
        return {}
    conditions = Conditions()
    outputs = replace(step, conditions=conditions).like(entry.name)
    found: dict[str, Any] = {method: outputs[method] for method in methods if method in outputs}
    if found:
        hand_on(step, conditions, lambda node: node)
    return found
