"""Output: rows through their programs, chunk by chunk, joined in order, in an answer's form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.containers import Output
from hbconv.errors import BackendError
from hbconv.runtime.batching import chunks
from hbconv.runtime.inputs.table import Table
from hbconv.runtime.outputs.answers import answer, in_form, in_order, join, whole
from hbconv.runtime.outputs.tensors import as_tensors
from hbconv.runtime.program import Program

__all__ = ["Part", "answer_parts", "form_answer", "join_chunks"]

Part = tuple[npt.NDArray[np.integer[Any]] | None, Program, Table]
"""Rows that a program answers: their places among all (None: all), the program, and the rows."""


def join_chunks(rows: int, size: int, answer_chunk: Callable[[slice], Any]) -> Any:
    """Answer rows chunk by chunk, and return the answers as one."""
    return join([answer_chunk(chunk) for chunk in chunks(rows, size)])


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
    in_parts = {method: output.in_parts for method, output in outputs.items()}

    def answer_chunk(rows: slice) -> list[Any]:
        values = program.checked(table.part(rows))
        return [answer(output, values[method]) for method, output in in_parts.items()]

    try:
        answers: list[Any] = join_chunks(table.rows, program.chunk, answer_chunk)
    except IndexError as error:
        raise BackendError(
            f"The model reads one of its tables beyond the end ({error}). Convert it again. If "
            "that does not help, please report this as a defect of hbconv."
        ) from error
    return answers


def form_answer(answer: Any, output: Output, x: Any) -> Any:
    """Return joined answers in the form that the source model gives for rows x."""
    if hasattr(answer, "tocsr"):
        return in_form(answer, output, x)
    answer = whole(output, answer)
    return as_tensors(answer, x) if hasattr(x, "detach") else answer
