"""Messages of the Open Inference Protocol v2 over gRPC, made from a table of their fields.

They are made when the server starts, so no code is generated, and any release of protobuf will do.
They have a pool of their own: a client in the same process may know the protocol too.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from google.protobuf import (  # type: ignore[import-untyped]
    descriptor_pb2,
    descriptor_pool,
    message_factory,
)

__all__ = ["PACKAGE", "SERVICE", "message", "message_names"]

PACKAGE = "inference"
SERVICE = f"{PACKAGE}.GRPCInferenceService"

_NUMBERED = "name:string datatype:string shape:int64*"
_TENSOR = f"{_NUMBERED} parameters:InferParameter% contents:InferTensorContents"
_NAMED = "name:string version:string"
_FIELDS = {
    "ServerLiveRequest": "",
    "ServerLiveResponse": "live:bool",
    "ServerReadyRequest": "",
    "ServerReadyResponse": "ready:bool",
    "ModelReadyRequest": _NAMED,
    "ModelReadyResponse": "ready:bool",
    "ServerMetadataRequest": "",
    "ServerMetadataResponse": f"{_NAMED} extensions:string*",
    "ModelMetadataRequest": _NAMED,
    "TensorMetadata": _NUMBERED,
    "ModelMetadataResponse": "name:string versions:string* platform:string "
    "inputs:TensorMetadata* outputs:TensorMetadata*",
    "InferParameter": "bool_param:bool? int64_param:int64? string_param:string? "
    "double_param:double? uint64_param:uint64?",
    "InferTensorContents": "bool_contents:bool* int_contents:int32* int64_contents:int64* "
    "uint_contents:uint32* uint64_contents:uint64* fp32_contents:float* fp64_contents:double* "
    "bytes_contents:bytes*",
    "InferInputTensor": _TENSOR,
    "InferRequestedOutputTensor": "name:string parameters:InferParameter%",
    "ModelInferRequest": "model_name:string model_version:string id:string "
    "parameters:InferParameter% inputs:InferInputTensor* outputs:InferRequestedOutputTensor* "
    "raw_input_contents:bytes*",
    "InferOutputTensor": _TENSOR,
    "ModelInferResponse": "model_name:string model_version:string id:string "
    "parameters:InferParameter% outputs:InferOutputTensor* raw_output_contents:bytes*",
    "RepositoryIndexRequest": "repository_name:string ready:bool",
    "ModelIndex": "name:string version:string state:string reason:string",
    "RepositoryIndexResponse": "models:ModelIndex*",
    "RepositoryModelLoadRequest": "repository_name:string model_name:string "
    "parameters:InferParameter%",
    "RepositoryModelLoadResponse": "",
    "RepositoryModelUnloadRequest": "repository_name:string model_name:string "
    "parameters:InferParameter%",
    "RepositoryModelUnloadResponse": "",
}
"""Fields of each message, numbered from 1: ``*`` repeats, ``%`` is a map from text, ``?`` is one of
several of which one is set."""

_Field = descriptor_pb2.FieldDescriptorProto


def message_names() -> tuple[str, ...]:
    """Return the names of all messages."""
    return tuple(_FIELDS)


@cache
def message(name: str) -> Any:
    """Return the class of a message."""
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"{PACKAGE}.{name}"))


@cache
def _pool() -> descriptor_pool.DescriptorPool:
    file = descriptor_pb2.FileDescriptorProto(
        name="hbconv_inference.proto", package=PACKAGE, syntax="proto3"
    )
    for name, fields in _FIELDS.items():
        _add(file.message_type.add(name=name), fields.split())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool


def _add(described: descriptor_pb2.DescriptorProto, fields: list[str]) -> None:
    """Describe a message by its fields."""
    for number, field in enumerate(fields, start=1):
        name, _, kind = field.partition(":")
        added = described.field.add(name=name, number=number, label=_Field.LABEL_OPTIONAL)
        if kind.endswith(("*", "%")):
            added.label = _Field.LABEL_REPEATED
        if kind.endswith("?"):
            added.oneof_index = 0
        if kind.endswith("%"):
            entry = f"{name.title()}Entry"
            _set_kind(added, f"{described.name}.{entry}")
            _add_entry(described, entry, kind[:-1])
        else:
            _set_kind(added, kind.rstrip("*?"))
    if any(field.endswith("?") for field in fields):
        described.oneof_decl.add(name="parameter_choice")


def _add_entry(described: descriptor_pb2.DescriptorProto, name: str, kind: str) -> None:
    """Describe an entry of a map."""
    entry = described.nested_type.add(name=name)
    entry.options.map_entry = True
    _add(entry, ["key:string", f"value:{kind}"])


def _set_kind(field: descriptor_pb2.FieldDescriptorProto, kind: str) -> None:
    scalar = getattr(_Field, f"TYPE_{kind.upper()}", None)
    field.type = _Field.TYPE_MESSAGE if scalar is None else scalar
    if scalar is None:
        field.type_name = f".{PACKAGE}.{kind}"
