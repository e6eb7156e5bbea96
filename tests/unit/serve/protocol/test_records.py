"""Records in, named values out: ``/v1/models/NAME:predict``."""

from __future__ import annotations

import httpx
import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.preprocessing import StandardScaler

import hbconv
from hbconv.errors import InputError
from hbconv.serve.http.messages import LONG_BYTES
from hbconv.serve.protocol.records import read_records
from hbconv.serve.signature import ModelSignature

RECORD = {"age": 30, "income": 51.5, "city": "Rome"}


def ask(client, model, document):
    return client.post(f"/v1/models/{model}:predict", json=document)


@pytest.mark.parametrize("form", [lambda r: r, lambda r: [r], lambda r: {"instances": [r]}])
def test_a_record_has_named_answers(client, sources, form):
    found = ask(client, "mixed", form(RECORD)).json()
    estimator, rows = sources["mixed"].estimator, sources["mixed"].rows.iloc[:1]
    rows = rows.assign(age=30.0, income=51.5, city="Rome")
    (answer,) = found["predictions"]
    assert answer["predict"] == estimator.predict(rows)[0]
    probabilities = dict(zip(estimator.classes_, estimator.predict_proba(rows)[0], strict=True))
    assert answer["predict_proba"] == pytest.approx(probabilities, rel=1e-12)


def test_many_records(client, sources):
    rows = sources["mixed"].rows[["age", "income", "city"]]
    found = ask(client, "mixed", {"instances": rows.to_dict("records"), "outputs": ["predict"]})
    labels = [one["predict"] for one in found.json()["predictions"]]
    assert labels == sources["mixed"].estimator.predict(sources["mixed"].rows).tolist()


def test_columns_that_are_not_read_may_come(client):
    assert ask(client, "mixed", RECORD | {"unused": "anything"}).status_code == 200


ROW = ["Rome", 51.5, 30]
SPLIT = {"columns": ["city", "income", "age"], "index": [7], "data": [ROW]}
COLUMNS = {"age": [30], "city": ["Rome"], "income": [51.5]}


@pytest.mark.parametrize(
    "document",
    [
        {"inputs": [RECORD]},
        {"dataframe_records": [RECORD]},
        {"dataframe_split": SPLIT},
        {"inputs": COLUMNS},
        [[30, 51.5, "Rome", "what is not read may hold anything"]],
        {"instances": [[30, 51.5, "Rome", None]]},
        {"dataframe_split": {"data": [[30, 51.5, "Rome", None]]}},
    ],
)
def test_rows_in_the_wrappers_of_other_servers_have_one_answer(client, document):
    plain, other = ask(client, "mixed", [RECORD]), ask(client, "mixed", document)
    assert other.status_code == 200, other.text
    assert other.json()["predictions"] == plain.json()["predictions"]


def test_an_answer_tells_by_which_columns_lists_were_read(client):
    found = ask(client, "mixed", [[30, 51.5, "Rome", 0]]).json()
    assert found["columns"] == ["age", "income", "city", "unused"]
    assert "columns" not in ask(client, "mixed", {"dataframe_split": SPLIT}).json()


def test_wrapped_rows_of_models_without_names(client, sources):
    rows = sources["numbers"].rows[:3]
    plain = ask(client, "numbers", rows.tolist()).json()
    split = {"columns": [0, 1, 2, 3], "data": rows.tolist()}
    assert ask(client, "numbers", {"dataframe_split": split}).json() == plain
    assert ask(client, "numbers", {"inputs": rows.tolist()}).json() == plain


def test_a_mapping_may_have_the_name_of_a_wrapper(client, sources):
    """Which is a key as any other for a model that reads mappings."""
    answers = sources["mappings"].estimator.predict([{"inputs": 3}])
    found = ask(client, "mappings", {"inputs": 3}).json()["predictions"]
    assert [one["predict"] for one in found] == answers.tolist()


def test_long_wrapped_rows(client, sources):
    """Which are read in pieces, as those of ``instances`` are."""
    rows = sources["mixed"].rows[["age", "income", "city"]].sample(1900, replace=True)
    texts = rows.city + " " * 90
    known = rows.assign(city=rows.city)
    split = {"columns": [*known.columns, "unused"], "data": known.assign(t=texts).values.tolist()}
    whole = {"outputs": ["predict"], "dataframe_split": split}
    found = ask(client, "mixed", whole)
    assert found.status_code == 200, found.text
    records = {"dataframe_records": known.assign(unused=texts).to_dict("records")}
    again = ask(client, "mixed", records | {"outputs": ["predict"]})
    labels = sources["mixed"].estimator.predict(rows.assign(unused=0.0)).tolist()
    for one in (found, again):
        assert len(one.request.content) > LONG_BYTES
        assert [answer["predict"] for answer in one.json()["predictions"]] == labels
    split["data"][1234] = [1]
    assert "Record 1234 is no list of 4 values" in ask(client, "mixed", whole).json()["error"]


