"""The functions of ``torch.jit`` that hbconv calls, without their deprecation warnings.

TorchScript has no successor that writes files for other runtimes, so the warnings say nothing that
a user of hbconv could heed.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

__all__ = ["freeze", "load", "save", "script", "trace", "without_deprecation", "without_fusion"]

WRITERS_OWN = ("version", ".data/serialization_id")
"""Records that the writer of a file adds by itself."""


def without_deprecation(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Call a function of ``torch.jit`` without its warning: a FutureWarning from torch 2.14 on."""
    with warnings.catch_warnings():
        for category in (DeprecationWarning, FutureWarning):
            warnings.filterwarnings("ignore", message=r"`?torch\.jit", category=category)
        return function(*arguments, **options)


def script(module: Any) -> Any:
    """Script a module.

    The constructor of an ``fx.GraphModule`` has an annotation that TorchScript warns of, and does
    not need.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message="The TorchScript type system", category=UserWarning
        )
        return without_deprecation(torch.jit.script, module)


def save(module: Any, buffer: io.BytesIO, **options: Any) -> None:
    """Write a scripted module.

    What torch adds for its tracebacks is left out: where in the files of this machine each operator
    was written. Programs and messages stay.
    """
    written = io.BytesIO()
    without_deprecation(torch.jit.save, module, written, **options)
    written.seek(0)
    reader = torch._C.PyTorchFileReader(written)  # noqa: SLF001
    writer = torch._C.PyTorchFileWriter(buffer)  # noqa: SLF001
    writer.set_min_version(int(reader.get_record("version")))
    for name in reader.get_all_records():
        if name not in WRITERS_OWN and not name.endswith(".debug_pkl"):
            record = reader.get_record(name)
            writer.write_record(name, record, len(record))
    writer.write_end_of_file()


def without_fusion(module: Any) -> Callable[..., Any]:
    """Return what calls a module operator by operator, as eager torch does.

    On a CUDA device torch else compiles a kernel for a chain of operators at the third call, and
    may round a product and a sum once. It is likely why first calls of six methods took 40 to 60 s
    on an H200, and 6 on a CPU. The setting is the thread's own, for the call alone.
    """

    def call(*inputs: Any) -> Any:
        with torch.jit.optimized_execution(False):  # type: ignore[attr-defined]
            return module(*inputs)

    return call


trace = partial(without_deprecation, torch.jit.trace, check_trace=False)
freeze = partial(without_deprecation, torch.jit.freeze)
load = partial(without_deprecation, torch.jit.load)
