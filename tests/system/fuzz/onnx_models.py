"""Damaged ONNX files: bytes at random, and messages of protobuf whose fields are hostile."""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx_trees as trees
from fuzz.judge import answers_alike, in_child
from fuzz.mutate import mutate_bytes, mutate_json
from fuzz.runner import Subject
from google.protobuf import json_format
from mlnet_files import MODELS
from onnx import ModelProto, load_from_string

import hbconv
from hbconv.errors import HbconvError

__all__ = ["ONNX"]

WIDEST = 5000
"""Columns of which rows are made."""
ROWS = 9
ATTEMPTS = 30
"""Changes that are tried until one gives a message."""


def write(folder: Path) -> None:
    """Write trees of each operator, and pipelines of many operators and inputs."""
    made = [
        trees.regressor(1, n_targets=2),
        trees.classifier(2, 3, lambda _: range(3)),
        trees.ensemble(3),
        *(make() for make in MODELS.values()),
    ]
    for i, model in enumerate(made):
        (folder / f"{i}.onnx").write_bytes(model.SerializeToString())


def mutate(data: bytes, rng: np.random.Generator) -> bytes:
    """Change bytes, or one field of the message."""
    if rng.random() < 0.3:
        return mutate_bytes(data, rng)
    document = json_format.MessageToDict(load_from_string(data))
    for _ in range(ATTEMPTS):
        try:
            changed = mutate_json(document, rng)
            return json_format.ParseDict(changed, ModelProto()).SerializeToString()
        except Exception:
            continue
    return mutate_bytes(data, rng)


def attempt(path: Path, rng: np.random.Generator) -> None:
    """Convert a file, run it, and compare with onnxruntime where it answers too."""
    warnings.simplefilter("ignore")
    file = path.with_suffix(".onnx")
    path.replace(file)
    model = hbconv.convert(file, backend="reference")
    if model.n_features_in_ > WIDEST:
        return
    feeds = _feeds(model, rng)
    names = [port.name for port in model.parsed.traits.session.outputs]
    ours = {name: _answer(model, name, feeds) for name in names}
    found = {name: answer for name, answer in ours.items() if answer is not None}
    answers_alike(in_child(partial(_ask, file, feeds))[1], found, 1e-4)


def _answer(model: Any, name: str, feeds: Any) -> Any:
    try:
        return np.asarray(model.run([name], feeds)[0])
    except HbconvError:
        return None


def _ask(file: Path, feeds: Any) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(file, options)
    dtypes = {port.name: port.type for port in session.get_inputs()}
    given = {name: _typed(values, dtypes[name]) for name, values in feeds.items()}
    return {port.name: session.run([port.name], given)[0] for port in session.get_outputs()}


TYPES = {"tensor(float)": "f4", "tensor(double)": "f8", "tensor(bool)": "?", "tensor(string)": "O",
         "tensor(uint8)": "u1", "tensor(int64)": "i8", "tensor(int32)": "i4"}  # fmt: skip


def _typed(values: Any, kind: str) -> Any:
    return values.astype(TYPES[kind])


def _feeds(model: Any, rng: np.random.Generator) -> dict[str, Any]:
    """Return values of each input; ints are 0 and 1, which every type holds."""
    found = {}
    for port in model.parsed.traits.session.inputs:
        dtype = model.schema.columns[port.columns[0]].dtype if port.columns else "float32"
        shape = (ROWS, *port.shape)
        if dtype == "string":
            found[port.name] = rng.choice(np.array(["red", "blue", "yes", ""], object), shape)
        elif dtype == "int64":
            found[port.name] = rng.integers(0, 2, shape)
        else:
            found[port.name] = rng.choice(trees.THRESHOLDS, shape).astype(dtype)
    return found


ONNX = Subject("onnx", write, mutate, attempt)
