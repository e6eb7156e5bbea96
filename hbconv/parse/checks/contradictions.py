"""Fitted attributes that tell the same thing twice: the source reads the one, a parser perhaps the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hbconv.errors import ConversionError
from hbconv.parse.checks.soundness import require_labels

if TYPE_CHECKING:
    from hbconv.containers import Output
    from hbconv.parse.step import Step

__all__ = ["require_agreement", "require_order", "require_unlike"]


def require_agreement(step: Step, outputs: dict[str, Output]) -> None:
    """Refuse an estimator whose numbers of classes, outputs, members or columns out are not those that it holds.

    Raises
    ------
    ConversionError
        Names both attributes.
    """
    held = getattr(step.estimator, "__dict__", {})
    _require_count(step, "n_outputs_", held.get("n_outputs_"))
    _agree(step, "n_classes_", held.get("n_classes_"), "classes_", _length(held.get("classes_")))
    require_unlike(step.estimator, step.where)
    for name in ("_label_encoder", "le_"):
        known = getattr(held.get(name), "classes_", None)
        if isinstance(known, np.ndarray) and not np.array_equal(known, held.get("classes_", known)):
            raise step.damaged(f"classes_ are not those of {name}")
    for output in outputs.values():
        require_labels(output)
    if "transform" in outputs and not outputs["transform"].parts:
        for name in ("_n_features_out", "n_output_features_"):
            _agree(
                step,
                name,
                held.get(name),
                "columns of transform",
                outputs["transform"].node.type.width,
            )
    _agree(
        step,
        "_n_features",
        held.get("_n_features"),
        "columns, by n_features_in_",
        held.get("n_features_in_"),
    )
    layers = _length(held.get("coefs_"))
    _agree(
        step,
        "n_layers_",
        held.get("n_layers_"),
        "layers of coefs_, with the input",
        None if layers is None else layers + 1,
    )
    members = _length(held.get("estimators_"))
    for name in ("estimator_weights_", "estimators_features_", "estimators_samples_"):
        found = _length(held.get(name))
        if members is not None and found is not None and found < members:
            raise step.damaged(f"{name} has {found} entries, for {members} estimators_")


def require_unlike(estimator: object, where: str) -> None:
    """Refuse an estimator, a member of another too, of which two classes are one."""
    labels = getattr(estimator, "__dict__", {}).get("classes_")
    if isinstance(labels, np.ndarray) and len(set(labels.ravel().tolist())) != labels.size:
        name = type(estimator).__name__
        raise ConversionError(
            f"{name} ({where}) is damaged: classes_ holds a label twice: {labels[:9]}. Fit it again, or undo what was changed by hand."
        )


def require_order(step: Step, classes: Any) -> None:
    """Refuse classes that are not ascending, as where the source seeks by halving; missing ones may stand anywhere."""
    known = [label for label in classes.tolist() if label is not None and label == label]
    if known != sorted(known):
        raise step.damaged("classes_ is not in order, in which the source seeks")


def _length(value: Any) -> int | None:
    """Count the entries of a list, or of an array of one dimension or more."""
    return (
        len(value)
        if isinstance(value, list) or (isinstance(value, np.ndarray) and value.ndim > 0)
        else None
    )


def _require_count(step: Step, name: str, said: Any) -> None:
    if said is not None and not (isinstance(said, int | np.integer) and said > 0):
        raise step.damaged(f"{name}={said!r:.30}, which is no count")


def _agree(step: Step, name: str, said: Any, other: str, found: int | None) -> None:
    if found is None or said is None or np.ndim(said) > 0 or isinstance(said, list):
        return
    if not isinstance(said, int | np.integer) or int(said) != found:
        raise step.damaged(f"{name}={said!r:.30}, but it has {found} {other}")
