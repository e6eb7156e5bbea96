"""Sparse codes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from matrix.case import Case
from matrix.data import fit_rows
from matrix.fitting import MODERATE, fit
from sklearn import (
    decomposition,
)


def coders() -> Iterator[Case]:
    """Sparse codes."""
    atoms = fit_rows()[:12] / np.linalg.norm(fit_rows()[:12], axis=1, keepdims=True)
    case = partial(Case, "sklearn.decomposition.SparseCoder", rows=MODERATE)
    yield case(
        "pursuit of three",
        lambda: decomposition.SparseCoder(atoms, transform_n_nonzero_coefs=3).fit(fit_rows()),
    )
    yield case(
        "one atom, split", lambda: decomposition.SparseCoder(atoms, split_sign=True).fit(fit_rows())
    )
    yield case(
        "threshold",
        lambda: decomposition.SparseCoder(
            atoms, transform_algorithm="threshold", transform_alpha=0.5
        ).fit(fit_rows()),
    )
    for algorithm, settings in {
        "lars": {"transform_n_nonzero_coefs": 3},
        "lasso_cd": {"transform_alpha": 0.2, "positive_code": True},
    }.items():
        yield case(
            algorithm,
            fit(decomposition.SparseCoder(atoms, transform_algorithm=algorithm, **settings)),
            dtypes=("float64", "float32") if algorithm == "lars" else ("float64",),
        )
    learn = partial(decomposition.DictionaryLearning, 6, max_iter=5, random_state=0)
    case = partial(Case, "sklearn.decomposition.DictionaryLearning", rows=MODERATE)
    yield case("pursuit", fit(learn(transform_n_nonzero_coefs=2)))
    yield case(
        "positive threshold, split",
        fit(
            learn(
                transform_algorithm="threshold",
                positive_code=True,
                split_sign=True,
                fit_algorithm="cd",
            )
        ),
    )
    yield case("fitted on float32", fit(learn(transform_algorithm="threshold"), dtype="float32"))
    batches = decomposition.MiniBatchDictionaryLearning(
        6, max_iter=5, transform_n_nonzero_coefs=2, random_state=0
    )
    yield Case(
        "sklearn.decomposition.MiniBatchDictionaryLearning",
        "pursuit",
        fit(batches),
        rows=MODERATE,
        same_as="DictionaryLearning",
    )


CASES = (*coders(),)
