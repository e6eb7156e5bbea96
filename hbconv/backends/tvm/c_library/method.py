"""One method as compiled loops, and what its C function must know of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.backends.tvm import BACKEND
from hbconv.backends.tvm.binary.build import make_objects
from hbconv.backends.tvm.compile import FEW
from hbconv.backends.tvm.emit.tile_function import write_function
from hbconv.backends.tvm.passes.flag_beyond import join_looks
from hbconv.backends.tvm.passes.fuse_products import fuse_products
from hbconv.backends.tvm.target.machine import Machine
from hbconv.backends.tvm.target.schedule import Schedule
from hbconv.backends.tvm.trees.single_row.row_limit import single_row_limit
from hbconv.containers import Graph, Output
from hbconv.interface import (
    FileInput,
    FileOutput,
    Interface,
    inputs_with_text,
    lower_with_checks,
    text_columns,
)
from hbconv.target import Target
from hbconv.tensor import TensorProgram

__all__ = ["ALIGNMENT", "CLoop", "CMethod", "compile_method", "rounded"]

ALIGNMENT = 64
"""Bytes that addresses of tables and scratch are multiples of."""


@dataclass(frozen=True)
class CLoop:
    """A compiled function over rows, with its constants.

    Parameters
    ----------
    symbol : str
    most_rows : int
        Rows up to which it is the faster loop; 0 where it takes any number.
    tables : bytes
        All tables, each at a multiple of ``ALIGNMENT``.
    starts : tuple of int
        Place of each table.
    scratch_bytes : tuple of int
        Of each buffer that a call needs.
    objects : mapping of str to bytes
        Object files.
    """

    symbol: str
    most_rows: int
    tables: bytes
    starts: tuple[int, ...]
    scratch_bytes: tuple[int, ...]
    objects: Mapping[str, bytes]


@dataclass(frozen=True)
class CMethod:
    """A method.

    Parameters
    ----------
    name : str
    inputs : tuple of FileInput
        Arguments of its C function: matrices in the program's order, then text columns.
    coded : tuple of int
        Of each column of codes that the program takes, which of the text columns it encodes.
    output : Output
    told : FileOutput
        What the C function answers.
    dtype, width : str, int
        Of the program's values.
    messages : tuple of (str, int)
        What each check says, and its columns.
    loops : tuple of CLoop
        Those for few rows first.
    """

    name: str
    inputs: tuple[FileInput, ...]
    coded: tuple[int, ...]
    output: Output
    told: FileOutput
    dtype: str
    width: int
    messages: tuple[tuple[str, int], ...]
    loops: tuple[CLoop, ...]


def compile_method(graph: Graph, target: Target, machine: Machine) -> CMethod:
    """Compile the only method of a graph, with its checks, for a machine."""
    ((name, output),) = graph.outputs.items()
    lowered = lower_with_checks(graph, target)
    interface = Interface.of(graph, lowered, inputs_with_text(lowered, graph))
    program = fuse_products(join_looks(BACKEND.prepare(lowered.program, target)))
    types = [program.instructions[place].type for place in program.outputs.values()]
    columns = text_columns(lowered)
    messages = [check.message for check in graph.checks]
    return CMethod(
        name,
        interface.inputs,
        tuple(list(dict.fromkeys(columns)).index(column) for column in columns),
        output,
        interface.outputs[0],
        types[0].dtype,
        types[0].shape[0],
        tuple((m, kind.shape[0]) for m, kind in zip(messages, types[1:], strict=True)),
        tuple(_loops(program, f"hbconv_{name}", machine)),
    )


def _loops(program: TensorProgram, symbol: str, machine: Machine) -> list[CLoop]:
    few = single_row_limit(program, machine)
    batch = _loop(program, Schedule.construct(program, machine), machine, symbol, 0)
    return [_loop(program, FEW, machine, f"{symbol}_few", few), batch] if few else [batch]


def _loop(
    program: TensorProgram, schedule: Schedule, machine: Machine, symbol: str, most_rows: int
) -> CLoop:
    written = write_function(program, schedule, machine, symbol)
    tables, starts = _joined(written.tables)
    scratch = tuple(np.dtype(dtype).itemsize * n for dtype, n in written.scratch.items())
    objects = make_objects(written.functions, machine)
    return CLoop(symbol, most_rows, tables, starts, scratch, objects)


def _joined(tables: tuple[npt.NDArray[Any], ...]) -> tuple[bytes, tuple[int, ...]]:
    """Return tables one after another, each at a multiple of ``ALIGNMENT``, and their places."""
    data = bytearray()
    starts = []
    for table in tables:
        data.extend(bytes(rounded(len(data)) - len(data)))
        starts.append(len(data))
        data.extend(table.tobytes())
    return bytes(data), tuple(starts)


def rounded(size: int) -> int:
    """Return the next multiple of ``ALIGNMENT``."""
    return -(-size // ALIGNMENT) * ALIGNMENT
