"""Chains of ColumnTransformers, drawn at random: each stage reads what the one before it made.

A stage is fitted as it is drawn, and its answer tells the kinds of columns that the next one finds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from hunt.dice import Dice
from hunt.draw_data import columns_of, draw_labels, draw_scores
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    KBinsDiscretizer,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    StandardScaler,
    TargetEncoder,
)
from sklearn.tree import DecisionTreeClassifier

__all__ = ["draw_chain", "draw_mixed_frame"]

Maker = Callable[[Dice], Any]
SIZES = (40, 80)
INTEGERS = ("int64", "int64", "int32", "int8", "uint8", "float32")


def _one_hot(dice: Dice) -> Any:
    return OneHotEncoder(
        handle_unknown=dice.pick("ignore", "infrequent_if_exist"),
        min_frequency=dice.pick(None, None, 5),
        sparse_output=dice.chance(0.5),
    )


def _ordinal(dice: Dice) -> Any:
    dtype = dice.pick(np.float64, np.float64, np.float32)
    return OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1, dtype=dtype)


def _frequent(_: Dice) -> Any:
    return SimpleImputer(strategy="most_frequent")


def _missing(_: Dice) -> Any:
    return SimpleImputer(strategy="constant", fill_value="missing")


def _passed(_: Dice) -> Any:
    return "passthrough"


def _dropped(_: Dice) -> Any:
    return "drop"


OF_NUMBERS: tuple[Maker, ...] = (
    lambda dice: SimpleImputer(
        strategy=dice.pick("mean", "median", "most_frequent"), add_indicator=dice.chance(0.2)
    ),
    lambda dice: SimpleImputer(strategy="constant", fill_value=dice.pick(0, -1)),
    lambda dice: StandardScaler(),
    lambda dice: MinMaxScaler(),
    lambda dice: make_pipeline(SimpleImputer(), StandardScaler()),
    lambda dice: make_pipeline(SimpleImputer(), PolynomialFeatures(2, include_bias=False)),
    lambda dice: make_pipeline(
        SimpleImputer(), KBinsDiscretizer(3, encode="ordinal", quantile_method="linear")
    ),
    _passed,
    _passed,
    _one_hot,
)
OF_TEXTS: tuple[Maker, ...] = (
    _one_hot,
    _ordinal,
    lambda dice: TargetEncoder(cv=2, random_state=0),
    lambda dice: make_pipeline(_frequent(dice), dice.pick(_one_hot, _ordinal)(dice)),
    lambda dice: make_pipeline(_missing(dice), dice.pick(_one_hot, _ordinal)(dice)),
)
PASSED_TEXTS: tuple[Maker, ...] = (_passed, _passed, _frequent, _missing)
OF_REST: tuple[Maker, ...] = (_passed, _passed, _dropped)
FINALS: tuple[Maker, ...] = (
    lambda dice: LogisticRegression(max_iter=50),
    lambda dice: DecisionTreeClassifier(max_depth=4, random_state=0),
    lambda dice: RandomForestClassifier(5, max_depth=4, random_state=0),
    lambda dice: HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=5),
    lambda dice: Ridge(),
    lambda dice: None,
)


def draw_chain(dice: Dice) -> tuple[Any, pd.DataFrame, bool]:
    """Draw a fitted chain of two or three stages, and an estimator behind it or not.

    Return it, the frame that it was fitted on, and whether it was given as an array.
    """
    frame = draw_mixed_frame(dice, dice.pick(*SIZES))
    as_array = dice.chance(0.4)
    target = draw_labels(dice, draw_scores(dice, frame.fillna({"i0": 0})))
    final = dice.pick(*FINALS)(dice)
    if isinstance(final, Ridge):
        target = np.unique(target, return_inverse=True)[1].astype(float)
    made: Any = frame.to_numpy() if as_array else frame
    stages = []
    for last in [False] * dice.count(1, 3) + [True]:
        stage = _stage(dice, made, last=last)
        stages.append(stage)
        made = stage.fit(made, target).transform(made)
    steps = [(f"c{i}", stage) for i, stage in enumerate(stages)]
    model = Pipeline(steps if final is None else [*steps, ("final", final)])
    return model.fit(frame.to_numpy() if as_array else frame, target), frame, as_array


def draw_mixed_frame(dice: Dice, n_rows: int) -> pd.DataFrame:
    """Draw columns of numbers, integers, bools and texts in any order, some with holes."""
    numbers = dice.numbers
    columns: dict[str, Any] = {
        f"n{i}": numbers.normal(size=n_rows).astype(dice.pick("f8", "f8", "f4"))
        for i in range(dice.count(1, 4))
    }
    for i in range(dice.count(0, 3)):
        columns[f"i{i}"] = numbers.integers(0, 4, n_rows).astype(dice.pick(*INTEGERS))
    for i in range(dice.count(1, 4)):
        columns[f"c{i}"] = _texts(dice, n_rows)
    if dice.chance(0.3):
        columns["b0"] = numbers.random(n_rows) < 0.5
    frame = pd.DataFrame({name: columns[name] for name in dice.some(columns, len(columns))})
    if dice.chance(0.4):
        name = dice.pick(*columns_of(frame, "n"))
        frame.loc[numbers.random(n_rows) < 0.1, name] = np.nan
    return frame


def _texts(dice: Dice, n_rows: int) -> Any:
    """Draw categories, as objects, as text or as a category dtype; some of them missing."""
    levels = np.array(dice.some(["a", "b", "c", "", "1", "nan", "Zz"], 4), dtype=object)
    values = levels[dice.numbers.integers(0, len(levels), n_rows)]
    if dice.chance(0.3):
        values[dice.numbers.random(n_rows) < 0.15] = dice.pick(np.nan, np.nan, None)
    return dice.pick(values, values, pd.Series(values, dtype="str"), pd.Categorical(values))


def _stage(dice: Dice, made: Any, *, last: bool) -> ColumnTransformer:
    """Draw a transformer of each of some groups of columns; the last one encodes all texts."""
    kinds = _kinds(made)
    texts = [j for j, kind in enumerate(kinds) if kind == "text"]
    numbers = [j for j, kind in enumerate(kinds) if kind == "number"]
    encoded = texts if last else dice.some(texts, dice.count(0, len(texts) + 1))
    kept = sorted(set(texts) - set(encoded))
    by_name = hasattr(made, "columns") and dice.chance(0.5)
    parts: list[tuple[str, Any, Any]] = []
    for groups, makers in (
        (_groups(dice, encoded), OF_TEXTS),
        (_groups(dice, dice.some(kept, len(kept) // 2)), PASSED_TEXTS),
        (_groups(dice, dice.some(numbers, dice.count(0, len(numbers) + 1))), OF_NUMBERS),
    ):
        for own in groups:
            columns = [made.columns[j] for j in own] if by_name else own
            parts.append((f"p{len(parts)}", dice.pick(*makers)(dice), columns))
    if dice.chance(0.15) and texts and numbers and last:
        both = make_pipeline(dice.pick(_missing, _frequent)(dice), _one_hot(dice))
        parts.append(("both", both, [texts[0], numbers[0]]))
    rest = {*range(len(kinds))} - {*encoded}
    only_numbers = all(kinds[j] == "number" for j in rest)
    remainder = dice.pick(*OF_REST, *(OF_NUMBERS[:5] if only_numbers else (_frequent,)[last:]))
    stage = ColumnTransformer(
        dice.some(parts, len(parts)) or [("p", "passthrough", [0])],
        remainder=remainder(dice),
        sparse_threshold=dice.pick(0, 0, 0.3),
        verbose_feature_names_out=dice.chance(0.7),
    )
    output = dice.pick(None, None, "pandas", "polars")
    return stage if output is None else stage.set_output(transform=output)


def _groups(dice: Dice, columns: Sequence[int]) -> list[list[int]]:
    """Cut columns into one group or two."""
    cut = dice.count(0, len(columns) + 1)
    return [group for group in (list(columns[:cut]), list(columns[cut:])) if group]


def _kinds(made: Any) -> list[str]:
    """Tell of each column whether it holds texts, numbers or both."""
    if hasattr(made, "columns"):
        values = [list(made[name]) for name in made.columns]
    else:
        values = np.asarray(made.toarray() if hasattr(made, "toarray") else made).T.tolist()
    return [_kind([v for v in column if v is not None and v == v]) for column in values]


def _kind(values: Sequence[Any]) -> str:
    texts = {isinstance(value, str) for value in values}
    if len(texts) > 1:
        return "both"
    return "text" if texts == {True} else "number"
