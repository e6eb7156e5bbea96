"""Records: rows of a request as JSON objects or lists, and the named values that answer them.

{"instances": [{"age": 30, "city": "Rome"}]}
{"predictions": [{"predict": "yes", "predict_proba": {"no": 0.2, "yes": 0.8}}]}

Servers of other makers wrap rows under other names. Here these become the same records, which one
reader reads: what a value may be does not depend on its wrapper.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.errors import InputError, shown
from hbconv.serve.inference import Inference, Rows, choose_outputs, join_rows, quote_names
from hbconv.serve.protocol.json_documents import (
    HOLE,
    PIECE_VALUES,
    LongList,
    LongLists,
    cut_pieces,
    fill_holes,
    write_by_pieces,
)
from hbconv.serve.protocol.tensors import list_values, read_numbers
from hbconv.serve.served_model import Answers
from hbconv.serve.signature import InputTensor, ModelSignature, OutputTensor

__all__ = ["LISTS", "read_records", "write_records", "write_values"]

_FORMS = 'Send {"instances": [...]}, a list of records, or one record'
_SCALARS = frozenset({str, int, float, bool, type(None)})

LISTS: LongLists = {
    "instances": {},
    "inputs": {},
    "dataframe_records": {},
    "dataframe_split": {"data": {}},
}
"""Wrappers of rows, and the lists within them that may be long.

