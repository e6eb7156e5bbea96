"""The Open Inference Protocol v2 over HTTP, with the extension of binary tensors.

A body is JSON. With the header ``Inference-Header-Content-Length`` the JSON ends there, and the
data of the binary tensors follow, one after another. Each element of BYTES is its length, of four
bytes, and its bytes.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.errors import InputError, shown
from hbconv.serve.http.messages import LONG_BYTES
from hbconv.serve.inference import Inference, choose_outputs, read_rows
from hbconv.serve.protocol.json_documents import (
    LongList,
    has_floats,
    read_float_json,
    read_json,
    read_long_json,
)
from hbconv.serve.protocol.json_values import (
    HOLE,
    PIECE_VALUES,
    fill_holes,
    list_values,
    read_tensor,
    write_by_pieces,
)
from hbconv.serve.served_model import Answers
from hbconv.serve.signature import BYTES, DTYPES, Given, ModelSignature, find_datatype, find_dtype

__all__ = [
    "decode_text",
    "pack_texts",
    "pack_values",
    "read_binary",
    "read_form",
    "read_v2",
    "unpack_texts",
    "write_v2",
]

_LENGTH = struct.Struct("<I")
MOST_TEXT_BYTES = 1 << 20
"""To find the words of a longer text takes too long at once: no other thread works meanwhile."""

MOST_DIMENSIONS = 8
MOST_ELEMENTS = 1 << 40
_NONE_BINARY: frozenset[str] = frozenset()
_OBJECT = {dict}
_NO_PARAMETERS: Mapping[str, Any] = {}


def unpack_texts(name: str, data: memoryview, count: int) -> npt.NDArray[np.object_]:
    """Read the texts of a tensor.

    Raises
    ------
    InputError
        The data holds more or fewer elements, or one is cut off or is not UTF-8.
    """
    texts: list[str] = []
    place = 0
    while place < len(data):
        start = place + _LENGTH.size
        if start > len(data):
            raise InputError(f"Input {shown(name)}: the length of element {len(texts)} is cut off.")
        place = start + _LENGTH.unpack_from(data, start - _LENGTH.size)[0]
        if place > len(data) or len(texts) == count:
            raise InputError(
                f"Input {shown(name)}: the data does not hold the {count} elements of its shape; "
                f"element {len(texts)} ends beyond them."
            )
        texts.append(decode_text(name, bytes(data[start:place]), len(texts)))
    if len(texts) < count:
        raise InputError(
            f"Input {shown(name)}: the data holds {len(texts)} elements, and its shape {count}."
        )
    return np.fromiter(texts, object, count)


def decode_text(name: str, data: bytes, element: int) -> str:
    """Decode one element, which must be UTF-8 and not too long."""
    if len(data) > MOST_TEXT_BYTES:
        raise InputError(
            f"Input {shown(name)}: element {element} has {len(data):,} bytes, and the server takes "
            f"texts of {MOST_TEXT_BYTES:,}."
        )
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InputError(
            f"Input {shown(name)}: element {element} is not UTF-8: {error}."
        ) from error


def pack_texts(values: npt.NDArray[Any]) -> bytes:
    """Write the elements of an array, row after row."""
    flat = values.ravel()
    encoded = (str(value).encode() for value in flat)
    return b"".join([part for one in encoded for part in (_LENGTH.pack(len(one)), one)])


def read_v2(
    body: bytes | bytearray, header_length: str | None, signature: ModelSignature, most_rows: int
) -> Inference:
    """Read a request.

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
    length = len(body) if header_length is None else _length(header_length, len(body))
    document = _document(body if length == len(body) else body[:length])
    if type(document) is not dict or type(document.get("inputs")) not in (list, LongList):
        raise InputError('The request is no JSON object with a list of "inputs".')
    tensors = _tensors(document["inputs"], memoryview(body)[length:], most_rows)
    wanted, binary = _wanted(document, signature)
    identity = document.get("id", "")
    if type(identity) is not str:
        raise InputError('The "id" of the request is no text.')
    return Inference(read_rows(signature, tensors), wanted, identity, binary)


