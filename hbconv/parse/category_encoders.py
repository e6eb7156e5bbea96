"""Encoders of category_encoders, whatever they learn of a category.

An encoder of one column is a function of the category alone, so a table holds it wholly. The
encoder itself fills the table: it transforms one row for each category that it learned, one for a
category that it never saw, and one for a missing value.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import Compare, Node, Output, Recode, Schema
from hbconv.parse.common.members import columns_of_array
from hbconv.parse.common.text_columns import MISSING, are_numbers, category_codes, is_nan
from hbconv.parse.registry import parses
from hbconv.parse.schema import named_or_matrix, transform_frame
from hbconv.parse.step import Step, concat, select

__all__: list[str] = []

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
        name_out: node
        for table in tables
        for name_out, node in zip(table.names, _look_up(step, table), strict=True)
    }
    parts = [
        encoded[name] if name in encoded else _pass_column(step, names.index(name))
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


def _look_up(step: Step, table: ColumnTable) -> list[Node]:
    codes = category_codes(step, table.position, table.categories)
    table.check(step, codes)
    return [Recode(codes, (Array(values),)) for values in table.values]


def _pass_column(step: Step, position: int) -> Node:
    """Return a column that is not encoded; text would stay text, which no program holds."""
    dtype = step.estimator.feature_dtypes_in_[position]
    if getattr(dtype, "kind", "O") not in "biuf":
        name = step.estimator.feature_names_in_[position]
        raise step.refuse("cols", step.estimator.cols, f"Encode or drop {name!r} too: it is text.")
    return select(step.x, [position])


@dataclass(frozen=True)
class ColumnTable:
    """What an encoder makes of one column.

    Parameters
    ----------
    position : int
        Place of the column in the rows.
    categories : ndarray
        Categories that the encoder tells apart; NaN, or MISSING for text, at the end.
    names : list
        Names of the columns that it becomes.
    values : list of ndarray
        For each of these, the value of an unknown category, then of each category.
    refuses : tuple of str
        Values that the encoder refuses, of "unknown" and "missing".
    """

    position: int
    categories: npt.NDArray[Any]
    names: list[Any]
    values: list[npt.NDArray[Any]]
    refuses: tuple[str, ...]

    def check(self, step: Step, codes: Node) -> None:
        """Refuse the rows that the encoder refuses."""
        name = step.estimator.feature_names_in_[self.position]
        if "unknown" in self.refuses:
            step.check(
                Compare.of(codes, "eq", -1),
                f"Unexpected categories found in column {name!r} (step {step.where!r}).",
            )
        if "missing" in self.refuses:
            first = next(i for i, category in enumerate(self.categories) if _is_missing(category))
            step.check(
                Compare.of(codes, "ge", first),
                f"Column {name!r} to be encoded cannot contain null (step {step.where!r}).",
            )


def read_tables(step: Step) -> list[ColumnTable]:
    """Return the table of each column that the encoder encodes.

    Raises
    ------
    UnsupportedError
        A function decides what becomes of unknown or missing values.
    """
    est = step.estimator
    for name in ("handle_unknown", "handle_missing"):
        policies = getattr(est, name)
        for policy in policies.values() if isinstance(policies, dict) else (policies,):
            if callable(policy):
                raise step.refuse(name, policy, "hbconv calls no function of the user's.")
    names = list(est.feature_names_in_)
    categories = {column: _categories(est, column) for column in est.cols}
    usual = {name: categories[name][0] if categories.get(name) else np.nan for name in names}
    # One row each: a refused value in the whole probe would hide what becomes of the others.
    refuses = {column: _find_refused(est, usual, column, categories[column]) for column in est.cols}
    transformed = _transform(est, _probe(usual, categories, refuses))
    known_row = _transform(est, _frame({name: [value] for name, value in usual.items()}))
    # An unknown value makes floats of a column that has ints where all values are known.
    transformed = _as_of_known(transformed, known_row)
    owners = _owners(est)
    return [
        _table(
            names.index(column), categories[column], transformed, owners[column], refuses[column]
        )
        for column in est.cols
    ]


def _find_refused(
    encoder: Any, usual: dict[Any, Any], column: Any, categories: list[Any]
) -> tuple[str, ...]:
    """Return what the encoder refuses in a column, found by giving it one row of each."""
    # Policies may be dicts by column; without "error" in them the encoder refuses nothing.
    if "error" not in repr((encoder.handle_unknown, encoder.handle_missing)):
        return ()
    odd = {"unknown": _unknown(categories), "missing": np.nan}
    return tuple(kind for kind, value in odd.items() if not _takes(encoder, usual, column, value))


def _takes(encoder: Any, usual: dict[Any, Any], column: Any, value: Any) -> bool:
    try:
        _transform(
            encoder,
            _frame(
                {name: [usual_value] for name, usual_value in usual.items()} | {column: [value]}
            ),
        )
    except ValueError:
        return False
    return True


def _table(
    position: int,
    categories: list[Any],
    transformed: Any,
    owned: list[Any],
    refuses: tuple[str, ...],
) -> ColumnTable:
    """Take a column's values out of the transformed probe: unknown, missing, then the known."""
    kept = [name for name in owned if name in transformed.columns]
    values = [_in_order(transformed[name].to_numpy(), categories) for name in kept]
    return ColumnTable(position, _with_missing(categories), kept, values, refuses)


