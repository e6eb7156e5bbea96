"""A program repeated on its own result, as a module."""

from __future__ import annotations

import torch
from torch import Tensor

from hbconv.backends.torch.functions import DTYPES
from hbconv.tensor import Input

__all__ = ["LoopModule", "make_example"]


class LoopModule(torch.nn.Module):
    """A program repeated on its own result, until nothing changes.

    A tracer sees all steps, and so does a CUDA graph: to stop early takes a look from the host.
    """

    def __init__(self, body: torch.nn.Module, inputs: tuple[Input, ...], steps: int) -> None:
        super().__init__()
        self.body = body
        self.inputs = inputs
        self.steps = steps

    def forward(self, state: Tensor, given: Tensor) -> Tensor:
        """Return the last state."""
        stops = _may_look(state)
        for _ in range(self.steps):
            before = state
            state = self.body(before, given)
            if stops and torch.equal(before, state):
                break
        return state

    def example(self) -> tuple[Tensor, ...]:
        """Return a state and a given matrix of two rows."""
        return make_example(self, self.inputs)


def _may_look(state: Tensor) -> bool:
    """Whether the host may read what is computed."""
    if torch.jit.is_tracing() or torch.compiler.is_compiling():  # type: ignore[attr-defined, no-untyped-call]
        return False
    return not (state.is_cuda and torch.cuda.is_current_stream_capturing())


def make_example(module: torch.nn.Module, inputs: tuple[Input, ...]) -> tuple[Tensor, ...]:
    """Return inputs of two rows, on the module's device."""
    device = next((buffer.device for buffer in module.buffers()), torch.device("cpu"))
    return tuple(
        torch.zeros(2, *i.type.shape, dtype=DTYPES[i.type.dtype], device=device) for i in inputs
    )
