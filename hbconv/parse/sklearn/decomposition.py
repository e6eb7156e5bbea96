"""Decompositions: linear projections, kernels, non-negative factors, topics, sparse codes."""

from __future__ import annotations

import warnings
from math import log, pi
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    VECTOR,
    Add,
    Affine,
    Cast,
    Compare,
    Concat,
    FlatRow,
    IsOtherDtype,
    LassoDescent,
    LeastAngles,
    Linear,
    Map,
    MatchingPursuit,
    Node,
    NonNegativeWeights,
    Output,
    RowDot,
    Select,
    SoftThreshold,
    TopicMixture,
)
from hbconv.parse.common.pairwise_kernels import kernel_matrix
from hbconv.parse.common.versions import flattens_one_row, keeps_dtype_of_codes
from hbconv.parse.inverses import inverts
from hbconv.parse.registry import parses
from hbconv.parse.sklearn.preprocessing.scalers import centre_kernel
from hbconv.parse.step import Step


@parses("sklearn.decomposition.TruncatedSVD")
def parse_truncated_svd(step: Step) -> Node:
    """Project on the components."""
    return Linear.of(step.require_finite(), step.estimator.components_.T)


@inverts("sklearn.decomposition.TruncatedSVD")
def invert_truncated_svd(step: Step) -> Node:
    """Add up the components, each by its weight."""
    return Linear.of(step.require_finite(), step.estimator.components_)


@parses("sklearn.decomposition.PCA", takes_sparse=True)
def parse_pca(step: Step) -> dict[str, Output]:
    """Project on the components; ``score_samples`` is the likelihood of each row."""
    x = step.require_finite(Cast(step.x, "float"))
    precision = _precision(step)
    likelihood = (
        {}
        if precision is None
        else {"score_samples": Output(_log_likelihood(step, x, precision), VECTOR)}
    )
    return {"transform": Output(_project(step, x)), **likelihood}


def _precision(step: Step) -> npt.NDArray[Any] | None:
    """Invert the covariance as ``score_samples`` of the source model does at each call.

    None where that fails, and where the covariance is singular but for rounding.
    The inverse would then hold nothing but rounding errors.
    """
    est = step.estimator
    variances = np.append(
        est.explained_variance_,
        est.noise_variance_ if est.n_components_ < est.n_features_in_ else [],
    )
    # Eigenvalues below eps times the largest are nothing but rounding.
    if variances.size and variances.min() <= np.finfo(variances.dtype).eps * variances.max():
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return np.asarray(est.get_precision())
        except (ValueError, np.linalg.LinAlgError):
            return None


@parses("sklearn.decomposition.IncrementalPCA")
def parse_incremental_pca(step: Step) -> Node:
    """Project on the components."""
    return _project(step, step.require_finite(Cast(step.x, "float")))


@inverts("sklearn.decomposition.IncrementalPCA", "sklearn.decomposition.PCA")
def invert_pca(step: Step) -> Node:
    """Undo the whitening within the components, add them up, then add the mean."""
    est = step.estimator
    x = step.require_finite(Cast(step.x, "float"))
    components = est.components_
    if est.whiten:
        components = np.sqrt(est.explained_variance_[:, np.newaxis]) * components
    return Linear.of(x, components, np.asarray(est.mean_).reshape(-1))


def _project(step: Step, x: Node) -> Node:
    """Project, then subtract the projected mean and whiten in place, as the source model does."""
    est = step.estimator
    components = est.components_.T
    # A product of matrices, as in the source: BLAS may add a vector product in another order.
    mean = (est.mean_.reshape(1, -1) @ components)[0].astype(components.dtype)
    projected = Linear.of(x, components, -mean)
    if not est.whiten:
        return projected
    scale = np.sqrt(est.explained_variance_)
    # Directions without variance must not divide by zero; the source bounds them as well.
    return Affine.in_place(projected, div=np.maximum(scale, np.finfo(scale.dtype).eps))


def _log_likelihood(step: Step, x: Node, precision: npt.NDArray[Any]) -> Node:
    """Return the logarithm of the density of the normal distribution with this precision.

    ``-0.5 * (c @ precision @ c) - 0.5 * (n_features * log(2 pi) - log det precision)``, c centred.
    """
    sign, log_determinant = np.linalg.slogdet(precision)
    # As fast_logdet of scikit-learn: the logarithm is -inf where the sign is not positive.
    normalizer = 0.5 * (len(precision) * log(2.0 * pi) - (log_determinant if sign > 0 else -np.inf))
    centred = _centre(step, x)
    return Affine.of(RowDot(centred, Linear.of(centred, precision)), mul=-0.5, sub=normalizer)


