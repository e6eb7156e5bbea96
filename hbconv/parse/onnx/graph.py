"""Walk an ONNX file from its inputs to its outputs: each operator by its reader.

The outputs become the methods of an estimator, by their names and kinds.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from hbconv.array import Array
from hbconv.containers import (
    VECTOR,
    Cast,
    Check,
    Codes,
    Columns,
    Graph,
    Labels,
    MatrixList,
    Node,
    Output,
    OutputPort,
    PassedPort,
    Schema,
    Session,
    Traits,
    Vocabulary,
    at_step,
    topological,
)
from hbconv.errors import ConversionError, MissingPackageError, UnsupportedError
from hbconv.parse.damage import reading
from hbconv.parse.onnx.inputs import FileInput, OnnxMap, read_inputs, row_of, schema_of
from hbconv.parse.onnx.movement import join_entries
from hbconv.parse.onnx.operator import OPERATORS, OnnxOperator
from hbconv.parse.onnx.values import (
    KnownTensor,
    LabelTensor,
    MapList,
    MapRows,
    NarrowTensor,
    RowTensor,
    TensorList,
    Value,
    attribute_value,
    constants,
    fold,
    holds_rows,
    plain,
    require_inside,
)
from hbconv.parse.soundness import require_sound

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
    """Read a model of ONNX into a Graph that computes like onnxruntime's InferenceSession.

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
        # The default domain has two spellings.
        opsets = {o.domain if o.domain != "ai.onnx" else "": o.version for o in model.opset_import}
        require_inside(model.graph)
        initializers = dict(constants(model.graph))
        inputs = read_inputs(model.graph, frozenset(initializers), n_features)
        schema = schema_of(inputs)
        walk = _Walk(schema, opsets, initializers | _read(inputs, schema))
        for node in model.graph.node:
            walk.step(node)
        methods = methods_of(model, inputs, walk.values)
        typed = _check_types(inputs, schema, methods.roots + tuple(c.node for c in walk.checks))
        checks = (*typed, *walk.checks)
        return require_sound(
            Graph(schema, methods.outputs, checks, methods.traits, False, (), _WHY_DENSE)
        )


def _check_types(
    inputs: Sequence[FileInput], schema: Schema, roots: tuple[Node, ...]
) -> Iterator[Check]:
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
        results: tuple[Value | None, ...]
        if node.op_type == "If":
            results = self._branch(node, name, inputs)
        elif _is_constant(node, inputs):
            data = [v.data if isinstance(v, KnownTensor) else None for v in inputs]
            results = tuple(KnownTensor(plain(y)) for y in fold(node, data, self.opsets))
        else:
            results = self._read(node, name, domain, inputs, opset)
        for output, value in zip(node.output, results, strict=False):
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
            # A sum of a hundred parts met the recursion limit when types were found at the end.
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
        # The branch sees the values around it, and its own names vanish behind it.
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
            results = reader(op)
        return results if isinstance(results, tuple) else (results,)

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


REGRESSORS = frozenset({"TreeEnsembleRegressor", "LinearRegressor", "SVMRegressor", "TreeEnsemble"})
"""Operators whose values are predictions, however many there are of a row."""

SCORES = {"scores": "decision_function", "score_samples": "score_samples"}
"""Methods of outputs next to labels, by the names that exporters give them."""


PREDICTED = "PredictedLabel.output"
SCORE = "Score.output"
"""Names that ML.NET gives what its models compute, among outputs for all columns of the table."""


LABELS = ("label", "output_label")
"""Names that skl2onnx gives labels, of several targets too."""

Answer = RowTensor | LabelTensor | MapList | TensorList


@dataclass(frozen=True)
class Found:
    """What the outputs of the file are."""

    outputs: dict[str, Output]
    traits: Traits

    @property
    def roots(self) -> tuple[Node, ...]:
        """Nodes of the outputs."""
        return tuple(output.node for output in self.outputs.values())


def methods_of(model: Any, inputs: Sequence[FileInput], values: Mapping[str, Value]) -> Found:
    """Return the outputs by method, and how a session names them.

    Labels are ``predict``, and floats next to them ``predict_proba``.
    Floats alone are ``predict`` where there is one of a row, or a regressor makes them.
    Others are ``transform``. What is none of these has its own name. An output that repeats an
    input next to others is no method.
    """
    names = [output.name for output in model.graph.output]
    if not names:
        raise ConversionError("The ONNX file is damaged: it has no output.")
    passed = _find_passed(names, inputs, values)
    answers = [(name, _value(name, values)) for name in names if name not in passed]
    methods = _methods_by_name(names) or _methods_by_kind(model, answers)
    methods = {name: methods.get(name, name) for name, _ in answers}
    # Two outputs of one method: each keeps its own name instead.
    if len({*methods.values()}) < len(methods):
        methods = {name: name for name in methods}
    outputs = {methods[name]: _output(value, methods[name]) for name, value in answers}
    port_of = {name: _port(name, methods[name], value) for name, value in answers}
    ports = tuple(port_of.get(name) or PassedPort(name, passed[name]) for name in names)
    session = Session(tuple(source.port for source in inputs), ports)
    return Found(outputs, _traits(outputs, session))


