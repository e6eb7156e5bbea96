"""LightGBM."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import lightgbm
import numpy as np
from matrix.case import Case
from matrix.data import fit_rows, target
from matrix.fitting import Trees, fit


def lightgbm_models() -> Iterator[Case]:
    """LightGBM, as estimators and as a Booster."""
    small = {
        "n_estimators": 5,
        "num_leaves": 7,
        "min_child_samples": 5,
        "verbosity": -1,
        "n_jobs": 1,
        "random_state": 0,
    }
    classifier = partial(lightgbm.LGBMClassifier, **small)
    regressor = partial(lightgbm.LGBMRegressor, **small)
    yield Trees("lightgbm.LGBMClassifier", "two text", fit(classifier(), "two_text"))
    yield Trees(
        "lightgbm.LGBMClassifier",
        "three, missing values",
        fit(classifier(), "three_text", missing=True),
    )
    yield Trees("lightgbm.LGBMClassifier", "two", fit(classifier(), "two"))
    yield Trees(
        "lightgbm.LGBMClassifier",
        "one against the rest",
        fit(classifier(objective="multiclassova"), "three"),
    )
    yield Trees("lightgbm.LGBMRegressor", "missing values", fit(regressor(), "value", missing=True))
    for objective in ("poisson", "gamma", "tweedie", "quantile"):
        yield Trees(
            "lightgbm.LGBMRegressor", objective, fit(regressor(objective=objective), "positive")
        )
    yield Trees(
        "lightgbm.LGBMModel",
        "regression",
        fit(lightgbm.LGBMModel(objective="regression", **small), "value"),
    )
    yield Trees(
        "lightgbm.LGBMRanker",
        "default",
        fit(lightgbm.LGBMRanker(**small), "relevance", group=target("group")),
    )
    yield Trees("lightgbm.Booster", "binary", partial(_lightgbm_booster, "binary", "two_bool"))
    yield Trees(
        "lightgbm.Booster",
        "multiclass",
        partial(_lightgbm_booster, "multiclass", "three", num_class=3),
    )


def _lightgbm_booster(objective: str, y: str, **more: Any) -> Any:
    settings = {"objective": objective, "num_leaves": 7, "verbosity": -1, "num_threads": 1, **more}
    return lightgbm.train(
        settings, lightgbm.Dataset(fit_rows(), target(y).astype(np.float64)), num_boost_round=5
    )


CASES = (*lightgbm_models(),)
