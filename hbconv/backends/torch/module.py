"""A TensorProgram as an ``nn.Module``: straight-line code over buffers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor, fx

from hbconv.backends.torch.forest import Trees
from hbconv.backends.torch.functions import DTYPES, FUNCTIONS, PREPARED
from hbconv.errors import InputError
from hbconv.tensor import PRIMITIVES, Builder, Constant, Input, Op, TensorProgram
from hbconv.tensor.program import Instruction
from hbconv.tensor.splits import Splits, prepare_splits

__all__ = ["Loop", "TensorModule"]


class TensorModule(torch.nn.Module):
    """A program as a module: its inputs in order, a tensor for one output or a tuple for more.

    Moving it moves its constants. Their dtypes are part of the program, whose thresholds and tables another dtype would
    change: ``.half()``, ``.double()`` and ``.to(dtype)`` leave them as they are.

    Parameters
    ----------
    program : TensorProgram
        Of primitives in FUNCTIONS only.

    Attributes
    ----------
    inputs : tuple of Input
        Names and types of the tensors that ``forward`` takes: (rows, width). For int32, int64 does as well.
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

    def __init__(self, program: TensorProgram) -> None:
        super().__init__()
        self.inputs = program.inputs
        self.output_names = tuple(program.outputs)
        self.body = _Writer(program).body()

    def forward(self, *inputs: Tensor) -> Tensor | tuple[Tensor, ...]:
        """Compute the outputs; InputError where an input is not of the declared dtype and width."""
        if not torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]
            for tensor, declared in zip(inputs, self.inputs, strict=True):
                _check(tensor, declared)
        result: Tensor | tuple[Tensor, ...] = self.body(*inputs)
        return result

    def example(self) -> tuple[Tensor, ...]:
        """Return inputs of two rows, for a tracer: of fewer it would keep the number."""
        return _example(self, self.inputs)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> TensorModule:
        def move(tensor: Tensor) -> Tensor:
            moved = fn(tensor)
            return moved if moved.dtype == tensor.dtype else tensor.to(moved.device)

        super()._apply(move, recurse)  # type: ignore[no-untyped-call]
        return self


class Loop(torch.nn.Module):
    """A program repeated on its own result, until nothing changes; a tracer sees all steps."""

    def __init__(self, body: TensorProgram, steps: int) -> None:
        super().__init__()
        self.steps, self.inputs = steps, body.inputs
        self.body = _Writer(body).body()

    def forward(self, state: Tensor, given: Tensor) -> Tensor:
        """Return the last state."""
        traced = torch.jit.is_tracing() or torch.compiler.is_compiling()  # type: ignore[attr-defined, no-untyped-call]
        for _ in range(self.steps):
            before, state = state, self.body(state, given)
            if not traced and torch.equal(before, state):
                break
        return state

    def example(self) -> tuple[Tensor, ...]:
        """Return a state and what is given, of two rows."""
        return _example(self, self.inputs)


def _example(module: torch.nn.Module, inputs: tuple[Input, ...]) -> tuple[Tensor, ...]:
    device = next((buffer.device for buffer in module.buffers()), torch.device("cpu"))
    return tuple(
        torch.zeros(2, *i.type.shape, dtype=DTYPES[i.type.dtype], device=device) for i in inputs
    )


def _check(tensor: Tensor, declared: Input) -> None:
    kind = declared.type
    dtypes = {DTYPES[kind.dtype], getattr(torch, kind.dtype)}
    if tensor.dtype not in dtypes or tensor.shape[1:] != kind.shape:
        given = f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"
        raise InputError(
            f"Input {declared.name!r} is {given}; the module was compiled for {kind}, where n is any number of rows."
        )


class _Reader(fx.Tracer):
    """Reads a pickled body, which is stored as code, taking the functions of the table for single operators."""

    def __init__(self) -> None:
        super().__init__(autowrap_functions=tuple(FUNCTIONS.values()))

    def is_leaf_module(self, m: torch.nn.Module, module_qualified_name: str) -> bool:
        """Call a loop or a forest, rather than read it."""
        return isinstance(m, Loop | Trees) or super().is_leaf_module(m, module_qualified_name)


class _Writer:
    """Writes each instruction as a node of an fx graph, and each constant as a buffer."""

    def __init__(self, program: TensorProgram) -> None:
        self.program = program
        self.root, self.graph = torch.nn.Module(), fx.Graph(tracer_cls=_Reader)
        self.nodes: list[fx.Node] = []

    def body(self) -> fx.GraphModule:
        for position, instruction in enumerate(self.program.instructions):
            self.nodes.append(self.write(f"c{position}", instruction))
        results = [self.own(index) for index in self.program.outputs.values()]
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
                f"loop_{name}", Loop(instruction.body, instruction.attributes["steps"])
            )
            return self.graph.call_module(
                f"loop_{name}", tuple(self.nodes[i] for i in instruction.operands)
            )
        if isinstance(instruction, Op) and "forest" in instruction.attributes:
            self.root.add_module(
                f"trees_{name}",
                _trees(instruction, self.program.instructions[instruction.operands[0]].type.dtype),
            )
            return self.graph.call_module(f"trees_{name}", (self.nodes[instruction.operands[0]],))
        if isinstance(instruction, Op):
            attributes = dict(_torch_attribute(*item) for item in instruction.attributes.items())
            return self.graph.call_function(
                FUNCTIONS[instruction.primitive], self.operands(name, instruction), attributes
            )
        given = self.graph.placeholder(instruction.name)
        return (
            self.graph.call_method("to", (given, torch.int64))
            if instruction.type.dtype == "int32"
            else given
        )

    def operands(self, name: str, op: Op) -> tuple[fx.Node, ...]:
        operands = tuple(self.nodes[i] for i in op.operands)
        last = self.program.instructions[op.operands[-1]]
        if op.primitive not in PREPARED or not isinstance(last, Constant):
            return operands
        parts = PREPARED[op.primitive](last.value.data)
        return (*operands[:-1], *(self.buffer(f"{name}_{k}", part) for k, part in enumerate(parts)))

    def buffer(self, name: str, array: npt.NDArray[Any]) -> fx.Node:
        self.root.register_buffer(name, torch.tensor(array, dtype=DTYPES[array.dtype.name]))
        return self.graph.get_attr(name)

    def own(self, index: int) -> fx.Node:
        """Return the node of an output, copied where it may lie in an input's or a constant's memory."""
        origin = self.program.instructions[index]
        while isinstance(origin, Op) and PRIMITIVES[origin.primitive].may_alias:
            origin = self.program.instructions[origin.operands[-1]]
        return (
            self.nodes[index]
            if isinstance(origin, Op)
            else self.graph.call_method("clone", (self.nodes[index],))
        )


def _trees(op: Op, dtype: str) -> Trees:
    """Write a forest over columns of a dtype as a module of its own."""
    forest, strategy = op.attributes["forest"], op.attributes["strategy"]
    b = Builder()
    x = b.input("x", dtype, forest.n_features)
    tests = (
        prepare_splits(forest, x, b)
        if forest.n_tests
        else Splits(x, forest.feature.data, forest.threshold.data.astype(dtype))
    )
    columns = None if tests.x is x else _Writer(b.program({"x": tests.x})).body()
    return Trees(
        forest, strategy, op.primitive == "tree_scores", columns, tests.column, tests.threshold
    )


def _torch_attribute(name: str, value: Any) -> tuple[str, Any]:
    """Rename ``axis`` to ``dim``, which counts the rows too."""
    return ("dim", value + 1) if name == "axis" else (name, value)
