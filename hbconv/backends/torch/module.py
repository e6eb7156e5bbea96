"""A TensorProgram as an ``nn.Module``: straight-line code over buffers.

Leave ``torch.autocast``: it would compute products in another dtype than the program says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor, fx

from hbconv.backends.cuda.choose import refuse
from hbconv.backends.torch.device_trees import DeviceTrees
from hbconv.backends.torch.distances import prepare_summed, summed_squares
from hbconv.backends.torch.forest import ForestModule
from hbconv.backends.torch.functions import DTYPES, FUNCTIONS, PREPARED
from hbconv.errors import InputError
from hbconv.tensor import PRIMITIVES, Builder, Constant, Input, Op, TensorProgram
from hbconv.tensor.program import Instruction, Runs, find_few_runs, find_repeats
from hbconv.tensor.summed_squares import find_summed_squares
from hbconv.trees.splits import Splits, prepare_splits
from hbconv.trees.strategy import lower_trees

__all__ = [
    "LoopModule",
    "TensorModule",
    "check_inputs",
    "make_example",
    "own_dtypes",
    "require_equal_rows",
]


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
            # torch.equal calls NaN different, so a state with NaN runs all steps, to the same
            # result.
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


class TensorModule(torch.nn.Module):
    """A program as a module: its inputs in order, a tensor for one output or a tuple for more.

    Moving the module to a device moves its constants. ``.half()``, ``.double()`` and ``.to(dtype)``
    leave their dtypes: they are part of the program, and another dtype would change thresholds.

    Parameters
    ----------
    program : TensorProgram
        Of primitives in FUNCTIONS, and forests.
    device : str
        Kind of device that forests are written for: on CUDA devices, kernels compute them.

    Attributes
    ----------
    inputs : tuple of Input
        Names and types of the tensors that ``forward`` takes: (n_rows, width). For int32, it also
        takes int64.
    output_names : tuple of str
        Names of the results.
    body : torch.fx.GraphModule
        The program; ``print(module.body.code)`` shows it.

    Examples
    --------
    >>> from hbconv.tensor import Builder
    >>> b = Builder()
    >>> x = b.input("x", "float32", 2)
    >>> module = TensorModule(b.program({"y": x * b.constant([2.0, 3.0], "float32")}))
    >>> print(module.body.code.strip())
    def forward(self, x):
        c1 = self.c1
        mul = torch.mul(x, c1);  x = c1 = None
        return mul
    >>> module.half()(torch.ones(1, 2))
    tensor([[2., 3.]])
    """

    def __init__(self, program: TensorProgram, device: str = "cpu") -> None:
        super().__init__()
        self.inputs = program.inputs
        self.output_names = tuple(program.outputs)
        self.body = _FxWriter(program, device).body()

    def forward(self, *inputs: Tensor) -> Tensor | tuple[Tensor, ...]:
        """Compute the outputs; raise InputError for an input of another dtype or width."""
        # In a trace, checks in Python run once, for the example alone.
        if not torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]
            check_inputs(inputs, self.inputs)
        with own_dtypes(inputs[0].device.type if inputs else "cpu"):
            result: Tensor | tuple[Tensor, ...] = self.body(*inputs)
        return result

    def example(self) -> tuple[Tensor, ...]:
        """Return inputs of two rows, for a tracer: with fewer it would fix their number."""
        return make_example(self, self.inputs)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> TensorModule:
        def move(tensor: Tensor) -> Tensor:
            # fn moves and converts at once; where it converted, only its device is taken.
            moved = fn(tensor)
            return moved if moved.dtype == tensor.dtype else tensor.to(moved.device)

        super()._apply(move, recurse)  # type: ignore[no-untyped-call]
        return self


def check_inputs(tensors: Sequence[Tensor], inputs: tuple[Input, ...]) -> None:
    """Raise InputError where a tensor is of another dtype or width than a program reads."""
    for tensor, declared in zip(tensors, inputs, strict=True):
        _check(tensor, declared)


def require_equal_rows(tensors: Sequence[Tensor]) -> None:
    """Raise InputError where tensors have other numbers of rows: a kernel reads bare addresses."""
    rows = [tensor.shape[0] for tensor in tensors]
    if any(count != rows[0] for count in rows):
        raise InputError(f"The inputs have {' and '.join(map(str, rows))} rows; give equally many.")


def _check(tensor: Tensor, declared: Input) -> None:
    kind = declared.type
    dtypes = {DTYPES[kind.dtype], getattr(torch, kind.dtype)}
    if tensor.dtype not in dtypes or tensor.shape[1:] != kind.shape:
        actual = f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"
        raise InputError(
            f"Input {declared.name!r} is {actual}; the module was compiled for {kind}, "
            "where n is any number of rows."
        )


class _FxTracer(fx.Tracer):
    """Reads a pickled body, which is stored as code.

    Functions of the table are single operators.
    """

    def __init__(self) -> None:
        super().__init__(autowrap_functions=(*FUNCTIONS.values(), summed_squares))

    def is_leaf_module(self, m: torch.nn.Module, module_qualified_name: str) -> bool:
        """Whether a module is called, rather than read: a loop or a forest."""
        return isinstance(m, LoopModule | ForestModule | DeviceTrees) or super().is_leaf_module(
            m, module_qualified_name
        )


class _FxWriter:
    """Writes each instruction as a node of an fx graph, and each constant as a buffer."""

    def __init__(self, program: TensorProgram, device: str = "cpu") -> None:
        self.program = program
        self.device = device
        self.write_trees = _cpu_trees if device == "cpu" else _device_trees
        self.root, self.graph = torch.nn.Module(), fx.Graph(tracer_cls=_FxTracer)
        self.nodes: list[fx.Node] = []
        self.summed = find_summed_squares(program)

    def body(self) -> fx.GraphModule:
        for position, instruction in enumerate(self.program.instructions):
            self.nodes.append(self.write(f"c{position}", instruction))
        results = [self.output(index) for index in self.program.outputs.values()]
        self.graph.output(results[0] if len(results) == 1 else tuple(results))
        self.graph.eliminate_dead_code(
            is_impure_node=lambda node: node.op in ("placeholder", "output")
        )
        return fx.GraphModule(self.root, self.graph)

    def write(self, name: str, instruction: Instruction) -> fx.Node:
        if isinstance(instruction, Constant):
            return self.buffer(name, instruction.value.data)
        if isinstance(instruction, Op) and instruction.body:
            self.root.add_module(
                f"loop_{name}", self.loop(instruction.body, instruction.attributes["steps"])
            )
            return self.graph.call_module(
                f"loop_{name}", tuple(self.nodes[i] for i in instruction.operands)
            )
        if isinstance(instruction, Op) and "forest" in instruction.attributes:
            self.root.add_module(
                f"trees_{name}",
                self.write_trees(
                    instruction, self.program.instructions[instruction.operands[0]].type.dtype
                ),
            )
            return self.graph.call_module(f"trees_{name}", (self.nodes[instruction.operands[0]],))
        if isinstance(instruction, Op) and (runs := self.runs(instruction)):
            return self.write_runs(instruction, runs)
        if isinstance(instruction, Op) and (repeats := self.repeats(instruction)):
            return self.write_repeats(instruction, repeats)
        if isinstance(instruction, Op) and (points := self.summed_points(instruction)):
            x = self.nodes[instruction.operands[0]]
            return self.graph.call_function(summed_squares, (x, *self.buffers(name, points)))
        if isinstance(instruction, Op):
            attributes = dict(_torch_attribute(*item) for item in instruction.attributes.items())
            return self.graph.call_function(
                FUNCTIONS[instruction.primitive], self.operands(name, instruction), attributes
            )
        placeholder = self.graph.placeholder(instruction.name)
        return (
            self.graph.call_method("to", (placeholder, torch.int64))
            if instruction.type.dtype == "int32"
            else placeholder
        )

    def loop(self, body: TensorProgram, steps: int) -> LoopModule:
        """Write a repeated program as a module of its own."""
        return LoopModule(_FxWriter(body, self.device).body(), body.inputs, steps)

    def runs(self, op: Op) -> Runs:
        """Return the runs that a ``take`` copies; none for others, and where they are many."""
        indices = self.program.instructions[op.operands[-1]]
        if op.primitive != "take" or not isinstance(indices, Constant):
            return ()
        x = self.program.instructions[op.operands[0]].type
        return find_few_runs(indices.value.data, x.shape[op.attributes["axis"]])

    def write_runs(self, op: Op, runs: Runs) -> fx.Node:
        """Copy one run after another."""
        dim = op.attributes["axis"] + 1
        x = self.nodes[op.operands[0]]
        parts = [self.graph.call_function(torch.narrow, (x, dim, *run)) for run in runs]
        return self.graph.call_function(torch.cat, (parts, dim))

    def repeats(self, op: Op) -> Runs:
        """Return the columns that a ``take`` repeats, and how often; none where it hardly does."""
        indices = self.program.instructions[op.operands[-1]]
        x = self.program.instructions[op.operands[0]].type
        if op.primitive != "take" or not isinstance(indices, Constant) or len(x.shape) != 1:
            return ()
        return find_repeats(indices.value.data, x.shape[0])

    def write_repeats(self, op: Op, repeats: Runs) -> fx.Node:
        """Copy one column after another, each as often as it comes."""
        x = self.nodes[op.operands[0]]
        columns = [self.graph.call_function(torch.narrow, (x, 1, at, 1)) for at, _ in repeats]
        parts = [
            self.graph.call_method("expand", (column, -1, count))
            for column, (_, count) in zip(columns, repeats, strict=True)
        ]
        return self.graph.call_function(torch.cat, (parts, 1))

    def operands(self, name: str, op: Op) -> tuple[fx.Node, ...]:
        operands = tuple(self.nodes[i] for i in op.operands)
        last = self.program.instructions[op.operands[-1]]
        if op.primitive not in PREPARED or not isinstance(last, Constant):
            return operands
        parts = PREPARED[op.primitive](last.value.data, **op.attributes)
        return (*operands[:-1], *self.buffers(name, parts))

    def summed_points(self, op: Op) -> tuple[npt.NDArray[Any], ...] | None:
        """Return the constants of squared distances by products, on the CPU and where they win."""
        if self.device != "cpu" or len(self.nodes) not in self.summed:
            return None
        points = self.program.instructions[op.operands[1]]
        return prepare_summed(points.value.data) if isinstance(points, Constant) else None

    def buffers(self, name: str, arrays: Sequence[npt.NDArray[Any]]) -> Iterator[fx.Node]:
        return (self.buffer(f"{name}_{k}", array) for k, array in enumerate(arrays))

    def buffer(self, name: str, array: npt.NDArray[Any]) -> fx.Node:
        # On the CPU, what is prepared keeps its order in memory. A buffer itself is in C order:
        # torch.export warns of others, which it takes for parts of a tensor.
        if self.device == "cpu" and array.flags.fnc:
            return self.graph.call_method("t", (self.buffer(name, array.T),))
        copied = array.copy(order="C")
        self.root.register_buffer(name, torch.from_numpy(copied).to(DTYPES[array.dtype.name]))
        return self.graph.get_attr(name)

    def output(self, index: int) -> fx.Node:
        """Return the node of an output, copied if it may lie in memory of an input or constant."""
        origin = self.program.instructions[index]
        while isinstance(origin, Op) and PRIMITIVES[origin.primitive].may_alias:
            origin = self.program.instructions[origin.operands[-1]]
        return (
            self.nodes[index]
            if isinstance(origin, Op)
            else self.graph.call_method("clone", (self.nodes[index],))
        )


def _cpu_trees(op: Op, dtype: str) -> torch.nn.Module:
    """Write a forest over columns of a dtype as a module of its own."""
    forest, strategy = op.attributes["forest"], op.attributes["strategy"]
    b = Builder()
    x = b.input("x", dtype, forest.n_features)
    tests = (
        prepare_splits(forest, x, b)
        if forest.n_tests
        else Splits(x, forest.feature.data, forest.threshold.data.astype(dtype))
    )
    columns = None if tests.x is x else _FxWriter(b.program({"x": tests.x})).body()
    return ForestModule(
        forest, strategy, op.primitive == "tree_scores", columns, tests.column, tests.threshold
    )


def _device_trees(op: Op, dtype: str) -> torch.nn.Module:
    """Write a forest for a CUDA device, together with its strategy's plain operators."""
    forest = op.attributes["forest"]
    b = Builder()
    x = b.input("x", dtype, forest.n_features)
    program = b.program({"y": b.op(op.primitive, x, **op.attributes)})
    portable = _FxWriter(lower_trees(program, frozenset())).body()
    if refuse(forest):
        return portable
    return DeviceTrees(forest, dtype, op.primitive == "tree_scores", portable)


def _torch_attribute(name: str, value: Any) -> tuple[str, Any]:
    """Rename ``axis`` to ``dim``, which counts the rows too."""
    return ("dim", value + 1) if name == "axis" else (name, value)


def own_dtypes(device: str) -> AbstractContextManager[object]:
    """Compute in the dtypes of the program, also where the caller's code runs under autocast.

    Parameters
    ----------
    device : str
        Kind of the device, such as "cpu".
    """
    if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
        return torch.autocast(device, enabled=False)
    return nullcontext()
