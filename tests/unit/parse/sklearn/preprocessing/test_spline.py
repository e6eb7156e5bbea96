"""SplineTransformer: what the matrix does not say."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import agree, refuses_as_source, transform
from sklearn.preprocessing import SplineTransformer

from hbconv.errors import InputError, UnsupportedError

X = np.linspace(-1, 2, 40).reshape(20, 2) ** 3


@pytest.mark.parametrize("extrapolation", ["constant", "linear", "continue", "periodic"])
@pytest.mark.parametrize("degree", [1, 2, 3, 5])
def test_at_the_knots_and_beyond(extrapolation: str, degree: int) -> None:
    """Knots, the numbers beside them and values far out agree almost to the last bit: the
    recursion is the source's.
    """
    source = SplineTransformer(7, degree, knots="quantile", extrapolation=extrapolation).fit(
        X[:, :1]
    )
    knots = source.bsplines_[0].t
    rows = np.concatenate(
        [
            knots,
            np.nextafter(knots, -np.inf),
            np.nextafter(knots, np.inf),
            [-50.0, 70.0, -0.0, 5e-324],
        ]
    )
    agree(source, rows[:, None], rtol=1e-13)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("degree", [0, 1])
def test_bounds_that_move_inward_from_column_to_column(degree: int, sparse: bool) -> None:
    """The source counts one more knot after each column, below degree 2."""
    columns = np.random.RandomState(0).randn(50, 4) ** 3
    options = {"extrapolation": "linear", "knots": "quantile", "sparse_output": sparse}
    source = SplineTransformer(5, degree, **options).fit(columns)
    knots = np.unique([spline.t for spline in source.bsplines_])
    beside = [np.nextafter(knots, way) for way in (-np.inf, np.inf)]
    rows = np.concatenate([knots, *beside, [-50.0, 70.0, -0.0]])
    agree(source, np.tile(rows[:, None], 4), rtol=1e-13)


def test_repeated_knots_and_constant_columns() -> None:
    """Pieces of no length contribute nothing."""
    few = np.repeat([[0.0, 3.0], [1.0, 3.0], [1.0, 3.0]], 5, axis=0)
    for extrapolation in ("constant", "continue", "periodic"):
        agree(
            SplineTransformer(4, 2, knots="quantile", extrapolation=extrapolation).fit(few),
            np.array([[0.5, 2.0], [1.0, 3.0], [0.0, 4.0]]),
        )


def test_refuses_values_beyond_the_knots() -> None:
    """As the source does, where asked to."""
    source = SplineTransformer(extrapolation="error").fit(X)
    refuses_as_source(source, X + 0.1, "beyond the knots")


def test_refuses_what_would_not_be_exact() -> None:
    """Bounds that cross; rows that no longer know where in a period they are."""
    with pytest.raises(UnsupportedError, match="its bounds cross"):
        transform(SplineTransformer(2, degree=1, extrapolation="linear").fit(X), X)
    with pytest.raises(InputError, match="periods off"):
        transform(SplineTransformer(extrapolation="periodic").fit(X), X + 1e12)
    with pytest.raises(InputError, match="infinity"):
        transform(
            SplineTransformer(extrapolation="continue", handle_missing="zeros").fit(X),
            np.full((1, 2), np.inf),
        )


def test_sparse_rows_beyond_a_knot_that_float32_cannot_hold() -> None:
    """The source puts the first knot in their place, which is beyond itself in float32."""
    x = np.array([[0.1], [0.2], [0.4], [0.7]]) + 1e-9
    for source in (
        SplineTransformer(sparse_output=True).fit(x),
        SplineTransformer(sparse_output=True).fit(-x),
    ):
        low = source.bsplines_[0].t[3]
        rows = np.array([[low - 1.0], [low + 0.1]])
        agree(source, rows)
        if np.float32(low) < low:
            refuses_as_source(source, rows.astype(np.float32), "first knot")
        else:
            agree(source, rows.astype(np.float32))
