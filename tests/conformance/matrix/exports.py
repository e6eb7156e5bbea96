"""Exported files, run as a stranger runs them: by their runtime alone."""

from __future__ import annotations

import ctypes
import json
import shutil
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import onnxruntime
import torch
from matrix.case import Case, as_dtype
from matrix.compiled import compiled

import hbconv
from hbconv.backends.interface import Interface, inputs_with_text, lower_with_checks
from hbconv.backends.torch.export import INTERFACE
from hbconv.backends.torch.jit import load
from hbconv.containers import Graph
from hbconv.runtime.outputs.answers import whole
from hbconv.target import Target

__all__ = ["SUFFIXES", "Answers", "exported"]

Answers = Callable[[Any], dict[str, Any]]
"""From rows to the answers of all methods, by name."""


def exported(case: Case, suffix: str, dtype: str, folder: Path) -> Answers:
    """Export a case's model for numbers of a dtype, and load the file in the runtime that the
    suffix names.
    """
    model = hbconv.convert(
        compiled(case, "reference").parsed,
        backend="reference",
        sample=as_dtype(case.rows(7), dtype),
    )
    path = folder / f"model{suffix}"
    model.export(path)
    return SUFFIXES[suffix](model, path)


def _onnx(model: hbconv.Model, path: Path) -> Answers:
    """Feed the inputs that the file declares, by name and dtype: the matrix X, or an input a
    column. Its answer to a single row has two dimensions where the model's is flat.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    methods = [output.name for output in session.get_outputs()]

    def run(x: Any) -> dict[str, Any]:
        feeds = {i.name: _typed(_values(model, x, i.name), i.type) for i in session.get_inputs()}
        found = dict(zip(methods, session.run(None, feeds), strict=True))
        outputs = model.parsed.outputs
        return {m: whole(outputs[m], values) for m, values in found.items()}

    return run


def _values(model: hbconv.Model, x: Any, name: str) -> np.ndarray:
    """Return what an input reads: all columns, or one of them."""
    values = np.asarray(x)
    matrix = values if values.ndim == 2 else values[:, None]
    return matrix if name == "X" else matrix[:, [model.schema.names.index(name)]]


def _typed(values: np.ndarray, declared: str) -> np.ndarray:
    """Return the values in the declared dtype; a missing text is the empty text."""
    kind = declared.removeprefix("tensor(").removesuffix(")")
    if kind == "string":
        return np.array(
            [["" if v is None or v != v else v for v in row] for row in values.tolist()], object
        ).reshape(values.shape)
    return values.astype({"float": "float32", "double": "float64"}.get(kind, kind))


def _torchscript(model: hbconv.Model, path: Path) -> Answers:
    told = {INTERFACE: ""}
    return _torch(model, load(str(path), _extra_files=told), json.loads(told[INTERFACE]))


def _torch_export(model: hbconv.Model, path: Path) -> Answers:
    told = {INTERFACE: ""}
    module = torch.export.load(path, extra_files=told).module()
    return _torch(model, module, json.loads(told[INTERFACE]))


def _torch(model: hbconv.Model, module: Callable[..., Any], told: dict[str, Any]) -> Answers:
    """Feed what the file says that it takes, and decode class codes as it says."""

    def run(x: Any) -> dict[str, Any]:
        with torch.no_grad():
            found = module(*(_argument(model, x, given) for given in told["inputs"]))
        values = found if isinstance(found, tuple) else (found,)
        return {
            output["method"]: _answer(model, output, value.numpy())
            for output, value in zip(told["outputs"], values, strict=True)
        }

    return run


def _answer(model: hbconv.Model, told: dict[str, Any], values: np.ndarray) -> Any:
    """Decode the codes of classes; torch counts in no unsigned dtype."""
    output = model.parsed.outputs[told["method"]]
    found = whole(output, _decoded(values, told["classes"]))
    return found.astype(output.dtype) if output.dtype in ("uint32", "uint64") else found


def _argument(model: hbconv.Model, x: Any, given: dict[str, Any]) -> Any:
    """Return a matrix, a list of texts, or the codes of texts."""
    columns = [_values(model, x, name) for name in given["columns"]]
    if given["dtype"] == "string":
        return _typed(columns[0], "string")[:, 0].tolist()
    if given["vocabularies"]:
        texts = [_typed(column, "string")[:, 0].tolist() for column in columns]
        pairs = zip(texts, given["vocabularies"], strict=True)
        columns = [np.array([[known.get(t, -1)] for t in column]) for column, known in pairs]
        columns = [column.reshape(-1, 1) for column in columns]
    matrix = np.concatenate([np.empty((len(_values(model, x, "X")), 0)), *columns], axis=1)
    return torch.from_numpy(_typed(matrix, given["dtype"]))


def _decoded(values: np.ndarray, classes: list[list[Any]] | None) -> np.ndarray:
    if classes is None:
        return values
    if values.ndim == 1:
        return np.array(classes[0], object)[values]
    labels = [
        np.array(known, object)[codes] for known, codes in zip(classes, values.T, strict=True)
    ]
    return np.stack(labels, axis=1)


def _library(model: hbconv.Model, path: Path) -> Answers:
    """Call each function by ctypes, with pointers to what it takes.

    The system would return a library that it loaded by the same path before.
    """
    programs = model.for_target(backend="tvm").programs
    library = ctypes.CDLL(shutil.copy(path, path.with_name(f"{uuid4()}.so")))
    library.model_message.restype = ctypes.c_char_p
    functions = {
        method: partial(
            _called, model, library, programs.compilation((method,), model.dtypes).graph
        )
        for method in model.parsed.exported
    }
    return lambda x: {method: function(x) for method, function in functions.items()}


def _called(model: hbconv.Model, library: ctypes.CDLL, graph: Graph, x: Any) -> Any:
    lowered = lower_with_checks(graph, Target("tvm"))
    interface = Interface.of(graph, lowered, inputs_with_text(lowered, graph))
    (told,) = interface.outputs
    given = [_argument(model, x, asdict(i)) for i in interface.inputs]
    rows = len(_values(model, x, "X"))
    answer = np.empty((rows, *told.shape), told.dtype)
    arrays = [_pointers(a) if isinstance(a, list) else a.numpy() for a in given]
    kept = [np.ascontiguousarray(a) if isinstance(a, np.ndarray) else a for a in arrays]
    addresses = [a.ctypes.data if isinstance(a, np.ndarray) else ctypes.addressof(a) for a in kept]
    function = getattr(library, f"model_{told.method}")
    status = function(ctypes.c_int64(rows), *map(ctypes.c_void_p, [*addresses, answer.ctypes.data]))
    assert status == 0, library.model_message(status)
    return _answer(model, asdict(told), answer)


def _pointers(texts: list[str]) -> Any:
    return (ctypes.c_char_p * max(1, len(texts)))(*(text.encode() for text in texts))


SUFFIXES: dict[str, Callable[[hbconv.Model, Path], Answers]] = {
    ".onnx": _onnx,
    ".pt": _torchscript,
    ".pt2": _torch_export,
    ".so": _library,
}
"""How the files of each suffix are run."""
