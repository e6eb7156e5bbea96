"""Tensors of gRPC messages: raw bytes, or lists of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.errors import InputError, shown
from hbconv.serve.answers import Answers
from hbconv.serve.datatypes import BYTES, datatype_of
from hbconv.serve.inference import Inference, choose_outputs
from hbconv.serve.protocol.byte_tensors import text_of
from hbconv.serve.protocol.grpc_messages import message
from hbconv.serve.protocol.grpc_wire import length_delimited
from hbconv.serve.protocol.json_tensors import numbers
from hbconv.serve.protocol.v2_request import binary_tensor, declared
from hbconv.serve.protocol.v2_response import raw
from hbconv.serve.rows import rows_of
from hbconv.serve.signature import ModelSignature

__all__ = ["read_message", "write_message"]

_CONTENTS = {
    "BOOL": "bool_contents",
    "INT8": "int_contents",
    "INT16": "int_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "UINT8": "uint_contents",
    "UINT16": "uint_contents",
    "UINT32": "uint_contents",
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    BYTES: "bytes_contents",
}
"""The list that holds the values of a datatype; those of FP16 come as raw bytes alone."""
_RAW_OUTPUTS = 6
"""Field of a ModelInferResponse."""
PIECE_VALUES = 1 << 14
"""Values that are read by one call."""


def read_message(request: Any, signature: ModelSignature, most_rows: int) -> Inference:
    """Read a ModelInferRequest.

    Raises
    ------
    InputError, OptionError
        It does not fit the model.
    """
    raws = request.raw_input_contents
    if raws and len(raws) != len(request.inputs):
        raise InputError(f"{len(raws)} raw contents do not fit {len(request.inputs)} inputs.")
    tensors: dict[str, npt.NDArray[Any]] = {}
    for place, one in enumerate(request.inputs):
        if one.name in tensors:
            raise InputError(f"Input {shown(one.name)} is there twice.")
        tensors[one.name] = _raw(one, raws[place], most_rows) if raws else _listed(one, most_rows)
    wanted = choose_outputs(signature, [one.name for one in request.outputs])
    return Inference(rows_of(signature, tensors), wanted, request.id)


def _raw(one: Any, data: bytes, most_rows: int) -> npt.NDArray[Any]:
    if one.HasField("contents"):
        raise InputError(f"Input {shown(one.name)} has both contents and raw contents.")
    dtype, shape = declared(one.name, one.datatype, list(one.shape), most_rows)
    return binary_tensor(one.name, dtype, shape, memoryview(data))


def _listed(one: Any, most_rows: int) -> npt.NDArray[Any]:
    dtype, shape = declared(one.name, one.datatype, list(one.shape), most_rows)
    field = _CONTENTS.get(one.datatype)
    if field is None:
        raise InputError(f"Input {shown(one.name)}: send {one.datatype} as raw contents.")
    values = getattr(one.contents, field)
    if len(values) != np.prod(shape, dtype=object):
        raise InputError(
            f"Input {shown(one.name)}: {field} holds {len(values)} values, which do not fit its "
            f"shape {list(shape)}."
        )
    if dtype.kind == "O":
        texts = [text_of(one.name, value, place) for place, value in enumerate(values)]
        return np.fromiter(texts, object, len(texts)).reshape(shape)
    found = np.empty(len(values), dtype)
    for start in range(0, len(values), PIECE_VALUES):
        part = slice(start, start + PIECE_VALUES)
        found[part] = numbers(f"Input {shown(one.name)}", values[part], dtype, start)
    return found.reshape(shape)


def write_message(name: str, version: str, asked: Inference, answers: Answers) -> bytes:
    """Return the bytes of a ModelInferResponse, whose tensors are raw bytes."""
    response = message("ModelInferResponse")(model_name=name, model_version=version, id=asked.id)
    contents: list[bytes | memoryview] = []
    for one, array in answers.items():
        response.outputs.add(name=one, datatype=datatype_of(array.dtype), shape=array.shape)
        contents.extend(length_delimited(_RAW_OUTPUTS, raw(array)))
    return b"".join([response.SerializeToString(), *contents])