def _document(data: bytes | bytearray) -> Any:
    found = read_float_json(data) if has_floats(data) else None
    if found is not None:
        return found
    return read_long_json(memoryview(data), "inputs") if len(data) > LONG_BYTES else read_json(data)


def _wanted(
    document: Mapping[str, Any], signature: ModelSignature
) -> tuple[tuple[Given, ...], frozenset[str]]:
    """Return the tensors that are asked for, and the names of those in binary form."""
    outputs = document.get("outputs") or []
    _require_objects(outputs, "outputs")
    default = _parameters(document).get("binary_data_output", False) is True
    chosen = {_name(o): _parameters(o).get("binary_data", default) is True for o in outputs}
    if len(chosen) < len(outputs):
        raise InputError("An output is named twice.")
    wanted = choose_outputs(signature, chosen)
    if not default and True not in chosen.values():
        return wanted, _NONE_BINARY
    return wanted, frozenset(one.name for one in wanted if chosen.get(one.name, default))


def _length(header_length: str, size: int) -> int:
    """Return where the JSON of the body ends."""
    if not (header_length.isascii() and header_length.isdigit() and len(header_length) < 16):
        raise InputError("Inference-Header-Content-Length is no whole number.")
    if int(header_length) > size:
        raise InputError(
            f"Inference-Header-Content-Length is {header_length}, and the body has {size} bytes."
        )
    return int(header_length)


def _tensors(inputs: Any, binary: memoryview, most_rows: int) -> Mapping[str, npt.NDArray[Any]]:
    tensors: dict[str, npt.NDArray[Any]] = {}
    for one in inputs.objects("data") if isinstance(inputs, LongList) else inputs:
        if type(one) is not dict:
            raise InputError('"inputs" is no list of objects.')
        name = _name(one)
        if name in tensors:
            raise InputError(f"Input {shown(name)} is there twice.")
        parameters = _parameters(one)
        size = parameters.get("binary_data_size")
        if size is None:
            tensors[name] = _read_json_tensor(name, one, parameters, most_rows)
            continue
        if type(size) is not int or not 0 <= size <= len(binary):
            raise InputError(
                f"Input {shown(name)}: binary_data_size is {shown(size)}, and {len(binary)} bytes "
                "of data are left."
            )
        tensors[name] = _read_binary_tensor(name, one, binary[:size], most_rows)
        binary = binary[size:]
    if len(binary):
        raise InputError(f"{len(binary)} bytes of binary data belong to no input.")
    return tensors


def _read_json_tensor(
    name: str, one: Mapping[str, Any], parameters: Mapping[str, Any], most_rows: int
) -> npt.NDArray[Any]:
    if "shared_memory_region" in parameters:
        raise InputError(f"Input {shown(name)}: shared memory is not supported. Send the data.")
    dtype, shape = read_form(name, one.get("datatype"), one.get("shape"), most_rows)
    return read_tensor(name, dtype, shape, one.get("data"))


def _read_binary_tensor(
    name: str, one: Mapping[str, Any], data: memoryview, most_rows: int
) -> npt.NDArray[Any]:
    dtype, shape = read_form(name, one.get("datatype"), one.get("shape"), most_rows)
    if "data" in one:
        raise InputError(f"Input {shown(name)} has both JSON and binary data.")
    return read_binary(name, dtype, shape, data)


def read_binary(
    name: str, dtype: np.dtype[Any], shape: tuple[int, ...], data: memoryview
) -> npt.NDArray[Any]:
    """Read a tensor of binary data, in place where it can be.

    Raises
    ------
    InputError
        The data is not of the size of the shape.
    """
    count = math.prod(shape)
    if dtype.kind == "O":
        return unpack_texts(name, data, count).reshape(shape)
    if len(data) != count * dtype.itemsize:
        raise InputError(
            f"Input {shown(name)} has {len(data)} bytes of data; its shape {list(shape)} of "
            f"{dtype.name} takes {count * dtype.itemsize}."
        )
    if dtype.kind == "b":
        return _read_bools(name, data).reshape(shape)
    return np.frombuffer(data, dtype).reshape(shape)