@parses("sklearn.decomposition.FastICA")
def parse_fast_ica(step: Step) -> Node:
    """Centre in place where the model whitens, then unmix."""
    est = step.estimator
    x = step.require_finite(Cast(step.x, "float"))
    return Linear.of(Affine.in_place(x, sub=est.mean_) if est.whiten else x, est.components_.T)


@inverts("sklearn.decomposition.FastICA")
def invert_fast_ica(step: Step) -> Node:
    """Mix, then add the mean in place where the model whitens."""
    est = step.estimator
    mixed = Linear.of(step.require_finite(Cast(step.x, "float")), est.mixing_.T)
    return Affine.in_place(mixed, add=est.mean_) if est.whiten else mixed


@parses("sklearn.decomposition.FactorAnalysis")
def parse_factor_analysis(step: Step) -> dict[str, Output]:
    """Return the expected factors of each row, and its likelihood.

    The formula is (12.66) of Bishop, Pattern Recognition and Machine Learning, 2006.
    """
    est = step.estimator
    x = step.require_finite()
    loadings = est.components_ / est.noise_variance_
    covariance = np.linalg.inv(np.eye(len(loadings)) + loadings @ est.components_.T)
    factors = Linear.of(Linear.of(_centre(step, x), loadings.T), covariance)
    return {
        "transform": Output(factors),
        "score_samples": Output(_log_likelihood(step, x, step.estimator.get_precision()), VECTOR),
    }


@parses("sklearn.decomposition.MiniBatchSparsePCA", "sklearn.decomposition.SparsePCA")
def parse_sparse_pca(step: Step) -> dict[str, Output]:
    """Project by ridge regression: ``solve(C @ C.T + alpha * I, C @ row)``.

    The regression has a target for each row, and makes a vector of the coefficients of one.
    """
    est = step.estimator
    x = step.require_finite()
    components = est.components_
    gram = components @ components.T + est.ridge_alpha * np.eye(
        len(components), dtype=components.dtype
    )
    weights = np.linalg.solve(gram, components).T
    codes = Linear.of(Cast(_centre(step, x), components.dtype.name), weights)
    return {"transform": Output(codes, FlatRow()) if flattens_one_row() else Output(codes)}


@inverts("sklearn.decomposition.MiniBatchSparsePCA", "sklearn.decomposition.SparsePCA")
def invert_sparse_pca(step: Step) -> Node:
    """Add up the components, then add the mean."""
    return Linear.of(step.require_finite(), step.estimator.components_, step.estimator.mean_)


def _centre(step: Step, x: Node) -> Node:
    """Return ``x - mean_`` in numpy's common dtype."""
    mean = step.estimator.mean_
    return Affine.of(Cast(x, "float64") if mean.dtype == np.float64 else x, sub=mean)


@parses("sklearn.decomposition.KernelPCA")
def parse_kernel_pca(step: Step) -> Node:
    """Project the centred kernel on the scaled eigenvectors; those of eigenvalue zero count 0."""
    est = step.estimator
    kernel = kernel_matrix(step, est.X_fit_, gamma=est.gamma_, degree=est.degree, coef0=est.coef0)
    weights = np.zeros_like(est.eigenvectors_)
    nonzero = np.flatnonzero(est.eigenvalues_)
    weights[:, nonzero] = est.eigenvectors_[:, nonzero] / np.sqrt(est.eigenvalues_[nonzero])
    return Linear.of(centre_kernel(kernel, est._centerer), weights)


@inverts("sklearn.decomposition.KernelPCA", takes_sparse=True)
def invert_kernel_pca(step: Step) -> Node:
    """Predict the row by kernel ridge regression on its components."""
    est = step.estimator
    if not est.fit_inverse_transform:
        raise step.refuse(
            "fit_inverse_transform", False, "The source model then cannot invert either."
        )
    kernel = kernel_matrix(
        step, est.X_transformed_fit_, gamma=est.gamma_, degree=est.degree, coef0=est.coef0
    )
    return Linear.of(kernel, est.dual_coef_)


