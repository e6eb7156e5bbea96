"""Leaves as columns."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from matrix.case import Case
from matrix.data import fit_rows
from matrix.fitting import Trees
from sklearn import ensemble


def embeddings() -> Iterator[Case]:
    """Leaves as columns."""
    case = partial(Trees, "sklearn.ensemble.RandomTreesEmbedding")
    make = partial(ensemble.RandomTreesEmbedding, random_state=0)
    yield case("sparse", lambda: make(6, max_depth=3).fit(fit_rows()))
    yield case("dense", lambda: make(4, sparse_output=False).fit(fit_rows()))


CASES = (*embeddings(),)
