"""Answers of the Open Inference Protocol v2 over HTTP: JSON, then the data of binary tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from hbconv.serve.answers import Answers
from hbconv.serve.byte_tensors import pack_texts
from hbconv.serve.datatypes import BYTES, DTYPES, datatype_of
from hbconv.serve.inference import Inference
from hbconv.serve.json_tensors import plain_list

__all__ = ["raw", "write_v2"]


def write_v2(
    name: str, version: str, asked: Inference, answers: Answers
) -> tuple[bytes, int | None]:
    """Return the body of an answer, and where its JSON ends if binary data follow."""
    blobs: list[bytes] = []
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
        else:
            told["data"] = _values(array)
        outputs.append(told)
    document: dict[str, Any] = {"model_name": name, "model_version": version}
    if asked.id:
        document["id"] = asked.id
    document["outputs"] = outputs
    header = orjson.dumps(document)
    if not blobs:
        return header, None
    return b"".join((header, *blobs)), len(header)


def raw(array: npt.NDArray[Any]) -> bytes:
    """Return the bytes of a tensor, as its datatype lies in binary data."""
    datatype = datatype_of(array.dtype)
    if datatype == BYTES:
        return pack_texts(array)
    return np.ascontiguousarray(array, DTYPES[datatype]).tobytes()


def _values(array: npt.NDArray[Any]) -> list[Any]:
    flat = plain_list(array.ravel())
    return list(map(str, flat)) if array.dtype.kind not in "biuf" else flat
