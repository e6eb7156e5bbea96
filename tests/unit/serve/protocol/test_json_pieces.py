"""Long JSON is read by pieces: the same values and refusals as in one, wherever it is cut."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

from hbconv.errors import InputError
from hbconv.serve.inference import Inference
from hbconv.serve.protocol import json_documents
from hbconv.serve.protocol.bodies import read_v2
from hbconv.serve.protocol.json_documents import (
    LongList,
    read_json,
    read_long_json,
    require_few_lists,
)
from hbconv.serve.protocol.records import LISTS, read_records
from hbconv.serve.protocol.tensors import TensorForm, read_values
from hbconv.serve.signature import InputTensor, ModelSignature, OutputTensor

GIVEN = (OutputTensor("predict", "predict", None, "FP64", (-1,)),)
MATRIX = ModelSignature((InputTensor("X", "float64", 2),), GIVEN, "matrix")
COLUMNS = ModelSignature((InputTensor("a", "float64"), InputTensor("b", "string")), GIVEN, "names")
ITEMS = ModelSignature((), GIVEN, "items")
PIECES = [1, 2, 3, 7, 30, 1000]


@pytest.fixture(params=PIECES)
def cut(request, monkeypatch):
    """Pieces of so many bytes."""
    monkeypatch.setattr(json_documents, "PIECE_BYTES", request.param)
    return request.param


def values_of(text):
    try:
        found = read_long_json(memoryview(text), LISTS)
        if isinstance(found, LongList):
            return [value for piece in found.pieces() for value in piece]
        if isinstance(found.get("instances"), LongList):
            found["instances"] = [v for piece in found["instances"].pieces() for v in piece]
    except InputError:
        return InputError
    return found


TEXTS = [
    "[]",
    " [ ] ",
    "[1, 2, 3]",
    "[[1, 2], [3, [4, 5]], []]",
    '["a,b", "c]", "\\\\", "\\"", "\\\\\\",", "é"]',
    '{"a": 1, "b": [1, 2], "a": 3}',
    '{"instances": [[1, 2], [3, 4]], "outputs": ["predict"]}',
    '{"outputs": ["a"], "instances" : [{"a": 1}, {"b": "x,y"}, 3] , "z": {"q": [1, 2]}}',
    '{"instances": {"a": 1}}',
    '{"instances": [1, 2], "instances": [3]}',
    '{"instances": [1, 2], "instances": 7}',
]
DAMAGED = [
    "", "[", "]", "{}]", "[1, 2", "[1,, 2]", "[, 1]", "[1, ]", "[,]", "[1, 2],", "[1], [2]", "[1] 2",
    "{,}", '{"a": 1,}', '{"a": 1,,"b": 2}', '{"a" 1}', '{"a": [1, 2}', '["a, "b"]', '{"a": 1], "b": [2}',
    "[1}, {2]", '{"instances": [1, 2,]}', '{"instances": [1, 2}', '{"instances": [1], [2]}', "7", '"a"',
    '["\\"]', "[NaN, 1]", "[\x0b1]", "\x0b[1]", "[1]\x0c", '{"instances":\x0b[1]}',
]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_values_are_those_of_the_whole(cut, text):
    assert values_of(text.encode()) == json.loads(text)


@pytest.mark.parametrize("text", DAMAGED)
def test_what_is_no_json_is_refused(cut, text):
    assert values_of(text.encode()) is InputError


def some_value(rng, depth):
    kind = rng.randrange(7 if depth else 4)
    if kind < 4:
        return rng.choice([0, -1.5e-7, "", 'a"b,[\\', "\\\\", "{é}", None, True, 12345678])
    many = range(rng.randrange(5))
    if kind == 6:
        return {f"{i}{rng.choice(',]')}": some_value(rng, depth - 1) for i in many}
    return [some_value(rng, depth - 1) for _ in many]


@pytest.mark.parametrize("seed", range(60))
def test_random_documents_whole_and_damaged(cut, seed):
    rng = random.Random(seed)
    rows = [some_value(rng, 3) for _ in range(rng.randrange(8))]
    text = json.dumps(rng.choice([rows, {"instances": rows, "o": some_value(rng, 2)}])).encode()
    assert values_of(text) == json.loads(text)
    for _ in range(20):
        place = rng.randrange(len(text))
        damaged = (
            text[:place]
            + rng.choice([b"", b",", b"]", b"[", b'"', b"\\", b" "])
            + text[place + 1 :]
        )
        try:
            whole = read_json(damaged)
        except InputError:
            whole = InputError
        assert values_of(damaged) == (whole if isinstance(whole, list | dict) else InputError)


BODY = r"""
{ "instances" :   [ ["", -1.5e-300, 0.1000000000000000055511151231257827, 9007199254740993],
    {"\u005b,":{"x":[ ], "y":[{}, [[]]]}, "z" : "\\\"," }, [ null ,true],  123456789012345678901234567890 ]
  , "more": {                                                          }, "id": [1, [2, 3], "}"],
  "outputs" : ["pre\\", "a,]\"", "\ud834\udd1e"], "note": "a long text, it is ] of é, 漢 and 𝄞" }
