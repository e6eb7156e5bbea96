"""Write the exported file: named inputs, text, checks, labels and metadata in one ONNX graph."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import onnx

from hbconv import __version__
from hbconv.backends.interface import labels, text_codes
from hbconv.backends.onnx.emit import emit_program, emit_rows
from hbconv.backends.onnx.writer import GraphWriter, Tensor
from hbconv.containers import Cube
from hbconv.errors import BackendError
from hbconv.lower import CodesFeed, EntriesFeed, Feed, Lowered, columns_read, lower, lower_nodes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hbconv.array import Array
    from hbconv.backends.base import Backend
    from hbconv.containers import Codes, Graph, Output, Schema
    from hbconv.target import Target

__all__ = ["MISSING", "check_model", "export_model"]

MATRIX = "X"


def export_model(graph: Graph, target: Target, backend: Backend) -> bytes:
    """Write the graph's outputs, decoded, behind its checks."""
    lowered = lower(graph, target.precision)
    messages = {check.node: check.message for check in graph.checks}
    checks = lower_nodes(
        graph, {str(number): node for number, node in enumerate(messages)}, target.precision
    )
    schema = graph.schema
    columns = _columns_read(lowered, checks)
    matrix = _is_matrix(schema)
    names = [MATRIX] if matrix else [schema.columns[c].name for c in columns]
    _require_distinct([*names, *graph.outputs])

    w = GraphWriter([*names, *graph.outputs])
    _declare_inputs(w, schema, [] if matrix else columns)
    values = emit_rows(
        w, backend.prepare(lowered.program, target), _inputs(w, lowered, schema, matrix=matrix)
    )
    refused = (
        emit_program(
            w, backend.prepare(checks.program, target), _inputs(w, checks, schema, matrix=matrix)
        )
        if graph.checks
        else {}
    )
    passed = _checks(w, list(zip(refused.values(), messages.values(), strict=True)))
    for name, output in graph.outputs.items():
        _write_output(w, name, output, values[name], passed)
    return check_model(
        w.model(graph.traits.estimator or "model", _describe(graph), _metadata(graph))
    )


def check_model(model: bytes) -> bytes:
    """Return a model that ONNX's own checker accepts, so that a runtime loads it."""
    try:
        onnx.checker.check_model(model)
    except onnx.checker.ValidationError as error:
        raise BackendError(
            f"The model as ONNX breaks a rule of the format: {error}. "
            "Use another backend, such as backend='torch'."
        ) from error
    return model


def _columns_read(*programs: Lowered) -> list[int]:
    """Columns of the schema that some feed reads, ascending."""
    feeds = [feed for program in programs for feed in _plain(program)]
    return sorted({column for feed in feeds for column in columns_read(feed)})


def _plain(lowered: Lowered) -> list[Feed | CodesFeed]:
    """Return the feeds of columns; models of sparse rows are refused before they are written."""
    return [feed for feed in lowered.feeds if not isinstance(feed, EntriesFeed)]


def _is_matrix(schema: Schema) -> bool:
    """Whether all columns are numbers of one dtype, which go in as one matrix."""
    return len(set(schema.dtypes)) == 1 and "string" not in schema.dtypes


def _require_distinct(names: list[str]) -> None:
    clashing = sorted({name for name in names if names.count(name) > 1 or not name})
    if clashing:
        raise BackendError(
            f"ONNX needs a name for each input and output, but {clashing} are empty or taken "
            "twice. Rename the columns and fit again."
        )


def _declare_inputs(w: GraphWriter, schema: Schema, columns: Iterable[int]) -> None:
    if _is_matrix(schema):
        w.input(
            MATRIX, schema.dtypes[0], len(schema.columns), "Columns: " + ", ".join(schema.names)
        )
    for c in columns:
        text = schema.columns[c].dtype == "string"
        w.input(
            schema.columns[c].name,
            schema.columns[c].dtype,
            1,
            "Text; a missing value is the empty text." if text else "",
        )


def _inputs(w: GraphWriter, lowered: Lowered, schema: Schema, *, matrix: bool) -> dict[str, str]:
    """Write the input of each feed: the matrix, columns side by side, or encoded text."""
    if matrix:
        return {feed.name: MATRIX for feed in _plain(lowered)}
    return {feed.name: _side_by_side(w, _parts(w, feed, schema)) for feed in _plain(lowered)}


