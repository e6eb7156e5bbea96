"""What a model costs before it is asked: programs that are there are used, others are named."""

from __future__ import annotations

import json
import logging

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer
from sklearn.preprocessing import StandardScaler

import hbconv
from hbconv.errors import InputError, OptionError
from hbconv.serve import served_model
from hbconv.serve.batching import compute_batch
from hbconv.serve.inference import Inference, Rows, choose_outputs
from hbconv.serve.protocol.metadata import describe_model
from hbconv.serve.protocol.records import read_records, write_records
from hbconv.serve.served_model import compute, warm
from hbconv.serve.signature import ModelSignature

X = np.random.default_rng(0).normal(size=(80, 3))
SOURCE = RandomForestClassifier(3, max_depth=3, random_state=0).fit(X, X[:, 0] > 0)
FRAME = pd.DataFrame(X, columns=["a", "b", "c"])


def loaded(source, path, sample, *, trusted=True):
    """A model that was compiled for a sample, saved and loaded."""
    hbconv.convert(source, backend="onnx", sample=sample).save(path)
    return hbconv.load(path, trusted=trusted)


def compiled(model):
    """The methods that a model has programs of."""
    return {method for program in model.compiled for method in program.methods}


def test_a_start_prepares_no_method_on_demand():
    model = hbconv.convert(SOURCE, backend="reference")
    served = warm("m", "1", model)
    assert compiled(model) == {*model.parsed.exported}
    assert "contributions" in served.signature.outputs_by_name
    assert "contributions" not in compiled(model)


def test_named_methods_alone_are_served_and_all_compiled_at_the_start():
    model = hbconv.convert(SOURCE, backend="reference")
    served = warm("m", "1", model, ("predict", "contributions", "of another model"))
    assert {*served.signature.outputs_by_name} == {"predict", "contributions"}
    assert compiled(model) == {*model.parsed.exported, "contributions"}
    with pytest.raises(OptionError, match=r"--methods transform: .* It has: predict,"):
        warm("m", "1", model, ("transform",))


def test_explanations_have_names():
    model = hbconv.convert(
        RandomForestClassifier(3, max_depth=3, random_state=0).fit(FRAME, X[:, 0] > 0),
        backend="reference",
    )
    served = warm("m", "1", model)
    output = served.signature.outputs_by_name["contributions"]
    features = ("a", "b", "c", "expected value")
    assert output.labels == (("False", "True"), features)
    (described,) = [
        one for one in describe_model(served, [])["outputs"] if one["name"] == "contributions"
    ]
    assert described["parameters"] == {"labels": output.labels}
    asked = {"instances": FRAME.iloc[:2].to_dict("records"), "outputs": ["contributions"]}
    inference = read_records(asked, served.signature, 9)
    answers = compute(model, served.signature, inference.rows, inference.wanted)
    found = json.loads(b"".join(write_records(inference, answers)))["predictions"]
    for one, values in zip(found, model.contributions(FRAME.iloc[:2]), strict=True):
        named = one["contributions"]
        assert [*named] == ["False", "True"]
        assert {label: tuple(each) for label, each in named.items()} == dict.fromkeys(
            named, features
        )
        assert [[*each.values()] for each in named.values()] == values.tolist()


def test_requests_that_name_no_output_get_the_usual_ones():
    signature = ModelSignature.of(hbconv.convert(SOURCE, backend="reference"))
    assert [one.name for one in choose_outputs(signature, [])] == ["predict", "predict_proba"]
    scaler = ModelSignature.of(hbconv.convert(StandardScaler().fit(X), backend="reference"))
    assert [one.name for one in choose_outputs(scaler, [])] == ["transform"]


def test_methods_on_demand_are_answered_in_a_thread():
    served = warm("m", "1", hbconv.convert(SOURCE, backend="reference"))
    rows = Rows(1, (X[:1],))
    asked = {
        name: Inference(rows, choose_outputs(served.signature, [name]))
        for name in ("predict", "contributions")
    }
    assert served.is_quick(served.quick_rows, [asked["predict"]])
    assert not served.is_quick(served.quick_rows, asked.values())


