"""Libraries whose estimators are taken for those that hbconv reads, and the way out of each."""

from __future__ import annotations

__all__ = ["FOREIGN", "foreign_way_out"]

_SKLEARNEX = (
    "It is of scikit-learn-intelex, which computes answers of its own. Call "
    "sklearnex.unpatch_sklearn(), import the class from sklearn again, and fit that."
)
_CUML = (
    "It is of cuML, which computes answers of its own. Fit scikit-learn's class in a process "
    "without cuml.accel, or convert what as_treelite() of a forest returns."
)

FOREIGN: dict[str, str] = {
    "cuml": _CUML,
    "daal4py": _SKLEARNEX,
    "lightgbm.dask": "It answers tables of Dask. Convert the model that its to_local() returns.",
    "mlxtend": (
        "It is of mlxtend, of which hbconv reads nothing. Use scikit-learn's StackingClassifier, "
        "VotingClassifier, SequentialFeatureSelector or ColumnTransformer."
    ),
    "onedal": _SKLEARNEX,
    "sklearnex": _SKLEARNEX,
    "unittest.mock": "It is a mock. Convert the fitted estimator in whose place it stands.",
    "xgboost.dask": "It answers tables of Dask. Convert the Booster of its get_booster().",
    "xgboost.spark": "It answers tables of Spark. Convert the Booster of its get_booster().",
}
"""By package: whose class it is, and what to do."""


def foreign_way_out(cls: type) -> str:
    """Return the way out for a class of these libraries, or one made of theirs; "" for others."""
    modules = [f"{base.__module__}." for base in cls.__mro__]
    ways = (way for name, way in FOREIGN.items() if any(m.startswith(f"{name}.") for m in modules))
    return next(ways, "")
