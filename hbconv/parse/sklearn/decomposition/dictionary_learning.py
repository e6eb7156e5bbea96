"""Sparse coding: write rows as sums of a few atoms of a dictionary."""

from __future__ import annotations

from typing import Any

import numpy as np

from hbconv.array import Array
from hbconv.containers import (
    Add,
    Cast,
    Concat,
    Linear,
    Map,
    MatchingPursuit,
    Node,
    Select,
    SoftThreshold,
)
from hbconv.parse.inverses import inverts
from hbconv.parse.registry import parses
from hbconv.parse.step import Step

_HINT = (
    "hbconv handles transform_algorithm='omp' and 'threshold'. Set it on the fitted estimator: "
    "the dictionary stays the same."
)


@parses(
    "sklearn.decomposition.DictionaryLearning",
    "sklearn.decomposition.MiniBatchDictionaryLearning",
)
def parse_dictionary_learning(step: Step) -> Node:
    """Encode by the dictionary that was learnt."""
    return _encoded(step, np.asarray(step.estimator.components_))


def _columns(coder: Any) -> int | None:
    """Return the width of the dictionary, for a coder that was not fitted."""
    return None if hasattr(coder, "n_features_in_") else int(np.shape(coder.dictionary)[1])


@parses(
    "sklearn.decomposition.SparseCoder",
    features=_columns,
)
def parse_sparse_coder(step: Step) -> Node:
    """Encode by the dictionary that was given."""
    return _encoded(step, np.asarray(step.estimator.dictionary))


@inverts(
    "sklearn.decomposition.DictionaryLearning",
    "sklearn.decomposition.MiniBatchDictionaryLearning",
)
def invert_dictionary_learning(step: Step) -> Node:
    """Add up the atoms that were learnt."""
    return _decoded(step, np.asarray(step.estimator.components_))


@inverts("sklearn.decomposition.SparseCoder")
def invert_sparse_coder(step: Step) -> Node:
    """Add up the atoms that were given."""
    return _decoded(step, np.asarray(step.estimator.dictionary))


def _decoded(step: Step, dictionary: np.ndarray[Any, Any]) -> Node:
    """Add up atoms, each by its weight; the negative parts stand behind the positive ones."""
    x = step.require_finite()
    if not step.estimator.split_sign:
        return Linear.of(x, dictionary)
    places = np.arange(2 * len(dictionary), dtype=np.int32).reshape(2, -1)
    above, below = (Select(x, Array(part)) for part in places)
    return Linear.of(Add((above, Map(below, "neg"))), dictionary)


def _encoded(step: Step, dictionary: np.ndarray[Any, Any]) -> Node:
    est = step.estimator
    x = Cast(step.require_finite(), "float")
    if dictionary.dtype.kind != "f" or dictionary.dtype.itemsize < 4:
        dictionary = dictionary.astype(np.float64)
    code = (
        _pursued(step, x, dictionary)
        if est.transform_algorithm == "omp"
        else _thresholded(step, x, dictionary)
    )
    if not est.split_sign:
        return code
    return Cast(Concat((Map(code, "relu"), Map(Map(code, "neg"), "relu"))), "float64")


def _pursued(step: Step, x: Node, dictionary: np.ndarray[Any, Any]) -> Node:
    est = step.estimator
    if est.positive_code:
        raise step.refuse(
            "positive_code",
            est.positive_code,
            "The source model refuses it with transform_algorithm='omp'.",
        )
    n_atoms = est.transform_n_nonzero_coefs
    if n_atoms is None:
        n_atoms = min(max(dictionary.shape[1] / 10, 1), len(dictionary))
    if n_atoms > len(dictionary):
        raise step.refuse(
            "transform_n_nonzero_coefs",
            n_atoms,
            f"The source model refuses it too: the dictionary has {len(dictionary)} atoms.",
        )
    return MatchingPursuit(x, Array(dictionary), int(n_atoms))


def _thresholded(step: Step, x: Node, dictionary: np.ndarray[Any, Any]) -> Node:
    est = step.estimator
    if est.transform_algorithm != "threshold":
        raise step.refuse("transform_algorithm", est.transform_algorithm, _HINT)
    alpha = getattr(est, "alpha", None) if est.transform_alpha is None else est.transform_alpha
    code = SoftThreshold(Linear.of(x, dictionary.T), 1.0 if alpha is None else float(alpha))
    return Map(code, "relu") if est.positive_code else code
