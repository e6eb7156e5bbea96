"""A Booster that a .skops file holds: its text, which LightGBM's own loader never sees."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hbconv.errors import ConversionError
from hbconv.parse.lightgbm.model_text import category_lists, read_names

__all__ = ["HeldLightGBM"]


class HeldLightGBM:
    """What stands for a ``lightgbm.Booster`` in the estimators of a .skops file.

    LightGBM's loader ends the process over some damaged texts. It has what the parsers and the
    attributes of fitted estimators ask of a Booster.

    Parameters
    ----------
    text : str
        All trees.
    iterations : tuple of int or None
        First and last (not included) boosting iteration that predict uses; None: all.
    pandas_categorical : list of list
        Values of the columns that pandas had as categories.
    """

    text: str
    iterations: tuple[int, int] | None
    pandas_categorical: list[list[Any]]

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        text = state.get("_handle", state.get("handle"))
        best = state.get("best_iteration", 0)
        if not isinstance(text, str) or type(best) is not int:
            raise ConversionError("The file is damaged: it holds a Booster without its model.")
        self.text = text
        self.iterations = (0, best) if best > 0 else None
        self.pandas_categorical = category_lists(text)
        if (state.get("pandas_categorical") or []) != self.pandas_categorical:
            raise ConversionError("The file is damaged: it holds two lists of categories.")

    def feature_name(self) -> list[str]:
        """Return the names of the features."""
        return read_names(self.text)

    def num_feature(self) -> int:
        """Return the width of the rows."""
        return len(self.feature_name())
