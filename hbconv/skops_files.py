"""Read fitted models from .skops files."""

from __future__ import annotations

from typing import Any

from hbconv.errors import ConversionError, MissingPackageError
from hbconv.parse.checks.damage import REFIT, reading

__all__ = ["TRUSTED", "load_skops"]

TRUSTED = (
    "catboost.core.CatBoost",
    "catboost.core.CatBoostClassifier",
    "catboost.core.CatBoostRanker",
    "catboost.core.CatBoostRegressor",
    "collections.OrderedDict",
    "functools.partial",
    "lightgbm.basic.Booster",
    "lightgbm.sklearn.LGBMClassifier",
    "lightgbm.sklearn.LGBMModel",
    "lightgbm.sklearn.LGBMRanker",
    "lightgbm.sklearn.LGBMRegressor",
    "numpy.dtype",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.tree._tree.Tree",
    "sklearn.utils.validation.check_array",
    "xgboost.core.Booster",
    "xgboost.sklearn.XGBClassifier",
    "xgboost.sklearn.XGBModel",
    "xgboost.sklearn.XGBRFClassifier",
    "xgboost.sklearn.XGBRFRegressor",
    "xgboost.sklearn.XGBRanker",
    "xgboost.sklearn.XGBRegressor",
)
"""Types beyond skops' own list that a .skops file may hold: exactly those that hbconv converts."""


def load_skops(data: bytes, name: str) -> Any:
    """Return the fitted model of a .skops file, which runs no code but that of known types.

    Parameters
    ----------
    data : bytes
    name : str
        What messages call the file.

    Raises
    ------
    ConversionError
        The file holds types that hbconv does not convert.
    MissingPackageError
        skops is not installed.
    """
    try:
        from skops import io
    except ImportError as error:
        raise MissingPackageError(
            "Reading .skops files needs skops. Install with: pip install skops"
        ) from error
    unknown = sorted(set(io.get_untrusted_types(data=data)) - set(TRUSTED))
    if unknown:
        raise ConversionError(
            f"{name} holds types that are not trusted: {', '.join(unknown)}. "
            "Load it yourself and call hbconv.convert."
        )
    with reading(name, REFIT):
        return io.loads(data, trusted=list(TRUSTED))
