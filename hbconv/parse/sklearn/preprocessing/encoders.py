"""Encoders: categories become codes, codes become ordinals or zeros and ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    VECTOR,
    Cast,
    Compare,
    Node,
    OneHot,
    Output,
    Recode,
    Schema,
    sparse_form,
)
from hbconv.parse.checks.contradictions import require_order
from hbconv.parse.common.text_columns import category_codes, columns_of, object_codes
from hbconv.parse.registry import parses
from hbconv.parse.step import Step, concat

__all__ = ["category_matrix", "object_matrix"]

CodesOf = Callable[[Step, int, Any], Node]

_DTYPES = ("float32", "float64", "int32", "int64")
_SMALL = ("bool", "int8", "uint8", "int16", "uint16")
"""Dtypes that zeros and ones in bool stand for: they mix with other dtypes as bool does."""


def object_matrix(step: Step) -> Node:
    """Return the codes of all columns of an encoder that is given the rows as they come."""
    return category_matrix(step, object_codes)


def category_matrix(step: Step, codes_of: CodesOf = category_codes) -> Node:
    """Return the codes of all columns of an encoder, -1 for unknown values.

    Infinite numbers are refused, and unknown ones where the source model refuses them.
    """
    est = step.estimator
    codes = []
    for j, categories in enumerate(est.categories_):
        node = codes_of(step, j, categories)
        if getattr(est, "handle_unknown", "ignore") == "error":
            name = est.feature_names_in_[j] if hasattr(est, "feature_names_in_") else j
            step.check(
                Compare.of(node, "eq", -1),
                f"Found unknown categories in column {name!r} during transform (step "
                f"{step.where!r}).",
            )
        codes.append(node)
    numbers = [j for j, categories in enumerate(est.categories_) if categories.dtype.kind in "biuf"]
    if numbers:
        step.require_finite(columns_of(step.x, numbers), allow_nan=True)
    return concat(codes)


@parses("sklearn.preprocessing.OneHotEncoder")
def parse_one_hot_encoder(step: Step) -> dict[str, Output]:
    """Group the infrequent, drop the dropped, then one column for each category left."""
    est = step.estimator
    step.require("handle_unknown", "error", "ignore", "infrequent_if_exist", "warn")
    dtype = np.dtype(est.dtype).name
    if dtype not in (*_DTYPES, *_SMALL):
        raise step.refuse("dtype", dtype, f"hbconv handles {', '.join((*_DTYPES, *_SMALL))}.")
    tables = [_one_hot_table(est, j) for j in range(len(est.categories_))]
    found = object_matrix(step)
    if est.handle_unknown == "warn" or (est.drop is not None and est.handle_unknown != "error"):
        encoded = "all zeros" if est.handle_unknown == "ignore" else "the infrequent category."
        message = (
            "Found unknown categories in columns {columns} during transform. These unknown "
            f"categories will be encoded as {encoded}"
        )
        step.warn(Compare.of(found, "eq", -1), message)
    codes = _recoded(found, tables)
    sizes = tuple(int(n) for n in est._n_features_outs)
    made = tuple(int(table.max()) + 1 for table in tables)
    if sizes[: len(made)] != made[: len(sizes)]:
        raise step.damaged(
            f"_n_features_outs={list(sizes)[:9]}, but its categories make {list(made)[:9]} columns"
        )
    small = dtype in _SMALL
    return {
        "transform": Output(
            OneHot(codes, sizes, "bool" if small else dtype),
            sparse_form(bool(est.sparse_output)),
            dtype if small else None,
        )
    }


@parses("sklearn.preprocessing.OrdinalEncoder")
def parse_ordinal_encoder(step: Step) -> Node:
    """Group the infrequent, then give missing and unknown values their numbers."""
    est = step.estimator
    step.require("handle_unknown", "error", "use_encoded_value")
    dtype = np.dtype(est.dtype)
    if dtype.name not in _DTYPES:
        raise step.refuse("dtype", dtype.name, f"hbconv handles {', '.join(_DTYPES)}.")
    return Recode(
        object_matrix(step),
        tuple(Array(_ordinal_table(est, j, dtype)) for j in range(len(est.categories_))),
    )


@parses("sklearn.preprocessing.LabelEncoder", features=lambda _: Schema.sequence())
def parse_label_encoder(step: Step) -> dict[str, Output]:
    """Encode labels.

    The source model first casts them to the dtype of its classes; an int loses its fraction.
    A text longer than any class is unknown here, where a ``U`` array would cut it short.
    """
    classes = np.asarray(step.estimator.classes_)
    require_order(step.estimator, step.place, classes)
    if classes.dtype.kind in "biu":
        dtype = "bool" if classes.dtype.kind == "b" else "int64"
        step = replace(step, x=Cast(Cast(step.require_finite(), dtype), "int64"))
        classes = classes.astype(np.int64)
    codes = category_codes(step, 0, classes)
    step.check(
        Compare.of(codes, "eq", -1), f"y contains previously unseen labels (step {step.where!r})."
    )
    return {"transform": Output(Cast(codes, "int64"), VECTOR, of_no_rows=Array(np.empty(0)))}


def _one_hot_table(est: Any, j: int) -> npt.NDArray[np.int32]:
    """Return the output column of the unknown value, then of each category; -1 for none."""
    groups = _infrequent(est, j)
    n_categories = len(est.categories_[j])
    columns = np.arange(n_categories) if groups is None else np.asarray(groups)
    takes_unknown = groups is not None and est.handle_unknown in ("infrequent_if_exist", "warn")
    columns = np.array([columns.max() if takes_unknown else -1, *columns])
    dropped = None if est._drop_idx_after_grouping is None else est._drop_idx_after_grouping[j]
    if dropped is not None:
        columns = np.where(columns == dropped, -1, columns - (columns > dropped))
    return columns.astype(np.int32)


def _recoded(codes: Node, tables: list[npt.NDArray[np.int32]]) -> Node:
    if all(np.array_equal(t, np.arange(-1, len(t) - 1)) for t in tables):
        return codes
    return Recode(codes, tuple(Array(t) for t in tables))


def _ordinal_table(est: Any, j: int, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return the number of the unknown value, then of each category."""
    groups = _infrequent(est, j)
    table = np.arange(-1, len(est.categories_[j])).astype(dtype)
    if groups is not None:
        table[1 : len(groups) + 1] = groups
    if j in est._missing_indices:
        table[est._missing_indices[j] + 1] = est.encoded_missing_value
    table[0] = est.unknown_value if est.handle_unknown == "use_encoded_value" else 0
    return table


def _infrequent(est: Any, j: int) -> Any:
    """Return the group of each category but the missing one; infrequent ones share a group.

    None where there are no infrequent categories.
    """
    return (
        est._default_to_infrequent_mappings[j]
        if getattr(est, "_infrequent_enabled", False)
        else None
    )
