"""Files that run with torch alone: TorchScript, and programs of ``torch.export``.

Each holds the model's answers behind its checks, and tells its interface in an extra file.
"""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from hbconv.backends.torch import BACKEND, export_module
from hbconv.backends.torch.answers import AnswerModule
from hbconv.backends.torch.jit import load, save, trace
from hbconv.backends.torch.module import TensorModule
from hbconv.backends.torch.script_wrapper import wrap_program
from hbconv.backends.torch.tracing import script_children
from hbconv.interface import (
    Interface,
    inputs_with_codes,
    inputs_with_text,
    lower_with_checks,
    text_columns,
)

if TYPE_CHECKING:
    from hbconv.containers import Graph
    from hbconv.lower import Lowered
    from hbconv.target import Target

__all__ = ["INTERFACE", "export_program", "export_torchscript", "read_interface"]

INTERFACE = "hbconv.json"
"""Name of the extra file that tells the interface."""


def export_torchscript(graph: Graph, target: Target) -> bytes:
    """Write a TorchScript file, whose arguments are matrices and lists of texts.

    Raises
    ------
    BackendError
        Torch does not compute the model, or text or labels do not fit in the file.
    """
    lowered = lower_with_checks(graph, target)
    interface = Interface.of(graph, lowered, inputs_with_text(lowered, graph))
    module = _module(graph, target, lowered, interface)
    with torch.no_grad():
        script_children(module.program)
        program = trace(module, module.example())
    columns = text_columns(lowered)
    coded = [list(dict.fromkeys(columns)).index(column) for column in columns]
    scripted = wrap_program(program, interface, coded, [check.message for check in graph.checks])
    buffer = io.BytesIO()
    save(scripted, buffer, _extra_files={INTERFACE: interface.to_json(torch=torch.__version__)})
    return buffer.getvalue()


def export_program(graph: Graph, target: Target) -> bytes:
    """Write a file of ``torch.export``, whose arguments are matrices: texts go in as codes.

    Raises
    ------
    BackendError
        As for ``export_torchscript``.
    """
    lowered = lower_with_checks(graph, target)
    interface = Interface.of(graph, lowered, inputs_with_codes(lowered, graph))
    module = _module(graph, target, lowered, interface)
    checked = _CheckedModule(module, [check.message for check in graph.checks])
    buffer = io.BytesIO()
    told = {INTERFACE: interface.to_json(torch=torch.__version__)}
    torch.export.save(export_module(checked), buffer, extra_files=told)
    return buffer.getvalue()


def read_interface(data: bytes) -> dict[str, Any]:
    """Return what a TorchScript file tells of itself."""
    told = {INTERFACE: ""}
    load(io.BytesIO(data), _extra_files=told)
    found: dict[str, Any] = json.loads(told[INTERFACE])
    return found


def _module(graph: Graph, target: Target, lowered: Lowered, interface: Interface) -> AnswerModule:
    program = TensorModule(BACKEND.prepare(lowered.program, target))
    outputs = zip(graph.outputs.values(), interface.outputs, strict=True)
    return AnswerModule(program, list(outputs)).eval()


class _CheckedModule(nn.Module):
    """Answers behind checks, for ``torch.export``, whose programs have no way to raise but this.

    The flags go to the CPU first: there a refused row is an error, and on a GPU it would end the
    process's use of the device. The dtypes are asserted, since torch's own guards are of shapes.
    """

    def __init__(self, module: AnswerModule, messages: list[str]) -> None:
        super().__init__()
        self.module = module
        self.messages = messages

    def forward(self, *inputs: Tensor) -> Tensor | tuple[Tensor, ...]:
        for tensor in inputs:
            torch.ops.aten._assert_tensor_metadata(tensor, None, None, tensor.dtype)  # noqa: SLF001
        found: tuple[Tensor, ...] = self.module(*inputs)
        answers = found[:-1] if self.messages else found
        for number, message in enumerate(self.messages):
            refused = found[-1][:, number].any().cpu()
            torch._assert_async(~refused, message)  # noqa: SLF001
        return answers[0] if len(answers) == 1 else answers

    def example(self) -> tuple[Tensor, ...]:
        """Return inputs of two rows, for a tracer."""
        return self.module.example()
