"""The Open Inference Protocol v2 over gRPC: the same models, limits and errors as over HTTP.

Messages are made from a table of their fields when the server starts. So no code is generated, and
any release of protobuf will do. They have a pool of their own: a client in the same process may
know the protocol too.

Two bytes are an empty tensor, which takes 90 in memory. So what a long request holds is counted
before any object is made of it, in the wire format of Protocol Buffers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import numpy as np
import numpy.typing as npt
from google.protobuf import (  # type: ignore[import-untyped]
    descriptor_pb2,
    descriptor_pool,
    json_format,
    message_factory,
)
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from hbconv.errors import InputError
from hbconv.serve.failures import RefusedError, log_failure, to_refusal
from hbconv.serve.http.exchange import require_token
from hbconv.serve.http.messages import LITTLE_BYTES, LONG_BYTES
from hbconv.serve.inference import Inference, choose_outputs, read_rows
from hbconv.serve.log import log_access
from hbconv.serve.places import TakenPlace
from hbconv.serve.protocol.handlers import Handlers
from hbconv.serve.protocol.json_documents import PIECE_VALUES
from hbconv.serve.protocol.metadata import CONFIG_TYPES
from hbconv.serve.protocol.tensors import (
    TensorForm,
    declare_tensor,
    decode_text,
    pack_values,
    read_binary,
    read_pieces,
    require_count,
)
from hbconv.serve.routes import ABSENT, ROUTES, Asked, RequestDestination
from hbconv.serve.served_model import Answers
from hbconv.serve.settings import Settings
from hbconv.serve.signature import BYTES, ModelSignature, find_datatype

__all__ = [
    "PACKAGE",
    "SERVICE",
    "is_no_parting",
    "message",
    "message_names",
    "read_message",
    "require_bounded",
    "start_grpc",
    "write_field",
    "write_message",
]

MOST_LISTED = 1 << 22
"""Values that a request lists. More come as raw contents, of which no object is made."""
LEAST_A_FIELD = 4
"""A list of fewer values counts as so many: each field takes about 1.5 us to count."""
SHORT_BYTES = 64
"""In a list of so many bytes each one counts as a value: to tell them apart takes longer."""
MOST_NAME_BYTES = 64 << 10
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_SIZES = {_FIXED64: 8, _FIXED32: 4}
_RAW, _CONTENTS = "raw", "contents"
_ENTRY: Mapping[int, Any] = {2: {}}
_REQUEST: Mapping[int, Any] = {
    4: _ENTRY,
    5: {4: _ENTRY, 5: _CONTENTS},
    6: {2: _ENTRY},
    7: _RAW,
}
"""The fields of a ModelInferRequest that are no names, and those of its messages."""
_TEXTS = 8
_BYTES_A_VALUE = {6: 4, 7: 8}
"""In the lists of an InferTensorContents; those of other numbers take as many as they need."""

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
    "ModelConfigRequest": _NAMED,
    "ModelInput": "name:string data_type:DataType dims:int64*=4",
    "ModelOutput": "name:string data_type:DataType dims:int64*",
    "ModelConfig": "name:string platform:string max_batch_size:int32=4 input:ModelInput* "
    "output:ModelOutput* backend:string=17",
    "ModelConfigResponse": "config:ModelConfig",
    "ModelStatisticsRequest": _NAMED,
    "StatisticDuration": "count:uint64 ns:uint64",
    "InferStatistics": "success:StatisticDuration fail:StatisticDuration",
    "ModelStatistics": f"{_NAMED} inference_count:uint64=4 execution_count:uint64 "
    "inference_stats:InferStatistics",
    "ModelStatisticsResponse": "model_stats:ModelStatistics*",
}
"""Fields of each message, numbered from 1, or on from ``=``: ``*`` repeats, ``%`` is a map from
text, ``?`` is one of several of which one is set."""
_ENUM = "DataType"
_Field = descriptor_pb2.FieldDescriptorProto
_LISTS = {
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


def require_bounded(data: bytes, most_fields: int) -> None:
    """Refuse a ModelInferRequest of too many fields or values, or with long names.

    Raises
    ------
    InputError
        It has, or is no message.
    """
    _Count(most_fields).add(memoryview(data), _REQUEST)


class _Count:
    """What a message holds.

    Parameters
    ----------
    most : int
        Fields, but those of lists of values.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._fields = 0
        self._listed = 0

    def add(self, data: memoryview, kinds: Mapping[int, Any]) -> None:
        """Count the fields of a message."""
        for number, part in _read_wire_fields(data):
            self._fields += 1
            if self._fields > self._most:
                raise InputError(f"The message has more than {self._most:,} fields.")
            kind = kinds.get(number)
            if part is None or kind == _RAW:
                continue
            if kind == _CONTENTS:
                self._add_values(part)
            elif kind is not None:
                self.add(part, kind)
            elif len(part) > MOST_NAME_BYTES:
                raise InputError(f"A name or shape in the message takes {len(part):,} bytes.")

    def _add_values(self, data: memoryview) -> None:
        """Count the values of contents: packed into a field, or each one a field."""
        for number, part in _read_wire_fields(data):
            self._listed += max(LEAST_A_FIELD, 0 if part is None else _count_packed(number, part))
            if self._listed > MOST_LISTED:
                raise InputError(
                    f"The message lists more than {MOST_LISTED:,} values. Send raw contents."
                )


