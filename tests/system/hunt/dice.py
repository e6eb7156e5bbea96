"""Choices and numbers that follow from a seed."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import numpy as np

__all__ = ["Dice"]


class Dice:
    """Draws the same choices and the same numbers each time.

    Parameters
    ----------
    seed, attempt : int
        Which draws: a seed whose first draws are of no use goes on with others.
    """

    def __init__(self, seed: int, attempt: int = 0) -> None:
        self._choices = random.Random(f"{seed}.{attempt}")
        self.numbers = np.random.default_rng([seed, attempt])

    def pick(self, *options: Any) -> Any:
        """Choose one of the options; one that is named twice is chosen twice as often."""
        return self._choices.choice(options)

    def chance(self, share: float) -> bool:
        """Say yes in a share of all cases."""
        return self._choices.random() < share

    def count(self, first: int, beyond: int) -> int:
        """Choose an integer from ``first`` on, below ``beyond``."""
        return self._choices.randrange(first, beyond)

    def some(self, options: Iterable[Any], most: int) -> list[Any]:
        """Choose different ones, in any order, as many as there are or as asked for."""
        held = list(options)
        return self._choices.sample(held, min(len(held), most))

    def many(self, options: Iterable[Any], count: int) -> list[Any]:
        """Choose so often, some of them again."""
        return self._choices.choices(list(options), k=count)
