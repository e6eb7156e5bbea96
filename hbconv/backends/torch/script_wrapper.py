"""Around a traced program: arguments that are checked, texts that are encoded, rows refused.

All of it is TorchScript, so that a file needs torch alone.
"""

# TorchScript needs annotations that are types: no annotations from __future__ in this file.
import operator
from typing import Any

import torch
from torch import Tensor, fx, nn

from hbconv.backends.interface import FileInput, Interface
from hbconv.backends.torch.jit import script

__all__ = ["wrap_program"]


def wrap_program(
    program: nn.Module, interface: Interface, coded: list[int], messages: list[str]
) -> torch.jit.ScriptModule:
    """Return a scripted module that takes the interface's inputs and gives its outputs.

    It raises an error where an argument has another dtype or width, where the arguments differ in
    their number of rows, or where a check refuses a row.

    Parameters
    ----------
    program : nn.Module
        A traced AnswerModule.
    interface : Interface
        Its inputs are matrices in the program's order, then text columns.
    coded : list of int
        Of each column of codes that the program takes, which of the text columns it encodes.
    messages : list of str
        What each check says of a row that it refuses.
    """
    writer = _Wrapper()
    operands = writer.read(interface.inputs, coded)
    values = writer.call("program", program, *operands)
    count = len(interface.outputs)
    if messages:
        writer.call("checks", _Checks(messages), writer.item(values, count))
    answers = [writer.item(values, number) for number in range(count)]
    writer.graph.output(answers[0] if count == 1 else tuple(answers))
    scripted: torch.jit.ScriptModule = script(fx.GraphModule(writer.root, writer.graph).eval())
    return scripted


class _Wrapper:
    """Writes the wrapper as an fx graph, whose placeholders are the arguments."""

    def __init__(self) -> None:
        self.root, self.graph = nn.Module(), fx.Graph()

    def call(self, name: str, module: nn.Module, *operands: Any) -> fx.Node:
        self.root.add_module(name, module)
        return self.graph.call_module(name, operands)

    def item(self, values: fx.Node, number: int) -> fx.Node:
        return self.graph.call_function(operator.getitem, (values, number))

    def read(self, inputs: tuple[FileInput, ...], coded: list[int]) -> list[fx.Node]:
        """Return what the program takes: the matrices as they are, then the codes side by side."""
        nodes = [self.graph.placeholder(i.name, type_expr=_annotation(i)) for i in inputs]
        arguments = list(zip(inputs, nodes, strict=True))
        matrices = [
            self.call(f"read_{i.name}", _Matrix(i), node) for i, node in arguments if not i.is_text
        ]
        codes = self.encode([(i, node) for i, node in arguments if i.is_text], coded)
        if len(matrices) + len(codes) > 1:
            self.call("rows", _SameRows(), [*matrices, *codes])
        return [*matrices, self.graph.call_function(torch.cat, (codes, 1))] if codes else matrices

    def encode(self, texts: list[tuple[FileInput, fx.Node]], coded: list[int]) -> list[fx.Node]:
        """Return the columns of codes: those of one text column have its vocabularies in turn."""
        vocabularies = [iter(declared.vocabularies) for declared, _ in texts]
        modules = [_TextColumn(dict(next(vocabularies[place]))) for place in coded]
        return [
            self.call(f"encode_{number}", module, texts[place][1])
            for number, (place, module) in enumerate(zip(coded, modules, strict=True))
        ]


def _annotation(declared: FileInput) -> Any:
    return list[str] if declared.is_text else Tensor


class _Matrix(nn.Module):
    """A matrix of the dtype and width that the program was made for; others are refused."""

    def __init__(self, declared: FileInput) -> None:
        super().__init__()
        self.dtype = getattr(torch, declared.dtype)
        self.width = len(declared.columns)
        self.message = (
            f"Input {declared.name!r} must be a tensor of dtype {declared.dtype} and shape "
            f"(n_rows, {self.width})."
        )

    def forward(self, x: Tensor) -> Tensor:
        if x.dtype != self.dtype or x.dim() != 2 or x.size(1) != self.width:
            raise ValueError(self.message)
        return x


class _TextColumn(nn.Module):
    """Codes of texts, (n_rows, 1), on the device of the module; -1 for a text that is unknown."""

    codes: dict[str, int]
    device: Tensor

    def __init__(self, codes: dict[str, int]) -> None:
        super().__init__()
        self.codes = codes
        # An empty buffer follows the module to its device, which a script cannot ask otherwise.
        self.register_buffer("device", torch.zeros(0))

    def forward(self, texts: list[str]) -> Tensor:
        codes = [self.codes.get(text, -1) for text in texts]
        return torch.tensor(codes, dtype=torch.int64, device=self.device.device).unsqueeze(1)


class _SameRows(nn.Module):
    """Refuses arguments that differ in their number of rows: torch would repeat a single one."""

    def forward(self, columns: list[Tensor]) -> None:
        for column in columns:
            if column.size(0) != columns[0].size(0):
                raise ValueError("All inputs must have the same number of rows.")


class _Checks(nn.Module):
    """Raises the message of the first check that refuses a row."""

    messages: list[str]

    def __init__(self, messages: list[str]) -> None:
        super().__init__()
        self.messages = messages

    def forward(self, refused: Tensor) -> None:
        if bool(refused.any()):
            # argmax does not take bools.
            first = int(refused.any(0).int().argmax())
            raise ValueError(self.messages[first])
