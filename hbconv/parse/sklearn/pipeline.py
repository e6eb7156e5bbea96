"""Pipeline and FeatureUnion."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np

from hbconv.containers import (
    MATRIX,
    Affine,
    AsRows,
    Beside,
    Blocks,
    Cast,
    Columns,
    Form,
    Matrix,
    Node,
    Output,
    Schema,
    sparse_form,
)
from hbconv.errors import UnsupportedError
from hbconv.names import EXPLANATIONS
from hbconv.parse.common.members import columns_of_array, columns_of_first, is_frame, is_passthrough
from hbconv.parse.common.text_columns import refuse_na, text_column, with_nan, with_nulls
from hbconv.parse.inverses import inverse_columns, inverts, numbers, read_inverse
from hbconv.parse.registry import declared_columns, parses
from hbconv.parse.schema import in_order
from hbconv.parse.step import Step, concat, select

__all__ = ["PASSED_ON", "is_keyword", "join_parts", "output_library", "transform_part"]

PASSED_ON = (
    "predict",
    "predict_proba",
    "predict_log_proba",
    "decision_function",
    "transform",
    "score_samples",
    "predict_std",
    *EXPLANATIONS,
)
"""Methods that a pipeline has because its last step does."""


@parses("sklearn.pipeline.Pipeline", features=columns_of_first, takes_sparse=True)
def parse_pipeline(step: Step) -> dict[str, Output]:
    """Pass the output from step to step; the last gives the methods that a pipeline has."""
    *before, (name, last) = step.estimator.steps
    output = Output(step.x, sparse_form(step.x_sparse, "kept", arrays=True))
    library = ""
    for place, (inner, estimator) in enumerate(before):
        if is_passthrough(estimator):
            continue
        sparse = output.returns_sparse
        with _offering_rest(place):
            result = _read_transformer(step, estimator, output.node, inner, x_sparse=sparse)
        result = result.after(output)
        chosen = output_library(estimator)
        output = replace(result, node=_hand_on(result.node, library, chosen))
        library = chosen
    outputs = (
        {"transform": output}
        if is_passthrough(last)
        else step.child(last, output.node, name, x_sparse=output.returns_sparse)
    )
    passed = {
        method: result.after(output) for method, result in outputs.items() if method in PASSED_ON
    }
    if not passed:
        raise step.refuse(
            "steps",
            name,
            f"A pipeline has none of the methods of this step ({', '.join(outputs)}). Convert "
            "pipeline[-1] alone, and pipeline[:-1] for its rows.",
        )
    return passed


@contextmanager
def _offering_rest(place: int) -> Iterator[None]:
    """Say of a step that is refused how the steps behind it are converted alone."""
    try:
        yield
    except UnsupportedError as error:
        # Of pipelines in pipelines the outer one says it: that is what the user holds.
        hint = error.hint.partition(_REST)[0].rstrip()
        rest = place + 1
        given = f"what pipeline[:{rest}].transform(X) returns"
        way_out = f"{_REST}[{rest}:]), and give it {given} (docs/faq.md#refused)."
        raise UnsupportedError(
            error.estimator, error.step, error.parameter, error.value, f"{hint} {way_out}"
        ) from error


_REST = "Or convert the steps behind it: hbconv.convert(pipeline"


def _columns_of_last(pipeline: Any, width: int) -> Schema:
    """Return the columns that the last step inverts."""
    last = next((s for _, s in reversed(pipeline.steps) if not is_passthrough(s)), None)
    return Schema.matrix(width) if last is None else inverse_columns(last, width)


@inverts("sklearn.pipeline.Pipeline", takes_sparse=True, columns=_columns_of_last)
def invert_pipeline(step: Step) -> Output:
    """Invert step after step, the last first."""
    output = Output(step.x, sparse_form(step.x_sparse, "kept", arrays=True))
    for name, estimator in reversed(step.estimator.steps):
        if not is_passthrough(estimator):
            x, sparse = numbers(step, output), output.returns_sparse
            output = read_inverse(step, estimator, x, name, x_sparse=sparse).after(output)
    return output


def _columns_of_all(union: Any) -> Sequence[str] | int | Schema | None:
    """Return the input columns where the parser of the first transformer declares them.

    They are found by name where all transformers find them so.
    """
    members = [(name, t) for name, t in union.transformer_list if not is_keyword(t, "drop")]
    declared = [
        None if is_keyword(t, "passthrough") else declared_columns(t, name) for name, t in members
    ]
    first = next(
        (
            columns
            for columns, (_, t) in zip(declared, members, strict=True)
            if not is_keyword(t, "passthrough")
        ),
        None,
    )
    by_name = all(isinstance(columns, Schema) and columns.finds == "names" for columns in declared)
    return first if by_name or not isinstance(first, Schema) else in_order(first)


@parses("sklearn.pipeline.FeatureUnion", features=_columns_of_all, takes_sparse=True)
def parse_feature_union(step: Step) -> dict[str, Output]:
    """Give each transformer the whole input; one sparse part makes the whole sparse."""
    parts = [(name, t) for name, t in step.estimator.transformer_list if not is_keyword(t, "drop")]
    outputs = [transform_part(step, name, transformer, step.x) for name, transformer in parts]
    # scipy.sparse.hstack is taken where any part is sparse.
    forms = {o.returns_sparse for o in outputs}
    sparse = next((form for form in (True, None) if form in forms), False)
    return {"transform": join_parts(step, outputs, sparse=sparse)}


def transform_part(step: Step, name: str, transformer: object, x: Node) -> Output:
    """Return the weighted output of one of several transformers."""
    output = (
        _pass_rows(step, x)
        if is_keyword(transformer, "passthrough")
        else _read_transformer(step, transformer, x, name, x_sparse=step.x_sparse)
    )
    weight = (step.estimator.transformer_weights or {}).get(name)
    if weight is None:
        return output
    # A np.float64 widens float32 rows, a Python float does not (NEP 50).
    wide = Cast(output.node, "float64") if isinstance(weight, np.float64) else output.node
    return Output(Affine.of(wide, mul=weight), _weighted_form(output))


def _read_transformer(
    step: Step, transformer: object, x: Node, name: str, *, x_sparse: bool | None
) -> Output:
    """Return the output of an inner transformer, with missing texts as its frame holds them.

    Of an array that holds ``pandas.NA`` polars makes no frame; of a frame it takes a null.
    """
    output = step.transform_output(transformer, x, name, x_sparse=x_sparse)
    library = output_library(transformer)
    if library == "pandas" and not is_frame(x):
        return replace(output, node=with_nan(output.node))
    if library != "polars":
        return output
    if not is_frame(x):
        why = f"The step {name!r} makes a frame of polars, which holds none among objects."
        refuse_na(step, output.node, why)
    return replace(output, node=with_nulls(output.node))


def _hand_on(x: Node, previous: str, library: str) -> Node:
    """Return columns as the next step reads them, where a step makes a frame of another library.

    Of nulls of texts that pandas takes over from polars it makes NaN. It leaves None where a call
    has nulls alone, which is not followed.
    """
    if library == "polars":
        return _read_from_polars(x)
    return with_nan(x) if (previous, library) == ("polars", "pandas") else x


def _read_from_polars(x: Node) -> Node:
    """Read computed columns of a frame of polars as float64, as scikit-learn reads its floats.

    Columns of the input may be texts, and stay as they are.
    """
    runs = groupby(range(x.type.width), key=lambda j: text_column(x, j) is None)
    parts = [(select(x, list(run)), is_computed) for is_computed, run in runs]
    return concat([Cast(part, "float64") if computed else part for part, computed in parts])


def _weighted_form(output: Output) -> Form:
    form = output.form.when_sparse
    return sparse_form(output.returns_sparse, arrays=form is not None and form.arrays)


def _follows_arrays(output: Output) -> bool:
    """Tell whether it is a sparse array where the rows are one."""
    return isinstance(output.form, AsRows) and output.form.sparse.arrays


def _pass_rows(step: Step, x: Node) -> Output:
    return Output(x, sparse_form(step.x_sparse, arrays=True))


def join_parts(step: Step, outputs: Sequence[Output], *, sparse: bool | None) -> Output:
    """Concatenate outputs; where all declare a dtype, so does the whole."""
    if not outputs:
        # np.zeros((n_rows, 0)) is what the source returns.
        return Output(Cast(select(step.x, []), "float64"))
    dtypes = [o.dtype for o in outputs if o.dtype is not None]
    dtype = np.result_type(*dtypes).name if len(dtypes) == len(outputs) else None
    nodes = [o.node for o in outputs]
    is_table = output_library(step.estimator) == "pandas"
    node = Beside(tuple(nodes)) if is_table else _array(concat(nodes))
    arrays = any(_follows_arrays(o) for o in outputs)
    return Output(node, sparse_form(sparse, arrays=arrays, dense=_blocks(outputs)), dtype)


def _blocks(outputs: Sequence[Output]) -> Matrix | Blocks:
    """Return the blocks that have columns; the others are no part of the node either."""
    blocks = tuple(block for output in outputs for block in output.blocks if block[0].type.width)
    return Blocks(blocks) if blocks else MATRIX


def _array(node: Node) -> Node:
    return columns_of_array(node, range(node.type.width)) if isinstance(node, Columns) else node


def output_library(estimator: object) -> str:
    """Return the library whose frames an estimator makes, as it or scikit-learn is configured.

    Frames of pandas keep the dtypes of their columns. Of polars, scikit-learn reads floats as
    float64, as from an array.
    """
    # An estimator of scikit-learn is here, so the library is loaded.
    for_all = sys.modules["sklearn"].get_config()["transform_output"]
    return str(getattr(estimator, "_sklearn_output_config", {}).get("transform", for_all))


def is_keyword(transformer: object, keyword: str) -> bool:
    """Tell whether a keyword, such as ``"drop"``, is in place of a transformer."""
    return isinstance(transformer, str) and transformer == keyword