def _parts(w: GraphWriter, feed: Feed | CodesFeed, schema: Schema) -> list[str]:
    if isinstance(feed, Feed):
        return [schema.columns[c].name for c in feed.columns]
    return [encode(w, schema.columns[leaf.column].name, leaf) for leaf in feed.leaves]


def _side_by_side(w: GraphWriter, parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else w.node("Concat", *parts, axis=1)


def _checks(w: GraphWriter, checks: list[tuple[Tensor, str]]) -> str:
    """Write the checks and return a zero that exists only when they pass.

    ONNX has no operator that fails. So each check reads the zero of the one before, at the index
    that is its number of refused values. Beyond 0 the runtime reports an index out of bounds, at
    the node with that name, which is the check's message.
    """
    passed = w.constant([0], "int64")
    for refused, message in checks:
        flat = w.node("Reshape", w.cast(refused.name, "int64"), w.constant([-1], "int64"))
        count = w.node("ReduceSum", flat, keepdims=1)
        passed = w.named_node(w.fresh("passed"), "Gather", passed, count, name=message)
    return passed


def _write_output(w: GraphWriter, name: str, output: Output, value: Tensor, passed: str) -> None:
    """Decode, convert and shape one output.

    Its shape is computed from the zero of the checks, so that they run first.
    """
    data, dtype = value.name, value.dtype
    if output.classes is not None:
        data, dtype = _decode(w, data, output.classes)
    elif output.dtype is not None and output.dtype != dtype:
        data, dtype = w.cast(data, output.dtype), output.dtype
    shape = _shape(output, value)
    # A zero in the target shape of Reshape means "as before".
    target = w.node("Add", w.constant([0, *shape], "int64"), passed)
    w.output(w.named_node(name, "Reshape", data, target), dtype, shape, _returns(output))


def _decode(w: GraphWriter, codes: str, classes: Array | tuple[Array, ...]) -> tuple[str, str]:
    """Read labels at the codes; return the value and its dtype.

    Labels of several columns are in one tensor, so they must be of one kind.
    """
    tables = [
        labels(table.data) for table in (classes if isinstance(classes, tuple) else (classes,))
    ]
    if len({table.dtype.kind for table in tables}) > 1:
        raise BackendError(
            "ONNX cannot hold the class labels: one target has text, another numbers. "
            "Convert a classifier for each target."
        )
    common = np.result_type(*tables)
    starts = np.cumsum([0, *(len(table) for table in tables[:-1])])
    if len(tables) > 1:
        codes = w.node("Add", codes, w.constant(starts, "int32"))
    flat = np.concatenate([table.astype(common) for table in tables])
    return w.node(
        "Gather", w.constant(flat), codes, axis=0
    ), "string" if common.kind == "U" else common.name


def _shape(output: Output, value: Tensor) -> tuple[int, ...]:
    """Return the shape of a row's output."""
    if output.is_vector:
        return ()
    return output.form.shape if isinstance(output.form, Cube) else value.shape


def _returns(output: Output) -> str:
    if output.widths:
        widths = ", ".join(map(str, output.widths))
        return f"The source returns a list of arrays of widths {widths}, here side by side."
    return "Dense; the source returns a sparse matrix." if output.returns_sparse else ""


def _describe(graph: Graph) -> str:
    return (
        f"{graph.traits.estimator} compiled by hbconv {__version__}, for ONNX Runtime 1.24 or "
        "later. Rows that the estimator refuses make the run fail, at the node named after the "
        "reason. Sums keep their order, and so their last bits, in sessions of one thread."
    )


def _metadata(graph: Graph) -> dict[str, str]:
    return {
        "hbconv_version": __version__,
        "estimator": graph.traits.estimator,
        "kind": graph.traits.kind,
        "features": json.dumps(graph.schema.names),
        "methods": json.dumps(list(graph.outputs)),
    }


MISSING = {"None": "none", "nan": "nan"}
"""The text that ONNX Runtime's Python makes of each missing object, and its vocabulary field."""


def encode(w: GraphWriter, name: str, codes: Codes) -> str:
    """Write the int32 codes of the text input of that name."""
    column = codes.schema.columns[codes.column].name
    keys = text_codes(codes.vocabulary, column, MISSING) or {"": -1}
    encoded = w.ml_node(
        "LabelEncoder",
        name,
        keys_strings=list(keys),
        values_int64s=list(keys.values()),
        default_int64=-1,
    )
    return w.cast(encoded, "int32")
