"""Models saved for MLflow answer there as their source does."""

from __future__ import annotations

import asyncio
import json

import numpy as np
import pandas as pd
import pytest
from late import late
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import hbconv
import hbconv.mlflow as flavor

mlflow = late("mlflow")
scoring_server = late("mlflow.pyfunc.scoring_server")

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

PEOPLE = pd.DataFrame(
    {
        "age": [20.0, 31, 42, 53, 64, -0.0],
        "city": ["Rome", "Oslo", "Rome", "Lima", "Oslo", "nowhere"],
        "visits": [1, 5, 2, 8, 3, 2**40],
    }
)
LABELS = ["goes", "goes", "goes", "stays", "stays", "stays"]


@pytest.fixture(scope="module", autouse=True)
def _imported():
    """MLflow and what it imports warn of each other."""
    assert all([mlflow.pyfunc, mlflow.models, scoring_server.init])


@pytest.fixture(scope="module")
def source():
    columns = make_column_transformer(
        (StandardScaler(), ["age", "visits"]), (OneHotEncoder(handle_unknown="ignore"), ["city"])
    )
    return make_pipeline(columns, LogisticRegression()).fit(PEOPLE, LABELS)


@pytest.fixture(scope="module")
def model(source):
    return hbconv.convert(source)


@pytest.fixture(scope="module")
def saved(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("mlflow") / "churn"
    flavor.save_model(model, path, input_example=PEOPLE.head(2))
    return path


def test_pyfunc_answers_as_the_source(saved, source):
    found = mlflow.pyfunc.load_model(str(saved))
    assert found.predict(PEOPLE).tolist() == source.predict(PEOPLE).tolist()
    chances = found.predict(PEOPLE, params={"method": "predict_proba"})
    assert list(chances) == ["predict_proba_goes", "predict_proba_stays"]
    np.testing.assert_allclose(chances, source.predict_proba(PEOPLE), rtol=1e-9)


def test_the_signature_is_the_models(saved):
    signature = mlflow.models.get_model_info(str(saved)).signature
    assert [(c.name, c.type.name) for c in signature.inputs] == [
        ("age", "double"), ("city", "string"), ("visits", "long")
    ]  # fmt: skip
    assert [c.type.name for c in signature.outputs] == ["string"]
    assert signature.params.params[0].default == "predict"


def test_no_file_is_a_pickle(saved):
    names = {path.name for path in saved.iterdir()}
    assert {"MLmodel", "model.hbc", "requirements.txt", "conda.yaml", "python_env.yaml"} < names
    assert {path.suffix for path in saved.iterdir()} <= {"", ".hbc", ".txt", ".yaml", ".json"}
    wanted = (saved / "requirements.txt").read_text().split()
    assert f"hbconv[tvm]=={hbconv.__version__}" in wanted


def test_the_example_is_saved_and_is_answered(saved, source):
    found = mlflow.pyfunc.load_model(str(saved))
    example = found.input_example
    assert found.predict(example).tolist() == source.predict(PEOPLE.head(2)).tolist()


def test_loads_as_a_model_of_hbconv(saved, source, model):
    found = flavor.load_model(saved)
    assert isinstance(found, hbconv.Model)
    assert found.predict(PEOPLE).tolist() == source.predict(PEOPLE).tolist()


def test_runs_log_and_load_models(source, tmp_path, monkeypatch):
    """Without an example, types are those of the sample."""
    model = hbconv.convert(source, sample=PEOPLE)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(f"file:{tmp_path}/runs")
    with mlflow.start_run():
        info = flavor.log_model(model, "churn", method="predict_proba")
    found = mlflow.pyfunc.load_model(info.model_uri).predict(PEOPLE)
    np.testing.assert_allclose(found, source.predict_proba(PEOPLE), rtol=1e-9)
    again = flavor.load_model(info.model_uri)
    assert again.predict(PEOPLE).tolist() == source.predict(PEOPLE).tolist()


def ask(app, body):
    """Post to the scoring server of ``mlflow models serve``, in this process."""
    import httpx

    async def post():
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            return await client.post("/invocations", json=body)

    return asyncio.run(post())


def test_the_scoring_server_answers(saved, source):
    app = scoring_server.init(mlflow.pyfunc.load_model(str(saved)))
    records = json.loads(PEOPLE.to_json(orient="records"))
    answer = ask(app, {"dataframe_records": records})
    assert answer.status_code == 200, answer.text
    assert answer.json() == {"predictions": source.predict(PEOPLE).tolist()}
    body = {"dataframe_records": records, "params": {"method": "predict_proba"}}
    chances = pd.DataFrame(ask(app, body).json()["predictions"])
    np.testing.assert_allclose(chances, source.predict_proba(PEOPLE), rtol=1e-9)


def test_the_scoring_server_refuses_rows_that_do_not_fit(saved):
    app = scoring_server.init(mlflow.pyfunc.load_model(str(saved)))
    answer = ask(app, {"dataframe_records": [{"age": 1.0, "city": "Rome"}]})
    assert answer.status_code == 400
    assert "visits" in answer.text


def test_arrays_of_numbers_are_tensors(tmp_path):
    x = np.random.default_rng(0).normal(size=(60, 3))
    source = HistGradientBoostingRegressor(max_iter=5).fit(x, x[:, 0])
    flavor.save_model(hbconv.convert(source, backend="reference"), tmp_path / "m")
    found = mlflow.pyfunc.load_model(str(tmp_path / "m"))
    assert found.metadata.signature.inputs.is_tensor_spec()
    np.testing.assert_allclose(found.predict(x), source.predict(x), rtol=1e-12)
    app = scoring_server.init(found)
    answer = ask(app, {"inputs": x[:2].tolist()}).json()
    np.testing.assert_allclose(answer["predictions"], source.predict(x[:2]), rtol=1e-12)


def test_refusals(model, saved, tmp_path):
    with pytest.raises(hbconv.OptionError, match="is not empty"):
        flavor.save_model(model, saved)
    with pytest.raises(hbconv.OptionError, match="has no method 'transform'"):
        flavor.save_model(model, tmp_path / "m", method="transform")
    assert not (tmp_path / "m").exists()
    (tmp_path / "MLmodel").write_text("flavors: {sklearn: {}}\n")
    with pytest.raises(hbconv.OptionError, match=r"has no flavour 'hbconv'\. It has: sklearn"):
        flavor.load_model(tmp_path)
