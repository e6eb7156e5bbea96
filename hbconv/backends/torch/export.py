"""Files that run with torch alone: TorchScript, and programs of ``torch.export``.

Each returns what the source model does, behind its checks, and holds its interface in an extra
file.
"""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from hbconv.backends.interface import (
    FileOutput,
    Interface,
    inputs_with_codes,
    inputs_with_text,
    label_tables,
    lower_with_checks,
    text_columns,
)
from hbconv.backends.torch import BACKEND, export_module
from hbconv.backends.torch.jit import load, save, trace
from hbconv.backends.torch.module import TensorModule
from hbconv.backends.torch.nearest import forms_for
from hbconv.backends.torch.script_wrapper import wrap_program
from hbconv.backends.torch.tracing import script_children
from hbconv.containers import Output

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hbconv.backends.interface import FileInput
    from hbconv.containers import Graph
    from hbconv.lower import Lowered
    from hbconv.target import Target

__all__ = [
    "INTERFACE",
    "CheckedModule",
    "CodeBounds",
    "export_program",
    "export_torchscript",
    "export_with_interface",
    "extra_files",
    "read_interface",
    "save_exported",
    "save_torchscript",
]

NO_SUCH_CODE = "a code of a text is in no vocabulary"
INTERFACE = "hbconv.json"
"""Name of the extra file that holds the interface."""


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
    with torch.no_grad(), forms_for(target.device):
        script_children(module.program)
        program = trace(module, module.example())
    return save_torchscript(program, interface, lowered, [check.message for check in graph.checks])


def save_torchscript(
    program: nn.Module, interface: Interface, lowered: Lowered, messages: list[str], **more: str
) -> bytes:
    """Return a TorchScript file of a traced program.

    Parameters
    ----------
    program : nn.Module
        It returns an output for each method; then which rows are refused, if there are messages.
    interface : Interface
    lowered : Lowered
        Tells which text columns the program's codes are of.
    messages : list of str
        What each check says.
    **more : str
        More entries of the interface's file.
    """
    columns = text_columns(lowered)
    coded = [list(dict.fromkeys(columns)).index(column) for column in columns]
    scripted = wrap_program(program, interface, coded, messages)
    buffer = io.BytesIO()
    save(scripted, buffer, _extra_files=extra_files(interface, more))
    return buffer.getvalue()


def export_program(graph: Graph, target: Target) -> bytes:
    """Write a file of ``torch.export``, whose arguments are matrices: texts go in as codes.

    Raises
    ------
    BackendError
        As for ``export_torchscript``.
    """
    return save_exported(*export_with_interface(graph, target))


def export_with_interface(
    graph: Graph, target: Target
) -> tuple[torch.export.ExportedProgram, Interface]:
    """Return the program of the outputs behind their checks, and its interface."""
    lowered = lower_with_checks(graph, target)
    interface = Interface.of(graph, lowered, inputs_with_codes(lowered, graph))
    module = _module(graph, target, lowered, interface)
    codes = CodeBounds(interface.inputs)
    checked = CheckedModule(module, [check.message for check in graph.checks], codes)
    with forms_for(target.device):
        return export_module(checked), interface


def save_exported(
    program: torch.export.ExportedProgram, interface: Interface, **more: str
) -> bytes:
    """Return a file of ``torch.export``."""
    buffer = io.BytesIO()
    torch.export.save(program, buffer, extra_files=extra_files(interface, more))
    return buffer.getvalue()


def extra_files(interface: Interface, more: Mapping[str, str]) -> dict[str, str]:
    """Return the interface as a file's extra file, with more entries."""
    return {INTERFACE: interface.to_json(torch=torch.__version__, **more)}


def read_interface(data: bytes) -> dict[str, Any]:
    """Return the interface that a TorchScript file holds."""
    files = {INTERFACE: ""}
    load(io.BytesIO(data), _extra_files=files)
    interface: dict[str, Any] = json.loads(files[INTERFACE])
    return interface


def _module(graph: Graph, target: Target, lowered: Lowered, interface: Interface) -> AnswerModule:
    program = TensorModule(
        BACKEND.prepare(lowered.program, target), target.device.partition(":")[0]
    )
    outputs = zip(graph.outputs.values(), interface.outputs, strict=True)
    return AnswerModule(program, list(outputs)).eval()


