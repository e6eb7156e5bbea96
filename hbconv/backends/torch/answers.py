"""A program's values as the answers of the source model, computed by torch alone."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from hbconv.backends.torch.module import TensorModule
from hbconv.containers import Output
from hbconv.interface import FileOutput, label_tables

__all__ = ["AnswerModule"]


class AnswerModule(nn.Module):
    """A program with its answers in the source's dtypes and shapes, as exported files hold it.

    ``forward`` returns a tuple: an answer for each output, then a bool matrix (n_rows, n_checks)
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
        self.answers = nn.ModuleList(_Answer(output, told) for output, told in outputs)

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Compute the answers for the program's inputs."""
        found = self.program(*inputs)
        values = (found,) if isinstance(found, Tensor) else found
        count = len(self.answers)
        answers = [answer(value) for answer, value in zip(self.answers, values, strict=False)]
        refused = [flags.any(1, keepdim=True) for flags in values[count:]]
        return (*answers, torch.cat(refused, 1)) if refused else tuple(answers)

    def example(self) -> tuple[Tensor, ...]:
        """Return inputs of two rows, for a tracer: with fewer it would fix their number."""
        return self.program.example()


class _Answer(nn.Module):
    """Numeric labels for codes, then the dtype, then the shape."""

    labels: Tensor
    starts: Tensor

    def __init__(self, output: Output, told: FileOutput) -> None:
        super().__init__()
        self.dtype: torch.dtype = getattr(torch, told.dtype)
        self.shape = told.shape
        tables = label_tables(output)
        self.decodes = tables is not None
        if tables is not None:
            starts = np.cumsum([0, *(len(table) for table in tables[:-1])])
            flat = np.concatenate([table.astype(told.dtype) for table in tables])
            self.register_buffer("labels", torch.tensor(flat))
            self.register_buffer("starts", torch.tensor(starts))

    def forward(self, values: Tensor) -> Tensor:
        if self.decodes:
            places = values + self.starts
            values = self.labels.index_select(0, places.flatten()).reshape(places.shape)
        return values.to(self.dtype).reshape(values.shape[0], *self.shape)
