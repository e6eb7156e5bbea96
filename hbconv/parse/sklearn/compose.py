"""ColumnTransformer: each transformer reads its own columns.

TransformedTargetRegressor: a regressor of a transformed target.
"""

from __future__ import annotations

from hbconv.containers import MATRIX, VECTOR, Output, Schema
from hbconv.parse.common.members import as_numbers
from hbconv.parse.inverses import numbers, read_inverse
from hbconv.parse.registry import declared_columns, parses
from hbconv.parse.schema import picked_by_name, read_schema
from hbconv.parse.sklearn.pipeline import is_keyword, join_parts, transform_part
from hbconv.parse.step import Step, select


@parses("sklearn.compose.ColumnTransformer", features=picked_by_name, takes_sparse=True)
def parse_column_transformer(step: Step) -> dict[str, Output]:
    """Give each transformer its columns, by the positions found in fitting."""
    est = step.estimator
    outputs = []
    for name, transformer, selection in est.transformers_:
        columns = est._transformer_to_input_indices[name]
        if len(columns) and not is_keyword(transformer, "drop"):
            _require_items(step, name, transformer, selection)
            outputs.append(transform_part(step, name, transformer, select(step.x, columns)))
    return {"transform": join_parts(step, outputs, sparse=getattr(est, "sparse_output_", False))}


def _require_items(step: Step, name: str, transformer: object, selection: object) -> None:
    """Refuse a list of columns for a transformer that would iterate over their names."""
    declared = (
        None
        if is_keyword(transformer, "passthrough")
        else declared_columns(transformer, "/".join(p for p in (step.path, name) if p))
    )
    if (
        isinstance(declared, Schema)
        and declared.conventions.items
        and not isinstance(selection, str | int)
    ):
        hint = (
            f"{type(transformer).__name__} iterates over its input: give it one column, by its "
            "name or position without a list."
        )
        raise step.refuse("transformers", (name, selection), hint)


@parses(
    "sklearn.compose.TransformedTargetRegressor", features=lambda est: read_schema(est.regressor_)
)
def parse_transformed_target_regressor(step: Step) -> dict[str, Output]:
    """Invert the transform of the target.

    A target of one dimension is predicted as one.
    """
    est = step.estimator
    predicted = as_numbers(
        step, step.child(est.regressor_, step.x, "regressor_", x_sparse=step.x_sparse)["predict"]
    )
    target = numbers(step, read_inverse(step, est.transformer_, predicted, "transformer_"))
    return {
        "predict": Output(
            target, VECTOR if est._training_dim == 1 and target.type.width == 1 else MATRIX
        )
    }