def _methods_by_name(names: Sequence[str]) -> dict[str, str]:
    """Return the methods of the outputs whose names tell what they are."""
    if PREDICTED in names:
        return {PREDICTED: "predict", SCORE: "decision_function"}
    return {SCORE: "predict"} if SCORE in names else {}


def _methods_by_kind(model: Any, answers: Sequence[tuple[str, Answer]]) -> dict[str, str]:
    """Return the methods by the kinds of the values, each method once."""
    label = next((name for name, v in answers if _is_label(name, v)), None)
    methods: dict[str, str] = {}
    for name, value in answers:
        method = _method(model, name, value, label, alone=len(answers) == 1)
        methods[name] = name if method in methods.values() else method
    return methods


def _find_passed(
    names: Sequence[str], inputs: Sequence[FileInput], values: Mapping[str, Value]
) -> dict[str, str]:
    """Return the input that each output repeats; none where there are no others."""
    input_of = {
        name: source.name
        for source in inputs
        for name in names
        if values.get(name) is values[source.name] and not isinstance(source, OnnxMap)
    }
    return input_of if len(input_of) < len(names) else {}


def _value(name: str, values: Mapping[str, Value]) -> Answer:
    value = values.get(name)
    if value is None:
        raise ConversionError(f"The ONNX file is damaged: nothing makes its output {name!r:.100}.")
    if not isinstance(value, Answer):
        kind = "a constant" if not hasattr(value, "columns") else "texts of the input"
        raise UnsupportedError(
            "output", name, "value", kind, "Answers are numbers or labels computed of the rows."
        )
    return value


def _is_label(name: str, value: Answer) -> bool:
    if isinstance(value, MapList | TensorList):
        return False
    is_vector = value.width == 1 or name in LABELS
    return is_vector and (isinstance(value, LabelTensor) or value.dtype.startswith("int"))


def _method(
    model: Any,
    name: str,
    value: Answer,
    label: str | None,
    *,
    alone: bool,
) -> str:
    if name == label:
        return "predict"
    if isinstance(value, LabelTensor):
        return "transform" if alone else name
    if label is not None:
        return SCORES.get(name, "predict_proba" if value_of(value).width > 1 else name)
    if isinstance(value, RowTensor) and (value.width == 1 or _regresses(model, name)):
        return "predict"
    return "transform"


def _regresses(model: Any, name: str) -> bool:
    """Tell whether a regressor makes the output, and only its shape or link is computed behind."""
    makers = {output: node for node in model.graph.node for output in node.output}
    # A damaged graph may lead in a circle.
    for _ in range(len(makers) + 1):
        node = makers.get(name)
        if node is None or not node.input:
            return False
        if node.op_type in REGRESSORS:
            return True
        name = node.input[0]
    return False


def value_of(value: RowTensor | MapList | TensorList) -> RowTensor:
    """Return the numbers of an output, those of a list side by side."""
    if isinstance(value, TensorList):
        return join_entries(list(value.values))
    return value.values if isinstance(value, MapList) else value


def _output(value: Answer, method: str) -> Output:
    if isinstance(value, LabelTensor):
        return Output(value.node, Labels(Array(value.table.data), value.width == 1))
    numbers = value_of(value)
    if isinstance(value, TensorList):
        form = MatrixList(tuple(part.width for part in value.values))
        return Output(numbers.node, form, dtype=numbers.dtype)
    node: Node = numbers.node
    dtype = numbers.narrow if isinstance(numbers, NarrowTensor) else node.type.dtype
    if dtype == "bool":
        node = Cast(node, "int32")
    is_vector = numbers.width == 1 and method in ("predict", "decision_function", "score_samples")
    return Output(node, VECTOR, dtype) if is_vector else Output(node, dtype=dtype)


def _port(name: str, method: str, value: Answer) -> OutputPort:
    keys = value.keys if isinstance(value, MapList) else None
    shaped = value if isinstance(value, LabelTensor) else value_of(value)
    shape = tuple(-1 if i == shaped.axis else n for i, n in enumerate(shaped.dims))
    return OutputPort(name, method, shape, keys)


def _traits(outputs: Mapping[str, Output], session: Session) -> Traits:
    predicts = outputs.get("predict")
    if predicts is None:
        return Traits("ONNX", "transformer", session=session)
    classes = predicts.classes
    if classes is not None or not predicts.node.type.dtype.startswith("float"):
        metric = "accuracy" if predicts.is_vector else ""
        return Traits("ONNX", "classifier", classes, metric=metric, session=session)
    return Traits("ONNX", "regressor", metric="r2", session=session)
