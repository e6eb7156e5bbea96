"""Libraries whose estimators are taken for those that hbconv reads, and the way out of each."""

from __future__ import annotations

from hbconv.parse.class_names import package

__all__ = ["FOREIGN", "foreign_way_out"]

_SKLEARNEX = (
    "It is of scikit-learn-intelex, which computes answers of its own. Call "
    "sklearnex.unpatch_sklearn(), import the class from sklearn again, and fit that."
)
_CUML = (
    "It is of cuML, which computes answers of its own. Fit scikit-learn's class in a process "
    "without cuml.accel."
)

FOREIGN: dict[str, str] = {
    "cuml": _CUML,
    "daal4py": _SKLEARNEX,
    "mlxtend": (
        "It is of mlxtend, of which hbconv reads nothing. Use scikit-learn's StackingClassifier, "
        "VotingClassifier, SequentialFeatureSelector or ColumnTransformer."
    ),
    "onedal": _SKLEARNEX,
    "sklearnex": _SKLEARNEX,
}
"""By top package: whose class it is, and what to do."""


def foreign_way_out(cls: type) -> str:
    """Return the way out for a class of these libraries, or one made of theirs; "" for others."""
    return next((FOREIGN[own] for own in map(package, cls.__mro__) if own in FOREIGN), "")