def _as_of_known(transformed: Any, known_row: Any) -> Any:
    """Give columns of whole numbers the dtype that they have where all values are known."""
    dtypes = {
        name: known_row[name].dtype
        for name in transformed.columns
        if known_row[name].dtype.kind in "iu"
        and transformed[name].dtype.kind == "f"
        and np.isfinite(transformed[name]).all()
        and (transformed[name] == np.floor(transformed[name])).all()
    }
    return transformed.astype(dtypes)


def _in_order(column: npt.NDArray[Any], categories: list[Any]) -> npt.NDArray[Any]:
    """Return the value of an unknown category, of each known one, and of missing ones."""
    missing = [column[1]] * (len(_with_missing(categories)) - len(categories))
    return np.array([column[0], *column[2 : 2 + len(categories)], *missing], column.dtype)


def _with_missing(categories: list[Any]) -> npt.NDArray[Any]:
    """Return the categories, then what stands for a missing value: NaN, or MISSING for text."""
    if categories and are_numbers(np.array(categories, dtype=object)):
        return np.array([*categories, np.nan], dtype=np.float64)
    return np.array([*categories, MISSING], dtype=object)


def _probe(
    usual: dict[Any, Any], categories: dict[Any, list[Any]], refuses: dict[Any, tuple[str, ...]]
) -> Any:
    """Return a frame of an unknown value, a missing one, and all categories of each column.

    A usual value takes the place of values that are missing or that the encoder refuses.
    """
    height = 2 + max(map(len, categories.values()), default=0)
    columns = {name: [value] * height for name, value in usual.items()}
    for name, values in categories.items():
        odd = {"unknown": _unknown(values), "missing": np.nan}
        first = [usual[name] if kind in refuses[name] else value for kind, value in odd.items()]
        columns[name][: 2 + len(values)] = [*first, *values]
    return _frame(columns)


def _frame(columns: dict[Any, list[Any]]) -> Any:
    return sys.modules["pandas"].DataFrame(
        # A None at the end keeps numpy from making one array of equal sequences.
        {name: np.array([*values, None], dtype=object)[:-1] for name, values in columns.items()}
    )


def _unknown(categories: Sequence[Any]) -> Any:
    """Return a value of the column's kind that is no category."""
    if categories and are_numbers(np.array(categories, dtype=object)):
        # Above all, so it is none of them.
        return float(max(categories)) + 1
    # Longer than each category, so it is none of them.
    return "".join(str(value) for value in categories) + "?"


def _transform(encoder: Any, probe: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return encoder.transform(probe, override_return_df=True)


def _categories(encoder: Any, column: Any) -> list[Any]:
    """Return all values of a column that the encoder may tell apart, numbers ascending."""
    learned = {value for value in _list_learned(encoder, column) if not _is_missing(value)}
    values = [value.item() if isinstance(value, np.generic) else value for value in learned]
    numbers = all(isinstance(value, int | float) for value in values)
    return (
        sorted(values) if numbers else sorted(values, key=lambda value: (str(type(value)), value))
    )


def _list_learned(encoder: Any, column: Any) -> Iterator[Any]:
    """Yield the categories in an encoder's tables, and the labels that it joins to groups.

    Behind an encoder of ordinals the tables of most encoders are over these ordinals.
    """
    ordinal = getattr(encoder, "ordinal_encoder", None)
    by_category = encoder.mapping if ordinal is None else ordinal.mapping
    if isinstance(by_category, dict):
        yield from by_category[column].index
    else:
        yield from next(table["mapping"] for table in by_category if table["col"] == column).index
    for attribute in ("min_group_lumping_", "_min_group_categories"):
        groups = (getattr(encoder, attribute, None) or {}).get(column, {})
        yield from (*groups, *groups.values())


def _owners(encoder: Any) -> dict[Any, list[Any]]:
    """Return the columns that each column becomes."""
    wide = encoder.mapping if isinstance(encoder.mapping, list) else []
    owned = {
        table["col"]: list(table["mapping"].columns)
        for table in wide
        if hasattr(table["mapping"], "columns")
    }
    return {column: owned.get(column, [column]) for column in encoder.cols}


def _is_missing(value: Any) -> bool:
    return value is None or value is sys.modules["pandas"].NA or is_nan(value) or value == MISSING