def _read_bools(name: str, data: memoryview) -> npt.NDArray[np.bool_]:
    values = np.frombuffer(data, np.uint8)
    if values.size and values.max() > 1:
        raise InputError(f"Input {shown(name)} holds a byte that is no bool.")
    return values.view(np.bool_)


def read_form(
    name: str, datatype: Any, shape: Any, most_rows: int
) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Return the dtype and the shape of a tensor as they were told, before its data is read.

    Raises
    ------
    InputError
        They cannot be, or it has too many rows, or texts.
    """
    dtype = find_dtype(name, datatype)
    if not _is_shape(shape):
        raise InputError(
            f"Input {shown(name)} has shape {shown(shape)}, which is no shape of a tensor."
        )
    count = math.prod(shape) if dtype.kind == "O" else shape[0]
    if count > most_rows:
        raise InputError(f"The request has {count} rows, and the server takes {most_rows} at once.")
    return dtype, tuple(shape)


def _is_shape(shape: Any) -> bool:
    if type(shape) is not list or not 1 <= len(shape) <= MOST_DIMENSIONS:
        return False
    for size in shape:
        if type(size) is not int or not 0 <= size <= MOST_ELEMENTS:
            return False
    return math.prod(shape) <= MOST_ELEMENTS


def _require_objects(values: Any, what: str) -> None:
    if type(values) is not list or set(map(type, values)) - _OBJECT:
        raise InputError(f'"{what}" is no list of objects.')


def _name(one: Mapping[str, Any]) -> str:
    name = one.get("name")
    if type(name) is not str:
        raise InputError("An input or output has no name.")
    return name


def _parameters(one: Mapping[str, Any]) -> Mapping[str, Any]:
    found = one.get("parameters")
    if not found:
        return _NO_PARAMETERS
    if type(found) is not dict:
        raise InputError('"parameters" is no JSON object.')
    if "classification" in found:
        raise InputError("The extension of classification is not supported. Ask for the output.")
    return found


def write_v2(
    name: str, version: str, asked: Inference, answers: Answers
) -> tuple[list[bytes | memoryview], int | None]:
    """Return the body of an answer in parts, and where its JSON ends if binary data follow."""
    blobs: list[bytes | memoryview] = []
    lists: list[Iterator[bytes]] = []
    outputs = []
    for one, array in answers.items():
        told: dict[str, Any] = {
            "name": one,
            "datatype": find_datatype(array.dtype),
            "shape": array.shape,
        }
        if one in asked.binary:
            blobs.append(pack_values(array))
            told["parameters"] = {"binary_data_size": len(blobs[-1])}
        elif array.size > PIECE_VALUES:
            told["data"] = HOLE
            lists.append(write_by_pieces(array.size, 1, partial(_part, array.ravel())))
        else:
            told["data"] = _values(array)
        outputs.append(told)
    document: dict[str, Any] = {"model_name": name, "model_version": version}
    if asked.id:
        document["id"] = asked.id
    document["outputs"] = outputs
    header = fill_holes(document, lists)
    return [*header, *blobs], sum(map(len, header)) if blobs else None


def pack_values(array: npt.NDArray[Any]) -> bytes | memoryview:
    """Return the bytes of a tensor, as its datatype lies in binary data."""
    datatype = find_datatype(array.dtype)
    if datatype == BYTES:
        return pack_texts(array)
    return np.ascontiguousarray(array, DTYPES[datatype]).reshape(-1).view(np.uint8).data


def _part(values: npt.NDArray[Any], part: slice) -> list[Any]:
    return _values(values[part])


def _values(array: npt.NDArray[Any]) -> list[Any]:
    flat = list_values(array.ravel())
    return list(map(str, flat)) if array.dtype.kind not in "biuf" else flat
