"""What a text file counts, or numbers, is checked against what it lists."""

import json
from dataclasses import replace

import numpy as np
import pytest
from late import late
from sklearn.feature_extraction.text import HashingVectorizer

import hbconv
from hbconv.containers import Entries
from hbconv.containers.extractors import Buckets

catboost = late("catboost")
xgboost = late("xgboost")

X = np.random.default_rng(0).normal(size=(60, 3))
Y = X[:, 0] > 0


@pytest.fixture(scope="module")
def booster():
    source = xgboost.XGBClassifier(n_estimators=3, max_depth=2, n_jobs=1).fit(X, Y)
    return json.loads(source.get_booster().save_raw("json"))


def test_trees_out_of_the_order_of_their_ids(booster):
    """XGBoost places a tree by its id, wherever it stands."""
    model = booster["learner"]["gradient_booster"]["model"]
    other = {**model, "trees": model["trees"][::-1]}
    learner = {**booster["learner"], "gradient_booster": {"name": "gbtree", "model": other}}
    with pytest.raises(hbconv.ConversionError, match="order of their ids"):
        hbconv.convert(json.dumps({**booster, "learner": learner}), backend="reference")


@pytest.mark.parametrize("name", ["num_class", "num_target", "num_feature"])
def test_counts_beyond_the_size_of_a_file(booster, name):
    param = {**booster["learner"]["learner_model_param"], name: str(2**21)}
    learner = {**booster["learner"], "learner_model_param": param}
    with pytest.raises(hbconv.ConversionError, match=f"{name}=2097152, and a file of"):
        hbconv.convert(json.dumps({**booster, "learner": learner}), backend="reference")


def test_classes_that_a_catboost_file_counts(tmp_path):
    source = catboost.CatBoostRegressor(iterations=2, verbose=0, allow_writing_files=False)
    source.fit(X, X[:, 0]).save_model(tmp_path / "m.json", format="json")
    document = json.loads((tmp_path / "m.json").read_bytes())
    document["model_info"]["class_params"] = {"classes_count": 2**40, "class_to_label": []}
    with pytest.raises(hbconv.UnsupportedError, match="classes_count"):
        hbconv.convert(json.dumps(document), backend="reference")


def test_no_buckets_to_hash_into():
    model = hbconv.convert(HashingVectorizer(n_features=64).fit(["a"]), backend="reference")
    (entries,) = (node for node in model.parsed.nodes() if isinstance(node, Entries))
    none = replace(entries, extractor=replace(entries.extractor, columns=Buckets(0)))
    assert "has 0 columns" in none.check()
