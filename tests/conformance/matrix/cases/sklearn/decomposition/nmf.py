"""Non-negative factors."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from matrix.case import Case
from matrix.fitting import fit_positive, positive_rows
from sklearn import (
    decomposition,
)
from sources import ask


def ask_alone(estimator: Any, method: str, x: Any) -> Any:
    """Ask for one row after another, since the source stops all rows of a call together."""
    cut = getattr(x, "iloc", x)
    return np.concatenate([ask(estimator, method, cut[i : i + 1]) for i in range(x.shape[0])])


def weights() -> Iterator[Case]:
    """Non-negative factors: all rounds, whatever the other rows are."""
    case = partial(
        Case, "sklearn.decomposition.NMF", rows=positive_rows, ask=ask_alone, dtypes=("float64",)
    )
    model = partial(decomposition.NMF, init="nndsvd", tol=0)
    yield case("three components", fit_positive(model(3, max_iter=60)))
    yield case(
        "fitted on float32", fit_positive(model(3, max_iter=60), "float32"), dtypes=("float32",)
    )
    yield case("penalties", fit_positive(model(4, alpha_W=0.01, l1_ratio=0.3, max_iter=30)))
    yield case(
        "more components than features",
        fit_positive(model(10, init="random", random_state=0, max_iter=20)),
    )


CASES = (*weights(),)
