"""Exported files, run as a stranger runs them: by their runtime alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from matrix.case import Case, as_dtype
from matrix.compiled import compiled

import hbconv
from hbconv.backends.torchscript import without_deprecation
from hbconv.runtime.inputs.read import read_table
from hbconv.runtime.outputs.answers import answer, flattened

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
        return {m: flattened(outputs[m].form, values) for m, values in found.items()}

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
    return _torch(
        model.for_target(backend="torchscript"), without_deprecation(torch.jit.load, str(path))
    )


def _torch_export(model: hbconv.Model, path: Path) -> Answers:
    return _torch(model.for_target(backend="torch"), torch.export.load(path).module())


def _torch(model: hbconv.Model, module: Callable[..., Any]) -> Answers:
    """Feed tensors in the program's order; its answers are those of the methods, classes as
    codes. torch counts in int64 where it likes.
    """
    methods = model.parsed.tensors
    lowered = model.programs.lowered(methods, model.dtypes)
    types = {
        method: lowered.program.instructions[place].type
        for method, place in lowered.program.outputs.items()
    }

    def run(x: Any) -> dict[str, Any]:
        inputs = read_table(x, model.reads).inputs(lowered.feeds)
        with torch.no_grad():
            found = module(
                *(torch.from_numpy(np.array(inputs[i.name])) for i in lowered.program.inputs)
            )
        values = found if isinstance(found, tuple) else (found,)
        typed = {m: v.numpy().astype(types[m].dtype) for m, v in zip(types, values, strict=True)}
        return {
            method: answer(model.parsed.outputs[method], value) for method, value in typed.items()
        }

    return run


SUFFIXES: dict[str, Callable[[hbconv.Model, Path], Answers]] = {
    ".onnx": _onnx,
    ".pt": _torchscript,
    ".pt2": _torch_export,
}
"""How the files of each suffix are run."""
