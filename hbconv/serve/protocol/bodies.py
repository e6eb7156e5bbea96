"""Bodies of the requests over HTTP that ask a model, and of their responses.

Records (v1) are rows as JSON objects, or as lists of values; named values answer them:

{"instances": [{"age": 30, "city": "Rome"}]}
{"predictions": [{"predict": "yes", "predict_proba": {"no": 0.2, "yes": 0.8}}]}

Tensors (v2) are those of the Open Inference Protocol, with the extension of binary tensors. With
the header ``Inference-Header-Content-Length`` the JSON ends there, and the data of the binary
tensors follow, one after another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.errors import InputError, shown
from hbconv.serve.http.messages import LONG_BYTES, Request, Response, respond_in_parts
from hbconv.serve.inference import (
    Inference,
    Rows,
    choose_outputs,
    join_rows,
    quote_names,
    read_rows,
)
from hbconv.serve.protocol.json_documents import (
    HOLE,
    PIECE_VALUES,
    LongList,
    cut_pieces,
    fill_holes,
    has_floats,
    read_document,
    read_float_json,
    require_few_lists,
    write_by_pieces,
)
from hbconv.serve.protocol.tensors import (
    declare_tensor,
    list_values,
    pack_values,
    read_binary,
    read_numbers,
    read_values,
)
from hbconv.serve.served_model import Answers, ServedModel
from hbconv.serve.signature import InputTensor, ModelSignature, OutputTensor, find_datatype

__all__ = ["READERS", "Read", "Write", "read_records", "read_v2", "write_records", "write_v2"]

Write = Callable[[Inference, Answers], Response]
Read = Callable[[ServedModel, Request, int], tuple[Inference, Write]]

_LENGTH = b"inference-header-content-length"
_FORMS = 'Send {"instances": [...]}, a list of records, or one record'
_SCALARS = frozenset({str, int, float, bool, type(None)})
_NONE_BINARY: frozenset[str] = frozenset()
_OBJECT = {dict}
_NO_PARAMETERS: Mapping[str, Any] = {}

MOST_LISTS_OF_ITEM = 16
"""Lists and objects in an item, on average."""


def read_records(document: Any, signature: ModelSignature, most_rows: int) -> Inference:
    """Read a request of records.

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
    flat = read_numbers("A record", _count_bools(values), tensor.array_dtype, first * width)
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
    lacking = set(names)
    for number, record in enumerate(records, first):
        if not isinstance(record, dict):
            raise InputError(
                f"Record {number} is no JSON object of named values. "
                f"The columns are {quote_names(sorted(names))}."
            )
        lacking -= record.keys()
        if strange := signature.find_strange(record.keys()):
            raise InputError(
                f"Record {number} holds {shown(strange[0])}, which the model does not read. "
                f"It reads {quote_names(sorted(names))}."
            )
    return lacking


def _refuse_lacking(names: set[str], count: int) -> None:
    who = "Record 0 lacks" if count == 1 else "All records lack"
    raise InputError(f"{who} {quote_names(sorted(names))}.")


def _read_column(tensor: InputTensor, values: Sequence[Any], first: int) -> npt.NDArray[Any]:
    if tensor.dtype != "string":
        return read_numbers(tensor, _count_bools(values), tensor.array_dtype, first)
    if not _SCALARS.issuperset(map(type, values)):
        raise InputError(f"{tensor} holds a list or an object, where text is read.")
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

    if inference.rows.count * inference.width <= PIECE_VALUES:
        return fill_holes({"predictions": named(slice(None))}, [])
    values = write_by_pieces(inference.rows.count, inference.width, named)
    return fill_holes({"predictions": HOLE}, [values])


def _label_values(tensor: OutputTensor, array: npt.NDArray[Any]) -> Sequence[Any]:
    values = list_values(array)
    if tensor.labels is None:
        return values
    labels = [str(label) for label in tensor.labels]
    return [dict(zip(labels, row, strict=True)) for row in values]


def read_v2(
    body: bytes | bytearray, header_length: str | None, signature: ModelSignature, most_rows: int
) -> Inference:
    """Read a request of tensors.

    Parameters
    ----------
    body : bytes
    header_length : str, optional
        Value of ``Inference-Header-Content-Length``.
    signature : ModelSignature
        Of the model that is asked.
    most_rows : int

    Raises
    ------
    InputError, OptionError
        The body is no request, or does not fit the model.
    """
    length = len(body) if header_length is None else _parse_length(header_length, len(body))
    document = _read_tensor_document(body if length == len(body) else body[:length])
    if type(document) is not dict or type(document.get("inputs")) not in (list, LongList):
        raise InputError('The request is no JSON object with a list of "inputs".')
    tensors = _read_tensors(document["inputs"], memoryview(body)[length:], most_rows)
    wanted, binary = _choose_wanted(document, signature)
    identity = document.get("id", "")
    if type(identity) is not str:
        raise InputError('The "id" of the request is no text.')
    return Inference(read_rows(signature, tensors), wanted, identity, binary)


def _read_tensor_document(data: bytes | bytearray) -> Any:
    document = read_float_json(data) if has_floats(data) else None
    return read_document(data, "inputs") if document is None else document


def _parse_length(header_length: str, size: int) -> int:
    """Return where the JSON of the body ends."""
    # int() reads digits of any script, and raises for thousands of them.
    if not (header_length.isascii() and header_length.isdigit() and len(header_length) < 16):
        raise InputError("Inference-Header-Content-Length is no whole number.")
    if int(header_length) > size:
        raise InputError(
            f"Inference-Header-Content-Length is {header_length}, and the body has {size} bytes."
        )
    return int(header_length)


