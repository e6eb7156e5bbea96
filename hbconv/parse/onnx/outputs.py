"""Recognise the methods of an estimator among the outputs of an ONNX file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hbconv.array import Array
from hbconv.containers import (
    VECTOR,
    Cast,
    Labels,
    MatrixList,
    Node,
    Output,
    OutputPort,
    PassedPort,
    Session,
    Traits,
)
from hbconv.errors import ConversionError, UnsupportedError
from hbconv.parse.onnx.inputs import FileInput
from hbconv.parse.onnx.maps import OnnxMap
from hbconv.parse.onnx.movement import joined
from hbconv.parse.onnx.values import (
    LabelTensor,
    MapList,
    NarrowTensor,
    RowTensor,
    TensorList,
    Value,
)

__all__ = ["Found", "methods_of"]

REGRESSORS = frozenset({"TreeEnsembleRegressor", "LinearRegressor", "SVMRegressor", "TreeEnsemble"})
"""Operators whose values are predictions, however many there are of a row."""

SCORES = {"scores": "decision_function", "score_samples": "score_samples"}
"""Methods of outputs beside labels, by the names that exporters give them."""


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

    Labels are ``predict``, and floats beside them ``predict_proba``.
    Floats alone are ``predict`` where there is one of a row, or a regressor makes them.
    Others are ``transform``. What is none of these has its own name. An output that repeats an
    input beside others is no method.
    """
    names = [output.name for output in model.graph.output]
    if not names:
        raise ConversionError("The ONNX file is damaged: it has no output.")
    passed = _passed(names, inputs, values)
    given = [(name, _value(name, values)) for name in names if name not in passed]
    methods = _told(names) or _guessed(model, given)
    methods = {name: methods.get(name, name) for name, _ in given}
    if len({*methods.values()}) < len(methods):
        methods = {name: name for name in methods}
    outputs = {methods[name]: _output(value, methods[name]) for name, value in given}
    made = {name: _port(name, methods[name], value) for name, value in given}
    ports = tuple(made.get(name) or PassedPort(name, passed[name]) for name in names)
    session = Session(tuple(source.port for source in inputs), ports)
    return Found(outputs, _traits(outputs, session))


def _told(names: Sequence[str]) -> dict[str, str]:
    """Return the methods of the outputs whose names tell what they are."""
    if PREDICTED in names:
        return {PREDICTED: "predict", SCORE: "decision_function"}
    return {SCORE: "predict"} if SCORE in names else {}


def _guessed(model: Any, given: Sequence[tuple[str, Answer]]) -> dict[str, str]:
    """Return the methods by the kinds of the values, each method once."""
    label = next((name for name, v in given if _is_label(name, v)), None)
    methods: dict[str, str] = {}
    for name, value in given:
        method = _method(model, name, value, label, alone=len(given) == 1)
        methods[name] = name if method in methods.values() else method
    return methods


def _passed(
    names: Sequence[str], inputs: Sequence[FileInput], values: Mapping[str, Value]
) -> dict[str, str]:
    """Return the input that each output repeats; none where there are no others."""
    found = {
        name: source.name
        for source in inputs
        for name in names
        if values.get(name) is values[source.name] and not isinstance(source, OnnxMap)
    }
    return found if len(found) < len(names) else {}


def _value(name: str, values: Mapping[str, Value]) -> Answer:
    found = values.get(name)
    if found is None:
        raise ConversionError(f"The ONNX file is damaged: nothing makes its output {name!r:.100}.")
    if not isinstance(found, Answer):
        kind = "a constant" if not hasattr(found, "columns") else "texts of the input"
        raise UnsupportedError(
            "output", name, "value", kind, "Answers are numbers or labels computed of the rows."
        )
    return found


def _is_label(name: str, value: Answer) -> bool:
    if isinstance(value, MapList | TensorList):
        return False
    one = value.width == 1 or name in LABELS
    return one and (isinstance(value, LabelTensor) or value.dtype.startswith("int"))


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
        return joined(list(value.values))
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
    one = numbers.width == 1 and method in ("predict", "decision_function", "score_samples")
    return Output(node, VECTOR, dtype) if one else Output(node, dtype=dtype)


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
