"""Forests of YDF over tables of numbers, text, bools and missing values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import ydf
from matrix.case import Case
from matrix.data import fit_table, table_rows, target
from matrix.fitting import Trees

ydf.verbose(0)


def _with_flag(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(flag=np.arange(len(table)) % 3 == 0)


def _rows(n: int) -> pd.DataFrame:
    return _with_flag(table_rows(n))


def _ask(model: Any, method: str, x: pd.DataFrame) -> Any:
    if method == "apply":
        return model.predict_leaves(x.assign(y=_any_label(model)))
    if method == "raw_scores" and model.task().name == "CLASSIFICATION":
        model = ydf.deserialize_model(model.serialize())
        model.set_output_logits(True)
    return getattr(model, "predict" if method == "raw_scores" else method)(x)


def _any_label(model: Any) -> Any:
    return model.label_classes()[0] if model.task().name == "CLASSIFICATION" else 0.0


def _train(learner: Any, y: str | None, **options: Any) -> Callable[[], Any]:
    def train() -> Any:
        table = _with_flag(fit_table())
        if y is None:
            return learner(num_trees=4, **options).train(table)
        made = learner(label="y", num_threads=1, **options)
        return made.train(table.assign(y=target(y)))

    return train


def forests() -> Iterator[Case]:
    """Tasks, votes, losses, missing values, and kinds of conditions."""
    case = partial(Trees, rows=_rows, ask=_ask)
    numbers = {"task": ydf.Task.REGRESSION}
    classes = ("predict", "predict_class", "apply")
    averaged = partial(case, "ydf.RandomForestModel", methods=classes)
    forest = partial(_train, ydf.RandomForestLearner, num_trees=5)
    yield averaged("three classes", forest("three_text", winner_take_all=False))
    yield averaged("two classes, votes", forest("two_text"))
    oblique = {"split_axis": "SPARSE_OBLIQUE", "sparse_oblique_weights": "CONTINUOUS"}
    yield averaged("oblique", forest("two_text", **oblique))
    yield averaged("CART", _train(ydf.CartLearner, "three_text"))
    plain = partial(averaged, methods=("predict", "apply"))
    yield plain("numbers", forest("value", **numbers))
    boosted = partial(
        case, "ydf.GradientBoostedTreesModel", methods=(*classes[:2], "raw_scores", "apply")
    )
    boosting = partial(_train, ydf.GradientBoostedTreesLearner, num_trees=5, validation_ratio=0.0)
    yield boosted("two classes", boosting("two_text"))
    yield boosted("three classes", boosting("three_text"))
    yield boosted("discretized", boosting("two_text", discretize_numerical_columns=True))
    yield boosted("missing values", boosting("two_text", allow_na_conditions=True))
    scored = partial(boosted, methods=("predict", "raw_scores", "apply"))
    yield scored("numbers", boosting("value", **numbers))
    isolation = partial(case, "ydf.IsolationForestModel", methods=("predict", "apply"))
    yield isolation("rows", _train(ydf.IsolationForestLearner, None))


CASES = (*forests(),)
