"""Sparse coding: write rows as sums of a few atoms of a dictionary."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from hbconv.array import Array
from hbconv.containers import (
    Add,
    Cast,
    Concat,
    IsOtherDtype,
    LassoDescent,
    LeastAngles,
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
    code = _CODES[est.transform_algorithm](step, x, dictionary)
    if not est.split_sign:
        return code
    return Cast(Concat((Map(code, "relu"), Map(Map(code, "neg"), "relu"))), "float64")


def _pursued(step: Step, x: Node, dictionary: np.ndarray[Any, Any]) -> Node:
    _refuse_positive(step)
    return MatchingPursuit(x, Array(dictionary), _atoms(step, dictionary))


def _along_angles(step: Step, x: Node, dictionary: np.ndarray[Any, Any]) -> Node:
    _refuse_positive(step)
    _refuse_twins(step, dictionary)
    n_atoms = _atoms(step, dictionary)
    if min(n_atoms, len(dictionary)) > dictionary.shape[1]:
        hint = (
            "Once a row is told exactly, the source goes on along its rounding. Set it to at most "
            "the number of columns."
        )
        raise step.refuse("transform_n_nonzero_coefs", n_atoms, hint)
    return LeastAngles(x, Array(dictionary), "angles", 0.0, n_atoms)


def _along_lasso(step: Step, x: Node, dictionary: np.ndarray[Any, Any]) -> Node:
    est = step.estimator
    _refuse_twins(step, dictionary)
    if _are_dependent(dictionary):
        _require_float64(step, x)
    least = _penalty(step) / dictionary.shape[1]
    path: Literal["lasso", "positive lasso"] = "positive lasso" if est.positive_code else "lasso"
    return LeastAngles(x, Array(dictionary), path, least, est.transform_max_iter)


def _descended(step: Step, x: Node, dictionary: np.ndarray[Any, Any]) -> Node:
    est = step.estimator
    if dictionary.dtype != np.float64:
        hint = f"{_ROUNDED} Give it one of float64: components_.astype('float64')."
        raise step.refuse("dictionary", dictionary.dtype.name, hint)
    _require_float64(step, x)
    width = dictionary.shape[1]
    penalty = _penalty(step) / width * width
    return LassoDescent(
        x, Array(dictionary), penalty, est.positive_code, 1e-8, est.transform_max_iter
    )


_ROUNDED = "In float32, rounding decides where its solver of the lasso stops."


def _refuse_twins(step: Step, dictionary: np.ndarray[Any, Any]) -> None:
    """Refuse two atoms of one direction: which of them is taken is decided by rounding."""
    lengths = np.linalg.norm(dictionary.astype(np.float64), axis=1, keepdims=True)
    atoms = dictionary / np.where(lengths > 0, lengths, 1.0)
    alike = np.abs(np.triu(atoms @ atoms.T, 1)) > 1 - 1e-8
    if alike.any():
        one, other = np.argwhere(alike)[0].tolist()
        hint = "Rounding decides which of them is taken. Leave one out, or use 'lasso_cd'."
        raise step.refuse("dictionary", f"atoms {one} and {other} of one direction", hint)


def _are_dependent(dictionary: np.ndarray[Any, Any]) -> bool:
    """Tell whether an atom is nearly a sum of others, so that rounding decides who is taken."""
    atoms = dictionary.astype(np.float64)
    return len(atoms) > atoms.shape[1] or bool(np.linalg.cond(atoms @ atoms.T) > 1e3)


def _require_float64(step: Step, x: Node) -> None:
    """Refuse float32 rows, whose answers by the source model depend on the rows around them."""
    step.check(
        IsOtherDtype(x, "float64"),
        f"{step.name} (step {step.where!r}) is not handled for float32 rows. {_ROUNDED} "
        "Give rows of float64.",
    )


def _thresholded(step: Step, x: Node, dictionary: np.ndarray[Any, Any]) -> Node:
    code = SoftThreshold(Linear.of(x, dictionary.T), _penalty(step))
    return Map(code, "relu") if step.estimator.positive_code else code


_CODES = {
    "lars": _along_angles,
    "lasso_cd": _descended,
    "lasso_lars": _along_lasso,
    "omp": _pursued,
    "threshold": _thresholded,
}
"""By ``transform_algorithm``."""


def _penalty(step: Step) -> float:
    est = step.estimator
    alpha = getattr(est, "alpha", None) if est.transform_alpha is None else est.transform_alpha
    return 1.0 if alpha is None else float(alpha)


def _atoms(step: Step, dictionary: np.ndarray[Any, Any]) -> int:
    """Return how many atoms a code may have."""
    n_atoms = step.estimator.transform_n_nonzero_coefs
    if n_atoms is None:
        n_atoms = min(max(dictionary.shape[1] / 10, 1), len(dictionary))
    if step.estimator.transform_algorithm == "omp" and n_atoms > len(dictionary):
        raise step.refuse(
            "transform_n_nonzero_coefs",
            n_atoms,
            f"The source model refuses it too: the dictionary has {len(dictionary)} atoms.",
        )
    return int(n_atoms)


def _refuse_positive(step: Step) -> None:
    if step.estimator.positive_code:
        raise step.refuse(
            "positive_code",
            step.estimator.positive_code,
            "The source model refuses it with "
            f"transform_algorithm={step.estimator.transform_algorithm!r}.",
        )
