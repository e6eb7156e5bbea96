"""A compiled kernel of the CPU as an ``nn.Module``: one operator of torch in place of many."""

from __future__ import annotations

import copy
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from hbconv.backends.torch.functions import DTYPES
from hbconv.backends.torch.module import check_inputs, make_example, require_equal_rows
from hbconv.errors import BackendError, MissingPackageError
from hbconv.tensor import TensorProgram

if TYPE_CHECKING:
    from hbconv.containers import Graph

__all__ = ["KernelModule", "make_module"]


class NativeProgram(Protocol):
    """An artifact of the CPU."""

    most_at: int
    """Rows up to which ``run_at`` computes."""

    def run(self, inputs: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
        """Compute the outputs."""

    def run_at(self, rows: int, addresses: Sequence[int]) -> None:
        """Compute the outputs of few rows, given where inputs and outputs lie."""


class TorchModel(Protocol):
    """A model for torch."""

    parsed: Graph
    dtypes: tuple[str, ...]
    programs: Any

    @property
    def backend(self) -> str:
        """Name of the backend that was asked for."""

    def for_target(self, **changes: Any) -> Any:
        """Return the same model for another target."""


def make_module(model: TorchModel) -> Any:
    """Return a model as a module: of the kernel where one computes it, else of its backend."""
    programs = model.programs
    asked = model.parsed.exported, model.dtypes
    if programs.target.backend == model.backend:
        return programs.fitted(*asked).module
    try:
        kernel = programs.fitted(*asked)
    except MissingPackageError:
        # A model that was saved compiled, and now is asked for what it did not store.
        return make_module(model.for_target(native=False))
    return KernelModule(kernel, programs.unguarded(*asked).prepared, model)


class KernelModule(torch.nn.Module):
    """A compiled program as a module: its inputs in order, a tensor for one output or a tuple.

    The kernel computes rows on the CPU, by itself and under ``torch.compile``. Whatever else a
    module is asked is computed by plain operators, made when they are first needed: gradients,
    traces, exports, another device.

    Parameters
    ----------
    kernel : NativeProgram
    program : TensorProgram
        What the kernel computes.
    model : TorchModel
        The model, which also has a module of plain operators.

    Attributes
    ----------
    inputs : tuple of Input
        Names and types of the tensors that ``forward`` takes: (n_rows, width). For int32, it also
        takes int64.
    output_names : tuple of str
        Names of the results.
    """

    def __init__(self, kernel: NativeProgram, program: TensorProgram, model: TorchModel) -> None:
        super().__init__()
        self.inputs = program.inputs
        self.output_names = tuple(program.outputs)
        self._kernel = kernel
        self._model = model
        self._plain: torch.nn.Module | None = None
        self._is_moved = False
        self._dtypes = [getattr(torch, i.type.dtype) for i in program.inputs]
        types = program.types.outputs.values()
        self._results = [(t.shape, t.dtype) for t in types]
        # Their codes are int64, as those of all modules.
        self._shapes = [torch.empty((0, *t.shape), dtype=DTYPES[t.dtype]) for t in types]
        # A tensor: of one code torch.compile makes a program for each number that a module holds,
        # and no more than eight of them.
        self._number = torch.tensor(secrets.randbits(62))
        _MODULES[int(self._number)] = self

    def forward(self, *inputs: Tensor) -> Tensor | tuple[Tensor, ...]:
        """Compute the outputs; raise InputError for an input of another dtype or width."""
        if self._is_moved or not _is_plain_call(inputs):
            result: Tensor | tuple[Tensor, ...] = self.plain(*inputs)
            return result
        check_inputs(inputs, self.inputs)
        require_equal_rows(inputs)
        results = torch.ops.hbconv.run_kernel(self._number, inputs, self._shapes)
        return results[0] if len(results) == 1 else tuple(results)

    def compute(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Compute the outputs where the rows lie, which ``forward`` has checked."""
        rows = inputs[0].shape[0]
        given = [
            _typed(x.detach(), dtype).contiguous()
            for x, dtype in zip(inputs, self._dtypes, strict=True)
        ]
        if rows > self._kernel.most_at or not rows:
            arrays = {i.name: x.numpy() for i, x in zip(self.inputs, given, strict=True)}
            results = [torch.from_numpy(array) for array in self._kernel.run(arrays).values()]
        else:
            # One row of a linear model took 69 us by arrays and 26 by addresses (Zen 3, busy).
            # torch.empty takes twice as long: 2.8 us.
            results = [
                torch.from_numpy(np.empty((rows, *shape), dtype)) for shape, dtype in self._results
            ]
            self._kernel.run_at(rows, [x.data_ptr() for x in (*given, *results)])
        return [_typed(x, shape.dtype) for x, shape in zip(results, self._shapes, strict=True)]

    @property
    def plain(self) -> torch.nn.Module:
        """The module of plain operators."""
        if self._plain is None:
            plain: torch.nn.Module = make_module(self._model.for_target(native=False))
            # Not as a child, whose constants state_dict() would show from then on.
            object.__setattr__(self, "_plain", plain)
        assert self._plain is not None  # noqa: S101  (set above)
        return self._plain

    def example(self) -> tuple[Tensor, ...]:
        """Return inputs of two rows, for a tracer: with fewer it would fix their number."""
        return self.plain.example() if self._is_moved else make_example(self, self.inputs)  # type: ignore[operator]

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> KernelModule:
        self._is_moved = fn(torch.empty(0)).device.type != "cpu"
        if self._is_moved or self._plain is not None:
            self.plain._apply(fn, recurse)  # type: ignore[no-untyped-call]  # noqa: SLF001
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self._model, self._plain if self._is_moved else None)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return _rebuild(self._model, copy.deepcopy(self._plain, memo) if self._is_moved else None)


def _rebuild(model: TorchModel, plain: torch.nn.Module | None) -> Any:
    """Return the module of a model again; with its plain operators where they were moved."""
    module = make_module(model)
    if plain is not None:
        object.__setattr__(module, "_plain", plain)
        module._is_moved = True  # noqa: SLF001
    return module


def _typed(x: Tensor, dtype: torch.dtype) -> Tensor:
    # To ask saves a call that changes nothing: 0.5 us.
    return x if x.dtype is dtype else x.to(dtype)


def _is_plain_call(inputs: Sequence[Tensor]) -> bool:
    """Whether rows of the CPU are to be computed, and nothing more."""
    if torch.compiler.is_exporting() or torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]
        return False
    wants_gradient = torch.is_grad_enabled() and any(x.requires_grad for x in inputs)
    return not wants_gradient and all(x.is_cpu for x in inputs)


_MODULES: WeakValueDictionary[int, KernelModule] = WeakValueDictionary()
"""Modules by their number, which the operator is given."""


def _run_kernel(number: Tensor, inputs: Sequence[Tensor], shapes: Sequence[Tensor]) -> list[Tensor]:  # noqa: ARG001
    """Compute the outputs of a module."""
    module = _MODULES.get(int(number))
    if module is None:
        raise BackendError(
            "The kernel of this graph is that of a model of another process, or of one that is "
            "gone. Keep the model, or export its module, which writes plain operators."
        )
    return module.compute(inputs)


def _fake_kernel(
    _number: Tensor, inputs: Sequence[Tensor], shapes: Sequence[Tensor]
) -> list[Tensor]:
    """Return tensors of the shapes of the outputs; ``shapes`` have no rows."""
    return [shape.new_empty((inputs[0].shape[0], *shape.shape[1:])) for shape in shapes]


def _map_kernel(
    info: Any, in_dims: Any, number: Tensor, inputs: Sequence[Tensor], shapes: Sequence[Tensor]
) -> tuple[list[Tensor], list[int]]:
    """Compute the outputs of tables that ``torch.vmap`` stacks: as one table of all their rows."""
    stacked = [
        x.expand(info.batch_size, *x.shape) if dim is None else x.movedim(dim, 0)
        for x, dim in zip(inputs, in_dims[1], strict=True)
    ]
    rows = stacked[0].shape[1]
    results = torch.ops.hbconv.run_kernel(number, [x.flatten(0, 1) for x in stacked], shapes)
    return [x.unflatten(0, (info.batch_size, rows)) for x in results], [0] * len(results)


# Of the process: torch forgets operators of a library that is gone.
_LIBRARY = torch.library.Library("hbconv", "FRAGMENT")  # type: ignore[no-untyped-call]
# ``torch.library.custom_op`` takes 12 us more a call.
_LIBRARY.define("run_kernel(Tensor number, Tensor[] inputs, Tensor[] shapes) -> Tensor[]")  # type: ignore[no-untyped-call]
_LIBRARY.impl("run_kernel", _run_kernel, "CPU")  # type: ignore[no-untyped-call]
torch.library.register_fake("hbconv::run_kernel", _fake_kernel, lib=_LIBRARY)
torch.library.register_vmap("hbconv::run_kernel", _map_kernel, lib=_LIBRARY)
