"""Features whose products approximate a kernel."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from matrix.case import Case
from matrix.fitting import MODERATE
from matrix.kernel_rows import fit_few, kernel_of, kernel_rows, positive
from sklearn import (
    kernel_approximation,
)


def approximations() -> Iterator[Case]:
    """Features whose products approximate a kernel."""
    k = kernel_approximation
    name = "sklearn.kernel_approximation.{}".format
    case = partial(Case, name("Nystroem"), rows=MODERATE)
    yield case("rbf", fit_few(k.Nystroem(n_components=10, random_state=0, gamma=0.05)))
    yield case(
        "poly by parameters",
        fit_few(
            k.Nystroem(
                "poly",
                n_components=5,
                kernel_params={"degree": 2, "gamma": 0.1},
                coef0=0.5,
                random_state=0,
            )
        ),
    )
    yield case(
        "chi2",
        fit_few(k.Nystroem("chi2", n_components=5, random_state=0), make=np.abs),
        rows=positive,
    )
    yield case(
        "precomputed",
        fit_few(k.Nystroem("precomputed", n_components=60, random_state=0), make=kernel_of),
        rows=kernel_rows,
    )
    for dtype in ("float64", "float32"):
        yield Case(
            name("RBFSampler"),
            dtype,
            fit_few(k.RBFSampler(n_components=7, random_state=0), dtype=dtype),
            rows=MODERATE,
        )
    yield Case(
        name("RBFSampler"),
        "scale",
        fit_few(k.RBFSampler(gamma="scale", n_components=7, random_state=0)),
        rows=MODERATE,
    )
    yield Case(
        name("SkewedChi2Sampler"),
        "default",
        fit_few(k.SkewedChi2Sampler(skewedness=0.5, n_components=7, random_state=0), make=np.abs),
        rows=positive,
    )
    yield Case(
        name("SkewedChi2Sampler"),
        "float32",
        fit_few(k.SkewedChi2Sampler(n_components=7, random_state=0), dtype="float32", make=np.abs),
        rows=positive,
    )
    for steps, interval in ((2, None), (1, None), (3, None), (4, 0.3)):
        yield Case(
            name("AdditiveChi2Sampler"),
            f"{steps} steps of {interval}",
            fit_few(
                k.AdditiveChi2Sampler(sample_steps=steps, sample_interval=interval), make=np.abs
            ),
            rows=positive,
        )
    sketch = partial(k.PolynomialCountSketch, random_state=0)
    yield Case(
        name("PolynomialCountSketch"), "degree 2", fit_few(sketch(n_components=10)), rows=MODERATE
    )
    yield Case(
        name("PolynomialCountSketch"),
        "degree 3, coef0",
        fit_few(sketch(gamma=0.1, degree=3, coef0=0.5, n_components=7)),
        rows=MODERATE,
    )


CASES = (*approximations(),)