def test_mlflow_asks_the_only_model(starting, folder, sources):
    served = starting(folder / "mixed.hbc")
    path = f"{served.url}/invocations"
    rows = sources["mixed"].rows[:5]
    body = {"dataframe_split": rows.to_dict("split")}
    answers = sources["mixed"].estimator.predict(rows).tolist()
    assert httpx.post(path, json=body).json() == {"predictions": answers}
    named = httpx.post(path, json=body | {"outputs": ["predict_proba"]}).json()["predictions"]
    np.testing.assert_allclose(named, sources["mixed"].estimator.predict_proba(rows), rtol=1e-12)
    refused = httpx.post(path, json=body | {"outputs": ["predict", "predict_proba"]})
    assert "answers one output" in refused.json()["error"]
    refused = httpx.post(path, json=body | {"params": {"a": 1}})
    assert "Unknown: 'params'" in refused.json()["error"]
    metrics = httpx.get(f"{served.url}/metrics").text
    assert 'hbconv_requests_total{model="mixed",route="invocations",status="200"} 2.0' in metrics


def test_mlflow_is_told_that_there_are_several_models(client):
    found = client.post("/invocations", json={"inputs": [[1]]})
    assert (found.status_code, "names no model" in found.text) == (404, True)


def test_kserve_lists_models(client):
    assert "mixed" in client.get("/v1/models").json()["models"]
    assert client.get("/v1/models/mixed").json() == {"name": "mixed", "ready": True}
    assert client.get("/v1/models/none").status_code == 404


def test_rows_of_a_model_without_names(client, sources):
    rows = sources["numbers"].rows[:3]
    found = ask(client, "numbers", rows.tolist()).json()["predictions"]
    assert [one["predict"] for one in found] == sources["numbers"].estimator.predict(rows).tolist()
    assert ask(client, "numbers", [[1, True, 0.5, 2]]).status_code == 200


def test_texts(client, sources):
    found = ask(client, "texts", {"instances": sources["texts"].rows}).json()["predictions"]
    answers = sources["texts"].estimator.predict(sources["texts"].rows)
    assert [one["predict"] for one in found] == answers.tolist()


def test_mappings(client, sources):
    rows = [*sources["mappings"].rows, {"d": 1}, {}]
    found = ask(client, "mappings", {"instances": rows}).json()["predictions"]
    answers = sources["mappings"].estimator.predict(rows)
    assert [one["predict"] for one in found] == answers.tolist()
    for bad in (["a"], [3], [None], [{"a": {"b": [1]}}]):
        refused = ask(client, "mappings", {"instances": bad})
        assert (refused.status_code, refused.json()["error"][:11]) == (400, "InputError:"), bad


def test_several_targets(client, sources):
    rows = sources["targets"].rows[:2]
    found = ask(client, "targets", rows.tolist()).json()["predictions"]
    first, second = sources["targets"].estimator.predict_proba(rows)
    assert [one["predict_proba_0"] for one in found] == first.tolist()
    assert [one["predict_proba_1"] for one in found] == second.tolist()


