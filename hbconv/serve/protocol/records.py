"""Records: rows as JSON objects, or as lists of values, and answers as named values.

{"instances": [{"age": 30, "city": "Rome"}]}
{"predictions": [{"predict": "yes", "predict_proba": {"no": 0.2, "yes": 0.8}}]}
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.errors import InputError, shown
from hbconv.serve.inference import Inference, Rows, choose_outputs, join_rows
from hbconv.serve.protocol.json_documents import LongList, cut_pieces
from hbconv.serve.protocol.json_values import (
    HOLE,
    PIECE_VALUES,
    fill_holes,
    list_values,
    read_numbers,
    write_by_pieces,
)
from hbconv.serve.served_model import Answers
from hbconv.serve.signature import Given, ModelSignature, Taken

__all__ = ["read_records", "write_records"]

_FORMS = 'Send {"instances": [...]}, a list of records, or one record'
_SCALARS = frozenset({str, int, float, bool, type(None)})


def read_records(document: Any, signature: ModelSignature, most_rows: int) -> Inference:
    """Read a request.

    Parameters
    ----------
    document : object
        A record, a list of records, or ``{"instances": records, "outputs": names}``. A list may be
        unread yet.
    signature : ModelSignature
    most_rows : int

    Raises
    ------
    InputError, OptionError
        It holds no records, or they do not fit the model.
    """
    records, outputs = _split_document(document, signature)
    wanted = choose_outputs(signature, outputs)
    parts: list[Rows] = []
    lacking = set(signature.names)
    count = 0
    for piece in cut_pieces(records):
        if count + len(piece) > most_rows:
            more = " or more" if isinstance(records, LongList) else ""
            raise InputError(
                f"The request has {count + len(piece)} records{more}, and the server takes "
                f"{most_rows} at once."
            )
        if signature.feeds == "names":
            lacking &= _find_lacking(piece, signature, count)
        parts.append(Rows(len(piece), tuple(_read_arrays(piece, signature, count))))
        count += len(piece)
    if signature.feeds == "names" and count and lacking:
        _refuse_lacking(lacking, count)
    return Inference(join_rows(parts), wanted)


def _split_document(
    document: Any, signature: ModelSignature
) -> tuple[list[Any] | LongList, list[str]]:
    if isinstance(document, list | LongList):
        return document, []
    if not isinstance(document, dict):
        raise InputError(f"{_FORMS}.")
    if "instances" not in document:
        _refuse_wrapper(document, signature)
        return [document], []
    records = document["instances"]
    outputs = document.get("outputs", [])
    strange = sorted(document.keys() - {"instances", "outputs"})
    if strange or not isinstance(records, list | LongList) or not isinstance(outputs, list):
        raise InputError(
            'A request has a list of "instances" and, if it likes, a list of "outputs".'
            + (f" Unknown: {shown(strange[0])}." if strange else "")
        )
    if not all(isinstance(name, str) for name in outputs):
        raise InputError('"outputs" is no list of names.')
    return records, outputs


def _refuse_wrapper(document: dict[str, Any], signature: ModelSignature) -> None:
    """Refuse what other servers wrap records in, such as ``{"dataframe_records": records}``."""
    if signature.feeds == "items" or not document or document.keys() & signature.names:
        return
    name, value = next(iter(document.items()))
    if isinstance(value, list | dict):
        raise InputError(f"{shown(name)} is no column of the model. {_FORMS}.")


def _read_arrays(
    records: Sequence[Any], signature: ModelSignature, first: int
) -> Iterable[npt.NDArray[Any]]:
    """Return an array for each tensor that is taken, of records that count from ``first``."""
    if signature.feeds == "matrix":
        yield _read_matrix(records, signature.taken[0], first)
    elif signature.feeds == "items":
        yield np.fromiter(records, object, len(records))
    elif signature.feeds == "values":
        yield _read_column(signature.taken[0], records, first)
    elif signature.feeds == "positions":
        lists = _require_lists(records, len(signature.taken), first)
        for place, taken in enumerate(signature.taken):
            yield _read_column(taken, [values[place] for values in lists], first)
    else:
        for taken in signature.taken:
            yield _read_column(taken, [record.get(taken.name) for record in records], first)


def _read_matrix(records: Sequence[Any], taken: Taken, first: int) -> npt.NDArray[Any]:
    width = taken.width or 0
    values = [value for record in _require_lists(records, width, first) for value in record]
    found = read_numbers("A record", _count_bools(values), np.dtype(taken.dtype), first * width)
    return found.reshape(len(records), width)


def _require_lists(records: Sequence[Any], width: int, first: int) -> Sequence[list[Any]]:
    for place, record in enumerate(records, first):
        if not isinstance(record, list) or len(record) != width:
            raise InputError(
                f"Record {place} is no list of {width} values. The model was fitted without names "
                "of columns."
            )
    return records


def _find_lacking(records: Sequence[Any], signature: ModelSignature, first: int) -> set[str]:
    """Return the names that no record has; refuse other forms and names."""
    names = signature.names
    lacking = set(names)
    for place, record in enumerate(records, first):
        if not isinstance(record, dict):
            columns = ", ".join(map(shown, sorted(names)[:20]))
            raise InputError(
                f"Record {place} is no JSON object of named values. The columns are {columns}."
            )
        lacking -= record.keys()
        if strange := signature.refused(record.keys()):
            raise InputError(
                f"Record {place} holds {shown(strange[0])}, which the model does not read. "
                f"It reads {', '.join(map(shown, sorted(names)[:20]))}."
            )
    return lacking


def _refuse_lacking(names: set[str], count: int) -> None:
    who = "Record 0 lacks" if count == 1 else "All records lack"
    raise InputError(f"{who} {', '.join(map(shown, sorted(names)[:20]))}.")


def _read_column(taken: Taken, values: Sequence[Any], first: int) -> npt.NDArray[Any]:
    if taken.dtype != "string":
        where = f"Column {shown(taken.name)}"
        return read_numbers(where, _count_bools(values), np.dtype(taken.dtype), first)
    if not _SCALARS.issuperset(map(type, values)):
        raise InputError(
            f"Column {shown(taken.name)} holds a list or an object, where text is read."
        )
    return np.fromiter(values, object, len(values))


def _count_bools(values: Sequence[Any]) -> Sequence[Any]:
    """Return bools as the numbers that they are; JSON tells them apart."""
    if bool not in map(type, values):
        return values
    return [int(value) if type(value) is bool else value for value in values]


def write_records(asked: Inference, answers: Answers) -> list[bytes]:
    """Return an answer as a document in parts: one object of named values for each record."""

    def named(part: slice) -> list[dict[str, Any]]:
        columns = {one.name: _values(one, answers[one.name][part]) for one in asked.wanted}
        rows = zip(*columns.values(), strict=True)
        return [dict(zip(columns, row, strict=True)) for row in rows]

    if asked.rows.count * asked.width <= PIECE_VALUES:
        return fill_holes({"predictions": named(slice(None))}, [])
    values = write_by_pieces(asked.rows.count, asked.width, named)
    return fill_holes({"predictions": HOLE}, [values])


def _values(given: Given, array: npt.NDArray[Any]) -> Sequence[Any]:
    values = list_values(array)
    if given.labels is None:
        return values
    labels = [str(label) for label in given.labels]
    return [dict(zip(labels, row, strict=True)) for row in values]