@parses("sklearn.decomposition.NMF")
def parse_nmf(step: Step) -> Node:
    """Run at most ``max_iter`` rounds of coordinate descent, in the dtype of fitting.

    Rows of another dtype are refused, as the source model does. It stops all rows of a call at
    once, by a sum over them; here each row stops as it does there alone.
    The other solver starts from the mean of all rows.
    """
    est = step.estimator
    components = step.estimator.components_
    if est.solver != "cd":
        raise step.refuse(
            "solver",
            est.solver,
            "It starts from the mean of all rows, so that each output depends on the others. "
            "Fit it with solver='cd'.",
        )
    step.require("shuffle", False)
    x = step.require_finite(Cast(step.x, "float"))
    dtype = components.dtype.name
    step.check(
        IsOtherDtype(x, dtype),
        f"{step.name} (step {step.where!r}) was fitted on {dtype} and takes no other floats.",
    )
    step.check(
        Compare.of(x, "lt", 0.0),
        f"Input X contains negative values, which {step.name} (step {step.where!r}) refuses.",
    )
    # The source scales the penalty on weights by the number of columns.
    penalty = components.shape[1] * est.alpha_W
    return NonNegativeWeights(
        Cast(x, dtype),
        Array(components),
        penalty * est.l1_ratio,
        penalty * (1.0 - est.l1_ratio),
        float(est.tol),
        est.max_iter,
    )


@inverts("sklearn.decomposition.NMF", takes_sparse=True)
def invert_nmf(step: Step) -> Node:
    """Add up the components; the source model looks at no values, and its product is dense."""
    return Linear.of(step.x, step.estimator.components_)


@parses("sklearn.decomposition.LatentDirichletAllocation")
def parse_latent_dirichlet_allocation(step: Step) -> Node:
    """Infer the topics of each row, in the dtype that the model was fitted in."""
    est = step.estimator
    topics = np.asarray(est.exp_dirichlet_component_, dtype=est.components_.dtype)
    if not np.isfinite(topics).all():
        raise step.damaged("exp_dirichlet_component_ holds numbers that are not finite")
    if not est.doc_topic_prior_ >= 0:
        raise step.damaged(f"doc_topic_prior_={est.doc_topic_prior_!r:.30}, which is not a prior")
    x = step.require_finite(Cast(step.x, topics.dtype.name))
    step.check(
        Compare.of(x, "lt", 0.0),
        f"Input X contains negative values, which {step.name} (step {step.where!r}) refuses.",
    )
    return TopicMixture(
        x,
        Array(topics),
        float(est.doc_topic_prior_),
        float(est.mean_change_tol),
        int(est.max_doc_update_iter),
    )


@parses(
    "sklearn.decomposition.DictionaryLearning",
    "sklearn.decomposition.MiniBatchDictionaryLearning",
)
def parse_dictionary_learning(step: Step) -> Node:
    """Encode by the dictionary that was learnt."""
    return _encode(step, np.asarray(step.estimator.components_))


def _columns(coder: Any) -> int | None:
    """Return the width of the dictionary, for a coder that was not fitted."""
    return None if hasattr(coder, "n_features_in_") else int(np.shape(coder.dictionary)[1])


@parses(
    "sklearn.decomposition.SparseCoder",
    features=_columns,
    is_fitted=lambda _: True,  # Its dictionary is given.
)
def parse_sparse_coder(step: Step) -> Node:
    """Encode by the dictionary that was given."""
    return _encode(step, np.asarray(step.estimator.dictionary))


@inverts(
    "sklearn.decomposition.DictionaryLearning",
    "sklearn.decomposition.MiniBatchDictionaryLearning",
)
def invert_dictionary_learning(step: Step) -> Node:
    """Add up the atoms that were learnt."""
    return _decode(step, np.asarray(step.estimator.components_))


@inverts("sklearn.decomposition.SparseCoder")
def invert_sparse_coder(step: Step) -> Node:
    """Add up the atoms that were given."""
    return _decode(step, np.asarray(step.estimator.dictionary))


def _decode(step: Step, dictionary: np.ndarray[Any, Any]) -> Node:
    """Add up atoms, each by its weight; the negative parts are behind the positive ones."""
    x = step.require_finite()
    if not step.estimator.split_sign:
        return Linear.of(x, dictionary)
    # split_sign doubles the columns: first the positive parts, then the negative ones.
    places = np.arange(2 * len(dictionary), dtype=np.int32).reshape(2, -1)
    above, below = (Select(x, Array(part)) for part in places)
    return Linear.of(Add((above, Map(below, "neg"))), dictionary)


def _encode(step: Step, dictionary: np.ndarray[Any, Any]) -> Node:
    est = step.estimator
    x = Cast(step.require_finite(), "float")
    if dictionary.dtype.kind != "f" or dictionary.dtype.itemsize < 4:
        dictionary = dictionary.astype(np.float64)
    is_wide = dictionary.dtype == np.float64 and est.transform_algorithm != "lasso_cd"
    if is_wide and not keeps_dtype_of_codes():
        x = Cast(x, "float64")
    code = _CODES[est.transform_algorithm](step, x, dictionary)
    if not est.split_sign:
        return code
    # The source fills an array of float64 with both halves.
    return Cast(Concat((Map(code, "relu"), Map(Map(code, "neg"), "relu"))), "float64")