""".encode()


SHORT = b'{"instances": [1, 2], "more": {%b}, "id": 3, "name": "x"}'


@pytest.mark.parametrize("body", [BODY, SHORT % b"", SHORT % (b" " * 50), SHORT % (b" " * 150)])
def test_a_body_is_read_alike_by_pieces_of_any_size(monkeypatch, body):
    """Short parts are read together, and a long one by itself, wherever the cuts fall."""
    whole = read_json(body)
    for size in range(1, 201):
        monkeypatch.setattr(json_documents, "PIECE_BYTES", size)
        assert values_of(body) == whole, size


def outcome(read):
    """The rows of a request, or None where it is refused."""
    try:
        asked: Inference = read()
    except InputError:
        return None
    return [(array.dtype, array.tolist()) for array in asked.rows.arrays]


TENSOR = '"name": "X", "datatype": "FP64", "shape": [3, 2], '
DATA = [
    "[1, 2, 3, 4, 5, 6]", "[[1, 2], [3, 4], [5, 6]]", "[1, 2, 3, 4, 5]", "[1, 2, 3, 4, 5, 6, 7]", "[]",
    "[[1, 2], [3, 4]]", "[[1, 2], [3, 4], 5, 6]", "[1, 2, [3, 4], [5, 6]]", "[[1], [2, 3], [4, 5, 6]]",
    '[null, "NaN", "Infinity", 4, 5, 6]', "[1, 2, 3, 4, 5, true]", "[[1, 2, 3, 4, 5, 6]]",
]  # fmt: skip


@pytest.mark.parametrize("data", DATA)
def test_tensors_by_pieces(cut, data, monkeypatch):
    body = f'{{"id": "7", "inputs": [{{{TENSOR}"data": {data}}}], "outputs": []}}'.encode()
    whole = outcome(lambda: read_v2(body, None, MATRIX, 9))
    monkeypatch.setattr(json_documents, "LONG_BYTES", 0)
    assert repr(outcome(lambda: read_v2(body, None, MATRIX, 9))) == repr(whole)


def test_many_inputs_by_pieces(cut, monkeypatch):
    columns = [
        {"name": "a", "datatype": "FP64", "shape": [3], "data": [1, 2, 3]},
        {"name": "b", "datatype": "BYTES", "shape": [3, 1], "data": [["x"], [","], [None]]},
    ]
    body = json.dumps({"inputs": columns}).encode()
    monkeypatch.setattr(json_documents, "LONG_BYTES", 0)
    (_, numbers), (_, texts) = outcome(lambda: read_v2(body, None, COLUMNS, 9))
    assert (numbers, texts) == ([1, 2, 3], ["x", ",", None])


@pytest.mark.parametrize(
    ("signature", "records"),
    [
        (MATRIX, [[1, 2], [3, 4.5], ["NaN", None]]),
        (MATRIX, [[1, 2], [3], [5, 6]]),
        (COLUMNS, [{"a": 1}, {"b": "x"}, {"a": 2, "b": "y"}]),
        (COLUMNS, [{"a": 1}, {"a": 2}, {"a": 3}]),
        (COLUMNS, [{"a": 1, "b": "x"}, {"a": 1, "c": "x"}]),
        (COLUMNS, [{"a": 1, "b": "x"}, []]),
        (ITEMS, [{"w": 1}, {"v": ["x", "y"]}]),
        (MATRIX, [[1, 2]] * 10),
    ],
)
def test_records_by_pieces(cut, signature, records):
    text = json.dumps(records).encode()
    pieces = read_long_json(memoryview(text), LISTS)
    whole = outcome(lambda: read_records(records, signature, 9))
    assert repr(outcome(lambda: read_records(pieces, signature, 9))) == repr(whole)


def test_errors_count_from_the_first_record(cut):
    pieces = LongList(memoryview(b"[[1, 2], [3, 4], [5, [6]]]"))
    with pytest.raises(InputError, match=r"Record 2: value 1 is \[6\]"):
        read_records(pieces, MATRIX, 9)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            b'[{"a": 1}, {"a": NaN}, 3]',
            r"near '\[ ?\{\"a\": NaN\}.*Write \"NaN\" in quotes, or null",
        ),
        (b'[{"a": 1}, {"a": "\\ud800"}, 3]', "no low surrogate in string, near .*ud800"),
        (b"\xef\xbb\xbf[1, 2]", r"begins with b'\\xef\\xbb\\xbf\[1, 2\]' and"),
        (b"[1, 2]x", r"ends with b'\[1, 2\]x'"),
    ],
)
def test_what_is_wrong_is_quoted(monkeypatch, text, why):
    """A line and a column would be those in the piece."""
    monkeypatch.setattr(json_documents, "PIECE_BYTES", 5)
    with pytest.raises(InputError, match=why):
        list(read_long_json(memoryview(text), LISTS).pieces())


def test_data_beyond_the_shape_are_counted(cut):
    data = LongList(memoryview(b"[1, 2, 3, 4, 5, 6, 7]"))
    with pytest.raises(InputError, match=r"holds [567] values.*, and its shape \[2, 2\] 4"):
        read_values(TensorForm("X", np.dtype(float), (2, 2)), data)


def test_a_shape_that_the_data_cannot_fill_takes_no_memory():
    text = b"[" + b"1," * 40_000 + b"1]"
    with pytest.raises(InputError, match="too short for its shape"):
        read_values(TensorForm("X", np.dtype(float), (1 << 38, 2)), LongList(memoryview(text)))


def test_long_elements_and_long_rests_are_refused():
    long = b'"' + b"a" * (json_documents.MOST_VALUE_BYTES + 1) + b'"'
    with pytest.raises(InputError, match="Element 1 of a list takes 1,048,579 bytes"):
        list(LongList(memoryview(b"[1," + long + b"]")).pieces())
    with pytest.raises(InputError, match="beside its data"):
        read_long_json(memoryview(b'{"id":' + long + b"}"), "instances")


def test_lists_are_counted():
    require_few_lists(b'[{"a": [1]}]', 3)
    with pytest.raises(InputError, match="3 lists and objects"):
        require_few_lists(b'[{"a": [1]}]', 2)
