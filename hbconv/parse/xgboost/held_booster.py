"""A Booster that a .skops file holds: its bytes, which XGBoost's own loader never sees."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from hbconv.errors import ConversionError
from hbconv.parse.xgboost.model_file import XGBoostModel, read_xgboost_bytes

__all__ = ["HeldXGBoost"]


class HeldXGBoost:
    """What stands for an ``xgboost.Booster`` in the estimators of a .skops file.

    XGBoost's loader ends the process over some damaged bytes. It has what the parsers and the
    attributes of fitted estimators ask of a Booster.
    """

    data: bytes

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        handle = state.get("handle")
        if not isinstance(handle, bytes | bytearray):
            raise ConversionError("The file is damaged: it holds a Booster without its model.")
        self.data = bytes(handle)

    @cached_property
    def model(self) -> XGBoostModel:
        """What the bytes hold."""
        return read_xgboost_bytes(self.data)

    @property
    def feature_names(self) -> list[str] | None:
        """Names of the features; None where the rows had none."""
        return list(self.model.names) or None

    def num_features(self) -> int:
        """Return the width of the rows."""
        return self.model.n_features

    def save_raw(self, raw_format: str) -> bytes:  # noqa: ARG002
        """Return the bytes, in the format that they have."""
        return self.data
