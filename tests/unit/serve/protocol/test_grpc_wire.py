"""What a message of gRPC holds is counted before it is read."""

from __future__ import annotations

import pytest

from hbconv.errors import InputError
from hbconv.serve.protocol import grpc_service
from hbconv.serve.protocol.grpc_service import require_bounded, write_field

messages = pytest.importorskip(
    "hbconv.serve.protocol.grpc_service", reason="the extra grpc is not installed"
)

CONTENTS = {
    "int_contents": [1, -1, 300],
    "uint64_contents": [1 << 63, 0, 1],
    "fp32_contents": [1, 2, 3],
    "fp64_contents": [1, 2, 3],
    "bool_contents": [True, False, True],
    "bytes_contents": [b"", b"abc", b"x" * 200],
}


def request(**fields):
    return messages.message("ModelInferRequest")(model_name="m", **fields).SerializeToString()


def tensor(**fields):
    return {"name": "X", "datatype": "FP64", "shape": [1, 3], "parameters": {"a": {"bool_param": True}}, **fields}  # fmt: skip


@pytest.mark.parametrize("kind", CONTENTS)
def test_messages_of_the_protocol_are_bounded(kind, monkeypatch):
    data = request(inputs=[tensor(contents={kind: CONTENTS[kind]})], outputs=[{"name": "predict"}])
    require_bounded(data, 20)
    with pytest.raises(InputError, match="more than 8 fields"):
        require_bounded(data, 8)
    monkeypatch.setattr(grpc_service, "MOST_LISTED", 2)
    monkeypatch.setattr(grpc_service, "LEAST_A_FIELD", 1)
    with pytest.raises(InputError, match="lists more than 2 values"):
        require_bounded(data, 20)


@pytest.mark.parametrize(
    "part", [b"\x2a\0", b"\x32\0", b"\x22\0", b"\x3a\0", b"\x32\4\x12\2\x12\0"]
)
def test_empty_parts_are_counted(part):
    require_bounded(part * 10, 40)
    with pytest.raises(InputError, match="more than 40 fields"):
        require_bounded(part * 41, 40)


def test_values_that_are_not_packed_are_counted(monkeypatch):
    data = listed(b"\x18\1" * 9)
    require_bounded(data, 9)
    monkeypatch.setattr(grpc_service, "MOST_LISTED", 4 * 8)
    with pytest.raises(InputError, match="lists more than 32 values"):
        require_bounded(data, 9)


@pytest.mark.parametrize("kind", ["int_contents", "int64_contents"])
def test_negative_numbers_count_as_one_each(kind, monkeypatch):
    """Each takes ten bytes."""
    data = request(inputs=[tensor(contents={kind: [-1] * 100})] * 3)
    monkeypatch.setattr(grpc_service, "MOST_LISTED", 300)
    require_bounded(data, 100)
    monkeypatch.setattr(grpc_service, "MOST_LISTED", 299)
    with pytest.raises(InputError, match="lists more than 299 values"):
        require_bounded(data, 100)


def listed(part):
    """A message whose one tensor has such contents."""
    return b"".join(write_field(5, b"".join(write_field(5, part))))


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5, 6, 7, 8])
def test_empty_lists_are_counted(number, monkeypatch):
    monkeypatch.setattr(grpc_service, "MOST_LISTED", 40)
    empty = bytes([number << 3 | 2, 0])
    require_bounded(listed(empty * 10), 9)
    with pytest.raises(InputError, match="lists more than 40 values"):
        require_bounded(listed(empty * 11), 9)


def test_raw_contents_may_be_long_and_names_not(monkeypatch):
    monkeypatch.setattr(grpc_service, "MOST_NAME_BYTES", 10)
    require_bounded(request(raw_input_contents=[bytes(1000)]), 9)
    with pytest.raises(InputError, match="takes 11 bytes"):
        require_bounded(request(inputs=[{"name": "n" * 11}]), 9)
    with pytest.raises(InputError, match="takes 11 bytes"):
        require_bounded(request(outputs=[{"name": "n" * 11}]), 9)


@pytest.mark.parametrize(
    "data", [b"\xff" * 20, b"\x2a\5", b"\x2a", b"\x29abc", b"\x2b", b"\x2e", b"\x28"]
)
def test_bytes_that_are_no_message(data):
    with pytest.raises(InputError, match="no message"):
        require_bounded(data, 9)


@pytest.mark.parametrize("size", [0, 1, 127, 128, 16384, 3_000_000])
def test_fields_are_written_as_protobuf_does(size):
    whole = messages.message("ModelInferResponse")(raw_output_contents=[bytes(size)])
    assert b"".join(write_field(6, bytes(size))) == whole.SerializeToString()
