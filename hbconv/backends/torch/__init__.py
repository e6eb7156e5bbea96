"""Backend ``torch``: the program as an ``nn.Module`` of plain tensor operators.

The module follows ``.to(device)``, can be traced, exports with any number of rows, and compiles
without graph breaks.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from hbconv.backends.base import SEARCHES_REFUSED, Arrays, Artifact, Backend, Bound, contiguous
from hbconv.backends.torch.device_calls import Cuda, DeviceCalls, Streams
from hbconv.backends.torch.device_trees import remark_kernels
from hbconv.backends.torch.forest import NATIVE, count_tree_work
from hbconv.backends.torch.functions import FUNCTIONS
from hbconv.backends.torch.module import TensorModule, own_dtypes
from hbconv.cost_model import Work
from hbconv.errors import BackendError
from hbconv.target import Target
from hbconv.tensor import ProgramTypes, TensorProgram, TensorType
from hbconv.tensor.decompositions import Rule, rank_donors
from hbconv.trees.forest import Forest
from hbconv.trees.strategy import Refusal, find_strategy, strategies

__all__ = ["BACKEND", "TensorModule", "Torch", "TorchArtifact", "export_module", "find_device"]


BOUND_ROWS = 16
"""Rows for which reading and joining inputs takes longer than computing."""
OPERATORS_EACH = 3
"""Operators of torch that one of a program is, about: a sigmoid is four, a sum one."""


class TorchArtifact(Artifact):
    """A module on its device.

    Parameters
    ----------
    module : torch.nn.Module
    types : ProgramTypes
    target : Target
    streams : Streams, optional
        Those of the device; by default torch's, on a CUDA device.

    Attributes
    ----------
    module : torch.nn.Module
        Takes and returns tensors; users may build on it.
    call : callable
        The module, or a faster form of it, which ``run`` calls.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        types: ProgramTypes,
        target: Target,
        streams: Streams | None = None,
    ) -> None:
        keep_memory()
        self.module = module
        self.call: Callable[..., Any] = module
        self._device, self._threads = find_device(target), target.threads
        self._inputs = dict(types.inputs)
        self._outputs = dict(types.outputs)
        # On a device, graphs serve small batches instead.
        self.sizes = (BOUND_ROWS,) if self._device.type == "cpu" else ()
        self._dtypes = [getattr(torch, kind.dtype) for kind in self._outputs.values()]
        self._calls: DeviceCalls | None = None
        if self._device.type == "cuda":
            streams = Cuda(self._device)
        if streams is not None:
            if isinstance(module, TensorModule):
                # Inputs fit: not to look at them again saves 3 us.
                self.call = module.body.forward
            bytes_out = sum(kind.row_bytes for kind in self._outputs.values())
            operators = count_operators(module)
            self._calls = DeviceCalls(streams, self._typed_results, operators, bytes_out)

    def run(self, inputs: Arrays) -> dict[str, npt.NDArray[Any]]:
        """Compute the outputs on the device; on the CPU with the target's number of threads."""
        arrays = [contiguous(inputs[name]) for name in self._inputs]
        with torch.inference_mode():
            results = self._on_cpu(arrays) if self._calls is None else self._calls.run(arrays)
        return {
            name: np.ascontiguousarray(array, dtype=kind.dtype)
            for array, (name, kind) in zip(results, self._outputs.items(), strict=True)
        }

    def compute(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Compute the outputs as ``run`` does, for tensors on the device, where they stay."""
        tensors = [inputs[name].to(self._device) for name in self._inputs]
        outputs: Sequence[Tensor]
        if self._calls is not None:
            outputs = self._calls.compute(tensors)
        else:
            with threads(self._threads):
                outputs = self._typed_results(tensors)
        return dict(zip(self._outputs, outputs, strict=True))

    def _on_cpu(self, arrays: list[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
        with threads(self._threads):
            results = self._results([torch.from_numpy(array) for array in arrays])
        return [result.numpy() for result in results]

    def _results(self, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        with own_dtypes(self._device.type):
            result: Tensor | tuple[Tensor, ...] = self.call(*tensors)
        return (result,) if isinstance(result, Tensor) else result

    def _typed_results(self, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Compute the outputs in the dtypes of the program; the module has codes of int64."""
        pairs = zip(self._results(tensors), self._dtypes, strict=True)
        return tuple(y if y.dtype == dtype else y.to(dtype) for y, dtype in pairs)

    def bind(self, rows: int) -> Bound | None:
        """Keep tensors that share memory with the buffers of the inputs and the outputs."""
        if not self.sizes:
            return None
        inputs = _buffers(self._inputs, rows)
        outputs = _buffers(self._outputs, rows)
        tensors = [torch.from_numpy(array) for array in inputs.values()]
        buffers = [torch.from_numpy(output) for output in outputs.values()]

        def run(count: int) -> None:
            with torch.inference_mode(), threads(self._threads):
                results = self._results([tensor[:count] for tensor in tensors])
                for buffer, values in zip(buffers, results, strict=True):
                    buffer[:count].copy_(values)

        return Bound(inputs, outputs, run, int)


def count_operators(module: Any) -> int:
    """Return about how many operators of torch a call is; 0 for what no graph can hold.

    A traced loop asks the host whether to stop. Its capture would fail, which leaves torch's
    allocator in the state of a capture.
    """
    if isinstance(module, TensorModule):
        called = [node for node in module.body.graph.nodes if node.op.startswith("call_")]
        return OPERATORS_EACH * len(called)
    # Operators of a trace are not counted: any number is worth a graph.
    return 0 if module.inlined_graph.findNode("aten::equal") else sys.maxsize


def _buffers(types: Mapping[str, TensorType], rows: int) -> dict[str, npt.NDArray[Any]]:
    return {name: np.zeros((rows, *kind.shape), kind.dtype) for name, kind in types.items()}


@cache
def keep_memory() -> None:
    """Make the allocator keep freed memory, up to 64 MB.

    It then asks the system for no new pages at each operator. The GNU C library returns a free
    block at the top of the heap if it exceeds twice the largest block mapped and freed so far. The
    largest that counts is 32 MB. Nothing is written to the block, so it takes no physical memory.
    """
    # Just below malloc's DEFAULT_MMAP_THRESHOLD_MAX, with room for the block's own header.
    torch.empty((32 << 20) - (64 << 10), dtype=torch.uint8)


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Let this thread's operators use ``count`` threads, and restore its former number.

    Torch keeps a number for each thread that has run an operator, so other threads keep theirs.
    Only a thread that runs its first operator in the block starts with ``count``.
    """
    before = torch.get_num_threads()
    if before == count:
        yield
        return
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def find_device(target: Target) -> torch.device:
    """Return the target's device, or raise BackendError where this torch cannot use it.

    Torch takes ``cuda`` for the current device, which may be another one at each call.
    """
    device = torch.device(target.device)
    if device.type != "cuda":
        return device
    number = device.index or 0
    count = torch.cuda.device_count()
    if number >= count:
        seen = f"torch {torch.__version__} sees {count} CUDA devices"
        raise BackendError(
            f"Device {target.device!r} does not exist: {seen}. "
            "Use device='cpu', or install a CUDA build of torch."
        )
    return torch.device("cuda", number)


def export_module(module: Any) -> torch.export.ExportedProgram:
    """Export a module with any number of rows, that of its ``example()`` aside.

    Examples
    --------
    >>> from hbconv.tensor import Builder
    >>> b = Builder()
    >>> exported = export_module(TensorModule(b.program({"y": -b.input("x", "float32", 2)})))
    >>> exported.module()(torch.ones(1, 2))
    tensor([[-1., -1.]])
    """
    example = module.example()
    rows = torch.export.Dim("n")
    shapes = (tuple({0: rows} for _ in example),)
    return _without_traces(torch.export.export(module, example, dynamic_shapes=shapes))


def _without_traces(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Leave out where in this machine's files each operator was written."""
    for module in program.graph_module.modules():
        for node in module.graph.nodes if isinstance(module, torch.fx.GraphModule) else ():
            node.meta.pop("stack_trace", None)
    return program


class Torch(Backend):
    """Eager torch, on the CPU or a CUDA device."""

    name = "torch"
    needs = ("torch",)
    extra = "torch"
    stored_with = ("torch",)
    emits = frozenset({*FUNCTIONS, "iterate", "tree_scores", "tree_leaves"})
    refuses: ClassVar[Mapping[str, str]] = SEARCHES_REFUSED
    rewrites: ClassVar[Mapping[str, Rule]] = {"nearest_donors": rank_donors}
    devices = ("cpu", "cuda")
    plans_by_rows = True

    def native_trees(self, target: Target) -> frozenset[str]:
        """Return those of ``torch.forest`` on the CPU; on CUDA devices, all if none is named.

        There the kernels of ``hbconv.backends.cuda`` compute every forest. A strategy that is
        named is written as plain operators, and so is all that is traced.
        """
        if target.device == "cpu":
            return frozenset(NATIVE)
        by_kernels = target.strategy is None and self.name == Torch.name
        return frozenset(strategies()) if by_kernels else frozenset()

    def refuse_trees(self, strategy: str, forest: Forest, target: Target) -> Refusal | None:
        """Refuse a forest that takes too much memory, as the strategy itself does."""
        return find_strategy(strategy).check(forest, target)

    def cuda_devices(self) -> int:
        """Count the devices that this torch sees."""
        return torch.cuda.device_count() if torch.cuda.is_available() else 0

    def takes_tensors(self, target: Target) -> bool:  # noqa: ARG002
        """Say yes, on any device."""
        return True

    def remarks(self, forest: Forest, target: Target) -> tuple[str, ...]:
        """Name the kernels of a CUDA device, with what they are predicted to take.

        A file may be written for a device that is not here: it holds plain operators.
        """
        if target.device == "cpu" or not self.native_trees(target) or not torch.cuda.is_available():
            return ()
        return remark_kernels(forest, find_device(target))

    def tree_work(
        self,
        strategy: str,
        forest: Forest,
        dtype: str,
        target: Target,
        *,
        added: bool = True,  # noqa: ARG002
    ) -> Work:
        """Count what a module of ``torch.forest`` does."""
        return count_tree_work(strategy, forest, dtype, target.rows)

    def emit(self, program: TensorProgram, target: Target) -> Artifact:
        """Make the module and move it to the device."""
        device = find_device(target)
        module = TensorModule(program, device.type).to(device).eval()
        return TorchArtifact(module, program.types, target)


BACKEND = Torch()
