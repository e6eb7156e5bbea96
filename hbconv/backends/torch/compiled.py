"""Files of ``torch.export`` with compiled code, by AOTInductor."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

import torch
from torch.export.passes import move_to_device_pass

from hbconv.backends.torch.export import export_with_interface, extra_files
from hbconv.containers import Graph
from hbconv.errors import BackendError, HbconvError, MissingPackageError
from hbconv.system.temporary import temporary_folder
from hbconv.target import Target

__all__ = ["export_compiled"]

IF_ASKED = "env_var_value != nullptr && env_var_value[0] != '0'"
"""Where generated code asks whether to look at the dtypes, widths and strides of its inputs."""
PORTABLE = {"cpp.march": "x86-64-v3", "cpp.simdlen": 256}
"""Code that all processors with AVX2 run, wherever it was compiled. Before 2.13, torch knows no
``cpp.march`` and compiles for the processor that is here."""
# Torch's class is changed while a file is compiled, so one thread at a time may compile.
_compiling = Lock()


def export_compiled(graph: Graph, target: Target) -> bytes:
    """Write a file whose program is machine code, for ``torch._inductor.aoti_load_package``.

    Raises
    ------
    BackendError
        As for ``export_torchscript``; or torch does not see the device, or cannot compile.
    MissingPackageError
        There is no C++ compiler.
    """
    _require_device(target)
    exported, interface = export_with_interface(graph, target)
    program = move_to_device_pass(exported, target.device)
    metadata = extra_files(interface, {})
    with temporary_folder() as folder, _compiling, _without_warnings(), _check_inputs():
        path = folder / "model.pt2"
        _compile(program, path, {**_processor(), "aot_inductor.metadata": metadata})
        return path.read_bytes()


def _require_device(target: Target) -> None:
    if target.device != "cpu" and not torch.cuda.is_available():
        raise BackendError(
            f"compiled=True compiles for the device that is here, and torch sees no CUDA device. "
            f"Export where {target.device!r} is, or without compiled=True."
        )


def _processor() -> dict[str, Any]:
    """Return options for processors: those like this one, if it lacks what most have."""
    from torch._inductor import config

    if torch.backends.cpu.get_cpu_capability() not in ("AVX2", "AVX512"):
        return {}
    options = config.get_config_copy()
    return {name: value for name, value in PORTABLE.items() if name in options}


def _compile(program: Any, path: Path, options: dict[str, Any]) -> None:
    from torch._inductor import aoti_compile_and_package
    from torch._inductor.exc import InductorError

    options = {**options, "aot_inductor.check_lowerbound": False}
    try:
        aoti_compile_and_package(program, package_path=str(path), inductor_configs=options)
    except InductorError as error:
        raise _explain(error.inner_exception) from error


def _explain(error: Exception) -> HbconvError:
    """Return an error that says what to do about one of the compiler's."""
    from torch._inductor.exc import InvalidCxxCompiler

    if isinstance(error, HbconvError):
        return error
    if isinstance(error, InvalidCxxCompiler):
        return MissingPackageError(
            "compiled=True needs a C++ compiler. Install g++, or export without compiled=True."
        )
    return BackendError(
        f"torch {torch.__version__} cannot compile this model: {error} "
        "Export it without compiled=True."
    )


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Hide warnings of torch about its own deprecated functions."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def _check_inputs() -> Iterator[None]:
    """Let compiled code look at its inputs in each call.

    By itself it does so only where ``AOTI_RUNTIME_CHECK_INPUTS`` is set, and returns anything for
    rows of another dtype, width or order in memory.
    """
    from torch._inductor.codecache import AotCodeCompiler

    compile_code = AotCodeCompiler.compile

    def compile_checked(graph: Any, wrapper: str, *rest: Any, **options: Any) -> Any:
        if IF_ASKED not in wrapper:
            raise BackendError(
                f"The code that torch {torch.__version__} compiles does not check its inputs. "
                "Export without compiled=True."
            )
        return compile_code(graph, wrapper.replace(IF_ASKED, "true"), *rest, **options)

    setattr(AotCodeCompiler, "compile", compile_checked)  # noqa: B010  (a class method, to type checkers)
    try:
        yield
    finally:
        setattr(AotCodeCompiler, "compile", compile_code)  # noqa: B010
