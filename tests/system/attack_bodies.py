"""Hostile requests by grammar: a number makes one, and makes it again."""

from __future__ import annotations

import gzip
import json
import math
import random
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

MODELS = ("m", "mixed", "texts", "items")
INPUTS = {"m": ("X",), "mixed": ("age", "city"), "texts": ("x0",), "items": ("x0",)}
_WORDS = (
    "",
    "a",
    "predict",
    "X",
    "age",
    "city",
    "NaN",
    "Infinity",
    "\u0000",
    "é\U0001f600",
    '"',
    "\\",
)


@dataclass(frozen=True)
class Attack:
    """A request.

    Parameters
    ----------
    kind : str
        What it is, for a line of a report.
    path : str
        Of HTTP; or the method of gRPC.
    body : bytes
    headers : dict
    door : {"http", "grpc"}
    delivery : {"whole", "slow", "chunked", "cut off", "gone"}
        In pieces with pauses, in chunks, with an end that never comes, or by a client that leaves.
    """

    kind: str
    path: str
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)
    door: str = "http"
    delivery: str = "whole"


class Draw(random.Random):
    """Random choices of a case, and the size of its largest body."""

    def __init__(self, number: int, most_bytes: int) -> None:
        super().__init__(number)
        self.most_bytes = most_bytes


