"""Functions of numpy."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from matrix.case import Case
from matrix.fitting import fit
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.preprocessing import (
    FunctionTransformer,
)


def functions() -> Iterator[Case]:
    """Functions of numpy."""
    case = partial(Case, "sklearn.preprocessing.FunctionTransformer", kind="elementwise")
    yield case("identity", fit(FunctionTransformer()))
    for function in (np.log1p, np.sqrt, np.exp, np.abs, np.tanh, np.square):
        yield case(function.__name__, fit(FunctionTransformer(function)))


CASES = (*functions(),)
