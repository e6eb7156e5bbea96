"""Walk an ONNX file from its inputs to its outputs: each operator by its reader."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from hbconv.array import Array
from hbconv.containers import (
    Check,
    Codes,
    Columns,
    Graph,
    Node,
    Schema,
    Vocabulary,
    at_step,
    topological,
)
from hbconv.errors import ConversionError, MissingPackageError, UnsupportedError
from hbconv.parse.checks.damage import reading
from hbconv.parse.checks.soundness import require_sound
from hbconv.parse.onnx.fold import fold
from hbconv.parse.onnx.inputs import FileInput, read_inputs, schema_of
from hbconv.parse.onnx.maps import row_of
from hbconv.parse.onnx.operator import OPERATORS, OnnxOperator
from hbconv.parse.onnx.outputs import methods_of
from hbconv.parse.onnx.stored import attribute_value, constants, plain, require_inside
from hbconv.parse.onnx.values import (
    KnownTensor,
    LabelTensor,
    MapRows,
    RowTensor,
    Value,
    holds_rows,
)

__all__ = ["is_onnx_model", "open_onnx", "parse_onnx"]

_OF_ROWS = frozenset({"ConstantOfShape", "Expand", "Tile"})
"""Operators that make rows of a shape that holds their number."""

_WAY_OUT = "Export it again, or check it with onnx.checker."


def is_onnx_model(source: object) -> bool:
    """Tell whether an object is an onnx.ModelProto, without importing onnx."""
    cls = type(source)
    return cls.__name__ == "ModelProto" and cls.__module__.partition(".")[0] == "onnx"


def open_onnx(source: Path | bytes, n_features: int | None = None) -> Graph:
    """Read an .onnx file, or the bytes of one, into a Graph; ``parse_onnx`` has more.

    Raises
    ------
    MissingPackageError
        The package onnx is not installed.
    """
    name = source.name if isinstance(source, Path) else "The model"
    try:
        import onnx
    except ImportError as error:
        raise MissingPackageError(
            f"Reading {name} needs onnx. Install with: pip install 'hbconv[onnx]'"
        ) from error
    with reading(name, _WAY_OUT):
        model = onnx.load(source if isinstance(source, Path) else io.BytesIO(source))
    return parse_onnx(model, n_features)


def parse_onnx(model: Any, n_features: int | None = None) -> Graph:
    """Read a model of ONNX into a Graph that answers like onnxruntime's InferenceSession.

    Parameters
    ----------
    model : onnx.ModelProto
        Of opsets from 9 on, and of ``ai.onnx.ml`` from 1 on.
    n_features : int, optional
        Columns of the input, where the file leaves their number open.

    Raises
    ------
    UnsupportedError
        An operator, attribute or shape that hbconv does not read.
    ConversionError
        The file is damaged.
    """
    with reading("The ONNX model", _WAY_OUT):
        opsets = {o.domain if o.domain != "ai.onnx" else "": o.version for o in model.opset_import}
        require_inside(model.graph)
        known = dict(constants(model.graph))
        inputs = read_inputs(model.graph, frozenset(known), n_features)
        schema = schema_of(inputs)
        walk = _Walk(schema, opsets, known | _read(inputs, schema))
        for node in model.graph.node:
            walk.step(node)
        found = methods_of(model, inputs, walk.values)
        typed = _typed(inputs, schema, found.roots + tuple(c.node for c in walk.checks))
        checks = (*typed, *walk.checks)
        return require_sound(
            Graph(schema, found.outputs, checks, found.traits, False, (), _WHY_DENSE)
        )


def _typed(inputs: Sequence[FileInput], schema: Schema, roots: tuple[Node, ...]) -> Iterator[Check]:
    """Return what the types of the inputs refuse, of those inputs that something reads."""
    leaves = (node for node in topological(roots) if isinstance(node, Columns))
    read = {column for leaf in leaves for column in leaf.columns}
    for source in inputs:
        if read.intersection(source.port.columns):
            yield from source.checks(schema)


_WHY_DENSE = "A converted ONNX file takes no sparse matrix. Give X.toarray()."


def _read(inputs: Sequence[FileInput], schema: Schema) -> dict[str, Value]:
    return {source.name: source.value(schema) for source in inputs}


@dataclass
class _Walk:
    """Values by name, while the operators are read in their order."""

    schema: Schema
    opsets: Mapping[str, int]
    values: dict[str, Value] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)

    def step(self, node: Any) -> None:
        """Read one operator."""
        domain = "" if node.domain == "ai.onnx" else node.domain
        name = node.name or (node.output[0] if node.output else "")
        inputs = tuple(self._value(node, name, source) for source in node.input)
        opset = self.opsets.get(domain, 1)
        made: tuple[Value | None, ...]
        if node.op_type == "If":
            made = self._branch(node, name, inputs)
        elif _is_constant(node, inputs):
            data = [v.data if isinstance(v, KnownTensor) else None for v in inputs]
            made = tuple(KnownTensor(plain(y)) for y in fold(node, data, self.opsets))
        else:
            made = self._read(node, name, domain, inputs, opset)
        for output, value in zip(node.output, made, strict=False):
            if output and value is not None:
                self._keep(name, output, value)

    def _keep(self, node: str, output: str, value: Value) -> None:
        """Give a value its name, which no other has.

        Its type and key are found while all below have theirs: a chain of operators may be long.
        """
        if output in self.values:
            raise ConversionError(
                f"The ONNX file is damaged: node {node!r:.100} makes {output!r:.100}, which is "
                "there already."
            )
        if isinstance(value, RowTensor | LabelTensor):
            _ = value.node.type, value.node.key
        self.values[output] = value

    def _branch(
        self, node: Any, name: str, inputs: tuple[Value | None, ...]
    ) -> tuple[Value | None, ...]:
        """Read the branch that a constant condition takes."""
        condition = inputs[0] if inputs else None
        if not isinstance(condition, KnownTensor) or condition.data.size != 1:
            raise UnsupportedError(
                "If",
                name,
                "cond",
                "computed from the rows",
                "hbconv takes the branch of a constant. Use Where to choose row by row.",
            )
        wanted = "then_branch" if condition.data.ravel()[0] else "else_branch"
        (branch,) = (a.g for a in node.attribute if a.name == wanted)
        inner = replace(self, values=self.values | dict(constants(branch)))
        for each in branch.node:
            inner.step(each)
        return tuple(inner.values[output.name] for output in branch.output)

    def _value(self, node: Any, name: str, source: str) -> Value | None:
        if not source:
            return None
        if source not in self.values:
            raise ConversionError(
                f"The ONNX file is damaged: {node.op_type} (node {name!r:.100}) reads "
                f"{source!r:.100}, which nothing before it makes."
            )
        return self.values[source]

    def _read(
        self, node: Any, name: str, domain: str, inputs: tuple[Value | None, ...], opset: int
    ) -> tuple[Value | None, ...]:
        reader = OPERATORS.get((domain, node.op_type))
        if reader is None:
            where = domain or "ai.onnx"
            raise UnsupportedError(
                node.op_type,
                name,
                hint=f"hbconv does not read this operator of {where} {opset}. "
                "Convert the fitted model itself, if you have it.",
            )
        attributes = {a.name: attribute_value(a) for a in node.attribute}
        op = OnnxOperator(
            node.op_type,
            name,
            inputs,
            attributes,
            opset,
            self.schema,
            self._row,
            len(node.output),
            self.checks,
        )
        with at_step(name):
            made = reader(op)
        return made if isinstance(made, tuple) else (made,)

    @property
    def _row(self) -> Node:
        """A node that tells the number of rows."""
        if self.schema.conventions.items:
            (maps,) = (value for value in self.values.values() if isinstance(value, MapRows))
            return row_of(self.schema, maps)
        numbers = [i for i, c in enumerate(self.schema.columns) if c.dtype != "string"]
        if numbers:
            return Columns(self.schema, Array.of(numbers[:1], np.int32))
        return Codes(self.schema, 0, Vocabulary(()))


def _is_constant(node: Any, inputs: tuple[Value | None, ...]) -> bool:
    """Tell whether an operator computes a constant; one of shapes may make rows."""
    if not all(v is None or isinstance(v, KnownTensor) for v in inputs):
        return False
    makes_rows = any(isinstance(v, KnownTensor) and holds_rows(v.data) for v in inputs)
    return not (makes_rows and node.op_type in _OF_ROWS)
