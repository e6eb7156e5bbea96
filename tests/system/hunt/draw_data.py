"""Rows to fit on, drawn at random: matrices of numbers, frames of numbers, categories and texts.

The first letter of a column's name is its kind: ``n`` of numbers, ``i`` of integers, ``c`` of
categories, ``b`` of bools, ``t`` of texts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from hunt.dice import Dice

__all__ = ["columns_of", "draw_frame", "draw_labels", "draw_matrix", "draw_scores", "numbers_of"]

WIDTHS = (1, 2, 3, 5, 6, 8, 12, 17, 30)

WORDS = (
    "the", "a", "cat", "dog", "Rome", "roma", "naïve", "über", "東京", "pi", "π", "x1", "don't",
    "e-mail", "12", "3.5", "null", "NaN", "café", "CAFÉ", "ß", "İ", "ǆ", "ﬁ", "end",
)  # fmt: skip

LEVELS = (
    "a", "b", "c", "Rome", "naïve", "", " x", "x ", "None", "nan", "1", "1.0", "10", "Z" * 40,
)  # fmt: skip
"""Categories, some of which look like others, like numbers or like nothing."""


def draw_matrix(dice: Dice, n_rows: int) -> npt.NDArray[Any]:
    """Draw columns of sizes far apart, some of them integers, constant or with holes."""
    width = dice.pick(*WIDTHS)
    sizes = 10.0 ** dice.numbers.integers(-2, 4, width)
    values = dice.numbers.normal(size=(n_rows, width)) * sizes
    for column in values.T:
        if dice.chance(0.25):
            column[:] = np.round(column)
        if dice.chance(0.1):
            column[:] = 0.0
        if dice.chance(0.1):
            column[:] = dice.numbers.integers(0, 4, n_rows)
    if dice.chance(0.25):
        values[dice.numbers.random(values.shape) < 0.1] = np.nan
    return values.astype(dice.pick("f8", "f8", "f8", "f4"))


def draw_frame(dice: Dice, n_rows: int, family: str) -> pd.DataFrame:
    """Draw a frame of numbers, and where the family says so of categories and of texts."""
    frame = pd.DataFrame(_numbers(dice, n_rows))
    if family in ("mixed", "text"):
        frame = frame.assign(**_mixture(dice, n_rows))
    if family == "text":
        frame["t0"] = [" ".join(dice.many(WORDS, dice.count(0, 12))) for _ in range(n_rows)]
    if dice.chance(0.3):
        for name in columns_of(frame, "n")[:2]:
            frame.loc[dice.numbers.random(n_rows) < 0.15, name] = np.nan
    return frame


def _numbers(dice: Dice, n_rows: int) -> dict[str, Any]:
    names = [f"n{i}" for i in range(dice.count(2, 7))]
    return {name: dice.numbers.normal(size=n_rows) * 10.0 ** dice.count(-2, 4) for name in names}


def _mixture(dice: Dice, n_rows: int) -> dict[str, Any]:
    """Draw columns of categories, a quarter of them of that dtype, of integers and of bools."""
    columns: dict[str, Any] = {}
    for i in range(dice.count(1, 4)):
        levels = np.array(dice.some(LEVELS, dice.count(2, 7)), dtype=object)
        values = levels[dice.numbers.integers(0, len(levels), n_rows)]
        columns[f"c{i}"] = pd.Categorical(values) if dice.chance(0.25) else values
    for i in range(dice.count(0, 3)):
        columns[f"i{i}"] = dice.numbers.integers(-3, dice.pick(3, 10, 300), n_rows)
    if dice.chance(0.4):
        columns["b0"] = dice.numbers.random(n_rows) < 0.5
    return columns


def columns_of(frame: pd.DataFrame, kinds: str) -> list[str]:
    """Names of the columns of these kinds."""
    return [name for name in frame if name[0] in kinds]


def numbers_of(rows: Any) -> npt.NDArray[Any]:
    """The numbers of a matrix or of a frame."""
    return rows if isinstance(rows, np.ndarray) else rows[columns_of(rows, "ni")].to_numpy()


def draw_scores(dice: Dice, rows: Any) -> npt.NDArray[np.float64]:
    """Draw a target that the numbers tell, but for some noise."""
    numbers = np.nan_to_num(numbers_of(rows)).astype(np.float64)
    shares = numbers / (np.abs(numbers).max(axis=0) + 1)
    return shares.sum(axis=1) + dice.numbers.normal(size=len(numbers)) * 0.2


def draw_labels(dice: Dice, scores: npt.NDArray[np.float64]) -> npt.NDArray[Any]:
    """Cut scores into classes: integers, texts, bools where there are two."""
    count = dice.pick(2, 2, 3, 5)
    edges = np.quantile(scores, np.linspace(0, 1, count + 1)[1:-1])
    texts = [f"class {i}" for i in range(count)]
    kinds = [np.arange(count), np.array(texts, dtype=object)]
    if count == 2:
        kinds += [np.array(texts), np.arange(count) * 7 - 3, np.array([False, True])]
    else:
        kinds += [np.arange(count) - 2]
    return dice.pick(*kinds)[np.digitize(scores, edges)]
