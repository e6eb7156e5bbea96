"""Write a model into a repository, for one of three backends of Triton."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hbconv.backends import find_backend
from hbconv.errors import OptionError
from hbconv.interface import Interface, lower_with_checks
from hbconv.names import unknown
from hbconv.triton.config import ModelConfig, TritonTensor
from hbconv.triton.exportable import Exportable
from hbconv.triton.repository import add_version, require_model_name
from hbconv.triton.rows import RowReader

if TYPE_CHECKING:
    from hbconv.interface import FileOutput

__all__ = ["export_repository"]

PYTHON_MODEL = b"from hbconv.triton.python_model import TritonPythonModel  # noqa: F401\n"
"""``model.py``: hbconv itself has the code, so that both are of one version."""


def export_repository(
    model: Exportable,
    path: Path,
    *,
    name: str = "model",
    file: str = ".pt",
    device: str | None = None,
) -> Path:
    """Write the next version of a model into a repository, and return the version's folder.

    Parameters
    ----------
    model : Model
    path : Path
        The repository, which ``tritonserver --model-repository`` takes.
    name : str
        Name of the model in the repository.
    file : {".pt", ".onnx", ".hbc"}
        What the version holds. ``.pt`` runs in the backend ``pytorch``, ``.onnx`` in
        ``onnxruntime``, and ``.hbc`` in ``python``, where hbconv must be installed.
    device : str, optional
        Where instances run: ``"cpu"``, ``"cuda"`` (one on each GPU) or ``"cuda:1"``. By default the
        model's own device. This machine need not have it.

    Raises
    ------
    OptionError
        Unknown file or device, or the name does not name a folder.
    StoreError
        The repository has a model of this name with other inputs or outputs.
    BackendError
        The file or Triton cannot hold the model.
    """
    require_model_name(name)
    if file not in _FORMS:
        raise unknown("file", file, [*_FORMS])
    place = device or model.target.device
    if not re.fullmatch(r"cpu|cuda(:\d+)?", place):
        raise unknown("device", place, ("cpu", "cuda", "cuda:0"))
    config, files = _FORMS[file](model, place)
    return add_version(path, name, config.to_text(name), files)


def _torchscript(model: Exportable, device: str) -> tuple[ModelConfig, dict[str, bytes]]:
    """Return a program of torch, whose tensors are numbered as the backend wants them."""
    from hbconv.backends.torch.export import INTERFACE, read_interface

    data = model.to_bytes(".pt", device)
    told = read_interface(data)
    inputs = [
        TritonTensor(i["name"], i["dtype"], () if i["dtype"] == "string" else (len(i["columns"]),))
        for i in told["inputs"]
    ]
    outputs = [
        TritonTensor(f"{output['method']}__{number}", output["dtype"], tuple(output["shape"]))
        for number, output in enumerate(told["outputs"])
    ]
    parameters = {"INFERENCE_MODE": "true", INTERFACE: json.dumps(told, ensure_ascii=False)}
    config = ModelConfig("pytorch", tuple(inputs), tuple(outputs), device, parameters)
    return config, {"model.pt": data}


def _onnx(model: Exportable, device: str) -> tuple[ModelConfig, dict[str, bytes]]:
    """Return an ONNX file, whose tensors Triton is told of as the file declares them."""
    from hbconv.backends.onnx.signature import read_signature

    data = model.to_bytes(".onnx")
    inputs, outputs = (
        tuple(TritonTensor(*tensor) for tensor in side) for side in read_signature(data)
    )
    return ModelConfig("onnxruntime", inputs, outputs, device), {"model.onnx": data}


def _python(model: Exportable, device: str) -> tuple[ModelConfig, dict[str, bytes]]:
    """Return the saved model, and the module that answers by it."""
    if device != "cpu" and "cuda" not in find_backend(model.backend).devices:
        raise OptionError(
            f"Backend {model.backend!r} does not run on {device!r}. Use device='cpu', or "
            "model.for_target(backend='torch')."
        )
    reader = RowReader.of(model)
    graph = model.programs.compilation(model.parsed.exported, model.dtypes).graph
    outputs = Interface.of(graph, lower_with_checks(graph, model.target), []).outputs
    config = ModelConfig("python", reader.tensors, tuple(map(_answer, outputs)), device)
    return config, {"model.py": PYTHON_MODEL, "model.hbc": model.to_bytes()}


def _answer(output: FileOutput) -> TritonTensor:
    """Return an answer with text labels themselves, not their codes."""
    dtype = "string" if output.classes is not None else output.dtype
    return TritonTensor(output.method, dtype, output.shape)


_FORMS: dict[str, Callable[[Any, str], tuple[ModelConfig, dict[str, bytes]]]] = {
    ".pt": _torchscript,
    ".onnx": _onnx,
    ".hbc": _python,
}
