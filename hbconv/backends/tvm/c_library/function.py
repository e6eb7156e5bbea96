"""Methods as compiled loops, and what the C function around them must know."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.backends.interface import (
    FileInput,
    FileOutput,
    Interface,
    label_tables,
    lower_with_checks,
    text_columns,
)
from hbconv.backends.tvm import BACKEND
from hbconv.backends.tvm.binary.build import make_objects
from hbconv.backends.tvm.emit.tile_function import write_function
from hbconv.backends.tvm.machine.machine import Machine
from hbconv.backends.tvm.machine.schedule import FEW, Schedule
from hbconv.backends.tvm.passes.flag_beyond import join_looks
from hbconv.backends.tvm.passes.fuse_products import fuse_products
from hbconv.backends.tvm.trees.tree_work import single_row_limit
from hbconv.containers import Graph, Output
from hbconv.lower import Lowered
from hbconv.target import Target
from hbconv.tensor import TensorProgram

__all__ = ["ALIGNMENT", "CAnswer", "CFunction", "CLoop", "compile_function", "round_up"]

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
class CAnswer:
    """The answer of a method.

    Parameters
    ----------
    output : Output
    file_output : FileOutput
        What the C function answers.
    dtype, width : str, int
        Of the program's values.
    """

    output: Output
    file_output: FileOutput
    dtype: str
    width: int

    @property
    def converts(self) -> bool:
        """Whether the program's values are not yet the answer."""
        return label_tables(self.output) is not None or self.dtype != self.file_output.dtype


@dataclass(frozen=True)
class CFunction:
    """A C function, of one method or of several.

    Parameters
    ----------
    name : str
    inputs : tuple of FileInput
        Its arguments: matrices in the program's order, then text columns or their codes.
    coded : tuple of int
        Of each column of codes that the program takes, which of the text columns it encodes.
    answers : tuple of CAnswer
    messages : tuple of (str, int)
        Message of each check, and its columns.
    loops : tuple of CLoop
        Those for few rows first.
    """

    name: str
    inputs: tuple[FileInput, ...]
    coded: tuple[int, ...]
    answers: tuple[CAnswer, ...]
    messages: tuple[tuple[str, int], ...]
    loops: tuple[CLoop, ...]


def compile_function(
    name: str,
    graph: Graph,
    read: Callable[[Lowered, Graph], list[FileInput]],
    target: Target,
    machine: Machine,
) -> CFunction:
    """Compile the methods of a graph, with its checks, for a machine.

    Parameters
    ----------
    name : str
    graph : Graph
        Planned, with these methods alone.
    read : callable
        Gives the arguments: ``inputs_with_text`` or ``inputs_with_codes``.
    target : Target
    machine : Machine
    """
    lowered = lower_with_checks(graph, target)
    interface = Interface.of(graph, lowered, read(lowered, graph))
    program = fuse_products(join_looks(BACKEND.prepare(lowered.program, target)))
    types = [program.instructions[place].type for place in program.outputs.values()]
    count = len(interface.outputs)
    outputs = zip(graph.outputs.values(), interface.outputs, types[:count], strict=True)
    checks = zip(graph.checks, types[count:], strict=True)
    columns = text_columns(lowered)
    return CFunction(
        name,
        interface.inputs,
        # Several encoders may read one text column, which is one argument.
        tuple(list(dict.fromkeys(columns)).index(column) for column in columns),
        tuple(
            CAnswer(output, file_output, kind.dtype, kind.shape[0])
            for output, file_output, kind in outputs
        ),
        tuple((check.message, kind.shape[0]) for check, kind in checks),
        tuple(_loops(program, f"{name}__loop", machine)),
    )


def _loops(program: TensorProgram, symbol: str, machine: Machine) -> list[CLoop]:
    # Two loops, as a TvmArtifact has: one for few rows, one for any number.
    few = single_row_limit(program, machine)
    batch = _loop(program, Schedule.construct(program, machine), machine, symbol, 0)
    return [_loop(program, FEW, machine, f"{symbol}_few", few), batch] if few else [batch]


def _loop(
    program: TensorProgram, schedule: Schedule, machine: Machine, symbol: str, most_rows: int
) -> CLoop:
    written = write_function(program, schedule, machine, symbol)
    tables, starts = _join_tables(written.tables)
    scratch = tuple(np.dtype(dtype).itemsize * n for dtype, n in written.scratch.items())
    objects = make_objects(written.functions, machine)
    return CLoop(symbol, most_rows, tables, starts, scratch, objects)


def _join_tables(tables: tuple[npt.NDArray[Any], ...]) -> tuple[bytes, tuple[int, ...]]:
    """Return tables one after another, each at a multiple of ``ALIGNMENT``, and their places."""
    data = bytearray()
    starts = []
    for table in tables:
        # Padding brings the next table to an aligned address, as vector loads need.
        data.extend(bytes(round_up(len(data)) - len(data)))
        starts.append(len(data))
        data.extend(table.tobytes())
    return bytes(data), tuple(starts)


def round_up(size: int) -> int:
    """Return the next multiple of ``ALIGNMENT``."""
    return -(-size // ALIGNMENT) * ALIGNMENT
