"""Write a model into a repository, for one of three backends of Triton.

A model's folder there is complete or absent; where it exists, it gets one more version.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hbconv.backends import find_backend
from hbconv.backends.interface import Interface, lower_with_checks
from hbconv.errors import OptionError, StoreError
from hbconv.names import unknown, unknown_device
from hbconv.triton.rows import ModelConfig, RowReader, TritonModel, TritonTensor

if TYPE_CHECKING:
    from hbconv.backends.interface import FileOutput

__all__ = ["export_repository"]

PYTHON_MODEL = b"from hbconv.triton.python_model import TritonPythonModel  # noqa: F401\n"
"""``model.py``: hbconv itself has the code, so that both are of one version."""


def export_repository(
    model: TritonModel,
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
        raise unknown_device(place)
    config, files = _FORMS[file](model, place)
    return add_version(path, name, config.to_text(name), files)


def _torchscript(model: TritonModel, device: str) -> tuple[ModelConfig, dict[str, bytes]]:
    """Return a program of torch, whose tensors are numbered as the backend wants them."""
    from hbconv.backends.torch.export import INTERFACE, read_interface

    data = model.to_bytes(".pt", device)
    interface = read_interface(data)
    inputs = [
        TritonTensor(i["name"], i["dtype"], () if i["dtype"] == "string" else (len(i["columns"]),))
        for i in interface["inputs"]
    ]
    outputs = [
        TritonTensor(f"{output['method']}__{number}", output["dtype"], tuple(output["shape"]))
        for number, output in enumerate(interface["outputs"])
    ]
    parameters = {"INFERENCE_MODE": "true", INTERFACE: json.dumps(interface, ensure_ascii=False)}
    config = ModelConfig("pytorch", tuple(inputs), tuple(outputs), device, parameters)
    return config, {"model.pt": data}


def _onnx(model: TritonModel, device: str) -> tuple[ModelConfig, dict[str, bytes]]:
    """Return an ONNX file, with its tensors as the file declares them."""
    from hbconv.backends.onnx.writer import read_signature

    data = model.to_bytes(".onnx")
    inputs, outputs = (
        tuple(TritonTensor(*tensor) for tensor in side) for side in read_signature(data)
    )
    return ModelConfig("onnxruntime", inputs, outputs, device), {"model.onnx": data}


def _python(model: TritonModel, device: str) -> tuple[ModelConfig, dict[str, bytes]]:
    """Return the saved model, and the module that runs it."""
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
    """Return an output that holds text labels themselves, not their codes."""
    dtype = "string" if output.classes is not None else output.dtype
    return TritonTensor(output.method, dtype, output.shape)


_FORMS: dict[str, Callable[[Any, str], tuple[ModelConfig, dict[str, bytes]]]] = {
    ".pt": _torchscript,
    ".onnx": _onnx,
    ".hbc": _python,
}


CONFIG = "config.pbtxt"


def require_model_name(name: object) -> str:
    """Return the name of a model, or raise OptionError where it cannot name a folder."""
    if not isinstance(name, str) or name != Path(name).name or name.startswith(".") or not name:
        raise OptionError(
            f"name={name!r} does not name a folder. Choose letters and digits, such as 'churn'."
        )
    return name


def add_version(repository: Path, name: str, config: str, files: Mapping[str, bytes]) -> Path:
    """Write the next version of a model, and return its folder ``<repository>/<name>/<version>``.

    A server that watches the repository sees a version when it is complete.

    Parameters
    ----------
    repository : Path
        It is made if it does not exist; its parent must exist.
    name : str
    config : str
        Text of ``config.pbtxt``.
    files : mapping of str to bytes
        Of the version.

    Raises
    ------
    StoreError
        The repository has a model of this name with other inputs, outputs or settings.
    """
    repository.mkdir(exist_ok=True)
    model = repository / name
    if not model.exists():
        with _appearing_folder(model) as folder:
            (folder / CONFIG).write_text(config, encoding="utf-8")
            _write(folder / "1", files)
        return model / "1"
    _require_same_config(model, config)
    # Triton serves the largest number, so a new version takes over from those before.
    version = 1 + max((int(p.name) for p in model.iterdir() if p.name.isdecimal()), default=0)
    with _appearing_folder(model / str(version)) as folder:
        _write(folder, files)
    return model / str(version)


def _require_same_config(model: Path, config: str) -> None:
    stored = model / CONFIG
    if not stored.is_file() or stored.read_text(encoding="utf-8") != config:
        raise StoreError(
            f"{model} exists, and its {CONFIG} is another one: it has other inputs, outputs or "
            "settings. Remove the folder, or give the model another name."
        )


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    folder.mkdir(exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)


@contextmanager
def _appearing_folder(path: Path) -> Iterator[Path]:
    """Give a temporary folder, which is renamed to the path when the block ends without an error.

    Its name begins with a dot. Triton reads versions from folders whose names are numbers.
    """
    temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    try:
        yield temporary
        # mkdtemp lets only the owner in, and the server may run as another user.
        temporary.chmod(0o755)
        temporary.rename(path)
    # Ctrl-C too must not leave half a model behind.
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
