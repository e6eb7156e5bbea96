"""A program as a SELECT, an instruction at a time, and SqlArtifact, whose query DuckDB answers."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hbconv.backends.base import Artifact
from hbconv.backends.sql.dialects.base import Dialect
from hbconv.backends.sql.elementwise import ELEMENTWISE, Emit
from hbconv.backends.sql.shapes import SHAPES
from hbconv.backends.sql.trees import TREES
from hbconv.backends.sql.writer import (
    ANY,
    FINITE,
    MOST_BYTES,
    Cell,
    Cells,
    Operation,
    SelectWriter,
    fill,
    too_long,
)
from hbconv.tensor import Constant, Input, Op, TensorProgram
from hbconv.tensor.types import FLOATS

if TYPE_CHECKING:
    from hbconv.backends.base import Arrays
    from hbconv.target import Target
    from hbconv.tensor import TensorType

__all__ = ["EMITS", "SqlArtifact", "write_program", "write_query"]

EMITS: Mapping[str, Emit] = {**ELEMENTWISE, **SHAPES, **TREES}
"""The function that writes each primitive."""


def write_program(
    w: SelectWriter, program: TensorProgram, inputs: Mapping[str, Cells]
) -> dict[str, Cells]:
    """Write the cells of the outputs, reading those of the inputs."""
    ops = [op for op in program.instructions if isinstance(op, Op)]
    uses = Counter(i for op in ops for i in op.operands) + Counter(program.outputs.values())
    values: list[Any] = []
    for number, instruction in enumerate(program.instructions):
        if isinstance(instruction, Input):
            values.append(inputs[instruction.name])
        elif isinstance(instruction, Constant):
            values.append(w.array(instruction.value.data))
        else:
            operands = [values[i] for i in instruction.operands]
            made = EMITS[instruction.primitive](w, _operation(program, instruction), *operands)
            values.append(w.store_all(made) if uses[number] > 1 else made)
    return {name: values[index] for name, index in program.outputs.items()}


def _operation(program: TensorProgram, op: Op) -> Operation:
    sources = tuple(program.instructions[i].type.dtype for i in op.operands)
    return Operation(op.primitive, op.type.dtype, op.type.shape, sources, op.attributes)


ROW = "row_number"
"""Column that rows are ordered by."""


def write_query(program: TensorProgram) -> str:
    """Write a program over the table ``rows``, which has a column for each of a row's entries.

    Raises
    ------
    BackendError
        The query is too long.
    """
    w = SelectWriter(_DUCKDB, "rows", [ROW], [ROW, "rows"])
    inputs = {given.name: _cells(w, given) for given in program.inputs}
    answers: dict[str, Cell] = {}
    for name, cells in write_program(w, program, inputs).items():
        of = program.types.outputs[name]
        answers |= zip(_columns(name, of), cells.flat, strict=True)
    query = w.select(answers)
    if len(query) > MOST_BYTES:
        raise too_long()
    return f"{query} ORDER BY {ROW}"


def _cells(w: SelectWriter, given: Input) -> Cells:
    known = ANY if given.type.dtype in FLOATS else FINITE
    names = map(w.dialect.quote, _columns(given.name, given.type))
    return fill([w.store(Cell(name, depth=1, known=known)) for name in names], given.type.shape)


class SqlArtifact(Artifact):
    """Runs the query in a database in memory."""

    def __init__(self, program: TensorProgram, target: Target) -> None:
        import duckdb

        self.query = write_query(program)
        self.types = program.types
        self._lock = threading.Lock()
        self._database = duckdb.connect(config={"threads": target.threads})

    def files(self) -> dict[str, bytes]:
        """Store the query, for readers."""
        return {"model.sql": self.query.encode()}

    def run(self, inputs: Arrays) -> dict[str, npt.NDArray[Any]]:
        """Answer the rows as a table."""
        import pyarrow as pa

        count = len(next(iter(inputs.values())))
        columns = {ROW: np.arange(count)}
        for name, of in self.types.inputs.items():
            columns |= dict(
                zip(_columns(name, of), map(np.ascontiguousarray, inputs[name].T), strict=True)
            )
        table = pa.table(columns)
        with self._lock:
            # A prepared query is planned anew for other rows, so it is as quick to plan it here.
            answer = self._database.register("rows", table).execute(self.query).fetchnumpy()
            self._database.unregister("rows")
        return {
            name: _side_by_side([answer[column] for column in _columns(name, of)], count, of)
            for name, of in self.types.outputs.items()
        }


_DUCKDB = Dialect()


def _columns(name: str, of: TensorType) -> list[str]:
    """Return the column of each entry of a row."""
    return [f"{name}.{i}" for i in range(math.prod(of.shape))]


def _side_by_side(columns: list[Any], count: int, of: TensorType) -> npt.NDArray[Any]:
    if not columns:
        return np.zeros((count, *of.shape), of.dtype)
    values = [np.ma.getdata(column).astype(of.dtype) for column in columns]
    return np.stack(values, axis=1).reshape(count, *of.shape)