class Answering(Protocol):
    """A module that returns a tuple of outputs."""

    def __call__(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Compute the outputs."""

    def example(self) -> tuple[Tensor, ...]:
        """Return inputs of two rows, for a tracer."""


def refuse(refused: Tensor, message: str) -> None:
    """Raise a message where a flag holds; it goes to the CPU first, as ``CheckedModule`` says."""
    torch._assert_async(~refused.cpu(), message)  # noqa: SLF001


class CodeBounds(nn.Module):
    """Refuses codes of texts that are in no vocabulary, and not -1.

    Parameters
    ----------
    inputs : tuple of FileInput
        One may hold codes.
    """

    def __init__(self, inputs: Sequence[FileInput]) -> None:
        super().__init__()
        self.place = next((i for i, declared in enumerate(inputs) if declared.vocabularies), None)
        vocabularies = () if self.place is None else inputs[self.place].vocabularies
        ends = [max(codes.values(), default=-1) + 1 for codes in vocabularies]
        self.ends: Tensor
        self.register_buffer("ends", torch.tensor(ends, dtype=torch.int64))

    def forward(self, inputs: Sequence[Tensor]) -> None:
        """Look at the codes."""
        if self.place is not None:
            codes = inputs[self.place]
            refuse(((codes < -1) | (codes >= self.ends)).any(), NO_SUCH_CODE)


class CheckedModule(nn.Module):
    """Answers behind checks, for ``torch.export``, whose programs have no way to raise but this.

    The flags go to the CPU first: there a refused row is an error, and on a GPU it would end the
    process's use of the device. The dtypes are asserted, since torch's own guards are of shapes.
    """

    def __init__(self, module: Answering, messages: list[str], codes: CodeBounds) -> None:
        super().__init__()
        self.module = module
        self.messages = messages
        self.codes = codes

    def forward(self, *inputs: Tensor) -> Tensor | tuple[Tensor, ...]:
        """Compute the outputs, and refuse rows; one output is not a tuple."""
        for tensor in inputs:
            torch.ops.aten._assert_tensor_metadata(tensor, None, None, tensor.dtype)  # noqa: SLF001
        self.codes(inputs)
        results: tuple[Tensor, ...] = self.module(*inputs)
        answers = results[:-1] if self.messages else results
        for number, message in enumerate(self.messages):
            refuse(results[-1][:, number].any(), message)
        return answers[0] if len(answers) == 1 else answers

    def example(self) -> tuple[Tensor, ...]:
        """Return inputs of two rows, for a tracer."""
        return self.module.example()


class AnswerModule(nn.Module):
    """A program with its outputs in the source's dtypes and shapes, as exported files hold it.

    ``forward`` returns a tuple: a tensor for each output, then a bool matrix (n_rows, n_checks)
    that says which rows each check refuses. There is no matrix where there are no checks.

    Parameters
    ----------
    program : TensorModule
        Its outputs are the values of each method, then those of each check.
    outputs : list of (Output, FileOutput)
        What each method returns.
    """

    def __init__(self, program: TensorModule, outputs: list[tuple[Output, FileOutput]]) -> None:
        super().__init__()
        self.program = program
        self.answers = nn.ModuleList(_Answer(output, declared) for output, declared in outputs)

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Compute the outputs for the program's inputs."""
        results = self.program(*inputs)
        values = (results,) if isinstance(results, Tensor) else results
        count = len(self.answers)
        answers = [answer(value) for answer, value in zip(self.answers, values, strict=False)]
        # A check may look at several columns, and refuses a row if one of them is wrong.
        refused = [flags.any(1, keepdim=True) for flags in values[count:]]
        return (*answers, torch.cat(refused, 1)) if refused else tuple(answers)

    def example(self) -> tuple[Tensor, ...]:
        """Return inputs of two rows, for a tracer: with fewer it would fix their number."""
        return self.program.example()


class _Answer(nn.Module):
    """Numeric labels for codes, then the dtype, then the shape."""

    labels: Tensor
    starts: Tensor

    def __init__(self, output: Output, declared: FileOutput) -> None:
        super().__init__()
        self.dtype: torch.dtype = getattr(torch, declared.dtype)
        self.shape = declared.shape
        tables = label_tables(output)
        self.decodes = tables is not None
        if tables is not None:
            starts = np.cumsum([0, *(len(table) for table in tables[:-1])])
            flat = np.concatenate([table.astype(declared.dtype) for table in tables])
            self.register_buffer("labels", torch.tensor(flat))
            self.register_buffer("starts", torch.tensor(starts))

    def forward(self, values: Tensor) -> Tensor:
        if self.decodes:
            places = values + self.starts
            values = self.labels.index_select(0, places.flatten()).reshape(places.shape)
        return values.to(self.dtype).reshape(values.shape[0], *self.shape)
