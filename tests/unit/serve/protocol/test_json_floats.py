"""JSON of floats is read to arrays: the same answers and the same refusals as of other JSON."""

from __future__ import annotations

import numpy as np
import pytest

from hbconv.errors import InputError
from hbconv.serve.protocol import bodies
from hbconv.serve.protocol.bodies import read_v2
from hbconv.serve.protocol.json_documents import has_floats, read_float_json
from hbconv.serve.signature import InputTensor, ModelSignature, OutputTensor

SIGNATURE = ModelSignature(
    (InputTensor("X", "float64", 2),),
    (OutputTensor("predict", "predict", None, "FP64", (-1,)),),
    "matrix",
)
TENSOR = '"name": "X", "datatype": "FP64", "shape": [2, 2], '
HARD = "1e23, 2.2250738585072011e-308, 9007199254740993, 0.1"


def document(data, tensor=TENSOR, rest=""):
    return f'{{"inputs": [{{{tensor}"data": {data}}}]{rest}}}'.encode()


def outcome(body):
    try:
        asked = read_v2(body, None, SIGNATURE, 100)
    except InputError as error:
        return str(error)
    (array,) = asked.rows.arrays
    return array.dtype, array.tobytes(), asked.wanted, asked.id, asked.binary


READ = [
    document("[1.5, -2, 3e5, 4]"),
    document(f"[{HARD}]"),
    document("[1, 2, 3, 4]", rest=', "id": "a", "outputs": [{"name": "predict"}]'),
    document("[1, 2, 3, 4]", rest=', "parameters": {"binary_data_output": true}'),
    document("[0.1, 2, 3, 4]", TENSOR.replace("64", "32")),
    document("[1, 2, 3]"),
    document("[1, 2, 3, 1e300]", TENSOR.replace("64", "32")),
    document("[]", TENSOR.replace("[2, 2]", "[0, 2]")),
]
LEFT = [
    document("[[1, 2], [3, 4]]"),
    document("[1, [2], 3, 4]"),
    document("[[1, 2, 3, 4]]", TENSOR.replace("[2, 2]", "[4]"), ', "outputs": null'),
    document("[[1, 2, 3, 4]]", TENSOR.replace("[2, 2]", "[4]"), ', "outputs": 0'),
    document("[[1, 2, 3, 4]]", TENSOR.replace("[2, 2]", "4")),
    document("[[1, 2], [3, 4, 5]]"),
    document("[1, true, 3, 4]"),
    document("[1, null, 3, 4]"),
    document('[1, "NaN", 3, "Infinity"]'),
    document('[1, "2", 3, 4]'),
    document("[1, 2, 3, 1e400]"),
    document("[1, 2, 3, 100000000000000000000000]"),
    document("[1, 2, 3, 4]", TENSOR.replace("FP64", "INT64")),
    document("[9, 9, 9, 9]", TENSOR + '"data": [1, 2, 3, 4], '),
    document("[1, 2, 3, 4]", TENSOR.replace("X", "[")),
    document("7"),
    document("[1, 2, 3, 4]")[:-1],
    document("[1, 2, 3, 4]", TENSOR.replace('"name"', '"nam\xff"')).replace(b"\xc3", b""),
    b'{"inputs": 3}',
    b'{"inputs": [3]}',
    b"[1]",
]


@pytest.mark.parametrize("body", READ + LEFT)
def test_floats_are_answered_as_other_json(body, monkeypatch):
    short = outcome(body)
    monkeypatch.setattr(bodies, "has_floats", lambda data: True)
    assert outcome(body) == short
    assert outcome(bytearray(body)) == short


@pytest.mark.parametrize("body", READ)
def test_lists_of_floats_become_arrays(body):
    assert isinstance(read_float_json(body)["inputs"][0]["data"], np.ndarray)


@pytest.mark.parametrize("body", LEFT)
def test_everything_else_is_left_to_the_ordinary_reader(body):
    assert read_float_json(body) is None
    assert read_float_json(READ[0]) is not None


@pytest.mark.parametrize(
    ("number", "expected"),
    [("0.5", True), ("-1e-3", True), ("12345", True), ("7", False), ("255", False)],
)
@pytest.mark.parametrize("comma", [",", ", "])
def test_small_ints_are_left_to_the_ordinary_reader(number, expected, comma):
    """It holds them in less memory."""
    body = document(f"[{comma.join([number] * 10_000)}]")
    assert has_floats(body) is expected
    assert not has_floats(body[:1000])


def test_longer_documents_are_left_to_the_reader_of_pieces(monkeypatch):
    body = document(f"[{', '.join(['0.5'] * 5000)}]")
    assert has_floats(body)
    monkeypatch.setattr("hbconv.serve.protocol.json_documents.MOST_BYTES", len(body) - 1)
    assert not has_floats(body)


def test_arrays_outlive_the_memory_they_were_read_in():
    first, second = (read_float_json(document(data)) for data in ("[1, 2]", "[3, 4]"))
    assert first["inputs"][0]["data"].tolist() == [1.0, 2.0]
    assert second["inputs"][0]["data"].tolist() == [3.0, 4.0]
