"""Half a character is refused where a file is read, in every format that may hold one."""

import json
import zipfile
from io import BytesIO

import numpy as np
import pandas as pd
import pytest
from late import late
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import hbconv
from hbconv.system.files import read_json

io = late("skops.io")
lightgbm = late("lightgbm")
xgboost = late("xgboost")

HALF = "\ud800"
X = np.random.default_rng(0).normal(size=(40, 2))
Y = X[:, 0] > 0


def scaled(name):
    return StandardScaler().fit(pd.DataFrame(X, columns=[name, "b"]))


@pytest.mark.parametrize("text", ['"\\ud83d\\ude00"', '{"caf\\u00e9": "\\\\ud800"}', "[NaN]"])
def test_whole_characters_are_read(text):
    assert json.dumps(read_json(text)) == json.dumps(json.loads(text))


@pytest.mark.parametrize(
    "text", ['"\\uD800"', '{"\\udfff": 1}', b'"\xed\xa0\x80"', '["\\ude00\\ud83d"]', '"\ud83d"']
)
def test_halves_are_refused(text):
    with pytest.raises(ValueError, match=r"surrogate|decode|encode"):
        read_json(text)


def replaced(data, old, new):
    """Write other bytes into all members of an archive, with the checksums that fit."""
    out = BytesIO()
    with zipfile.ZipFile(BytesIO(data)) as given, zipfile.ZipFile(out, "w") as archive:
        for name in given.namelist():
            archive.writestr(name, given.read(name).replace(old, new))
    return out.getvalue()


@pytest.mark.parametrize(
    "source",
    [
        scaled("column"),
        OneHotEncoder().fit(np.array([["column"], ["other"]], object)),
        LogisticRegression().fit(X, np.where(Y, "column", "other")),
    ],
    ids=["a column", "a category", "a class"],
)
@pytest.mark.parametrize("kind", ["hbc", "skops"])
def test_names_of_files_are_whole(source, kind, tmp_path):
    hbconv.convert(source, backend="reference").save(tmp_path / "m.hbc")
    data = (tmp_path / "m.hbc").read_bytes() if kind == "hbc" else io.dumps(source)
    changed = replaced(data, b"column", b"\\\\ud800" if kind == "skops" else b"\\ud800")
    if kind == "skops":
        changed = replaced(
            changed,
            "column".encode("utf-32-le"),
            (HALF + "olumn").encode("utf-32-le", "surrogatepass"),
        )
    read = hbconv.load if kind == "hbc" else hbconv.convert
    (tmp_path / "m").write_bytes(changed)
    with pytest.raises(hbconv.HbconvError, match="surrogate"):
        read(tmp_path / "m", backend="reference")


def test_a_model_that_could_not_be_read_is_not_saved(tmp_path):
    source = OneHotEncoder().fit(np.array([[HALF], ["other"]], object))
    model = hbconv.convert(source, backend="reference")
    with pytest.raises(hbconv.StoreError, match="surrogate"):
        model.save(tmp_path / "m.hbc")
    assert not list(tmp_path.iterdir())


def test_names_of_boosters_are_whole():
    table = pd.DataFrame(X, columns=["column", "b"])
    quiet = {"n_estimators": 2, "n_jobs": 1}
    text = xgboost.XGBClassifier(**quiet).fit(table, Y).get_booster().save_raw("json")
    with pytest.raises(hbconv.ConversionError, match="surrogate"):
        hbconv.convert(bytes(text).replace(b"column", b"\\ud800"), backend="reference")
    table["c"] = pd.Categorical(np.where(Y, "column", "other"))
    lgb = lightgbm.LGBMClassifier(**quiet, verbose=-1).fit(table, Y).booster_.model_to_string()
    with pytest.raises(hbconv.ConversionError, match="surrogate"):
        hbconv.convert(lgb.replace('"column"', '"\\ud800"'), backend="reference")
