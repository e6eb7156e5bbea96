"""Long requests and answers: read and written beside the loop, with the same outcome."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest

from hbconv.errors import InputError
from hbconv.serve.failures import RefusedError
from hbconv.serve.http.messages import LONG_BYTES
from hbconv.serve.inference import Inference, Rows
from hbconv.serve.protocol import bodies, json_documents
from hbconv.serve.protocol.bodies import write_v2
from hbconv.serve.protocol.records import write_records
from hbconv.serve.protocol.tensors import MOST_TEXT_BYTES, decode_text
from hbconv.serve.signature import OutputTensor

ROWS = 2000


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(0).normal(size=(ROWS, 4))


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("form", ["list", "instances", "flat", "nested", "ints"])
def test_long_bodies_are_answered_as_short_ones(client, sources, rows, form, packed):
    rows = np.rint(rows * 1e14) if form == "ints" else rows
    data = [int(v) for v in rows.ravel()] if form == "ints" else rows.ravel().tolist()
    tensor = {"name": "X", "datatype": "FP64", "shape": rows.shape, "data": data}
    nested = tensor | {"data": rows.tolist()}
    body = {
        "list": rows.tolist(),
        "instances": {"instances": rows.tolist(), "outputs": ["predict"]},
        "nested": {"inputs": [nested], "outputs": [{"name": "predict"}]},
    }.get(form, {"inputs": [tensor], "outputs": [{"name": "predict"}]})
    content = json.dumps(body).encode()
    assert len(content) > LONG_BYTES
    is_v1 = form in ("list", "instances")
    path = "/v1/models/numbers:predict" if is_v1 else "/v2/models/numbers/infer"
    headers = {"Content-Encoding": "gzip"} if packed else {}
    found = client.post(
        path, content=gzip.compress(content) if packed else content, headers=headers
    )
    assert found.status_code == 200, found.text
    document = found.json()
    answers = (
        [one["predict"] for one in document["predictions"]]
        if is_v1
        else document["outputs"][0]["data"]
    )
    assert answers == sources["numbers"].estimator.predict(rows).tolist()


WRONG = {
    "objects": (b"[" + b"{}," * 300_000 + b"{}]", "the server takes 2000 at once"),
    "lists": (b"[" + b"[[[[]]]]," * 100_000 + b"[]]", "the server takes 2000 at once"),
    "cut off": (b"[" + b"[1,2,3,4]," * 50_000, "cut off"),
    "rows": (b"[" + b"[1,2,3,4]," * 50_000 + b"[1,2,3,4]]", "the server takes 2000 at once"),
    "one text": (b'["' + b"a " * 500_000 + b'"]', "Record 0 is no list"),
    "white space": (b" " * 500_000 + b"[]", "no list and no object"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_long_bodies_that_are_wrong_have_their_reason(client, kind):
    body, why = WRONG[kind]
    packed = gzip.compress(body)
    for content, headers in ((body, {}), (packed, {"Content-Encoding": "gzip"})):
        found = client.post("/v1/models/numbers:predict", content=content, headers=headers)
        assert (found.status_code, why in found.text) == (400, True), found.text
    assert len(found.content) < 1000


def test_texts_have_a_longest():
    assert decode_text("x", b"a" * MOST_TEXT_BYTES, 0)
    with pytest.raises(InputError, match="element 7 has 1,048,577 bytes"):
        decode_text("x", b"a" * (MOST_TEXT_BYTES + 1), 7)


LONG = "n" * 50_000


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("v1/models/numbers:predict", {"instances": [], "outputs": [LONG]}),
        ("v1/models/mixed:predict", [{"age": 1, LONG: 2}]),
        ("v1/models/mixed:predict", {LONG: [1]}),
        ("v1/models/mixed:predict", [{"age": LONG, "income": 1, "city": "x"}]),
        ("v1/models/numbers:predict", [[LONG, 1, 2, 3]]),
        ("v2/models/numbers/infer", {"inputs": [{"name": LONG}]}),
        ("v2/models/numbers/infer", {"inputs": [{"name": "X", "datatype": LONG}]}),
        ("v2/models/numbers/infer", {"inputs": [{"name": "X", "datatype": "FP64", "shape": [1] * 20_000}]}),
        ("v2/models/numbers/infer", {"inputs": [{"name": "X", "datatype": "FP64", "shape": LONG}]}),
        ("v2/models/numbers/infer", {"inputs": [], "outputs": [{"name": LONG}]}),
        (f"v1/models/{LONG}:predict", []),
        ("v2/models/numbers/versions/" + LONG, None),
    ],
)  # fmt: skip
def test_long_names_and_values_are_told_by_their_ends(client, path, body):
    found = client.get(path) if body is None else client.post(path, json=body)
    assert found.status_code in (400, 404), found.text
    assert len(found.content) < 1000


GIVEN = (
    OutputTensor("predict", "predict", None, "FP64", (-1,)),
    OutputTensor("predict_proba", "predict_proba", None, "FP64", (-1, 2), (("no", "yes"),)),
)
ANSWERS = {
    "predict": np.array([0.5, np.nan, 2, np.inf, -1, 7, 8]),
    "predict_proba": np.arange(14.0).reshape(7, 2),
}


@pytest.mark.parametrize("count", [0, 1, 6, 7])
@pytest.mark.parametrize("step", [1, 4, 6])
def test_answers_are_written_alike_by_pieces(monkeypatch, count, step):
    answers = {name: array[:count] for name, array in ANSWERS.items()}
    asked = Inference(Rows(count, (np.zeros(count),)), GIVEN, "\0")
    whole = b"".join(write_records(asked, answers))
    tensors = b"".join(write_v2("m", "1", asked, answers)[0])
    for module in (bodies, json_documents):
        monkeypatch.setattr(module, "PIECE_VALUES", step)
    assert b"".join(write_records(asked, answers)) == whole
    assert b"".join(write_v2("m", "1", asked, answers)[0]) == tensors
    assert len(json.loads(tensors)["outputs"][1]["data"]) == 2 * count


def test_binary_answers_follow_their_json_by_pieces(monkeypatch):
    monkeypatch.setattr(bodies, "PIECE_VALUES", 1)
    asked = Inference(Rows(7, (np.zeros(7),)), GIVEN, binary=frozenset({"predict_proba"}))
    parts, length = write_v2("m", "1", asked, ANSWERS)
    body = b"".join(parts)
    assert np.frombuffer(body[length:]).tolist() == list(range(14))
    assert json.loads(body[:length])["outputs"][0]["data"][1] == "NaN"


def test_rows_tell_the_memory_that_holds_them():
    """A body is held by the smallest tensor that lies in it, and counts once."""
    body = bytes(800)
    first, second = (np.frombuffer(memoryview(body)[at : at + 8]) for at in (0, 8))
    assert Rows(1, (first, second.reshape(1, 1))).size() == 800
    assert Rows(1, (np.zeros(9)[:1],)).size() == 72
    texts = np.array(["a" * 1000, None], dtype=object)
    assert 1000 < Rows(2, (texts,)).size() < 1200
    items = np.array([{str(i): i for i in range(10)}], dtype=object)
    assert Rows(1, (items,)).size() > 1500


def test_messages_end_somewhere():
    assert len(str(RefusedError(400, "InputError", "n" * 100_000))) < 5000