def _count_packed(number: int, data: memoryview) -> int:
    size = len(data)
    if number == _TEXTS:
        return 1
    if number in _BYTES_A_VALUE:
        return size // _BYTES_A_VALUE[number]
    # The last byte of a number alone is below 128, so it alone is no negative int8.
    return size if size <= SHORT_BYTES else int(np.count_nonzero(np.frombuffer(data, np.int8) >= 0))


def _read_wire_fields(data: memoryview) -> Iterator[tuple[int, memoryview | None]]:
    """Return the number of each field, and its bytes where it has a length.

    Raises
    ------
    InputError
        The bytes are no message.
    """
    place, end = 0, len(data)
    while place < end:
        tag, place = _read_varint(data, place)
        kind = tag & 7
        size = _SIZES.get(kind, 0)
        if kind in (_VARINT, _LENGTH):
            size, place = _read_varint(data, place)
        start, place = place, place + (0 if kind == _VARINT else size)
        if place > end or kind not in (_VARINT, _LENGTH, *_SIZES):
            raise _no_message()
        yield tag >> 3, data[start:place] if kind == _LENGTH else None


def _read_varint(data: memoryview, place: int) -> tuple[int, int]:
    """Read a number of seven bits a byte, and return the place behind it."""
    value = 0
    # 64 bits take ten bytes of seven bits each; what goes on behind them is no number.
    for shift, byte in zip(range(0, 70, 7), data[place : place + 10], strict=False):
        value |= (byte & 127) << shift
        place += 1
        if byte < 128:
            return value, place
    raise _no_message()


def _no_message() -> InputError:
    """Return the error about bytes that are no message."""
    return InputError("The bytes are no message of the Open Inference Protocol.")


def write_field(number: int, data: bytes | memoryview) -> list[bytes | memoryview]:
    r"""Return a field of some bytes, in parts.

    Examples
    --------
    >>> write_field(6, b"ab")
    [b'2', b'\x02', b'ab']
    """
    size, length = len(data), bytearray()
    # By hand: protobuf would copy a tensor into the message and again into its bytes.
    while size > 127:
        length.append(size & 127 | 128)
        size >>= 7
    length.append(size)
    return [bytes([number << 3 | _LENGTH]), bytes(length), data]


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
    kinds = file.enum_type.add(name=_ENUM)
    for number, kind in enumerate(CONFIG_TYPES):
        kinds.value.add(name=kind, number=number)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool


def _add(described: descriptor_pb2.DescriptorProto, fields: list[str]) -> None:
    """Describe a message by its fields."""
    number = 0
    for field in fields:
        name, _, rest = field.partition(":")
        kind, _, given = rest.partition("=")
        number = int(given or number + 1)
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
    named = _Field.TYPE_ENUM if kind == _ENUM else _Field.TYPE_MESSAGE
    field.type = named if scalar is None else scalar
    if scalar is None:
        field.type_name = f".{PACKAGE}.{kind}"


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
    for position, tensor in enumerate(request.inputs):
        form = declare_tensor(tensor.name, tensor.datatype, list(tensor.shape), most_rows, tensors)
        tensors[tensor.name] = (
            _read_raw(form, tensor, raws[position]) if raws else _read_contents(form, tensor)
        )
    wanted = choose_outputs(signature, [output.name for output in request.outputs])
    return Inference(read_rows(signature, tensors), wanted, request.id)


def _read_raw(form: TensorForm, tensor: Any, data: bytes) -> npt.NDArray[Any]:
    if tensor.HasField("contents"):
        raise InputError(f"{form} has both contents and raw contents.")
    return read_binary(form, memoryview(data))


def _read_contents(form: TensorForm, tensor: Any) -> npt.NDArray[Any]:
    field = _LISTS.get(tensor.datatype)
    if field is None:
        raise InputError(f"{form}: send {tensor.datatype} as raw contents.")
    values = getattr(tensor.contents, field)
    require_count(form, len(values), form.size)
    if form.dtype.kind == "O":
        texts = [decode_text(form.name, value, i) for i, value in enumerate(values)]
        return np.fromiter(texts, object, len(texts)).reshape(form.shape)
    starts = range(0, len(values), PIECE_VALUES)
    return read_pieces(form, (values[i : i + PIECE_VALUES] for i in starts))


