"""Refuse fitted attributes that contradict each other.

The source model may read the one attribute, and a parser the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import numpy as np

from hbconv.containers import Output
from hbconv.parse.checks.damage import damaged
from hbconv.parse.checks.soundness import require_labels

__all__ = ["require_agreement", "require_order", "require_unlike"]

Attributes = dict[str, Any]


def require_agreement(estimator: object, where: str, outputs: dict[str, Output]) -> None:
    """Refuse an estimator whose attributes count classes, outputs or columns differently.

    ``where`` is its place, as for ``damaged``; ``outputs`` are its methods as parsed.

    Raises
    ------
    ConversionError
        Names both attributes.
    """
    held = getattr(estimator, "__dict__", {})
    _refuse_first(estimator, where, chain(_output_counts(held), _class_counts(held), _shares(held)))
    require_unlike(estimator, where)
    _refuse_first(estimator, where, _encoder_labels(held))
    for output in outputs.values():
        require_labels(output)
    _refuse_first(estimator, where, chain(_column_counts(held, outputs), _member_counts(held)))


def require_unlike(estimator: object, where: str) -> None:
    """Refuse an estimator, or a member of one, whose classes are not distinct labels."""
    labels = getattr(estimator, "__dict__", {}).get("classes_")
    if not isinstance(labels, np.ndarray):
        return
    if labels.ndim != 1:
        raise damaged(estimator, where, f"classes_ has shape {labels.shape}")
    if len(set(labels.tolist())) != labels.size:
        raise damaged(estimator, where, f"classes_ holds a label twice: {labels[:9]}")


def require_order(estimator: object, where: str, classes: Any) -> None:
    """Refuse classes that do not ascend, where the source model does a binary search.

    NaN and None may stand anywhere.
    """
    known = [label for label in classes.tolist() if label is not None and label == label]
    if known != sorted(known):
        raise damaged(
            estimator,
            where,
            "classes_ does not ascend, and the source model does a binary search in it",
        )


def _refuse_first(estimator: object, where: str, contradictions: Iterable[str]) -> None:
    for what in contradictions:
        raise damaged(estimator, where, what)


def _output_counts(held: Attributes) -> Iterator[str]:
    count = held.get("n_outputs_")
    if count is not None and not (isinstance(count, int | np.integer) and count > 0):
        yield f"n_outputs_={count!r:.30}, which is not a count"


def _class_counts(held: Attributes) -> Iterator[str]:
    yield from _unequal(held, "n_classes_", "classes_", _length(held.get("classes_")))


def _shares(held: Attributes) -> Iterator[str]:
    """Find probabilities of classes that are none; their sum may be any, since users give some."""
    for name in ("priors_", "class_prior_"):
        shares = held.get(name)
        if isinstance(shares, np.ndarray) and not bool(np.all((shares >= 0) & np.isfinite(shares))):
            yield f"{name} holds numbers that are no probabilities: {shares[:9]}"


def _encoder_labels(held: Attributes) -> Iterator[str]:
    for name in ("_label_encoder", "le_"):
        known = getattr(held.get(name), "classes_", None)
        if isinstance(known, np.ndarray) and not np.array_equal(known, held.get("classes_", known)):
            yield f"classes_ are not those of {name}"


def _column_counts(held: Attributes, outputs: dict[str, Output]) -> Iterator[str]:
    if "transform" in outputs and not outputs["transform"].widths:
        width = outputs["transform"].node.type.width
        for name in ("_n_features_out", "n_output_features_", "n_features_out_"):
            yield from _unequal(held, name, "columns of transform", width)
    fitted = held.get("n_features_in_")
    yield from _unequal(held, "_n_features", "columns, by n_features_in_", fitted)


def _member_counts(held: Attributes) -> Iterator[str]:
    yield from _unequal(held, "n_samples_fit_", "entries of _y", _length(held.get("_y")))
    layers = _length(held.get("coefs_"))
    if layers is not None:
        yield from _unequal(held, "n_layers_", "layers of coefs_, with the input", layers + 1)
    members = _length(held.get("estimators_"))
    for name in ("estimator_weights_", "estimators_features_", "estimators_samples_"):
        found = _length(held.get(name))
        if members is not None and found is not None and found < members:
            yield f"{name} has {found} entries, for {members} estimators_"


def _unequal(held: Attributes, name: str, other: str, found: int | None) -> Iterator[str]:
    """Compare a count with the number of other things found, where both are known."""
    count = held.get(name)
    if found is None or count is None or np.ndim(count) > 0 or isinstance(count, list):
        return
    if not isinstance(count, int | np.integer) or int(count) != found:
        yield f"{name}={count!r:.30}, but it has {found} {other}"


def _length(value: Any) -> int | None:
    """Count the entries of a list, or of an array of one dimension or more."""
    has_length = isinstance(value, list) or (isinstance(value, np.ndarray) and value.ndim > 0)
    return len(value) if has_length else None