def attack(number: int, body_bytes: int) -> Attack:
    """Make the request of a number, for a server that takes bodies of some size: or a bit more."""
    rng = Draw(number, body_bytes * 5 // 4)
    form = rng.choice((_v1, _v1, _v2, _v2, _binary, _grpc, _grpc, _garbage, _head))
    found = form(rng)
    if rng.random() < 0.2:
        found = _changed(found, body=_damaged(rng, found.body), kind=f"{found.kind}, damaged")
    if found.door == "http" and rng.random() < 0.5:
        found = _packed(rng, found)
    deliveries = ("slow", "chunked", "cut off", "gone")
    how = rng.choice(deliveries) if rng.random() < 0.2 else "whole"
    return _changed(found, delivery=how if found.door == "http" else "whole")


def _changed(found: Attack, **changes: object) -> Attack:
    return Attack(**(found.__dict__ | changes))


def _size(rng: Draw) -> int:
    """Draw a size of any order of magnitude, larger ones more often."""
    return int(math.exp(max(rng.uniform(math.log(8), math.log(rng.most_bytes)) for _ in range(2))))


def _value(rng: Draw, depth: int = 3) -> str:
    """Write any value of JSON, or nearly one."""
    kind = rng.randrange(9 if depth else 6)
    if kind < 6:
        numbers = (
            "0",
            "1",
            "-1.5",
            "1e308",
            "1e999",
            "12345678901234567890",
            "true",
            "null",
            "NaN",
            "-",
        )
        words = [
            json.dumps(rng.choice(_WORDS)),
            json.dumps(rng.choice(_WORDS) * rng.randrange(200)),
        ]
        return rng.choice((*numbers, *words, "[]", "{}"))
    inside = [_value(rng, depth - 1) for _ in range(rng.randrange(4))]
    if kind == 6:
        return f"[{','.join(inside)}]"
    if kind == 7:
        return f"{{{','.join(f'{json.dumps(rng.choice(_WORDS))}:{one}' for one in inside)}}}"
    return "[" * 8 + "1" + "]" * 8


def _repeated(rng: Draw, unit: str) -> str:
    """Write a value again and again, with commas."""
    return ",".join([unit] * max(_size(rng) // (len(unit) + 1), 1))


def _row(rng: Draw, model: str) -> str:
    """Write a record that the model takes, more or less."""
    rows = {
        "m": json.dumps([rng.choice((0, 0.5, 1234567)) for _ in range(rng.choice((28, 28, 27)))]),
        "mixed": json.dumps({"age": 30, "city": rng.choice(("Rome", "x" * 500))}),
        "texts": json.dumps(rng.choice(("red green", "aa " * rng.randrange(5000)))),
        "items": json.dumps({"w": 1, "v": rng.choice((["x"] * 9, "x", 2))}),
    }
    return rows[model]


def _v1(rng: Draw) -> Attack:
    model = rng.choice(MODELS)
    unit = _row(rng, model) if rng.random() < 0.7 else _value(rng)
    rows = f"[{_repeated(rng, unit)}]"
    long = json.dumps("n" * _size(rng))
    forms = {
        "records": rows,
        "instances": f'{{"instances": {rows}, "outputs": ["predict"]}}',
        "outputs": f'{{"instances": [], "outputs": [{_repeated(rng, long[:60])}]}}',
        "long output": f'{{"instances": [{_row(rng, model)}], "outputs": [{long}]}}',
        "long name": f"[{{{long}: 1}}]",
        "words": json.dumps(["aa " * (_size(rng) // 3)]),
        "keys": f"[{{{','.join(f'{json.dumps(str(i))}:1' for i in range(_size(rng) // 40))}}}]",
    }
    kind = rng.choice(("records", "records", "instances", *forms))
    return Attack(f"v1 {kind} of {model}", f"/v1/models/{model}:predict", forms[kind].encode())


def _shape(rng: Draw, count: int) -> list[int]:
    return rng.choice(
        ([count, 28], [count], [1, count], [count, 1], [1 << 39, 2], [-1], [1] * 9, [])
    )


def _tensor(rng: Draw, model: str) -> dict[str, object]:
    datatype = rng.choice(("FP64", "FP64", "FP32", "INT64", "UINT8", "BOOL", "BYTES", "FP16", "X"))
    return {"name": rng.choice((*INPUTS[model], "n" * rng.choice((1, 9999)))), "datatype": datatype}


def _v2(rng: Draw) -> Attack:
    model = rng.choice(MODELS)
    unit = rng.choice(("0", "1", "0.5", "1234.567", '"x"', "null", "true", _value(rng)))
    data = _repeated(rng, unit)
    rows = rng.choice(
        (data, ",".join(["[" + ",".join([unit] * 28) + "]"] * (_size(rng) // 200 + 1)))
    )
    head = json.dumps(_tensor(rng, model) | {"shape": _shape(rng, rows.count(",") + 1)})[:-1]
    good = f'{{"name": "X", "datatype": "FP64", "shape": [1, 28], "data": {[1] * 28}}}'
    count = min(_size(rng) // 100, 100_000)
    values = ",".join([rng.choice(("0", "1", "0.5", "1234.567"))] * (28 * count))
    forms = {
        "good": f'{{"inputs": [{{"name": "X", "datatype": "FP64", "shape": [{count}, 28], "data": [{values}]}}]}}',
        "data": f'{{"inputs": [{head}, "data": [{rows}]}}]}}',
        "inputs": f'{{"inputs": [{_repeated(rng, rng.choice(("{}", head + "}", _value(rng))))}]}}',
        "outputs": f'{{"inputs": [{good}], "outputs": [{_repeated(rng, _value(rng))}]}}',
        "parameters": f'{{"inputs": [{good}], "parameters": {{"a": [{data}]}}}}',
        "id": f'{{"id": {json.dumps("i" * _size(rng))}, "inputs": [{good}]}}',
        "shape": f'{{"inputs": [{{"name": "X", "datatype": "FP64", "shape": [{data}], "data": []}}]}}',
        "long output": f'{{"inputs": [{good}], "outputs": [{{"name": "{"n" * _size(rng)}"}}]}}',
    }
    kind = rng.choice(("good", "good", "data", "data", *forms))
    model = "m" if kind == "good" else model
    return Attack(f"v2 {kind} of {model}", f"/v2/models/{model}/infer", forms[kind].encode())


def _binary(rng: Draw) -> Attack:
    """Tensors behind the JSON, whose sizes and lengths lie."""
    model = rng.choice(MODELS)
    count = max(_size(rng) // 8, 1)
    data = rng.choice((bytes(8 * count), b"\xff" * 8 * count, struct.pack("<I", 0) * 2 * count))
    told = {"binary_data_size": rng.choice((len(data), len(data), len(data) + 1, 1 << 62))}
    one = _tensor(rng, model) | {"shape": _shape(rng, count // rng.choice((1, 28)) + 1)}
    head = json.dumps({"inputs": [one | {"parameters": told}], "outputs": [{"name": "predict"}]})
    length = rng.choice((len(head), len(head), len(head) - 1, len(head) + len(data), 10**15))
    headers = {"Inference-Header-Content-Length": str(length)}
    return Attack(f"binary of {model}", f"/v2/models/{model}/infer", head.encode() + data, headers)


def _garbage(rng: Draw) -> Attack:
    size = min(_size(rng), 1 << 20)
    body = rng.choice(
        (rng.randbytes(size), b"[" * size, b'{"a":' * (size // 5), b'"' * size, b" " * size)
    )
    path = rng.choice((f"/v1/models/{rng.choice(MODELS)}:predict", "/v2/models/m/infer"))
    return Attack("garbage", path, body)


def _head(rng: Draw) -> Attack:
    """Heads that are long, or hold much."""
    count = rng.choice((3, 300, 5000))
    headers = {f"X-{i}": "a" * rng.choice((1, 10, 300)) for i in range(count)}
    path = rng.choice(
        ("/v2", f"/{'a' * (_size(rng) % 300_000)}", "/v1/models/m:predict", "/metrics")
    )
    return Attack("head", path, b"[]", headers)


def _packed(rng: Draw, found: Attack) -> Attack:
    name, pack = rng.choice(
        (("gzip", lambda data: gzip.compress(data, 1, mtime=0)), ("deflate", zlib.compress))
    )
    body = pack(found.body)
    if rng.random() < 0.1:
        body = rng.choice((body[:-5], body * 2, _damaged(rng, body)))
    headers = found.headers | {"Content-Encoding": name}
    return _changed(found, body=body, headers=headers, kind=f"{found.kind}, {name}")


def _damaged(rng: Draw, data: bytes) -> bytes:
    """Change, cut and add a few bytes."""
    for _ in range(rng.randrange(1, 4)):
        place = rng.randrange(len(data) + 1)
        cut = rng.choice((0, 1, rng.randrange(40)))
        added = rng.choice((b"", b",", b'"', b"[", b"}", b"\\", rng.randbytes(3)))
        data = data[:place] + added + data[place + cut :]
    return data


# Messages of gRPC, as they lie in the wire format.


def _varint(value: int) -> bytes:
    return bytes(_sevens(value))


def _sevens(value: int) -> Iterator[int]:
    while value > 127:
        yield value & 127 | 128
        value >>= 7
    yield value


def _part(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _grpc(rng: Draw) -> Attack:
    """Inputs of ModelInfer: 1 is the name of the model, 5 inputs, 6 outputs, 7 raw contents."""
    model = rng.choice(MODELS)
    size = _size(rng)
    tensor = _part(1, rng.choice(INPUTS[model]).encode()) + _part(
        2, rng.choice((b"FP64", b"INT64", b"BYTES"))
    )
    shape = _part(
        3, b"".join(map(_varint, rng.choice(((size // 224, 28), (size,), (1, 28), (1, size)))))
    )
    number, unit = rng.choice(((7, bytes(8)), (3, b"\1"), (1, b"\1"), (6, bytes(4)), (8, b"")))
    packed = (
        _part(number, unit * (size // max(len(unit), 1))) if number < 8 else b"\x42\0" * (size // 2)
    )
    named = _part(1, model.encode())
    forms: dict[str, Callable[[], bytes]] = {
        "empty parts": lambda: (
            rng.choice((b"\x2a\0", b"\x32\0", b"\x22\0", b"\x3a\0")) * (size // 2)
        ),
        "contents": lambda: named + _part(5, tensor + shape + _part(5, packed)),
        "listed": lambda: named + _part(5, tensor + shape + _part(5, b"\x18\1" * (size // 2))),
        "raw": lambda: named + _part(5, tensor + shape) + _part(7, bytes(size)),
        "many names": lambda: (
            named + _part(5, tensor + shape) + _part(6, _part(1, b"x")) * (size // 6)
        ),
        "long name": lambda: (
            named + _part(5, _part(1, b"n" * size)) + _part(6, _part(1, b"n" * size))
        ),
        "nested": lambda: named + _part(5, b"\x22\0" * (size // 2)),
        "garbage": lambda: rng.randbytes(min(size, 1 << 16)),
    }
    kind = rng.choice(tuple(forms))
    method = rng.choice(("ModelInfer",) * 9 + ("ModelMetadata", "ServerLive", "RepositoryIndex"))
    return Attack(f"gRPC {kind} of {model} to {method}", method, forms[kind](), door="grpc")
