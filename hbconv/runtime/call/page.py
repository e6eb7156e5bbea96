"""A call on one page: how rows of any kind become the answer of a method.

``answer`` asks what earlier calls prepared for rows of this kind: a reader that fills the inputs of
a program in memory that is used again. All other rows take the ordinary way, which is ``ordinary``:
read a table, choose programs, check and compute chunk by chunk, and form the answer.

| rows | read by |
| --- | --- |
| a matrix of numpy | ``matrix_reader`` |
| a record, a frame of one row, one text | ``row_reader`` |
| a frame of some rows | ``column_reader`` |
| a tensor, or an array on a CUDA device | ``tensor_reader`` |
| everything else, and the first rows of each kind | ``hbconv.runtime.inputs.read`` |
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from hbconv.containers import Entries, Graph, Matrix, Output, Sparse
from hbconv.errors import BackendError
from hbconv.runtime.call.column_reader import ColumnCells, ColumnPlan, ColumnReader
from hbconv.runtime.call.matrix_reader import MatrixReader, RowsThemselves, plan_matrices
from hbconv.runtime.call.memory import UNUSUAL, Call, Memory, remember
from hbconv.runtime.call.row_reader import CellPlan, CellReader, RowCells
from hbconv.runtime.call.tensor_reader import TensorReader, as_given, is_tensor, read_tensor
from hbconv.runtime.inputs.read import read_entries, read_table
from hbconv.runtime.inputs.records import parse_json
from hbconv.runtime.inputs.table import Groups, Reads, Table
from hbconv.runtime.outputs.answers import answer, in_form, in_order, join, join_chunks, whole
from hbconv.runtime.outputs.dataframes import library_of, returns_rows, to_frame
from hbconv.runtime.outputs.tensors import as_tensors
from hbconv.runtime.program import Program
from hbconv.runtime.programs import Programs

__all__ = ["CallContext", "Method", "Part", "answer_parts", "find_parts", "group_rows"]

Part = tuple[npt.NDArray[np.integer[Any]] | None, Program, Table]
"""Rows that a program answers: their places among all (None: all), the program, and the rows."""
OBJECTS = np.dtype(object)
Plan = MatrixReader | RowsThemselves | CellPlan | ColumnPlan


class CallContext(Protocol):
    """What a method asks of its model."""

    parsed: Graph
    programs: Programs
    reads: Reads
    dtypes: tuple[str, ...]

    def reading(self, x: Any) -> Any:
        """Return the model that reads these rows: this one, or that of arrays of codes."""


class Method:
    """One method of a model, for rows of every kind.

    Parameters
    ----------
    model : CallContext
    name : str
    """

    def __init__(self, model: CallContext, name: str) -> None:
        self._model = model
        self._name = name
        self._graph = graph = model.parsed
        self._programs = model.programs
        self._reads = model.reads
        self._output = graph.outputs[name]
        self._frames = graph.traits.frame_format if name == "transform" else None
        self._plans: dict[Any, Plan | None] = {}
        self._memory = Memory()
        # A model fitted without names warns of the names of each table, but arrays have none.
        takes_items = self._reads.schema.conventions.items
        is_silent = self._reads.schema.named or takes_items
        # Text is JSON, but for a model that reads texts as rows.
        self._open: Call = parse_json if self._reads.schema.named and not takes_items else _itself
        self._row = self._find_row_reader()
        # Documents are looked at one by one, in columns that no program reads as well.
        reads_columns = is_silent and not takes_items and not self._reads.entries
        self._columns = self._find_column_reader() if reads_columns else None

    def answer(self, x: Any) -> Any:
        """Answer as the source's method does, for rows in any form."""
        given: Any
        if type(x) is np.ndarray and x.dtype is not OBJECTS:
            given = cells = x
            kind: Any = (x.dtype, x.shape)
        else:
            x = self._open(x)
            given = self._read(x)
            kind, cells = (None, x) if given is None else (given.kind, given.values)
        library = "" if self._frames is None else library_of(self._frames, x)
        # Frames are made on the host, and many rows of a table have no kind.
        if library or kind is None:
            return self.ordinary(x, library)
        # Plans are shared by all threads, calls and their memory are not.
        call = self._memory.calls.get(kind) or self._bind(kind, given)
        outputs = None if call is None else call(cells)
        if outputs is None:
            outputs = self.ordinary(x, library)
            self._learn(given, x)
        return outputs

    def ordinary(self, x: Any, library: str = "") -> Any:
        """Answer rows of which nothing is known: as a frame of a library, or else as an array."""
        model = self._model.reading(x)
        if model is not self._model:
            return getattr(model, self._name)(x)
        if not is_tensor(x):
            return self._answer_table(x, library)
        rows = read_tensor(x)
        outputs = None if library else self._tensors(rows)
        if outputs is None:
            outputs = self._answer_table(rows, library)
        return as_given(outputs, x)

    def find_program(self, table: Table) -> tuple[Program, Table]:
        """Return the program that answers a table of dense rows, and the table in its dtypes."""
        ((_, program, part),) = find_parts(self._programs, (self._name,), table)
        return program, part

    def _answer_table(self, x: Any, library: str) -> Any:
        """Answer rows that the host reads: by their entries, themselves, or a program."""
        if not library and (extracted := self._extract(x)) is not None:
            return extracted
        table = read_table(x, self._reads)
        if returns_rows(self._frames, x, library):
            return x
        parts = find_parts(self._programs, (self._name,), table)
        output = self._output.for_rows(sparse=hasattr(table.matrix, "tocsr"))
        if library:
            return self._answer_frame(x, table, parts, output, library)
        (outputs,) = answer_parts(parts, {self._name: output})
        outputs = whole(output, outputs, x)
        return as_tensors(outputs, x) if hasattr(x, "detach") else outputs

    def _answer_frame(
        self, x: Any, table: Table, parts: list[Part], output: Output, library: str
    ) -> Any:
        """Answer by a frame, whose columns are those of frame x where all pass unchanged."""
        assert self._frames is not None  # noqa: S101  (they have the library)
        framing = self._programs.framing(table.dtypes, library)
        passed = framing.passed(self._frames, x)
        if passed is None:
            (outputs,) = answer_parts(parts, {self._name: output})
            return to_frame(outputs, framing, self._frames, x)
        # Columns that pass need no program, but its checks may refuse the rows.
        if any(program.guard.refuses_rows for _, program, _ in parts):
            answer_parts(parts, {self._name: output})
        return passed

    def _extract(self, x: Any) -> Any:
        """Return the rows that the host extracts where they are the answer; else None.

        No program adds to them, and one for each size of rows would take longer than they do.
        """
        output = self._output
        leaf = output.node
        if not isinstance(leaf, Entries) or not self._reads.schema.conventions.items:
            return None
        is_plain = isinstance(output.form, Matrix | Sparse) and output.dtype is None
        if not is_plain or self._graph.checks:
            return None
        rows = read_entries(x, leaf, self._reads)
        return in_form(rows.csr(), output, x) if isinstance(output.form, Sparse) else rows.dense()

    @cached_property
    def _tensors(self) -> TensorReader:
        return TensorReader(self._graph, self._programs, self._reads, self._name)

    def _read(self, x: Any) -> RowCells | ColumnCells | None:
        """Return the cells of one row, or the columns of some; None of everything else."""
        cells = None if self._row is None else self._row.read(x, self._plans)
        return cells if cells is not None or self._columns is None else self._columns.read(x)

    def _bind(self, kind: Any, given: Any) -> Call | None:
        """Return a call for rows of a kind in this thread; None where they are read as tables."""
        plan = self._plans.get(_layout(given))
        return None if plan is None else plan.bind(self._memory, kind)

    def _learn(self, given: Any, x: Any) -> None:
        """Plan how rows are read that are given alike, of which the ordinary way answered one."""
        layout = _layout(given)
        if layout in self._plans:
            return
        if isinstance(given, np.ndarray):
            remember(self._plans, layout, self._plan_matrices(given.dtype))
            return
        reader: Any = self._row if isinstance(given, RowCells) else self._columns
        try:
            plan = reader.plan(given, lambda: self.find_program(read_table(x, self._reads)))
        except UNUSUAL:  # Others that are given so may do.
            return
        remember(self._plans, layout if plan else given.unread, plan)

    def _plan_matrices(self, dtype: np.dtype[Any]) -> MatrixReader | RowsThemselves | None:
        return plan_matrices(self._graph, self._programs, self._reads, self._name, dtype.name)

    def _find_row_reader(self) -> CellReader | None:
        return CellReader(self._reads, self._name, self._output)

    def _find_column_reader(self) -> ColumnReader | None:
        return ColumnReader(self._reads, self._name, self._output)


