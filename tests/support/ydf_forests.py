"""Small models of YDF over columns of every kind, and rows made to hurt."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import ydf

__all__ = [
    "FEATURES",
    "NUMBERS",
    "boosted",
    "copied",
    "hostile",
    "isolation",
    "labelled",
    "table",
    "trained",
]

ydf.verbose(0)

NUMBERS = ("x0", "x1", "x2", "x3")
CATEGORY = ydf.Semantic.CATEGORICAL
FEATURES = (
    *NUMBERS,
    "flag",
    "colour",
    ydf.Column("digit", CATEGORY),
    ydf.Column("own", CATEGORY, is_already_integerized=True),
)
"""Numbers, a bool, texts, texts of whole numbers, and numbers that are categories."""

COLOURS = ("red", "green", "blue", "reddish", "rare")


@cache
def table(n: int, seed: int = 0) -> pd.DataFrame:
    """Rows with missing values, and labels of every task."""
    rng = np.random.default_rng(seed)
    made = pd.DataFrame({name: rng.normal(size=n).astype(np.float32) for name in NUMBERS})
    made["flag"] = rng.random(n) < 0.4
    made["colour"] = rng.choice(COLOURS, n, p=[0.3, 0.3, 0.2, 0.19, 0.01]).astype(object)
    made["digit"] = rng.integers(0, 40, n).astype(str).astype(object)
    made["own"] = rng.integers(0, 6, n)
    value = made.x0 + made.x1 * made.flag + 2.0 * (made.colour == "red") + (made.own == 3)
    for name in (*NUMBERS, "colour", "digit"):
        made.loc[rng.random(n) < 0.1, name] = None
    made["value"] = (value + rng.normal(size=n) * 0.1).astype(np.float32)
    made["count"] = np.floor(np.exp(value.clip(-2, 2)))
    made["two"] = np.where(value > 0.5, "yes", "no")
    made["three"] = np.array(["low", "middle", "high"])[np.digitize(value, [0, 1])]
    made["group"] = rng.integers(0, 20, n).astype(str)
    made["relevance"] = rng.integers(0, 4, n)
    return made


@cache
def trained(learner: str, **options: Any) -> Any:
    """Train a learner by name; options are hashable."""
    single = learner == "CartLearner"
    given = {"features": list(FEATURES), "num_threads": 1} | options
    given |= {} if single else {"num_trees": options.get("num_trees", 12)}
    return getattr(ydf, learner)(**given).train(table(600))


def boosted(label: str = "two", **options: Any) -> Any:
    """Gradient boosted trees."""
    return trained("GradientBoostedTreesLearner", label=label, validation_ratio=0.0, **options)


def isolation(**options: Any) -> Any:
    """An isolation forest."""
    return trained("IsolationForestLearner", **options)


def copied(model: Any) -> Any:
    """A copy that a test may change."""
    return ydf.deserialize_model(model.serialize())


def labelled(model: Any, rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with all columns that ``predict_leaves`` asks for."""
    return rows.assign(
        **{c.name: table(1)[c.name][0] for c in model.data_spec().columns if c.name not in rows}
    )


def hostile(model: Any, n: int = 300) -> pd.DataFrame:
    """Thresholds and the floats beside them, infinities, NaN, and categories of many kinds."""
    rng = np.random.default_rng(1)
    rows = table(n, 7)[[*NUMBERS, "flag"]].copy()
    for name, cuts in _thresholds(model).items():
        near = rng.choice(cuts, n)
        for share, value in ((0.3, -np.inf), (0.3, np.inf)):
            near = np.where(rng.random(n) < share, np.nextafter(near, np.float32(value)), near)
        for value in (np.nan, np.inf, -np.inf, -0.0, 1e-42):
            near = np.where(rng.random(n) < 0.05, np.float32(value), near)
        rows[name] = near.astype(np.float32)
    colours = ["red", "green", "", "mauve", "rare", "<OOD>", None, "reddish"]
    rows["colour"] = np.array(colours, object)[rng.integers(0, 8, n)]
    digits = ["1", "2", "", "99", "01", " 1", None, "39"]
    rows["digit"] = np.array(digits, object)[rng.integers(0, 8, n)]
    rows["own"] = rng.integers(-1, 6, n)
    return rows


def _thresholds(model: Any) -> dict[str, np.ndarray]:
    columns = model.data_spec().columns
    found: dict[str, list[float]] = {}
    for number in range(model.num_trees()):
        for node in model._model.GetTree(number):
            condition = node.condition
            if condition.condition.HasField("higher_condition"):
                bound = condition.condition.higher_condition.threshold
                found.setdefault(columns[condition.attribute].name, []).append(bound)
            total = condition.condition.oblique_condition
            if len(total.weights) == 1:
                bound = total.threshold / total.weights[0]
                found.setdefault(columns[total.attributes[0]].name, []).append(bound)
    for column in columns:
        if column.HasField("discretized_numerical"):
            found[column.name] = list(column.discretized_numerical.boundaries)
    return {name: np.array(cuts, np.float32) for name, cuts in found.items()}
