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
    Node,
    Output,
    OutputPort,
    Session,
    Traits,
)
from hbconv.errors import ConversionError, UnsupportedError
from hbconv.parse.onnx.inputs import OnnxInput
from hbconv.parse.onnx.values import LabelTensor, MapList, RowTensor, Value

__all__ = ["Found", "methods_of"]

REGRESSORS = frozenset({"TreeEnsembleRegressor", "LinearRegressor", "SVMRegressor", "TreeEnsemble"})
"""Operators whose values are predictions, however many there are of a row."""

SCORES = {"scores": "decision_function", "score_samples": "score_samples"}
"""Methods of outputs beside labels, by the names that exporters give them."""


@dataclass(frozen=True)
class Found:
    """What the outputs of the file are."""

    outputs: dict[str, Output]
    traits: Traits


def methods_of(model: Any, inputs: Sequence[OnnxInput], values: Mapping[str, Value]) -> Found:
    """Return the outputs by method, and how a session names them.

    Labels are ``predict``, and floats beside them ``predict_proba``.
    Floats alone are ``predict`` where there is one of a row, or a regressor makes them.
    Others are ``transform``. What is none of these has its own name.
    """
    given = [(o.name, _value(o.name, values)) for o in model.graph.output]
    if not given:
        raise ConversionError("The ONNX file is damaged: it has no output.")
    label = next((name for name, v in given if _is_label(v)), None)
    methods: dict[str, str] = {}
    for name, value in given:
        method = _method(model, name, value, label, alone=len(given) == 1)
        methods[name] = name if method in methods.values() else method
    outputs = {methods[name]: _output(value, methods[name]) for name, value in given}
    ports = tuple(_port(name, methods[name], value) for name, value in given)
    session = Session(tuple(source.port for source in inputs), ports)
    return Found(outputs, _traits(outputs, session))


def _value(name: str, values: Mapping[str, Value]) -> RowTensor | LabelTensor | MapList:
    found = values.get(name)
    if found is None:
        raise ConversionError(f"The ONNX file is damaged: nothing makes its output {name!r:.100}.")
    if not isinstance(found, RowTensor | LabelTensor | MapList):
        kind = "a constant" if not hasattr(found, "columns") else "texts of the input"
        raise UnsupportedError(
            "output", name, "value", kind, "Answers are numbers or labels computed of the rows."
        )
    return found


def _is_label(value: RowTensor | LabelTensor | MapList) -> bool:
    if isinstance(value, LabelTensor):
        return value.width == 1
    return isinstance(value, RowTensor) and value.dtype.startswith("int") and value.width == 1


def _method(
    model: Any,
    name: str,
    value: RowTensor | LabelTensor | MapList,
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


def value_of(value: RowTensor | MapList) -> RowTensor:
    """Return the numbers of an output."""
    return value.values if isinstance(value, MapList) else value


def _output(value: RowTensor | LabelTensor | MapList, method: str) -> Output:
    if isinstance(value, LabelTensor):
        return Output(value.node, Labels(Array(value.table.data), value.width == 1))
    numbers = value_of(value)
    node: Node = numbers.node
    dtype = node.type.dtype
    if dtype == "bool":
        node = Cast(node, "int32")
    one = numbers.width == 1 and method in ("predict", "decision_function", "score_samples")
    return Output(node, VECTOR, dtype) if one else Output(node, dtype=dtype)


def _port(name: str, method: str, value: RowTensor | LabelTensor | MapList) -> OutputPort:
    keys = value.keys if isinstance(value, MapList) else None
    shaped = value.values if isinstance(value, MapList) else value
    shape = tuple(-1 if i == shaped.axis else n for i, n in enumerate(shaped.dims))
    return OutputPort(name, method, shape, keys)


def _traits(outputs: Mapping[str, Output], session: Session) -> Traits:
    predicts = outputs.get("predict")
    if predicts is None:
        return Traits("ONNX", "transformer", session=session)
    classes = predicts.classes
    if len(outputs) > 1 or classes is not None:
        return Traits("ONNX", "classifier", classes, metric="accuracy", session=session)
    return Traits("ONNX", "regressor", metric="r2", session=session)