@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize("rows", [X, FRAME], ids=["array", "frame"])
def test_a_model_is_served_for_the_floats_of_its_sample(rows, trusted, tmp_path):
    sample = rows[:3].astype(np.float32)
    source = StandardScaler().fit(rows)
    model = loaded(source, tmp_path / "m.hbc", sample, trusted=trusted)
    before = model.compiled
    served = warm("m", "1", model)
    assert {taken.dtype for taken in served.signature.inputs} == {"float32"}
    assert served.signature.outputs_by_name["transform"].datatype == "FP32"
    if trusted:
        assert len(model.compiled) == len(before)


def test_ints_of_a_sample_are_served_as_the_floats_of_fitting(tmp_path, caplog):
    model = loaded(SOURCE, tmp_path / "m.hbc", np.ones((3, 3), np.int64))
    served = warm("m", "1", model)
    assert {taken.dtype for taken in served.signature.inputs} == {"float64"}
    assert not [record for record in caplog.records if "no stored program" in record.message]


def test_rows_that_no_stored_program_answers_are_named_with_their_price(tmp_path, caplog):
    model = hbconv.convert(SOURCE, backend="onnx")
    model.predict(X.astype(np.float32))
    model.save(tmp_path / "m.hbc")
    with caplog.at_level(logging.WARNING, "hbconv.serve"):
        warm("m", "1", hbconv.load(tmp_path / "m.hbc", trusted=True))
    (said,) = [record.message for record in caplog.records if record.name == "hbconv.serve"]
    assert "no stored program answers predict, predict_proba" in said
    assert "of float64, as served: compiled on onnx in" in said


def test_a_refused_part_tells_where_it_begins(sources, monkeypatch):
    served = warm("m", "1", hbconv.convert(sources["mixed"].estimator, backend="reference"))
    cities = np.array(["Rome"] * 17 + ["Nowhere"] + ["Rome"] * 12, dtype=object)
    given = {"age": np.zeros(30), "income": np.zeros(30), "city": cities}
    rows = Rows(30, tuple(given[taken.name] for taken in served.signature.inputs))
    with pytest.raises(InputError, match=r"Row 17 holds 'Nowhere' in column 'city'\.$"):
        compute(served.model, served.signature, rows, served.signature.outputs)
    monkeypatch.setattr(served_model, "MOST_TEXT_BYTES", 20)
    told = r"Row 3 holds 'Nowhere' .* Rows are counted from row 14 of the request\."
    with pytest.raises(InputError, match=told):
        compute(served.model, served.signature, rows, served.signature.outputs)


def test_long_texts_are_computed_by_parts_with_the_same_answers(sources, monkeypatch):
    source = sources["texts"]
    served = warm("m", "1", hbconv.convert(source.estimator, backend="reference"))
    texts = np.array([*source.rows, "", "red " * 50, "blue", *source.rows], dtype=object)
    rows = Rows(len(texts), (texts,))
    whole = compute(served.model, served.signature, rows, served.signature.outputs)
    assert len(list(rows.parts(20))) > 3
    monkeypatch.setattr(served_model, "MOST_TEXT_BYTES", 20)
    parts = compute(served.model, served.signature, rows, served.signature.outputs)
    assert parts.keys() == whole.keys()
    for name, array in whole.items():
        np.testing.assert_array_equal(parts[name], array)
    assert [part.count for part in Rows(0, (texts[:0],)).parts(20)] == [0]


def test_requests_share_no_call_where_rows_answer_for_each_other():
    """IterativeImputer fills a row without values otherwise beside others than alone."""
    gaps = np.where(np.arange(X.size).reshape(X.shape) % 7 == 0, np.nan, X)
    served = warm("m", "1", hbconv.convert(IterativeImputer(random_state=0).fit(gaps), "reference"))
    outputs = served.signature.outputs
    lone, good = (Inference(Rows(len(x), (x,)), outputs) for x in (np.full((1, 3), np.nan), X[:4]))
    refused, answers = compute_batch(served, [lone, good])
    assert str(refused) == str(compute_batch(served, [lone])[0])
    assert "All rows hold only missing values" in str(refused)
    np.testing.assert_array_equal(answers["transform"], X[:4])
