"""Bodies of the requests over HTTP that ask a model, and of their responses.

Records are in ``records.py`` beside this. Tensors (v2) are those of the Open Inference Protocol,
with the extension of binary tensors. With the header ``Inference-Header-Content-Length`` the JSON
ends there, and the data of the binary tensors follow, one after another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy.typing as npt

from hbconv.errors import InputError, shown
from hbconv.serve.http.messages import LONG_BYTES, Request, Response, respond_in_parts
from hbconv.serve.inference import (
    Inference,
    choose_outputs,
    read_rows,
)
from hbconv.serve.protocol.json_documents import (
    HOLE,
    PIECE_VALUES,
    LongList,
    LongLists,
    fill_holes,
    has_floats,
    read_document,
    read_float_json,
    require_few_lists,
    write_by_pieces,
)
from hbconv.serve.protocol.records import LISTS, read_records, write_records, write_values
from hbconv.serve.protocol.tensors import (
    declare_tensor,
    list_values,
    pack_values,
    read_binary,
    read_values,
)
from hbconv.serve.served_model import Answers, ServedModel
from hbconv.serve.signature import ModelSignature, OutputTensor, find_datatype

__all__ = ["READERS", "Read", "Write", "read_v2", "write_v2"]

Write = Callable[[Inference, Answers], Response]
Read = Callable[[ServedModel, Request, int], tuple[Inference, Write]]

_LENGTH = b"inference-header-content-length"
_NONE_BINARY: frozenset[str] = frozenset()
_OBJECT = {dict}
_NO_PARAMETERS: Mapping[str, Any] = {}
_TENSORS: LongLists = {"inputs": {}}
_DATA: LongLists = {"data": {}}

MOST_LISTS_OF_ITEM = 16
"""Lists and objects in an item, on average."""


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
    return read_document(data, _TENSORS) if document is None else document


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
    for document in inputs.objects(_DATA) if isinstance(inputs, LongList) else inputs:
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
    document = _read_record_document(served, request, most_rows)
    inference = read_records(document, served.signature, most_rows)
    return inference, partial(_respond_in_parts, write_records)


def _read_invocations(
    served: ServedModel, request: Request, most_rows: int
) -> tuple[Inference, Write]:
    """Read records, which the bare values of one output answer."""
    document = _read_record_document(served, request, most_rows)
    signature = served.signature
    inference = read_records(document, signature, most_rows, signature.usual[:1])
    if len(inference.wanted) > 1:
        raise InputError(
            f"/invocations answers one output, and {len(inference.wanted)} are asked for. "
            f"Ask /v1/models/{served.name}:predict for several."
        )
    return inference, partial(_respond_in_parts, write_values)


def _read_record_document(served: ServedModel, request: Request, most_rows: int) -> Any:
    body = request.body()
    if served.signature.feeds == "items" and len(body) > LONG_BYTES:
        # The model takes the values as they are, so they are counted before they are made.
        require_few_lists(body, MOST_LISTS_OF_ITEM * most_rows)
    return read_document(body, LISTS)


def _respond_in_parts(
    write: Callable[[Inference, Answers], list[bytes]], inference: Inference, answers: Answers
) -> Response:
    return respond_in_parts(write(inference, answers))


def _read_infer(served: ServedModel, request: Request, most_rows: int) -> tuple[Inference, Write]:
    """Read tensors, which tensors answer."""
    inference = read_v2(request.body(), request.header(_LENGTH), served.signature, most_rows)
    return inference, partial(_respond_tensors, served)


def _respond_tensors(served: ServedModel, inference: Inference, answers: Answers) -> Response:
    parts, json_bytes = write_v2(served.name, served.version, inference, answers)
    if json_bytes is None:
        return respond_in_parts(parts)
    return respond_in_parts(parts, b"application/octet-stream", ((_LENGTH, b"%d" % json_bytes),))


READERS: Mapping[str, Read] = {
    "infer": _read_infer,
    "invocations": _read_invocations,
    "predict": _read_predict,
}
"""What reads the requests of each route that asks a model."""
