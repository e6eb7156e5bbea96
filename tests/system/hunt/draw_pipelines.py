"""Fitted pipelines, drawn at random: each follows from its seed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from hunt.dice import Dice
from hunt.draw_chains import draw_chain
from hunt.draw_data import (
    columns_of,
    draw_frame,
    draw_labels,
    draw_matrix,
    draw_scores,
    numbers_of,
)
from hunt.draw_models import (
    draw_classifier,
    draw_regressor,
    draw_tree_classifier,
    draw_tree_regressor,
)
from hunt.draw_steps import draw_encoder, draw_imputer, draw_simple_step, draw_step, draw_vectorizer
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline

__all__ = ["ATTEMPTS", "DRAWINGS", "Fitted", "draw_fitted"]

FAMILIES = ("matrix",) * 5 + ("mixed",) * 3 + ("text", "numbers", "trees")
"""What is fitted on: a matrix, frames of three kinds, and trees alone on a matrix."""

TASKS = ("classification", "classification", "regression", "transform")
SIZES = (60, 150, 300)
LONGEST = 7
"""Steps before the estimator."""
ATTEMPTS = 5
"""Pipelines that a seed draws until one can be fitted."""


@dataclass(frozen=True)
class Fitted:
    """A fitted pipeline.

    Parameters
    ----------
    model : estimator
    rows : array or frame
        What it was fitted on.
    family : str
        One of ``FAMILIES``, or "chain".
    dice : Dice
        Goes on behind the draws of the pipeline.
    as_objects : bool
        It was given the rows, a frame, as an array of objects.
    """

    model: Any
    rows: Any
    family: str
    dice: Dice
    as_objects: bool = False


def draw_fitted(
    seed: int, unfit: Counter[str] | None = None, drawing: str = "pipelines"
) -> Fitted | None:
    """Draw pipelines until one can be fitted; None where none of a few can.

    Errors of those that cannot are counted.
    """
    for attempt in range(ATTEMPTS):
        dice = Dice(seed, attempt)
        try:
            return DRAWINGS[drawing](dice)
        except Exception as error:
            if unfit is not None:
                unfit[f"unfit by {type(error).__name__}"] += 1
    return None


def _draw(dice: Dice) -> Fitted:
    n_rows = dice.pick(*SIZES)
    family = dice.pick(*FAMILIES)
    on_matrix = family in ("matrix", "trees")
    rows = draw_matrix(dice, n_rows) if on_matrix else draw_frame(dice, n_rows, family)
    task = dice.pick(*TASKS)
    scores = draw_scores(dice, rows)
    target = scores * dice.pick(1, 100, 1e-3) if task == "regression" else draw_labels(dice, scores)
    model = _settled(_trees(dice, task) if family == "trees" else _pipeline(dice, rows, task))
    return Fitted(model.fit(rows, target), rows, family, dice)


def _chain(dice: Dice) -> Fitted:
    model, frame, as_objects = draw_chain(dice)
    return Fitted(model, frame, "chain", dice, as_objects)


DRAWINGS = {"pipelines": _draw, "chains": _chain}
"""What is drawn: pipelines of any steps, or ColumnTransformers one after another."""


def _settled(model: Any) -> Any:
    """Have an estimator draw the same numbers in each fit."""
    unsettled = {
        name: 0
        for name, value in model.get_params().items()
        if name.endswith("random_state") and value is None
    }
    return model.set_params(**unsettled)


def _trees(dice: Dice, task: str) -> Any:
    draw = draw_tree_regressor if task == "regression" else draw_tree_classifier
    return _alone_or_not(dice, [("final", draw(dice))])


def _pipeline(dice: Dice, rows: Any, task: str) -> Any:
    """Draw steps for rows, and an estimator behind them unless they are to transform."""
    final = []
    if task == "classification":
        final = [("final", draw_classifier(dice))]
    if task == "regression":
        final = [("final", draw_regressor(dice))]
    first = _first_steps(dice, rows)
    count = dice.count(int(task == "transform"), LONGEST + 1 - len(first))
    others = [(f"s{i}", draw_step(dice)) for i in range(count)]
    return _alone_or_not(dice, [*first, *others, *final])


def _alone_or_not(dice: Dice, steps: list[tuple[str, Any]]) -> Any:
    """Make a pipeline of some steps; of one, mostly the step itself."""
    if len(steps) > 1 or steps[0][1] == "passthrough" or dice.chance(0.3):
        return Pipeline(steps)
    return steps[0][1]


def _first_steps(dice: Dice, rows: Any) -> list[tuple[str, Any]]:
    """Draw what makes finite numbers of the rows."""
    if isinstance(rows, np.ndarray):
        has_holes = np.isnan(numbers_of(rows)).any() and dice.chance(0.8)
        return [("imp", draw_imputer(dice))] if has_holes else []
    if columns_of(rows, "cbt"):
        return [("pre", _columns(dice, rows))]
    return [("imp", SimpleImputer(keep_empty_features=True))]


def _columns(dice: Dice, frame: pd.DataFrame) -> ColumnTransformer:
    """Draw a step for each kind of column."""
    scaled = [(f"s{i}", draw_simple_step(dice)) for i in range(dice.count(0, 3))]
    numbers = Pipeline([("i", draw_imputer(dice)), *scaled])
    parts: list[tuple[str, Any, Any]] = [("num", numbers, columns_of(frame, "ni"))]
    if columns_of(frame, "c"):
        parts.append(("cat", draw_encoder(dice), columns_of(frame, "c")))
    if "b0" in frame:
        parts.append(("b", "passthrough", ["b0"]))
    if "t0" in frame:
        parts.append(("t", draw_vectorizer(dice), "t0"))
    return ColumnTransformer(
        dice.some(parts, len(parts)),
        sparse_threshold=dice.pick(0, 0.3, 1.0),
        transformer_weights=dice.pick(None, {"num": 0.5}),
    )
