"""Transformers of users: their ``transform`` is traced, and fitted attributes are constants."""

from __future__ import annotations

import types

from hbconv.containers import Output
from hbconv.parse.registry import parses_others
from hbconv.parse.step import Step
from hbconv.parse.tracing.function import trace_function
from hbconv.parse.tracing.twin import is_of_library, own_function

__all__ = ["is_own_transformer", "parse_own_transformer"]


def is_own_transformer(cls: type) -> bool:
    """Tell whether a user wrote the class and its ``transform``.

    Examples
    --------
    >>> from sklearn.preprocessing import StandardScaler
    >>> is_own_transformer(StandardScaler), is_own_transformer(int)
    (False, False)
    """
    owner = next((base for base in cls.__mro__ if "transform" in vars(base)), None)
    if owner is None or is_of_library(owner) or is_of_library(cls):
        return False
    return isinstance(own_function(vars(owner)["transform"]), types.FunctionType)


@parses_others(is_own_transformer)
def parse_own_transformer(step: Step) -> dict[str, Output]:
    """Trace ``transform``."""
    step.refuse_sparse("has a method of its own, which is followed for arrays and tables alone")
    return {"transform": trace_function(step, "transform", step.x)}