``instances`` is of KServe and TensorFlow Serving, and so is ``inputs``. The others are of MLflow.
"""


@dataclass(frozen=True, slots=True)
class _Body:
    """Rows of a request, out of their wrapper.

    Parameters
    ----------
    records : list
        It may be unread yet.
    columns : tuple of str
        Names of the values of a row that is a list.
    outputs : list of str
    is_named : bool
        The client named the columns itself.
    """

    records: list[Any] | LongList
    columns: tuple[str, ...]
    outputs: Sequence[str] = ()
    is_named: bool = False


def read_records(
    document: Any,
    signature: ModelSignature,
    most_rows: int,
    unnamed: tuple[OutputTensor, ...] | None = None,
) -> Inference:
    """Read a request of records.

    Parameters
    ----------
    document : object
        A record, a list of records, or ``{"instances": records, "outputs": names}``. Each wrapper
        of ``LISTS`` stands for ``"instances"`` too. A list may be unread yet.
    signature : ModelSignature
    most_rows : int
    unnamed : tuple of OutputTensor, optional
        What answers a request that names no output; by default the usual ones.

    Raises
    ------
    InputError, OptionError
        It holds no records, or they do not fit the model.
    """
    body = _unwrap(document, signature)
    named = choose_outputs(signature, body.outputs)
    wanted = named if unnamed is None or body.outputs else unnamed
    parts: list[Rows] = []
    lacking = set(signature.names)
    count = 0
    by_position = False
    for piece in cut_pieces(body.records):
        if count + len(piece) > most_rows:
            more = " or more" if isinstance(body.records, LongList) else ""
            raise InputError(
                f"The request has {count + len(piece)} records{more}, and the server takes "
                f"{most_rows} at once."
            )
        records: Sequence[Any] = piece
        if signature.feeds == "names":
            # The first record tells of which form they are.
            if not count and piece:
                by_position = isinstance(piece[0], list)
            if by_position:
                records = _name_values(piece, body.columns, count)
            lacking &= _find_lacking(records, signature, count)
        parts.append(Rows(len(piece), tuple(_read_arrays(records, signature, count))))
        count += len(piece)
    if signature.feeds == "names" and count and lacking:
        _refuse_lacking(lacking, count)
    read_as = body.columns if by_position and not body.is_named else ()
    return Inference(join_rows(parts), wanted, columns=read_as)


def _unwrap(document: Any, signature: ModelSignature) -> _Body:
    if isinstance(document, list | LongList):
        return _Body(document, signature.columns)
    if not isinstance(document, dict):
        raise InputError(f"{_FORMS}.")
    wrapper = next((name for name in LISTS if _wraps(name, document, signature)), None)
    if wrapper is None:
        _refuse_wrapper(document, signature)
        return _Body([document], signature.columns)
    outputs = document.get("outputs", [])
    strange = sorted(document.keys() - {wrapper, "outputs"})
    if strange or not isinstance(outputs, list):
        raise InputError(
            f'A request has "{wrapper}" and, if it likes, a list of "outputs".'
            + (f" Unknown: {shown(strange[0])}." if strange else "")
        )
    if not all(isinstance(name, str) for name in outputs):
        raise InputError('"outputs" is no list of names.')
    return _unwrap_rows(wrapper, document[wrapper], signature, outputs)


def _wraps(name: str, document: Mapping[str, Any], signature: ModelSignature) -> bool:
    """Whether a name of a document is that of its wrapper, and no column or key of an item."""
    if name not in document:
        return False
    return name == "instances" or (signature.feeds != "items" and name not in signature.names)


def _refuse_wrapper(document: dict[str, Any], signature: ModelSignature) -> None:
    """Refuse what other servers wrap records in, such as ``{"rows": records}``."""
    if signature.feeds == "items" or not document or document.keys() & signature.names:
        return
    name, value = next(iter(document.items()))
    if isinstance(value, list | dict):
        raise InputError(f"{shown(name)} is no column of the model. {_FORMS}.")


def _unwrap_rows(
    wrapper: str, rows: Any, signature: ModelSignature, outputs: Sequence[str]
) -> _Body:
    """Return the rows of a wrapper: a list of records, or what names the columns once."""
    if wrapper == "dataframe_split":
        return _unwrap_split(rows, signature, outputs)
    if wrapper == "inputs" and isinstance(rows, dict) and signature.feeds == "names":
        return _Body(_turn_columns(rows), tuple(rows), outputs, is_named=True)
    if not isinstance(rows, list | LongList):
        raise InputError(f'"{wrapper}" is no list of records.')
    return _Body(rows, signature.columns, outputs)


def _unwrap_split(rows: Any, signature: ModelSignature, outputs: Sequence[str]) -> _Body:
    """Read a frame as ``DataFrame.to_dict(orient="split")`` of pandas gives it."""
    fields = rows if isinstance(rows, dict) else {}
    data, columns = fields.get("data"), fields.get("columns")
    if not isinstance(data, list | LongList) or fields.keys() - {"index", "columns", "data"}:
        raise InputError(
            '"dataframe_split" has lists of "columns" and "data", and "index" at most.'
        )
    # Columns of a model without names are found by position, whatever a frame calls them.
    if columns is None or signature.feeds != "names":
        return _Body(data, signature.columns, outputs)
    if not isinstance(columns, list) or not all(isinstance(name, str) for name in columns):
        raise InputError('"columns" of "dataframe_split" is no list of names.')
    if len(set(columns)) < len(columns):
        raise InputError('"columns" of "dataframe_split" names a column twice.')
    return _Body(data, tuple(columns), outputs, is_named=True)


def _turn_columns(columns: Mapping[str, Any]) -> list[list[Any]]:
    """Return the values of columns row by row."""
    for name, values in columns.items():
        if not isinstance(values, list):
            raise InputError(f'{shown(name)} of "inputs" is no list of values, one for each row.')
    lengths = {len(values) for values in columns.values()}
    if len(lengths) > 1:
        raise InputError(f'The columns of "inputs" have {min(lengths)} to {max(lengths)} values.')
    return [list(row) for row in zip(*columns.values(), strict=True)]


def _name_values(records: Sequence[Any], columns: Sequence[str], first: int) -> list[Any]:
    """Return lists of values, which count from ``first``, as objects of named values."""
    for number, record in enumerate(records, first):
        if not isinstance(record, list) or len(record) != len(columns):
            raise InputError(
                f"Record {number} is no list of {len(columns)} values, as the columns are "
                f"{quote_names(columns)}. Send their values in this order, or by their names."
            )
    return [dict(zip(columns, record, strict=True)) for record in records]


def _read_arrays(
    records: Sequence[Any], signature: ModelSignature, first: int
) -> Iterable[npt.NDArray[Any]]:
    """Return an array for each tensor that is taken, of records that count from ``first``."""
    if signature.feeds == "matrix":
        yield _read_matrix(records, signature.inputs[0], first)
    elif signature.feeds == "items":
        yield np.fromiter(records, object, len(records))
    elif signature.feeds == "values":
        yield _read_column(signature.inputs[0], records, first)
    elif signature.feeds == "positions":
        lists = _require_lists(records, len(signature.inputs), first)
        for position, tensor in enumerate(signature.inputs):
            yield _read_column(tensor, [values[position] for values in lists], first)
    else:
        for tensor in signature.inputs:
            yield _read_column(tensor, [record.get(tensor.name) for record in records], first)


def _read_matrix(records: Sequence[Any], tensor: InputTensor, first: int) -> npt.NDArray[Any]:
    width = tensor.width or 0
    values = [value for record in _require_lists(records, width, first) for value in record]
    flat = read_numbers(tensor, _count_bools(values), tensor.array_dtype, first * width)
    return flat.reshape(len(records), width)


def _require_lists(records: Sequence[Any], width: int, first: int) -> Sequence[list[Any]]:
    for number, record in enumerate(records, first):
        if not isinstance(record, list) or len(record) != width:
            raise InputError(
                f"Record {number} is no list of {width} values. The model was fitted without names "
                "of columns."
            )
    return records


def _find_lacking(records: Sequence[Any], signature: ModelSignature, first: int) -> set[str]:
    """Return the names that no record has; refuse other forms and names."""
    names = signature.names
    takes = [tensor.name for tensor in signature.inputs]
    lacking = set(names)
    for number, record in enumerate(records, first):
        if not isinstance(record, dict):
            raise InputError(
                f"Record {number} is no JSON object of named values. "
                f"The columns are {quote_names(takes)}."
            )
        lacking -= record.keys()
        if strange := signature.find_strange(record.keys()):
            raise InputError(
                f"Record {number} holds {shown(strange[0])}, which the model does not read. "
                f"It reads {quote_names(takes)}."
            )
    return lacking


def _refuse_lacking(names: set[str], count: int) -> None:
    who = "Record 0 lacks" if count == 1 else "All records lack"
    raise InputError(f"{who} {quote_names(sorted(names))}.")


def _read_column(tensor: InputTensor, values: Sequence[Any], first: int) -> npt.NDArray[Any]:
    if tensor.dtype != "string":
        return read_numbers(tensor, _count_bools(values), tensor.array_dtype, first)
    if not _SCALARS.issuperset(map(type, values)):
        place = next(i for i, value in enumerate(values) if type(value) not in _SCALARS)
        raise InputError(
            f"{tensor.element(first + place)} is {shown(values[place])}, where text is read."
        )
    return np.fromiter(values, object, len(values))


def _count_bools(values: Sequence[Any]) -> Sequence[Any]:
    """Return bools as the numbers that they are; JSON tells them apart."""
    if bool not in map(type, values):
        return values
    return [int(value) if type(value) is bool else value for value in values]


def write_records(inference: Inference, answers: Answers) -> list[bytes]:
    """Return the outputs as a document in parts: one object of named values for each record."""

    def named(part: slice) -> list[dict[str, Any]]:
        columns = {
            tensor.name: _label_values(tensor, answers[tensor.name][part])
            for tensor in inference.wanted
        }
        rows = zip(*columns.values(), strict=True)
        return [dict(zip(columns, row, strict=True)) for row in rows]

    return _write_predictions(inference, named)


def write_values(inference: Inference, answers: Answers) -> list[bytes]:
    """Return one output as a document in parts: its bare value for each record, as MLflow does."""
    (tensor,) = inference.wanted
    return _write_predictions(inference, lambda part: list_values(answers[tensor.name][part]))


def _write_predictions(
    inference: Inference, values: Callable[[slice], Sequence[Any]]
) -> list[bytes]:
    """Write what answers some of the rows, and the columns by whose order lists were read."""
    read_as = {"columns": inference.columns} if inference.columns else {}
    if inference.rows.count * inference.width <= PIECE_VALUES:
        return fill_holes({"predictions": values(slice(None)), **read_as}, [])
    pieces = write_by_pieces(inference.rows.count, inference.width, values)
    return fill_holes({"predictions": HOLE, **read_as}, [pieces])


def _label_values(tensor: OutputTensor, array: npt.NDArray[Any]) -> Sequence[Any]:
    values = list_values(array)
    return [_name_axes(row, tensor.labels) for row in values] if tensor.labels else values


def _name_axes(values: Sequence[Any], axes: Sequence[tuple[str, ...]]) -> dict[str, Any]:
    """Return nested lists as nested objects, by the names along each axis."""
    names, *inner = axes
    named = [_name_axes(value, inner) for value in values] if inner else values
    return dict(zip(names, named, strict=True))