def write_message(name: str, version: str, inference: Inference, answers: Answers) -> bytes:
    """Return the bytes of a ModelInferResponse, whose tensors are raw bytes."""
    response = message("ModelInferResponse")(
        model_name=name, model_version=version, id=inference.id
    )
    contents: list[bytes | memoryview] = []
    for output, array in answers.items():
        response.outputs.add(name=output, datatype=find_datatype(array.dtype), shape=array.shape)
        contents.extend(write_field(_RAW_OUTPUTS, pack_values(array)))
    return b"".join([response.SerializeToString(), *contents])


_CODES = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.NOT_FOUND,
    413: grpc.StatusCode.RESOURCE_EXHAUSTED,
    503: grpc.StatusCode.UNAVAILABLE,
    504: grpc.StatusCode.DEADLINE_EXCEEDED,
}
_ROUTES = {route.rpc: route for route in ROUTES if route.rpc}
"""Routes by the methods of the service."""
MOST_MESSAGE_BYTES = 32 << 20
"""The loop copies what it receives, 64 MB in up to 0.2 s, and answers nobody meanwhile."""
MOST_DETAILS = 600
"""Characters of an error: of those beyond ASCII, each takes 12 of the 8,192 bytes allowed."""
MOST_FIELDS = 1000
FIELDS_OF_TENSOR = 16
"""Fields of a long message: some, and some for each tensor of the model that has the most."""


async def start_grpc(handlers: Handlers) -> grpc.aio.Server:
    """Start a server on the port of the settings, which workers share."""
    settings = handlers.settings
    logging.getLogger("grpc._cython.cygrpc").addFilter(is_no_parting)
    # Workers listen on one port each by a socket of its own: gRPC takes none that is bound.
    options = [
        ("grpc.so_reuseport", 1),
        ("grpc.max_receive_message_length", min(settings.body_bytes, MOST_MESSAGE_BYTES)),
        ("grpc.max_send_message_length", settings.answer_bytes + (1 << 20)),
    ]
    server = grpc.aio.server(options=options)
    service = _Service(handlers)
    methods = {name: service.method(name) for name in _ROUTES}
    methods |= {name: _absent(each.reason) for each in ABSENT for name in each.rpcs}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, methods),))
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    _add_port(server, f"{host}:{settings.grpc_port}", settings)
    await server.start()
    return server


def is_no_parting(record: logging.LogRecord) -> bool:
    """Whether gRPC logs more than that a client left before its response."""
    # By name: the class is private to the compiled part of gRPC.
    kind = record.exc_info[0] if record.exc_info else None
    return kind is None or kind.__name__ != "ExecuteBatchError"


def _add_port(server: grpc.aio.Server, address: str, settings: Settings) -> None:
    if settings.certificate is None or settings.key is None:
        server.add_insecure_port(address)
        return
    pair = (Path(settings.key).read_bytes(), Path(settings.certificate).read_bytes())
    server.add_secure_port(address, grpc.ssl_server_credentials([pair]))


class _Call:
    """A call of a method, and what it is counted and logged as."""

    def __init__(self, name: str, context: Any) -> None:
        self.name = name
        self.context = context
        self.destination = RequestDestination(_ROUTES[name])
        self.rows: int | None = None
        self.asked = Asked()
        self.id = ""

    def read(self, data: bytes) -> Any:
        """Read its message."""
        try:
            request = message(f"{self.name}Request").FromString(data)
        except DecodeError as error:
            raise _no_message() from error
        self.destination = RequestDestination(
            self.destination.route, getattr(request, "model_name", "")
        )
        return request


