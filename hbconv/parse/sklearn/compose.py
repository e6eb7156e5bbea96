"""ColumnTransformer, FeatureUnion and TransformedTargetRegressor."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from hbconv.containers import Affine, Beside, Cast, Columns, Node, Output, Schema
from hbconv.parse.common.inverse_transforms import inverse_transform
from hbconv.parse.common.members import columns_of_array
from hbconv.parse.common.responses import as_numbers
from hbconv.parse.common.text_columns import columns_of
from hbconv.parse.registry import declared_columns, parses
from hbconv.parse.schema import in_order, picked_by_name, read_schema
from hbconv.parse.step import Step, concat, select

__all__ = []


@parses("sklearn.compose.ColumnTransformer", features=picked_by_name, takes_sparse=True)
def parse_column_transformer(step: Step) -> dict[str, Output]:
    """Give each transformer its columns, by the positions the source resolved when fitting."""
    est = step.estimator
    outputs = []
    for name, transformer, given in est.transformers_:
        columns = est._transformer_to_input_indices[name]
        if len(columns) and not _is(transformer, "drop"):
            _require_items(step, name, transformer, given)
            x = (
                columns_of(step.x, columns)
                if step.x.type.dtype == "string"
                else select(step.x, columns)
            )
            outputs.append(_part(step, name, transformer, x))
    return {"transform": _stack(step, outputs, sparse=getattr(est, "sparse_output_", False))}


def _require_items(step: Step, name: str, transformer: object, given: object) -> None:
    """Refuse columns in a list where the source would iterate over their names."""
    declared = (
        None
        if _is(transformer, "passthrough")
        else declared_columns(transformer, "/".join(p for p in (step.path, name) if p))
    )
    if (
        isinstance(declared, Schema)
        and declared.conventions.items
        and not isinstance(given, str | int)
    ):
        hint = f"{type(transformer).__name__} iterates over its input: give it one column, by its name or position without a list."
        raise step.refuse("transformers", (name, given), hint)


def _columns_of_all(union: Any) -> Sequence[str] | int | Schema | None:
    """Input columns where the first transformer's parser declares them; found by name where all transformers find them so."""
    given = [(name, t) for name, t in union.transformer_list if not _is(t, "drop")]
    declared = [None if _is(t, "passthrough") else declared_columns(t, name) for name, t in given]
    first = next(
        (
            columns
            for columns, (_, t) in zip(declared, given, strict=True)
            if not _is(t, "passthrough")
        ),
        None,
    )
    by_name = all(isinstance(columns, Schema) and columns.finds == "names" for columns in declared)
    return first if by_name or not isinstance(first, Schema) else in_order(first)


@parses("sklearn.pipeline.FeatureUnion", features=_columns_of_all, takes_sparse=True)
def parse_feature_union(step: Step) -> dict[str, Output]:
    """Give each transformer the whole input; one sparse part makes the whole sparse."""
    parts = [(name, t) for name, t in step.estimator.transformer_list if not _is(t, "drop")]
    outputs = [_part(step, name, transformer, step.x) for name, transformer in parts]
    forms = {o.sparse for o in outputs}
    return {
        "transform": _stack(
            step, outputs, sparse=True if True in forms else None if None in forms else False
        )
    }


def _part(step: Step, name: str, transformer: object, x: Node) -> Output:
    output = (
        _passed(step, x)
        if _is(transformer, "passthrough")
        else step.transform_output(transformer, x, name, sparse=step.sparse)
    )
    weight = (step.estimator.transformer_weights or {}).get(name)
    if weight is None:
        return output
    wide = Cast(output.node, "float64") if isinstance(weight, np.float64) else output.node
    return Output(Affine.of(wide, mul=weight), sparse=output.sparse, arrays=output.arrays)


def _passed(step: Step, x: Node) -> Output:
    return Output(x, sparse=step.sparse, arrays=True)


def _stack(step: Step, outputs: Sequence[Output], *, sparse: bool | None) -> Output:
    """Concatenate; where all parts declare the dtype of their answer, so does the whole."""
    if not outputs:
        return Output(Cast(select(step.x, []), "float64"))
    dtypes = [o.dtype for o in outputs if o.dtype is not None]
    dtype = np.result_type(*dtypes).name if len(dtypes) == len(outputs) else None
    nodes = [o.node for o in outputs]
    node = Beside(tuple(nodes)) if _makes_tables(step.estimator) else _array(concat(nodes))
    arrays = any(o.arrays for o in outputs if o.sparse is None)
    return Output(
        node, dtype=dtype, sparse=sparse, arrays=arrays, blocks=() if sparse else tuple(outputs)
    )


def _array(node: Node) -> Node:
    return columns_of_array(node, range(node.type.width)) if isinstance(node, Columns) else node


def _makes_tables(estimator: Any) -> bool:
    """Whether the source makes a table of pandas, whose columns keep their dtypes (of polars it reads floats as float64, as from an array).

    As ``set_output`` says of the estimator, or the configuration of all.
    """
    for_all = sys.modules["sklearn"].get_config()["transform_output"]
    return bool(
        getattr(estimator, "_sklearn_output_config", {}).get("transform", for_all) == "pandas"
    )


def _is(transformer: object, keyword: str) -> bool:
    return isinstance(transformer, str) and transformer == keyword


@parses(
    "sklearn.compose.TransformedTargetRegressor", features=lambda est: read_schema(est.regressor_)
)
def parse_transformed_target_regressor(step: Step) -> dict[str, Output]:
    """Invert what was done to the target; a target of one dimension is predicted as one."""
    est = step.estimator
    predicted = as_numbers(
        step, step.child(est.regressor_, step.x, "regressor_", sparse=step.sparse)["predict"]
    )
    target = inverse_transform(step, est.transformer_, predicted)
    return {"predict": Output(target, vector=est._training_dim == 1 and target.type.width == 1)}
