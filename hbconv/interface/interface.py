"""Interface: what goes into a file for another runtime, and what comes out of it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hbconv import __version__
from hbconv.containers import Cube
from hbconv.interface.inputs import FileInput
from hbconv.interface.text import labels

if TYPE_CHECKING:
    from hbconv.array import Array
    from hbconv.containers import Graph, Output
    from hbconv.lower import Lowered

__all__ = ["FileOutput", "Interface", "answer_dtype", "label_tables"]

_WHOLE = {"uint16": "int64", "uint32": "int64", "uint64": "int64", "int32": "int32"}
"""Dtypes of answers that few runtimes count in, and what files give instead."""


@dataclass(frozen=True)
class FileOutput:
    """The answer of one method.

    Parameters
    ----------
    method : str
    dtype : str
    shape : tuple of int
        Of the answer to one row.
    classes : tuple of tuple, or None
        Labels that the answer holds the codes of, for each of its columns; None where it holds
        the answer itself.
    widths : tuple of int
        Widths of the arrays that the source returns as a list, here side by side.
    """

    method: str
    dtype: str
    shape: tuple[int, ...]
    classes: tuple[tuple[Any, ...], ...] | None = None
    widths: tuple[int, ...] = ()


@dataclass(frozen=True)
class Interface:
    """Arguments and answers of a file, and the model behind it.

    Parameters
    ----------
    estimator, kind : str
    features : tuple of str
        Names of all columns, in the order of fitting.
    named : bool
        The source model was fitted on named columns.
    classes : tuple of tuple, or None
        Class labels of a classifier, for each target.
    inputs : tuple of FileInput
    outputs : tuple of FileOutput
    """

    estimator: str
    kind: str
    features: tuple[str, ...]
    named: bool
    classes: tuple[tuple[Any, ...], ...] | None
    inputs: tuple[FileInput, ...]
    outputs: tuple[FileOutput, ...]

    @staticmethod
    def of(graph: Graph, lowered: Lowered, inputs: Iterable[FileInput]) -> Interface:
        """Describe a graph, lowered to a program."""
        program = lowered.program
        return Interface(
            graph.traits.estimator,
            graph.traits.kind,
            graph.schema.names,
            graph.schema.named,
            None if graph.traits.classes is None else _lists(_tables(graph.traits.classes)),
            tuple(inputs),
            tuple(
                _describe(method, output, program.instructions[program.outputs[method]].type.dtype)
                for method, output in graph.outputs.items()
            ),
        )

    def to_json(self, **more: str) -> str:
        """Return it as the text that files carry, with more entries."""
        entries = {"format": 1, "hbconv": __version__, **more, **asdict(self)}
        return json.dumps(entries, allow_nan=False)


def answer_dtype(output: Output, values: str) -> str:
    """Return the dtype of an answer in a file, given that of the program's values."""
    tables = label_tables(output)
    if tables is not None:
        return np.result_type(*tables).name
    if output.classes is not None:
        return "int64"
    wanted = values if output.dtype in (None, "object") else str(output.dtype)
    return _WHOLE.get(wanted, wanted)


def label_tables(output: Output) -> list[npt.NDArray[Any]] | None:
    """Return the labels of each column where they are numbers; None where codes stand for text."""
    if output.classes is None:
        return None
    tables = [labels(table.data) for table in _tables(output.classes)]
    return None if any(table.dtype.kind == "U" for table in tables) else tables


def _describe(method: str, output: Output, values: str) -> FileOutput:
    coded = output.classes is not None and label_tables(output) is None
    return FileOutput(
        method,
        answer_dtype(output, values),
        _row_shape(output),
        _lists(_tables(output.classes)) if coded and output.classes is not None else None,
        output.widths,
    )


def _row_shape(output: Output) -> tuple[int, ...]:
    if output.is_vector:
        return ()
    return output.form.shape if isinstance(output.form, Cube) else (output.node.type.width,)


def _tables(classes: Array | tuple[Array, ...]) -> tuple[Array, ...]:
    return classes if isinstance(classes, tuple) else (classes,)


def _lists(tables: tuple[Array, ...]) -> tuple[tuple[Any, ...], ...]:
    return tuple(tuple(labels(table.data).tolist()) for table in tables)
