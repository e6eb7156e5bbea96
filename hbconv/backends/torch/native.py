"""Files for torch whose program is one operator: the compiled kernel, in a library next to it.

Torch knows the operator once ``torch.ops.load_library`` has loaded the library.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor, nn

from hbconv.backends.interface import (
    Interface,
    inputs_with_codes,
    inputs_with_text,
    lower_with_checks,
)
from hbconv.backends.torch import export_module
from hbconv.backends.torch.export import CheckedModule, CodeBounds, save_exported, save_torchscript
from hbconv.backends.torch.jit import trace
from hbconv.errors import MissingPackageError

if TYPE_CHECKING:
    from hbconv.backends.interface import FileInput, FileOutput
    from hbconv.containers import Graph
    from hbconv.target import Target

__all__ = ["NativeOperator", "export_native", "require_stable_interface"]

FIRST_TORCH = "2.10"
"""The first torch whose stable C interface has what ``operator.ll`` calls."""

_DECLARING = Lock()
"""Held while torch knows an operator for a while: it can be declared but once."""


class NativeOperator(Protocol):
    """An operator of a library, as ``tvm.c_library.operator`` makes it."""

    @property
    def namespace(self) -> str:
        """Where torch finds the operator."""

    @property
    def name(self) -> str:
        """Its name there."""

    @property
    def schema(self) -> str:
        """What it takes and returns, as torch writes it."""

    @property
    def inputs(self) -> tuple[FileInput, ...]:
        """Matrices; the last holds the codes of texts, where there are any."""

    @property
    def outputs(self) -> tuple[FileOutput, ...]:
        """The output of each method."""


def require_stable_interface() -> None:
    """Raise MissingPackageError where torch does not have the interface that a library calls."""
    # torch.__version__ compares by its numbers, not as text: 2.9 is before 2.10.
    if torch.__version__ < FIRST_TORCH:
        raise MissingPackageError(
            f"A torch operator needs torch {FIRST_TORCH} or later, and here is torch "
            f"{torch.__version__}. Install a later torch, or export without native=True"
        )


def export_native(
    graph: Graph, target: Target, operator: NativeOperator, suffix: str, library: str
) -> bytes:
    """Write a file that calls an operator.

    Parameters
    ----------
    graph : Graph
        The methods that the operator computes.
    target : Target
    operator : NativeOperator
    suffix : {".pt", ".pt2"}
    library : str
        Name of the file that holds the operator, for the interface.
    """
    lowered = lower_with_checks(graph, target)
    module = _OperatorModule(operator).eval()
    with _DECLARING, _declare(operator), torch.no_grad():
        if suffix == ".pt2":
            interface = Interface.of(graph, lowered, inputs_with_codes(lowered, graph))
            exported = export_module(CheckedModule(module, [], CodeBounds(())))
            return save_exported(exported, interface, library=library)
        interface = Interface.of(graph, lowered, inputs_with_text(lowered, graph))
        program = trace(module, module.example(rows=0))
        return save_torchscript(program, interface, lowered, [], library=library)


class _OperatorModule(nn.Module):
    """Calls the operator, and returns a tuple of its outputs.

    The operator has no derivative. Answers for detached inputs require no gradient, so that to go
    backward through one is an error.
    """

    def __init__(self, operator: NativeOperator) -> None:
        super().__init__()
        self.operator = operator

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        run = getattr(getattr(torch.ops, self.operator.namespace), self.operator.name)
        outputs = run(*(x.detach() for x in inputs))
        return (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)

    def example(self, rows: int = 2) -> tuple[Tensor, ...]:
        """Return inputs for a tracer. A loaded operator may refuse rows, but never no rows."""
        return tuple(
            torch.zeros(rows, len(declared.columns), dtype=getattr(torch, declared.dtype))
            for declared in self.operator.inputs
        )


@contextmanager
def _declare(operator: NativeOperator) -> Iterator[None]:
    """Let torch know the operator by its schema and the shapes of its outputs, for the block.

    The library itself may be for another machine, and could never be unloaded. But where this
    process has loaded a library of the same content, torch knows the operator already, and lacks
    its shapes alone: those of the library are of a known number of rows.
    """

    def compute_shapes(*inputs: Tensor) -> Tensor | tuple[Tensor, ...]:
        rows = inputs[0].shape[0]
        outputs = tuple(
            inputs[0].new_empty((rows, *output.shape), dtype=getattr(torch, output.dtype))
            for output in operator.outputs
        )
        return outputs[0] if len(outputs) == 1 else outputs

    is_loaded = hasattr(getattr(torch.ops, operator.namespace), operator.name)
    scope = torch.library._scoped_library(operator.namespace, "FRAGMENT")  # noqa: SLF001
    with scope as library:
        if not is_loaded:
            library.define(operator.schema)
            library.impl(operator.name, compute_shapes, "CPU")
        library.impl(operator.name, compute_shapes, "Meta")
        yield
