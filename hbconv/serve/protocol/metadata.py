"""Metadata: what the server tells of a model, as the Open Inference Protocol and Triton do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hbconv.serve.served_model import ServedModel
from hbconv.serve.signature import BYTES, InputTensor, OutputTensor

__all__ = ["CONFIG_TYPES", "describe_config", "describe_model"]

PLATFORM = "hbconv"
CONFIG_TYPES = (
    "TYPE_INVALID", "TYPE_BOOL", "TYPE_UINT8", "TYPE_UINT16", "TYPE_UINT32", "TYPE_UINT64",
    "TYPE_INT8", "TYPE_INT16", "TYPE_INT32", "TYPE_INT64", "TYPE_FP16", "TYPE_FP32", "TYPE_FP64",
    "TYPE_STRING", "TYPE_BF16",
)  # fmt: skip
"""Datatypes of a configuration of Triton, in the order of their numbers."""


def describe_model(served: ServedModel, versions: Sequence[str]) -> dict[str, Any]:
    """Return versions, inputs and outputs of a model; -1 stands for the number of rows."""
    return {
        "name": served.name,
        "versions": versions,
        "platform": PLATFORM,
        "inputs": list(map(_describe_tensor, served.signature.inputs)),
        "outputs": list(map(_describe_output, served.signature.outputs)),
    }


def _describe_tensor(tensor: InputTensor | OutputTensor) -> dict[str, Any]:
    return {"name": tensor.name, "datatype": tensor.datatype, "shape": list(tensor.shape)}


def _describe_output(tensor: OutputTensor) -> dict[str, Any]:
    described = _describe_tensor(tensor)
    # As the metadata of MLServer; the protocol itself has no place for names.
    return described | {"parameters": {"labels": tensor.labels}} if tensor.labels else described


def describe_config(served: ServedModel) -> dict[str, Any]:
    """Return what Triton calls the configuration of a model.

    Dims are the whole shape, so ``max_batch_size`` is 0: a request has as many rows as it likes.
    """
    return {
        "name": served.name,
        "platform": PLATFORM,
        "backend": PLATFORM,
        "max_batch_size": 0,
        "input": list(map(_configure_tensor, served.signature.inputs)),
        "output": list(map(_configure_tensor, served.signature.outputs)),
    }


def _configure_tensor(tensor: InputTensor | OutputTensor) -> dict[str, Any]:
    kind = "STRING" if tensor.datatype == BYTES else tensor.datatype
    return {"name": tensor.name, "data_type": f"TYPE_{kind}", "dims": list(tensor.shape)}
