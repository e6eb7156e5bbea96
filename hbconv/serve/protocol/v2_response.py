"""Answers of the Open Inference Protocol v2 over HTTP: JSON, then the data of binary tensors."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.serve.answers import Answers
from hbconv.serve.datatypes import BYTES, DTYPES, datatype_of
from hbconv.serve.inference import Inference
from hbconv.serve.protocol.byte_tensors import pack_texts
from hbconv.serve.protocol.json_answers import HOLE, PIECE_VALUES, filled, written_by_pieces
from hbconv.serve.protocol.json_tensors import plain_list

__all__ = ["raw", "write_v2"]


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
            "datatype": datatype_of(array.dtype),
            "shape": array.shape,
        }
        if one in asked.binary:
            blobs.append(raw(array))
            told["parameters"] = {"binary_data_size": len(blobs[-1])}
        elif array.size > PIECE_VALUES:
            told["data"] = HOLE
            lists.append(written_by_pieces(array.size, 1, partial(_part, array.ravel())))
        else:
            told["data"] = _values(array)
        outputs.append(told)
    document: dict[str, Any] = {"model_name": name, "model_version": version}
    if asked.id:
        document["id"] = asked.id
    document["outputs"] = outputs
    header = filled(document, lists)
    return [*header, *blobs], sum(map(len, header)) if blobs else None


def raw(array: npt.NDArray[Any]) -> bytes | memoryview:
    """Return the bytes of a tensor, as its datatype lies in binary data."""
    datatype = datatype_of(array.dtype)
    if datatype == BYTES:
        return pack_texts(array)
    return np.ascontiguousarray(array, DTYPES[datatype]).reshape(-1).view(np.uint8).data


def _part(values: npt.NDArray[Any], part: slice) -> list[Any]:
    return _values(values[part])


def _values(array: npt.NDArray[Any]) -> list[Any]:
    flat = plain_list(array.ravel())
    return list(map(str, flat)) if array.dtype.kind not in "biuf" else flat
