"""A call of one method: read the rows, group and check them, run the program, join the answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.containers import Entries, Graph, Matrix, Output, Sparse
from hbconv.errors import BackendError
from hbconv.runtime.batching import chunks
from hbconv.runtime.inputs.read import read_entries, read_table
from hbconv.runtime.inputs.table import Groups, Reads, Table
from hbconv.runtime.outputs.answers import answer, in_form, in_order, join, whole
from hbconv.runtime.outputs.dataframes import framed, library_of, returns_rows
from hbconv.runtime.outputs.tensors import as_tensors
from hbconv.runtime.program import Program
from hbconv.runtime.programs import Programs

__all__ = ["answered", "call", "grouped"]

Part = tuple[npt.NDArray[np.integer[Any]] | None, Program, Table]
"""Rows that a program answers: their places among all (None: all), the program, and the rows."""


def call(graph: Graph, programs: Programs, reads: Reads, method: str, x: Any) -> Any:
    """Answer as the source's method does, for rows in any form.

    Parameters
    ----------
    graph : Graph
        As parsed: its outputs and traits say in which form answers are given.
    programs : Programs
    reads : Reads
        The columns that the model reads.
    method : str
    x : table or array
    """
    extracted = _extracted(graph, reads, method, x)
    if extracted is not None:
        return extracted
    table = read_table(x, reads)
    frame_format = graph.traits.frame_format if method == "transform" else None
    if returns_rows(frame_format, x):
        return x
    parts = [
        (rows, programs.program((method,), part.dtypes, part.padding), part)
        for rows, part in grouped(programs, method, programs.converted((method,), table))
    ]
    output = graph.outputs[method].for_rows(sparse=hasattr(table.matrix, "tocsr"))
    library = library_of(frame_format, x)
    if frame_format is not None and library:
        framing = programs.framing(table.dtypes, library)
        passed = framing.passed(frame_format, x)
        if passed is None:
            return framed(_found(output, method, parts), framing, frame_format, x)
        if any(program.guard.refuses_rows for _, program, _ in parts):
            _found(output, method, parts)
        return passed
    found = _found(output, method, parts)
    if hasattr(found, "tocsr"):
        return in_form(found, output, x)
    found = whole(output, found)
    return as_tensors(found, x) if hasattr(x, "detach") else found


def _extracted(graph: Graph, reads: Reads, method: str, x: Any) -> Any:
    """Return the rows that the host extracts where they are the answer; else None.

    No program adds to them, and one for each size of rows would take longer than they do.
    """
    output = graph.outputs[method]
    leaf = output.node
    if not isinstance(leaf, Entries) or not graph.schema.conventions.items:
        return None
    is_plain = isinstance(output.form, Matrix | Sparse) and output.dtype is None
    if not is_plain or graph.checks or library_of(graph.traits.frame_format, x):
        return None
    rows = read_entries(x, leaf, reads)
    return in_form(rows.csr(), output, x) if isinstance(output.form, Sparse) else rows.dense()


def _found(output: Output, method: str, parts: Sequence[Part]) -> Any:
    """Answer the rows, part by part, in their order."""
    answers = [answered(output.in_parts, program, method, table) for _, program, table in parts]
    if len(parts) == 1:
        return answers[0]
    return in_order(join(answers), np.concatenate([rows for rows, _, _ in parts]))


def grouped(programs: Programs, method: str, table: Table) -> Groups:
    """Return groups of rows that one program takes: all, or rows of similar sparse sizes."""
    return table.groups(
        sparse=hasattr(table.matrix, "tocsr") and programs.takes_entries((method,), table.dtypes)
    )


def answered(output: Output, program: Program, method: str, table: Table) -> Any:
    """Answer rows by one program, by chunks if they are many."""
    answers = []
    try:
        for rows in chunks(table.rows, program.chunk):
            values = program.checked(table.part(rows))
            answers.append(answer(output, values[method]))
    except IndexError as error:
        raise BackendError(
            f"The model reads one of its tables beyond the end ({error}). Convert it again. If "
            "that does not help, please report this as a defect of hbconv."
        ) from error
    return join(answers)