def test_no_records(client):
    assert ask(client, "mixed", []).json() == {"predictions": []}
    assert ask(client, "numbers", {"instances": []}).json() == {"predictions": []}


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ("text", 'Send {"instances"'),
        (3, 'Send {"instances"'),
        ({"instances": {}}, '"instances" is no list of records'),
        ({"inputs": 3}, '"inputs" is no list of records'),
        ({"inputs": {"age": 3}}, '"inputs" is no list of values, one for each row'),
        ({"inputs": {"age": [3], "income": []}}, "have 0 to 1 values"),
        ({"dataframe_records": SPLIT}, '"dataframe_records" is no list of records'),
        ({"dataframe_split": [RECORD]}, '"dataframe_split" has lists of "columns" and "data"'),
        ({"dataframe_split": SPLIT | {"rows": 1}}, '"dataframe_split" has lists'),
        ({"dataframe_split": SPLIT | {"columns": "a"}}, '"columns" of "dataframe_split" is no'),
        ({"dataframe_split": SPLIT | {"columns": ["a", "a"]}}, "names a column twice"),
        ({"dataframe_split": {"columns": ["age"], "data": [[3]]}}, "lacks 'city', 'income'"),
        ({"dataframe_split": SPLIT | {"data": [ROW, [1]]}}, "Record 1 is no list of 3 values"),
        ({"instances": [RECORD], "inputs": [RECORD]}, "Unknown: 'inputs'"),
        ([ROW, RECORD], "Record 0 is no list of 4 values, as the columns are 'age', 'income', "),
        ([RECORD, ROW], "Record 1 is no JSON object of named values"),
        ([RECORD, RECORD | {"age": "x"}], "Record 1: column 'age' is 'x'"),
        ([RECORD, RECORD | {"city": "Paris"}], "Row 1 holds 'Paris' in column 'city'"),
        ({"rows": [RECORD]}, "'rows' is no column of the model"),
        ({"instances": [RECORD], "output": []}, "Unknown: 'output'"),
        ({"instances": [RECORD], "outputs": "predict"}, 'a list of "outputs"'),
        ({"instances": [RECORD], "outputs": [1]}, "no list of names"),
        ({"instances": [RECORD], "outputs": ["predct"]}, "Did you mean 'predict'"),
        ([3], "no JSON object of named values"),
        ({"age": 30, "city": "Rome"}, "Record 0 lacks 'income'"),
        ([{"age": 30}, {}], "All records lack 'city', 'income'"),
        (RECORD | {"age": "30"}, "Record 0: column 'age' is '30', where values of float64"),
        (RECORD | {"age": [30]}, "Record 0: column 'age' is [30]"),
        (RECORD | {"city": ["Rome"]}, "Record 0: column 'city' is ['Rome'], where text is read"),
        (RECORD | {"city": "Paris"}, "unknown categories in column 'city'"),
        (RECORD | {"age": None}, "NaN"),
    ],
)
def test_bad_records_have_their_reason(client, document, why):
    found = ask(client, "mixed", document)
    assert found.status_code == 400, found.text
    assert why in found.json()["error"]


@pytest.mark.parametrize("is_refused", [True, False])
def test_other_names_are_refused_where_the_source_refuses_them(is_refused):
    """A ColumnTransformer finds its columns by name, and leaves others alone."""
    scaler = StandardScaler()
    source = scaler if is_refused else make_column_transformer((scaler, ["age"]))
    model = hbconv.convert(source.fit(pd.DataFrame({"age": [1.0, 2.0]})), "reference")
    records = [{"age": 1.0, "note": "?"}]
    doors = (model.transform, lambda given: read_records(given, ModelSignature.of(model), 9))
    for door in doors:
        if is_refused:
            with pytest.raises(InputError, match="note"):
                door(records)
        else:
            door(records)


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
def test_a_bare_word_is_told_how_to_be_written(client, word):
    """As Python's json writes it."""
    body = f'[{{"age": {word}, "city": "Rome", "income": 1}}]'
    found = client.post("/v1/models/mixed:predict", content=body)
    assert (found.status_code, '\\"NaN\\" in quotes, or null' in found.text) == (400, True)
    found = client.post("/v1/models/mixed:predict", content='[{"age": NaNs')
    assert "in quotes" not in found.text


def test_lists_of_another_width(client):
    """Of a model without names, also inside what another server wraps them in."""
    found = ask(client, "numbers", {"dataframe_split": {"data": [[1, 2, 3]]}})
    assert "no list of 4 values" in found.json()["error"]
    assert "no list of 4 values" in ask(client, "numbers", [[1, 2, 3]]).json()["error"]


def test_missing_values_come_as_null_or_words(client, sources):
    """The source refuses them, by its own error."""
    for value in (None, "NaN"):
        found = ask(client, "numbers", [[1, 2, 3, value]])
        assert (found.status_code, "NaN" in found.text) == (400, True)


def test_a_value_that_is_no_number_has_its_place(client):
    found = ask(client, "numbers", [[1, 2, 3, 4], [1, 2, "x", 4]])
    assert "Record 1: value 2 is 'x', where values of float64" in found.json()["error"]


def test_a_number_that_is_no_number_of_the_dtype(client):
    found = ask(client, "numbers", [[1, 2, 3, 10**400]])
    assert found.status_code == 400


def test_answers_are_plain_numbers(client, sources):
    found = ask(client, "numbers", np.zeros((1, 4)).tolist()).json()["predictions"][0]
    assert list(found["predict_proba"]) == ["False", "True"]
