"""Models whose answers pass through functions and products, asked in a process whose libraries are
told to take another processor's instructions.

Fitted in the test's process, and converted both there and here, for fitting, converting and
answering may each have a machine of its own.
"""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from matrix.case import Case
from matrix.compare import compare
from matrix.data import fit_rows, rows, target
from sources import dense, methods, quietly
from tolerances import FUNCTION, assert_units

import hbconv
from hbconv.errors import InputError

__all__ = ["COUNTS", "answer", "fitted_models", "write"]

COUNTS = (1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 33)
"""Numbers of rows that put a row at every place of a vector, and into the rest that fills none."""

EQUAL = ("apply", "raw_scores", "decision_function", "staged_predict")
"""Methods that are decisions or sums."""

QUIET = {"iterations": 8, "depth": 3, "verbose": 0, "allow_writing_files": False, "thread_count": 1}


def fitted_models() -> dict[str, Any]:
    """A fitted model for each library of functions: of trees, whose sums are equal, and others."""
    import catboost
    import lightgbm
    import xgboost
    from sklearn import (
        decomposition,
        ensemble,
        naive_bayes,
        neighbors,
        neural_network,
        pipeline,
        preprocessing,
    )
    from sklearn.linear_model import LogisticRegression

    x, two, three = fit_rows(), target("two"), target("three")
    small = {"n_estimators": 8, "max_depth": 3, "random_state": 0}
    wrapped = small | {"n_jobs": 1}
    positive = np.abs(x)
    powers = pipeline.make_pipeline(preprocessing.PowerTransformer(), LogisticRegression())
    trees = {
        "catboost two": catboost.CatBoostClassifier(**QUIET).fit(x, two),
        "catboost three": catboost.CatBoostClassifier(**QUIET).fit(x, three),
        "catboost counts": catboost.CatBoostRegressor(loss_function="Poisson", **QUIET).fit(
            x, target("count")
        ),
        "gradient boosting": ensemble.GradientBoostingClassifier(**small).fit(x, two),
        "histograms": ensemble.HistGradientBoostingClassifier(max_iter=8, random_state=0).fit(
            x, three
        ),
        "lightgbm": lightgbm.LGBMClassifier(verbose=-1, **wrapped).fit(x, two),
        "xgboost": xgboost.XGBClassifier(**wrapped).fit(x, three),
    }
    others = {
        "powers": powers.fit(x, two),
        "network": neural_network.MLPClassifier(
            (16,), activation="tanh", max_iter=20, random_state=0
        ).fit(x, three),
        "naive bayes": naive_bayes.GaussianNB().fit(x, three),
        "neighbours": neighbors.KNeighborsClassifier(3, algorithm="brute").fit(
            x.astype(np.float32), two
        ),
        "topics": decomposition.LatentDirichletAllocation(3, max_iter=3, random_state=0).fit(
            positive
        ),
    }
    return {f"trees: {name}": model for name, model in trees.items()} | others


def write(folder: Path) -> None:
    """Write the models, and what they are converted to here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few iterations do not converge
        models = fitted_models()
    converted = {name: hbconv.convert(model, backend="reference") for name, model in models.items()}
    programs = {name: _program(model) for name, model in converted.items()}
    (folder / "models.pickle").write_bytes(pickle.dumps((models, programs)))
    for number, model in enumerate(converted.values()):
        model.save(folder / f"{number}.hbc")


def _program(model: hbconv.Model) -> Any:
    """The program of all methods, with its constants."""
    return model.programs.lowered(model.parsed.exported, model.dtypes).program


def answer(folder: Path) -> None:
    """Compare the models of a folder, those converted there and those converted here, with the
    sources, here.
    """
    models, programs = pickle.loads((folder / "models.pickle").read_bytes())
    for number, (name, model) in enumerate(models.items()):
        here, there = (
            hbconv.convert(model, backend="reference"),
            hbconv.load(folder / f"{number}.hbc"),
        )
        if name.startswith("trees"):
            assert _program(here) == programs[name], (
                f"{name}: its constants depend on the processor"
            )
        for converted in (here, there):
            _agrees(name, model, converted)
        _refuses_in_silence(here)


def _agrees(name: str, model: Any, converted: hbconv.Model) -> None:
    case = Case(name, "", lambda: model)
    x = (
        np.abs(rows(200))
        if name == "topics"
        else rows(200).astype(np.float32 if name == "neighbours" else np.float64)
    )
    for start, n in zip(np.cumsum(COUNTS), COUNTS, strict=True):
        part = x[start : start + n]
        for method in set(methods(model)) & set(converted.methods):
            got = getattr(converted, method)(part)
            if not name.startswith("trees"):
                compare(case, method, part, got)
                continue
            limit = 0 if method in EQUAL else FUNCTION
            assert_units(f"{name} {method}", dense(got), dense(quietly(model, method, part)), limit)


def _refuses_in_silence(converted: hbconv.Model) -> None:
    """A row of NaN may be refused, but no warning of a product over it reaches the user."""
    x = rows(33)
    x[[5, 7]] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        try:
            getattr(converted, converted.methods[0])(np.abs(x))
        except InputError:
            return
