"""Examples that OpenAPI gives: the model answers them, and other values are refused as it says."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, OrdinalEncoder, StandardScaler

import hbconv
from hbconv.serve import examples
from hbconv.serve.examples import find_example
from hbconv.serve.protocol.openapi import openapi_document
from hbconv.serve.protocol.records import read_records
from hbconv.serve.served_model import compute, warm

FRAME = pd.DataFrame(
    {
        "plan": ["q", "p", "q", "p"],
        "grade": [3, 5, 3, 7],
        "day": pd.to_datetime(["2024-01-01", "2024-02-01", "2024-03-01", "2024-04-01"]),
        "spend": [110.0, 120.0, 130.0, 140.0],
        "loose": ["a", "b", "a", "b"],
    }
)
LABELS = [0, 1, 0, 1]


def described(source, rows=FRAME):
    served = warm("m", "1", hbconv.convert(source.fit(rows, LABELS), backend="reference"))
    content = openapi_document({"m": {"1": served}}, secured=False)["paths"]
    return served, {
        path: methods["post"]["requestBody"]["content"]["application/json"]
        for path, methods in content.items()
        if "m:predict" in path or path == "/invocations"
    }


def strict(*columns):
    return make_column_transformer((OneHotEncoder(sparse_output=False), [*columns]))


@pytest.mark.parametrize(
    ("prepare", "names", "closed"),
    [
        (strict("plan", "grade"), {"plan": "p", "grade": 3}, {"plan": ["p", "q"], "grade": [3, 5, 7]}),
        (
            make_column_transformer(
                (OneHotEncoder(sparse_output=False), ["plan"]),
                (OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["loose"]),
                (StandardScaler(), ["spend"]),
            ),
            {"plan": "p", "spend": 125.0, "loose": "a"},
            {"plan": ["p", "q"]},
        ),
        (make_column_transformer((OrdinalEncoder(), ["plan"])), {"plan": "p"}, {"plan": ["p", "q"]}),
        (make_column_transformer((MinMaxScaler(), ["spend"])), {"spend": 0.0}, {}),
    ],
)  # fmt: skip
def test_an_example_is_answered_and_choices_are_those_of_fitting(prepare, names, closed):
    served, contents = described(make_pipeline(prepare, LogisticRegression()))
    example = find_example(served)
    assert example.values == names
    assert {name: list(choices) for name, choices in example.choices.items()} == closed
    assert len(contents) == 2
    for content in contents.values():
        asked = read_records(content["example"], served.signature, 9)
        assert compute(served.model, served.signature, asked.rows, asked.wanted)
        record = content["schema"]["properties"]["instances"]["items"]
        enums = {k: v["enum"] for k, v in record["properties"].items() if "enum" in v}
        assert enums == closed


def test_a_forest_is_asked_near_its_thresholds():
    rows = np.array([[1000.0, 0.5], [2000.0, 0.7], [1000.0, 0.5], [2000.0, 0.7]])
    served, _ = described(RandomForestClassifier(5, random_state=0), rows)
    first, second = find_example(served).values.values()
    assert 1000 < first < 2000
    assert 0.5 < second < 0.7


def test_long_vocabularies_are_not_listed(monkeypatch):
    monkeypatch.setattr(examples, "MOST_CHOICES", 1)
    served, contents = described(make_pipeline(strict("plan"), LogisticRegression()))
    assert find_example(served).values == {"plan": "p"}
    assert '"q"' not in str(contents)
