"""Answer feeds by name, as a session of the runtime of the source file does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.containers import Graph, InputPort, Output, OutputPort, PassedPort, Session
from hbconv.errors import InputError, shown
from hbconv.names import guess, unknown
from hbconv.runtime.call.page import answer_parts, find_parts
from hbconv.runtime.inputs.read import read_table
from hbconv.runtime.inputs.table import Reads
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
    ports = [_find_port(session, name) for name in names] if names is not None else session.outputs
    computed = [port for port in ports if isinstance(port, OutputPort)]
    outputs = {port.method: graph.outputs[port.method] for port in computed}
    rows = _join_feeds(session, feeds, reads)
    answers: dict[str, Any] = {}
    if outputs:  # one program computes all of them
        parts = find_parts(programs, tuple(outputs), read_table(rows, reads))
        answers = dict(zip(outputs, answer_parts(parts, outputs), strict=True))
    return [
        _pass(feeds[port.source])
        if isinstance(port, PassedPort)
        else _reshape(answers[port.method], outputs[port.method], port)
        for port in ports
    ]


def _find_port(session: Session, name: str) -> OutputPort | PassedPort:
    for port in session.outputs:
        if port.name == name:
            return port
    raise unknown("output", name, [port.name for port in session.outputs])


def _join_feeds(session: Session, feeds: Mapping[str, Any], reads: Reads) -> Any:
    """Return the feeds as one matrix, as columns by name, or as mappings."""
    names = [port.name for port in session.inputs]
    for name in feeds:
        if name not in names:
            raise InputError(f"There is no input {shown(name)}.{guess(name, names)}")
    if reads.schema.conventions.items:
        return _find_feed(session.inputs[0], feeds)
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


def _find_feed(port: InputPort, feeds: Mapping[str, Any]) -> Any:
    if port.name not in feeds:
        raise InputError(f"Input {port.name!r} is missing.")
    return feeds[port.name]


def _array(port: InputPort, feeds: Mapping[str, Any]) -> npt.NDArray[Any]:
    array = np.asarray(_find_feed(port, feeds))
    if array.ndim == 0 or array.shape[1:] != port.shape:
        shape = ", ".join(map(str, ("rows", *port.shape)))
        raise InputError(f"Input {port.name!r} has shape {array.shape}; it must be ({shape}).")
    return array.reshape(len(array), len(port.columns))


def _pass(fed: Any) -> npt.NDArray[Any]:
    """Return a fed array as it is; texts as objects."""
    array = np.asarray(fed)
    return array.astype(object) if array.dtype.kind in "UT" else array


def _reshape(values: Any, output: Output, port: OutputPort) -> Any:
    """Return the answer of a method in the shape of its port: its rows may be another axis."""
    values = whole(output, values)
    if isinstance(values, list):
        return values
    if port.keys is not None:
        keys = port.keys.data.tolist()
        return [dict(zip(keys, row, strict=True)) for row in np.asarray(values).tolist()]
    rows = port.shape.index(-1)
    array = np.asarray(values)
    sizes = [len(array) if size == -1 else size for i, size in enumerate(port.shape) if i != rows]
    return np.moveaxis(array.reshape(len(array), *sizes), 0, rows)
