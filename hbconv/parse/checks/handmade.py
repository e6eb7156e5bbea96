"""What was put on an object or its class by hand: methods in the place of the library's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from hbconv.errors import UnsupportedError
from hbconv.names import METHODS
from hbconv.parse.checks.soundness import require_unlike
from hbconv.parse.class_names import FOREIGN, foreign_method, is_harmless, package
from hbconv.parse.registry import libraries, own_libraries

__all__ = ["refuse_handmade"]

_SIGNED = frozenset(
    {
        "coef_",
        "mean_",
        "var_",
        "scale_",
        "center_",
        "components_",
        "centroids_",
        "cluster_centers_",
        "min_",
        "theta_",
        "support_vectors_",
    }
)
"""Fitted attributes that are arrays of floats wherever they are."""
_MASKS = frozenset({"_is_empty_feature", "_mask_fit_X", "_valid_mask"})
"""Fitted attributes that are arrays of bools wherever they are."""
_ARRAYS = frozenset({
    "_baseline_prediction", "bin_edges_", "bitHash_", "center_", "centroids_", "class_log_prior_",
    "class_prior_", "cluster_centers_", "code_book_", "coef_", "components_", "constant_",
    "degrees_of_freedom_", "dist_matrix_", "_distances_fit_X_", "_dual_coef_", "dual_coef_",
    "eigenvalues_", "eigenvectors_", "embedding_", "estimator_weights_",
    "exp_dirichlet_component_", "explained_variance_", "features_", "_fit_X", "idf_",
    "indexHash_", "_intercept_", "intercept_", "intercept_hidden_", "is_categorical_",
    "_is_empty_feature", "K_fit_rows_", "L_", "label_distributions_", "labels_", "lambdas_",
    "location_", "_lrd", "_mask_fit_X", "_max_value", "mean_", "mean_precision_", "means_",
    "min_", "_min_value", "n_bins_", "_n_support", "noise_variance_", "normalization_", "offset_",
    "pi_", "precision_", "precisions_cholesky_", "priors_", "_probA", "_probB", "quantiles_",
    "random_offset_", "random_weights_", "references_", "scale_", "statistics_",
    "subcluster_centers_", "subcluster_labels_", "_subcluster_norms", "support_",
    "support_vectors_", "theta_", "_valid_mask", "var_", "W_sr_", "within_class_std_dev_", "X_",
    "X_fit_", "_X_mean", "_x_mean", "x_rotations_", "_x_std", "X_thresholds_", "X_train_",
    "x_weights_", "xbar_", "_y", "y_thresholds_", "y_train_", "_y_train_mean", "_y_train_std",
})  # fmt: skip
"""Fitted attributes that are arrays wherever they are, and that parsers read.

