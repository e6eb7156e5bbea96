"""``hbconv report``: the same structure, and no value of the user's."""

import json
import subprocess
import sys
from pathlib import Path

import joblib
import lightgbm
import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import KNNImputer
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    KBinsDiscretizer,
    OneHotEncoder,
    OrdinalEncoder,
    QuantileTransformer,
    StandardScaler,
)

import hbconv
from hbconv.cli import main, report
from hbconv.runtime.report.noise import make_noise, without_data

RNG = np.random.default_rng(7)
SECRETS = ("Wolfsburg", "Kiruna", "salary", "district", "remark", "promoted", "secretive")
TABLE = pd.DataFrame(
    {
        "salary": RNG.gamma(3, 777, 80),
        "district": RNG.choice(["Wolfsburg", "Kiruna"], 80),
        "remark": RNG.choice(["promoted early", "secretive"], 80),
        "code": RNG.choice([104729, 1299709], 80),
    }
)
LABELS = np.where(TABLE.salary > 2000, "promoted", "secretive")


def mixed():
    prepare = make_column_transformer(
        (StandardScaler(), ["salary"]),
        (OneHotEncoder(handle_unknown="ignore"), ["district", "code"]),
        (TfidfVectorizer(stop_words=["early"]), "remark"),
    )
    forest = RandomForestClassifier(3, max_depth=3, random_state=0)
    return Pipeline([("salary_of_kiruna", prepare), ("forest", forest)]).fit(TABLE, LABELS)


def numeric(*steps):
    return make_pipeline(*steps).fit(TABLE[["salary", "code"]], TABLE.salary)


def boosted():
    table = TABLE[["salary", "district"]].astype({"district": "category"})
    few = {"n_estimators": 4, "min_child_samples": 2, "verbose": -1}
    return lightgbm.LGBMClassifier(**few).fit(table, TABLE.code)


MODELS = {
    "mixed": mixed,
    "boosted": boosted,
    "network": lambda: numeric(StandardScaler(), MLPRegressor(hidden_layer_sizes=(4,), max_iter=3)),
    "neighbours": lambda: numeric(KNNImputer(), KNeighborsRegressor(3)),
    "bins": lambda: numeric(
        QuantileTransformer(n_quantiles=9), KBinsDiscretizer(3), KNeighborsRegressor(3)
    ),
    "ordinal": lambda: OrdinalEncoder().fit(TABLE[["district", "code"]]),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODELS)
def test_noise_has_the_structure_and_no_value(name):
    graph = hbconv.convert(MODELS[name](), backend="reference").parsed
    noise = without_data(graph)
    model = hbconv.convert(noise, backend="reference")
    kinds = [[type(node) for node in g.nodes()] for g in (graph, noise)]
    assert kinds[0] == kinds[1]
    rows = make_noise(noise, 9)
    for method in set(model.methods) & {"predict", "predict_proba", "transform"}:
        getattr(model, method)(rows)
    told = f"{noise!r}{noise.schema}{[vars(node) for node in noise.nodes()]}"
    told += model.explain().__str__()
    assert [secret for secret in (*SECRETS, "104729", "1299709") if secret in told] == []


def test_numbers_keep_their_order_and_equality():
    forest = RandomForestClassifier(4, max_depth=4, random_state=0)
    graph = hbconv.convert(forest.fit(TABLE[["salary"]], LABELS), backend="reference").parsed
    (before,), (after,) = (
        [node.forest for node in g.nodes() if hasattr(node, "forest")][:1]
        for g in (graph, without_data(graph))
    )
    old, new = before.threshold.data, after.threshold.data
    assert not np.isin(new, old).any()
    assert np.array_equal(np.argsort(old, kind="stable"), np.argsort(new, kind="stable"))
    assert np.array_equal(
        np.unique(old, return_inverse=True)[1], np.unique(new, return_inverse=True)[1]
    )
    assert np.array_equal(before.feature.data, after.feature.data)


def test_the_folder_repeats_the_model(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    joblib.dump(mixed(), "m.joblib")
    asked = ["report", "m.joblib", "--allow-pickle", "--backend", "reference", "-o", "report"]
    assert main(asked) == 0
    told = capsys.readouterr().out
    files = {path.name: path.read_bytes() for path in Path("report").iterdir()}
    assert files.keys() == {"report.txt", "reproducer.hbc", "reproduce.py"}
    assert "backends: " in told
    assert "The model answers as its source does." in told
    every = told.encode() + b"".join(files.values())
    assert [secret for secret in SECRETS if secret.encode() in every] == []
    done = subprocess.run(
        [sys.executable, "reproduce.py"], check=True, capture_output=True, cwd="report", text=True
    )
    assert "The model answers as its source does." in done.stdout
    assert main(asked) == 2
    assert "report is there already" in capsys.readouterr().err


def test_a_refused_model_is_named_without_its_values(capsys, tmp_path):
    source = KNeighborsRegressor(weights=lambda d: 1 / (d + 104729)).fit(
        TABLE[["salary"]], TABLE.code
    )
    import cloudpickle

    (tmp_path / "m.pkl").write_bytes(cloudpickle.dumps(source))
    assert main(["report", str(tmp_path / "m.pkl"), "--allow-pickle", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["model"]["refused"] == "KNeighborsRegressor, parameter weights"


def test_the_machine_alone(capsys):
    assert main(["report", "--json"]) == 0
    machine = json.loads(capsys.readouterr().out)["machine"]
    assert machine["numpy"] == np.__version__
    assert "reference" in machine["backends"]
    assert main(["report", "-o", "x"]) == 2


def test_the_processor_is_told_with_what_kernels_use(capsys, monkeypatch):
    monkeypatch.setattr(report, "find_processor", lambda: "Fast 9")
    monkeypatch.setattr(report, "find_flags", lambda: {"fpu", "avx2", "avx512vbmi"})
    assert main(["report", "--json"]) == 0
    machine = json.loads(capsys.readouterr().out)["machine"]
    assert machine["processor"] == "Fast 9 avx2 avx512vbmi"
