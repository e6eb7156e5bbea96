"""Answer feeds by name, as a session of the runtime of the source file does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.containers import Graph, InputPort, OutputPort, PassedPort, Session
from hbconv.errors import InputError, shown
from hbconv.names import guess, unknown
from hbconv.runtime.call.output import answer_parts
from hbconv.runtime.inputs.read import read_table
from hbconv.runtime.inputs.table import Reads, Table
from hbconv.runtime.outputs.answers import whole
from hbconv.runtime.programs import Programs

__all__ = ["run_session"]


def run_session(
    graph: Graph,
    programs: Programs,
    reads: Reads,
    names: Sequence[str] | None,
    feeds: Mapping[str, Any],
) -> list[Any]:
    """Return outputs by their names in the file, in its shapes.

    Parameters
    ----------
    graph : Graph
        Of a source that has a session.
    programs : Programs
    reads : Reads
    names : sequence of str, or None
        Outputs that are asked for; None: all.
    feeds : mapping of str to array
        An array for each input of the file, of shape (n_rows, width). For an input of a mapping:
        one mapping, or a list of them.

    Returns
    -------
    list
        Arrays, a list of arrays for an output of several targets, and a list of dicts for one that
        has a dict for each row.

    Raises
    ------
    OptionError
        There is no output of a name.
    InputError
        An input is missing or unknown, or has another shape.
    """
    session = graph.traits.session or Session((), ())
    ports = [_find(session, name) for name in names] if names is not None else session.outputs
    computed = [port for port in ports if isinstance(port, OutputPort)]
    methods = tuple(dict.fromkeys(port.method for port in computed))
    rows = _rows(session, feeds, reads)
    found = _answer(graph, programs, methods, read_table(rows, reads)) if methods else {}
    return [
        _passed(feeds[port.source])
        if isinstance(port, PassedPort)
        else _shaped(found[port.method], port)
        for port in ports
    ]


def _passed(fed: Any) -> npt.NDArray[Any]:
    """Return a fed array as it is; texts as objects."""
    array = np.asarray(fed)
    return array.astype(object) if array.dtype.kind in "UT" else array


def _find(session: Session, name: str) -> OutputPort | PassedPort:
    for port in session.outputs:
        if port.name == name:
            return port
    raise unknown("output", name, [port.name for port in session.outputs])


def _answer(
    graph: Graph, programs: Programs, methods: tuple[str, ...], table: Table
) -> dict[str, Any]:
    """Run one program for all methods, by groups of similar sparse rows."""
    parts = [
        (rows, programs.program(methods, part.dtypes, part.padding), part)
        for rows, part in programs.converted(methods, table).groups(sparse=False)
    ]
    outputs = {method: graph.outputs[method] for method in methods}
    answers = zip(outputs.items(), answer_parts(parts, outputs), strict=True)
    return {
        method: answer if hasattr(answer, "tocsr") else whole(output, answer)
        for (method, output), answer in answers
    }


def _rows(session: Session, feeds: Mapping[str, Any], reads: Reads) -> Any:
    """Return the feeds as one matrix, as columns by name, or as mappings."""
    known = [port.name for port in session.inputs]
    for name in feeds:
        if name not in known:
            raise InputError(f"There is no input {shown(name)}.{guess(name, known)}")
    if reads.schema.conventions.items:
        return _fed(session.inputs[0], feeds)
    arrays = [_array(port, feeds) for port in session.inputs]
    if len({len(array) for array in arrays}) > 1:
        raise InputError("The inputs have different numbers of rows.")
    if not reads.schema.named:
        return arrays[0]
    return {
        reads.schema.names[column]: array[:, i]
        for port, array in zip(session.inputs, arrays, strict=True)
        for i, column in enumerate(port.columns)
    }


def _fed(port: InputPort, feeds: Mapping[str, Any]) -> Any:
    if port.name not in feeds:
        raise InputError(f"Input {port.name!r} is missing.")
    return feeds[port.name]


def _array(port: InputPort, feeds: Mapping[str, Any]) -> npt.NDArray[Any]:
    array = np.asarray(_fed(port, feeds))
    if array.ndim == 0 or array.shape[1:] != port.shape:
        shape = ", ".join(map(str, ("rows", *port.shape)))
        raise InputError(f"Input {port.name!r} has shape {array.shape}; it must be ({shape}).")
    return array.reshape(len(array), len(port.columns))


def _shaped(values: Any, port: OutputPort) -> Any:
    if isinstance(values, list):
        return values
    if port.keys is None:
        rows = port.shape.index(-1)
        whole = np.asarray(values)
        shape = [len(whole) if size == -1 else size for size in port.shape]
        return np.moveaxis(
            whole.reshape(len(whole), *(n for i, n in enumerate(shape) if i != rows)), 0, rows
        )
    keys = port.keys.data.tolist()
    return [dict(zip(keys, row, strict=True)) for row in np.asarray(values).tolist()]