Of a list the source model computes something else, or fails."""

_METHODS: dict[type, frozenset[str]] = {}
_PLAIN = (bool, int, float, str, bytes, complex, np.generic, type(None))


def refuse_handmade(estimator: object) -> None:
    """Refuse methods replaced on an instance or its class, and lists in place of fitted arrays.

    The estimator and everything that it holds are searched.
    Parsers read what the library wrote.

    Raises
    ------
    UnsupportedError
        Names the object, and the method.
    """
    seen: set[type] = set()
    for path, part in _parts(estimator):
        if type(part) not in seen:
            seen.add(type(part))
            _refuse_foreign_methods(type(part), path)
        _refuse_own_methods(part, path)
        require_unlike(part, path)
        _refuse_other_arrays(part, path)


def _refuse_foreign_methods(cls: type, path: str) -> None:
    """Refuse a class of a library in which something else put methods of its own."""
    found = foreign_method(cls, METHODS, own_libraries())
    if found is None:
        return
    method, writer = found
    way_out = FOREIGN.get(writer) or (
        f"Undo what {writer} put in the place of the library's {method}, and convert again."
    )
    hint = f"Its {method} is a method of {writer}, and hbconv reads only the library's. {way_out}"
    raise UnsupportedError(cls.__name__, path, hint=hint)


def _refuse_own_methods(part: object, path: str) -> None:
    cls = type(part)
    own = getattr(part, "__dict__", {})
    for name in sorted(_methods(cls) & own.keys()):
        if not callable(own[name]) or getattr(own[name], "__func__", None) is getattr(cls, name):
            continue  # a result where the class computes it, or the class's own method, bound
        hint = (
            f"It replaces {name} of the class, and hbconv reads only the class. Delete it, or "
            "write a subclass with a parser of its own (docs/adding.md)."
        )
        raise UnsupportedError(cls.__name__, path, name, own[name], hint)


def _refuse_other_arrays(part: object, path: str) -> None:
    """Refuse lists, and arrays of a dtype that fitting never leaves, in place of fitted arrays."""
    cls = type(part)
    own = getattr(part, "__dict__", {})
    for name in sorted(_ARRAYS & own.keys()):
        if isinstance(own[name], list) and not _is_of_targets(name, own[name]):
            hint = (
                "It is a list, and the source model needs an array. Make a numpy array of it, "
                "or fit again."
            )
            raise UnsupportedError(cls.__name__, path, name, own[name][:3], hint)
        if isinstance(own[name], np.ndarray) and (hint := _strange(name, own[name].dtype)):
            raise UnsupportedError(cls.__name__, path, name, own[name].dtype.name, hint)


def _is_of_targets(name: str, held: list[Any]) -> bool:
    """Whether it holds an array for each target, as DummyClassifier keeps its priors."""
    return name == "class_prior_" and all(isinstance(own, np.ndarray) for own in held)


def _strange(name: str, dtype: np.dtype[Any]) -> str:
    """Say why an array's dtype is not one that fitting leaves; empty where it is one."""
    if name in _SIGNED and dtype.kind in "bu":
        return "It is an array of bool or unsigned int, which fitting never leaves. Fit again."
    if name in _MASKS and dtype.kind != "b":
        return (
            "It is not an array of bool, and the source model takes numbers for positions. "
            "Fit again."
        )
    return ""


def _parts(whole: object) -> Iterator[tuple[str, object]]:
    """Yield an object and every object of a registered library that it holds, with its place."""
    seen: set[int] = set()
    known = libraries() - {"hbconv"}  # what is read from files, or was converted before
    waiting: list[tuple[str, Any]] = [(type(whole).__name__, whole)]
    while waiting:
        path, held = waiting.pop()
        if id(held) in seen:
            continue
        seen.add(id(held))
        if isinstance(held, list | tuple | Mapping) or (
            isinstance(held, np.ndarray) and held.dtype.hasobject
        ):
            waiting += [(f"{path}[{key!r}]", value) for key, value in _items(held)]
        elif held is whole or (hasattr(held, "__dict__") and package(type(held)) in known):
            yield path, held
            waiting += [
                (f"{path}.{name}", value)
                for name, value in getattr(held, "__dict__", {}).items()
                if not isinstance(value, _PLAIN)
            ]


def _items(held: Any) -> Iterable[tuple[Any, Any]]:
    """List what a collection holds; nothing where its first value is plain.

    Such collections hold nothing else, and may be large.
    """
    flat = held.ravel() if isinstance(held, np.ndarray) else held
    first = next(iter(flat.values() if isinstance(flat, Mapping) else flat), None)
    if isinstance(first, _PLAIN) and not isinstance(held, tuple):
        return ()
    return flat.items() if isinstance(flat, Mapping) else enumerate(flat)


def _methods(cls: type) -> frozenset[str]:
    """Return the names of a class's methods that answers depend on."""
    if cls not in _METHODS:
        _METHODS[cls] = _read_methods(cls)
    return _METHODS[cls]


def _read_methods(cls: type) -> frozenset[str]:
    named = {name: value for base in reversed(cls.__mro__) for name, value in vars(base).items()}
    return frozenset(
        n
        for n, v in named.items()
        if hasattr(v, "__get__") and not hasattr(v, "__set__") and not is_harmless(n)
    )