class _Service:
    """Answers each method."""

    def __init__(self, handlers: Handlers) -> None:
        self._handlers = handlers

    def method(self, name: str) -> grpc.RpcMethodHandler:
        """Return what gRPC calls for a method.

        A request is one message. It is asked for as a stream, which is read only when it is wanted.
        """

        async def called(messages: Any, context: Any) -> Any:  # noqa: ARG001
            call = _Call(name, context)
            began = asyncio.get_running_loop().time()
            try:
                self._require_token(call)
                async with asyncio.timeout(self._handlers.settings.seconds):
                    response = await self._answer(call)
            except Exception as error:
                refusal = to_refusal(error)
                log_failure(error)
                self._record(call, refusal.status, began, str(refusal))
                # The client is gone, or gRPC has told it what is wrong.
                if context.done():
                    return b""
                code = _CODES.get(refusal.status, grpc.StatusCode.INTERNAL)
                return await context.abort(code, str(refusal)[:MOST_DETAILS])
            self._record(call, 200, began)
            return response

        return grpc.stream_unary_rpc_method_handler(called)

    def _record(self, call: _Call, status: int, began: float, error: str = "") -> None:
        """Count and log a call that is answered."""
        seconds = asyncio.get_running_loop().time() - began
        self._handlers.count(call.destination, call.asked, status, seconds)
        code = grpc.StatusCode.OK if status == 200 else _CODES.get(status, grpc.StatusCode.INTERNAL)
        log_access(
            f"gRPC {call.name}",
            code.name,
            seconds,
            rows=call.rows,
            model=call.destination.model,
            version=call.asked.version,
            id=call.id,
            error=error,
        )

    async def _answer(self, call: _Call) -> bytes:
        """Serve a client that has the token, from a place of its own where it sends something."""
        # A message without fields holds nothing, so it is not read.
        if not message(f"{call.name}Request").DESCRIPTOR.fields:
            return await self._tell(call, None)
        with self._handlers.places.one() as place:
            if call.destination.route.asks_model:
                return await self._infer(call, place)
            data = await self._read(call, place)
            if len(data) > LITTLE_BYTES:
                raise RefusedError(413, "TooLarge", f"The message exceeds {LITTLE_BYTES:,} bytes.")
        return await self._tell(call, call.read(data))

    async def _read(self, call: _Call, place: TakenPlace) -> bytes:
        """Wait for the message."""
        try:
            data: bytes = await call.context.read()
        except grpc.aio.BaseError:
            data = grpc.aio.EOF
        if data is grpc.aio.EOF:
            raise RefusedError(413, "TooLarge", "The message is not there, or is too large.")
        place.hold(len(data))
        return data

    async def _tell(self, call: _Call, request: Any) -> bytes:
        """Answer what asks no model."""
        route = call.destination.route
        model = call.destination.model or getattr(request, "name", "")
        destination = RequestDestination(route, model, getattr(request, "version", "") or None)
        fields = {name: getattr(request, name) for name in route.fields}
        return _write_document(call.name, await self._handlers.document(destination, fields))

    async def _infer(self, call: _Call, place: TakenPlace) -> bytes:
        """Answer a question to a model."""
        handlers = self._handlers
        data = await self._read(call, place)
        is_long = len(data) > LONG_BYTES
        request = (
            await handlers.aside(self._read_bounded, call, data) if is_long else call.read(data)
        )
        batcher = handlers.catalog.find(request.model_name, request.model_version or None)
        served, rows = batcher.served, handlers.settings.rows
        call.asked = served.asked
        if is_long:
            inference = await handlers.aside(read_message, request, served.signature, rows)
        else:
            inference = read_message(request, served.signature, rows)
        call.rows, call.id = inference.rows.count, inference.id
        # While the request waits, its rows alone take memory.
        del request, data
        if not is_long and inference.answer_bytes <= LONG_BYTES:
            answers = await batcher.answer(inference)
            return write_message(served.name, served.version, inference, answers)
        answers = await handlers.answer(batcher, inference, place)
        return await handlers.aside(write_message, served.name, served.version, inference, answers)

    def _read_bounded(self, call: _Call, data: bytes) -> Any:
        """Read a long message, once what it holds is counted."""
        require_bounded(data, MOST_FIELDS + FIELDS_OF_TENSOR * self._handlers.most_tensors)
        return call.read(data)

    def _require_token(self, call: _Call) -> None:
        metadata = dict(call.context.invocation_metadata() or ())
        authorization = str(metadata.get("authorization", "")).encode()
        token = self._handlers.settings.token
        require_token(call.destination.route, authorization, token, "metadata authorization")


def _absent(reason: str) -> grpc.RpcMethodHandler:
    """Return what refuses a method of an extension that the server has not; it reads nothing."""

    async def called(messages: Any, context: Any) -> None:  # noqa: ARG001
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, f"NotSupported: {reason}")

    return grpc.stream_stream_rpc_method_handler(called)


def _write_document(name: str, document: Any) -> bytes:
    """Return the bytes of the message that answers a method, of what it holds of a document."""
    response = message(f"{name}Response")
    values = {"models": document} if isinstance(document, list) else document
    # The document of a configuration is what its message holds in one field.
    values = {"config": document} if name == "ModelConfig" else values
    # Messages have no place for some of it, such as the labels of outputs.
    filled = json_format.ParseDict(values, response(), ignore_unknown_fields=True)
    data: bytes = filled.SerializeToString()
    return data