def group_rows(programs: Programs, methods: tuple[str, ...], table: Table) -> Groups:
    """Return groups of rows that one program takes: all, or rows of similar sparse sizes."""
    return table.groups(
        sparse=hasattr(table.matrix, "tocsr") and programs.takes_entries(methods, table.dtypes)
    )


def find_parts(programs: Programs, methods: tuple[str, ...], table: Table) -> list[Part]:
    """Return the programs that answer a table, and the rows of each in its dtypes."""
    return [
        (rows, programs.program(methods, part.dtypes, part.padding), part)
        for rows, part in group_rows(programs, methods, programs.converted(methods, table))
    ]


def answer_parts(parts: Sequence[Part], outputs: dict[str, Output]) -> list[Any]:
    """Answer rows by their programs, in the order of the rows: a list of one answer a method.

    Raises
    ------
    BackendError
        A damaged model reads beyond the end of a table.
    """
    answers = [_answer_part(program, table, outputs) for _, program, table in parts]
    if len(parts) == 1:
        return answers[0]
    joined: list[Any] = in_order(join(answers), np.concatenate([rows for rows, _, _ in parts]))
    return joined


def _answer_part(program: Program, table: Table, outputs: dict[str, Output]) -> list[Any]:
    def answer_chunk(rows: slice) -> list[Any]:
        values = program.checked(table.part(rows))
        return [answer(output, values[method]) for method, output in outputs.items()]

    try:
        answers: list[Any] = join_chunks(table.rows, program.chunk, answer_chunk)
    except IndexError as error:
        raise BackendError(
            f"The model reads one of its tables beyond the end ({error}). Convert it again. If "
            "that does not help, please report this as a defect of hbconv."
        ) from error
    return answers


def _itself(x: Any) -> Any:
    return x


def _layout(given: Any) -> Any:
    """Return what a plan is for: matrices of one dtype and any shape, or what is given alike."""
    return given.dtype if isinstance(given, np.ndarray) else given.layout
