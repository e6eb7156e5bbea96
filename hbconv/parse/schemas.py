"""The input columns of an estimator: as its parser says, or as scikit-learn's attributes do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from hbconv.containers import Conventions, Schema
from hbconv.errors import ConversionError
from hbconv.parse.registry import find_parser
from hbconv.parse.step import require_fitted

__all__ = ["common_schema", "read_schema"]


def read_schema(estimator: object, n_features: int | None = None) -> Schema:
    """Read the input columns an estimator was fitted on; n_features for one that does not know how many."""
    entry = find_parser(estimator)
    require_fitted(estimator, type(estimator).__name__)
    columns = entry.features(estimator) if entry.features is not None else None
    if columns is not None:
        return columns if isinstance(columns, Schema) else Schema.matrix(columns) if isinstance(columns, int) else Schema.table(list(map(str, columns)))
    names: Sequence[Any] | None = getattr(estimator, "feature_names_in_", None)
    if names is not None:
        return Schema.table([str(n) for n in names])
    width = getattr(estimator, "n_features_in_", n_features)
    if width is None:
        raise ConversionError(f"{type(estimator).__name__} does not know how many columns it reads. Pass sample=X[:5] to convert.")
    return Schema.matrix(int(width))


def common_schema(estimators: Iterable[object]) -> Schema:
    """Columns of estimators that are given the same rows: named as scikit-learn's own names them, where one is among them.

    What only some of them refuse in a table is refused; what only some of them take is not taken.
    """
    schemas = [read_schema(estimator) for estimator in estimators]
    first = next((schema for schema in schemas if schema.conventions == Conventions()), schemas[0])
    if all(schema == first for schema in schemas):
        return first
    each = [schema.conventions for schema in schemas]
    shared = Conventions(tables_only=any(c.tables_only for c in each), no_categories=any(c.no_categories for c in each))
    return replace(first, conventions=shared)
