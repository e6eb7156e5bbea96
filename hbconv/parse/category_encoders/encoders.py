"""Encoders of category_encoders, whatever they learn of a category."""

from __future__ import annotations

from typing import Any

from hbconv.array import Array
from hbconv.containers import Node, Output, Recode, Schema
from hbconv.parse.category_encoders.tables import ColumnTable, read_tables
from hbconv.parse.common.frames import transform_frame
from hbconv.parse.common.members import columns_of_array
from hbconv.parse.common.text_columns import category_codes
from hbconv.parse.registry import parses
from hbconv.parse.schema import named_or_matrix
from hbconv.parse.step import Step, concat, select

_NAMES = (
    "BackwardDifferenceEncoder",
    "BaseNEncoder",
    "BinaryEncoder",
    "CatBoostEncoder",
    "CountEncoder",
    "CountTargetEncoder",
    "GrayEncoder",
    "HelmertEncoder",
    "JamesSteinEncoder",
    "LeaveOneOutEncoder",
    "MEstimateEncoder",
    "OneHotEncoder",
    "OrdinalEncoder",
    "PolynomialEncoder",
    "QuantileEncoder",
    "RankHotEncoder",
    "SumEncoder",
    "TargetEncoder",
    "WOEEncoder",
)


def _features(encoder: Any) -> Schema:
    return named_or_matrix(encoder.feature_names_in_)


@parses(
    *(f"category_encoders.{name}" for name in _NAMES),
    "category_encoders.glmm.GLMMEncoder",
    features=_features,
    is_fitted=lambda encoder: hasattr(encoder, "feature_names_in_"),
    frames=lambda encoder: "pandas" if encoder.return_df else "",
)
def parse_category_encoder(step: Step) -> dict[str, Output]:
    """Look up what the encoder makes of each category; other columns pass as they are."""
    _refuse_joined_columns(step)
    _refuse_bools(step)
    tables = read_tables(step)
    names = list(step.estimator.feature_names_in_)
    encoded = {
        made: node
        for table in tables
        for made, node in zip(table.made, _looked_up(step, table), strict=True)
    }
    parts = [
        encoded[name] if name in encoded else _passed(step, names.index(name))
        for name in step.estimator.feature_names_out_.tolist()
    ]
    if step.estimator.return_df:
        return transform_frame(parts)
    return {"transform": Output(columns_of_array(concat(parts), range(len(parts))))}


def _refuse_joined_columns(step: Step) -> None:
    """Refuse what an encoder learns of several columns together."""
    for parameter in ("composite_cols", "hierarchy"):
        value = getattr(step.estimator, parameter, None)
        if value:
            raise step.refuse(parameter, value, "hbconv reads each column alone; join them before.")


def _refuse_bools(step: Step) -> None:
    """Refuse columns of bools where the source finds none of its categories in them."""
    if type(step.estimator).__name__ not in ("CatBoostEncoder", "LeaveOneOutEncoder"):
        return
    for name, dtype in zip(
        step.estimator.feature_names_in_, step.estimator.feature_dtypes_in_, strict=True
    ):
        if name in step.estimator.cols and getattr(dtype, "kind", "O") == "b":
            hint = f"The source gives all values of {name!r} the mean; make ints or texts of them."
            raise step.refuse("cols", step.estimator.cols, hint)


def _looked_up(step: Step, table: ColumnTable) -> list[Node]:
    codes = category_codes(step, table.position, table.categories)
    table.check(step, codes)
    return [Recode(codes, (Array(values),)) for values in table.values]


def _passed(step: Step, position: int) -> Node:
    """Return a column that is not encoded; text would stay text, which no program holds."""
    dtype = step.estimator.feature_dtypes_in_[position]
    if getattr(dtype, "kind", "O") not in "biuf":
        name = step.estimator.feature_names_in_[position]
        raise step.refuse("cols", step.estimator.cols, f"Encode or drop {name!r} too: it is text.")
    return select(step.x, [position])
