"""Read the input columns of an estimator, as its parser or scikit-learn's attributes tell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from hbconv.containers import Conventions, Schema
from hbconv.errors import ConversionError
from hbconv.parse.registry import find_parser
from hbconv.parse.step import require_fitted

__all__ = [
    "as_validated",
    "common_schema",
    "in_order",
    "named_or_matrix",
    "picked_by_name",
    "read_schema",
]


def read_schema(estimator: object, n_features: int | None = None) -> Schema:
    """Read the input columns that an estimator was fitted on.

    ``n_features`` is their number, for an estimator that does not know it.
    """
    entry = find_parser(estimator)
    require_fitted(estimator, type(estimator).__name__)
    columns = entry.features(estimator) if entry.features is not None else None
    if isinstance(columns, Schema):
        return columns
    if isinstance(columns, int):
        return Schema.matrix(columns)
    if columns is not None:
        return _as_sklearn(columns)
    names: Sequence[Any] | None = getattr(estimator, "feature_names_in_", None)
    if names is not None:
        return _as_sklearn(names)
    width = getattr(estimator, "n_features_in_", n_features)
    if width is None:
        raise ConversionError(
            f"{type(estimator).__name__} does not know how many columns it reads. Pass "
            "sample=X[:5] to convert."
        )
    return Schema.matrix(int(width))


def common_schema(estimators: Iterable[object]) -> Schema:
    """Return the columns of estimators that read the same rows.

    Names come from a scikit-learn estimator where there is one.
    A table is refused where one of them refuses it, and taken where all take it.
    Where some find columns by name and others by position, the fitted order is required.
    """
    schemas = [read_schema(estimator) for estimator in estimators]
    first = next((schema for schema in schemas if schema.conventions == Conventions()), schemas[0])
    if all(schema == first for schema in schemas):
        return first
    each = [schema.conventions for schema in schemas]
    shared = Conventions(
        tables_only=any(c.tables_only for c in each),
        no_categories=any(c.no_categories for c in each),
    )
    alike = len({schema.finds for schema in schemas}) == 1
    return (
        replace(first, conventions=shared)
        if alike
        else in_order(replace(first, conventions=shared))
    )


def picked_by_name(estimator: object) -> Schema | None:
    """Return the columns of an estimator that picks them from a table by name.

    It ignores other columns. None where it was fitted without names.
    """
    names = getattr(estimator, "feature_names_in_", None)
    return None if names is None else Schema.table([str(name) for name in names])


def named_or_matrix(names: Sequence[object]) -> Schema:
    """Return the columns of a frame by their names, of an array by their number.

    Libraries that make frames of arrays number their columns.
    """
    if all(isinstance(name, str) for name in names):
        return _as_sklearn(names)
    return Schema.matrix(len(names))


def in_order(schema: Schema) -> Schema:
    """Return the same columns, found by position once their names are the fitted ones."""
    return replace(schema, finds="names in order")


def as_validated(estimator: object, schema: Schema | None) -> Schema | None:
    """Return the columns of an estimator that checks names and gives its members plain arrays."""
    names = getattr(estimator, "feature_names_in_", None)
    return (
        schema
        if names is None or schema is None
        else replace(_as_sklearn(names), conventions=schema.conventions)
    )


def _as_sklearn(names: Iterable[object]) -> Schema:
    """Return the columns of an estimator that requires the fitted names in their order."""
    return Schema.table([str(name) for name in names], finds="names in order")