def _pursue_matches(step: Step, x: Node, dictionary: np.ndarray[Any, Any]) -> Node:
    _refuse_positive(step)
    return MatchingPursuit(x, Array(dictionary), _atoms(step, dictionary))


def _follow_angles(step: Step, x: Node, dictionary: np.ndarray[Any, Any]) -> Node:
    _refuse_positive(step)
    _refuse_twins(step, dictionary)
    n_atoms = _atoms(step, dictionary)
    # More atoms than columns are dependent, so a row is fitted before all are taken.
    if min(n_atoms, len(dictionary)) > dictionary.shape[1]:
        hint = (
            "Once a row is fitted exactly, the source continues along rounding errors. Set it to "
            "at most the number of columns."
        )
        raise step.refuse("transform_n_nonzero_coefs", n_atoms, hint)
    return LeastAngles(x, Array(dictionary), "angles", 0.0, n_atoms)


def _follow_lasso(step: Step, x: Node, dictionary: np.ndarray[Any, Any]) -> Node:
    est = step.estimator
    _refuse_twins(step, dictionary)
    if _are_dependent(dictionary):
        _require_float64(step, x)
    least = _penalty(step) / dictionary.shape[1]
    path: Literal["lasso", "positive lasso"] = "positive lasso" if est.positive_code else "lasso"
    return LeastAngles(x, Array(dictionary), path, least, est.transform_max_iter)


def _descend_lasso(step: Step, x: Node, dictionary: np.ndarray[Any, Any]) -> Node:
    est = step.estimator
    if dictionary.dtype != np.float64:
        hint = f"{_ROUNDED} Give it one of float64: components_.astype('float64')."
        raise step.refuse("dictionary", dictionary.dtype.name, hint)
    _require_float64(step, x)
    width = dictionary.shape[1]
    # Lasso is given the penalty by width and multiplies it again: both steps round.
    penalty = _penalty(step) / width * width
    return LassoDescent(
        x,
        Array(dictionary),
        penalty,
        est.positive_code,
        # sparse_encode fixes the tolerance of its lasso at 1e-8.
        1e-8,
        est.transform_max_iter,
    )


_ROUNDED = "In float32, rounding decides where its solver of the lasso stops."


def _refuse_twins(step: Step, dictionary: np.ndarray[Any, Any]) -> None:
    """Refuse two atoms of one direction: which of them is taken is decided by rounding."""
    # Products of unit atoms are cosines, so 1 is one direction, and -1 its opposite.
    lengths = np.linalg.norm(dictionary.astype(np.float64), axis=1, keepdims=True)
    atoms = dictionary / np.where(lengths > 0, lengths, 1.0)
    alike = np.abs(np.triu(atoms @ atoms.T, 1)) > 1 - 1e-8
    if alike.any():
        first, second = np.argwhere(alike)[0].tolist()
        hint = "Rounding decides which of them is taken. Leave one out, or use 'lasso_cd'."
        raise step.refuse("dictionary", f"atoms {first} and {second} of one direction", hint)


def _are_dependent(dictionary: np.ndarray[Any, Any]) -> bool:
    """Tell whether an atom is nearly a sum of others, so that rounding decides who is taken."""
    atoms = dictionary.astype(np.float64)
    return len(atoms) > atoms.shape[1] or bool(np.linalg.cond(atoms @ atoms.T) > 1e3)


def _require_float64(step: Step, x: Node) -> None:
    """Refuse float32 rows, for which the source model depends on the rows around them."""
    step.check(
        IsOtherDtype(x, "float64"),
        f"{step.name} (step {step.where!r}) is not handled for float32 rows. {_ROUNDED} "
        "Give rows of float64.",
    )


def _threshold_codes(step: Step, x: Node, dictionary: np.ndarray[Any, Any]) -> Node:
    code = SoftThreshold(Linear.of(x, dictionary.T), _penalty(step))
    return Map(code, "relu") if step.estimator.positive_code else code


_CODES = {
    "lars": _follow_angles,
    "lasso_cd": _descend_lasso,
    "lasso_lars": _follow_lasso,
    "omp": _pursue_matches,
    "threshold": _threshold_codes,
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
        # The default of sparse_encode.
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