def _choose_wanted(
    document: Mapping[str, Any], signature: ModelSignature
) -> tuple[tuple[OutputTensor, ...], frozenset[str]]:
    """Return the tensors that are asked for, and the names of those in binary form."""
    outputs = document.get("outputs") or []
    if type(outputs) is not list or set(map(type, outputs)) - _OBJECT:
        raise InputError('"outputs" is no list of objects.')
    default = _read_parameters(document).get("binary_data_output", False) is True
    forms = [(_read_name(o), _read_parameters(o).get("binary_data", default)) for o in outputs]
    wanted = choose_outputs(signature, [name for name, _ in forms])
    is_binary = {name: form is True for name, form in forms}
    if not default and True not in is_binary.values():
        return wanted, _NONE_BINARY
    return wanted, frozenset(
        tensor.name for tensor in wanted if is_binary.get(tensor.name, default)
    )


def _read_tensors(
    inputs: Any, binary: memoryview, most_rows: int
) -> Mapping[str, npt.NDArray[Any]]:
    tensors: dict[str, npt.NDArray[Any]] = {}
    for document in inputs.objects("data") if isinstance(inputs, LongList) else inputs:
        if type(document) is not dict:
            raise InputError('"inputs" is no list of objects.')
        name, parameters = _read_name(document), _read_parameters(document)
        if "shared_memory_region" in parameters:
            raise InputError(f"Input {shown(name)}: shared memory is not supported. Send the data.")
        form = declare_tensor(
            name, document.get("datatype"), document.get("shape"), most_rows, tensors
        )
        size = parameters.get("binary_data_size")
        if size is None:
            tensors[name] = read_values(form, document.get("data"))
            continue
        if type(size) is not int or not 0 <= size <= len(binary):
            raise InputError(
                f"{form}: binary_data_size is {shown(size)}, and {len(binary)} bytes "
                "of data are left."
            )
        if "data" in document:
            raise InputError(f"{form} has both JSON and binary data.")
        tensors[name] = read_binary(form, binary[:size])
        binary = binary[size:]
    if len(binary):
        raise InputError(f"{len(binary)} bytes of binary data belong to no input.")
    return tensors


def _read_name(document: Mapping[str, Any]) -> str:
    name = document.get("name")
    if type(name) is not str:
        raise InputError("An input or output has no name.")
    return name


def _read_parameters(document: Mapping[str, Any]) -> Mapping[str, Any]:
    parameters = document.get("parameters")
    if not parameters:
        return _NO_PARAMETERS
    if type(parameters) is not dict:
        raise InputError('"parameters" is no JSON object.')
    if "classification" in parameters:
        raise InputError("The extension of classification is not supported. Ask for the output.")
    return parameters


def write_v2(
    name: str, version: str, inference: Inference, answers: Answers
) -> tuple[list[bytes | memoryview], int | None]:
    """Return the body of a response in parts, and where its JSON ends if binary data follow."""
    blobs: list[bytes | memoryview] = []
    lists: list[Iterator[bytes]] = []
    outputs = []
    for output, array in answers.items():
        tensor: dict[str, Any] = {
            "name": output,
            "datatype": find_datatype(array.dtype),
            "shape": array.shape,
        }
        if output in inference.binary:
            blobs.append(pack_values(array))
            tensor["parameters"] = {"binary_data_size": len(blobs[-1])}
        elif array.size > PIECE_VALUES:
            tensor["data"] = HOLE
            lists.append(write_by_pieces(array.size, 1, partial(_list_part, array.ravel())))
        else:
            tensor["data"] = _list_flat(array)
        outputs.append(tensor)
    document: dict[str, Any] = {"model_name": name, "model_version": version}
    if inference.id:
        document["id"] = inference.id
    document["outputs"] = outputs
    header = fill_holes(document, lists)
    return [*header, *blobs], sum(map(len, header)) if blobs else None


def _list_part(values: npt.NDArray[Any], part: slice) -> list[Any]:
    return _list_flat(values[part])


def _list_flat(array: npt.NDArray[Any]) -> list[Any]:
    flat = list_values(array.ravel())
    return list(map(str, flat)) if array.dtype.kind not in "biuf" else flat


def _read_predict(served: ServedModel, request: Request, most_rows: int) -> tuple[Inference, Write]:
    """Read records, which named values answer."""
    body = request.body()
    if served.signature.feeds == "items" and len(body) > LONG_BYTES:
        # The model takes the values as they are, so they are counted before they are made.
        require_few_lists(body, MOST_LISTS_OF_ITEM * most_rows)
    document = read_document(body, "instances")
    return read_records(document, served.signature, most_rows), _respond_records


def _respond_records(inference: Inference, answers: Answers) -> Response:
    return respond_in_parts(write_records(inference, answers))


def _read_infer(served: ServedModel, request: Request, most_rows: int) -> tuple[Inference, Write]:
    """Read tensors, which tensors answer."""
    inference = read_v2(request.body(), request.header(_LENGTH), served.signature, most_rows)
    return inference, partial(_respond_tensors, served)


def _respond_tensors(served: ServedModel, inference: Inference, answers: Answers) -> Response:
    parts, json_bytes = write_v2(served.name, served.version, inference, answers)
    if json_bytes is None:
        return respond_in_parts(parts)
    return respond_in_parts(parts, b"application/octet-stream", ((_LENGTH, b"%d" % json_bytes),))


READERS: Mapping[str, Read] = {"infer": _read_infer, "predict": _read_predict}
"""What reads the requests of each route that asks a model."""
