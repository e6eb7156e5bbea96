"""Statistics of the target by category: tables of every kind, and tables that contradict."""

from __future__ import annotations

import copy
import json

import catboost
import numpy as np
import pandas as pd
import pytest

import hbconv
from hbconv.containers import FindCode, Recode
from hbconv.errors import ConversionError, UnsupportedError
from hbconv.parse.catboost.columns import Inputs
from hbconv.parse.catboost.estimators import parse_catboost_json

RNG = np.random.default_rng(0)
SIZE = 400
ROWS = pd.DataFrame(
    {
        "x": np.where(RNG.random(SIZE) < 0.1, np.nan, RNG.standard_normal(SIZE)),
        "colour": RNG.choice(list("abcdefgh"), SIZE),
        "size": RNG.integers(-3, 3, SIZE),
        "flag": RNG.choice(["p", "q"], SIZE),
    }
)
UNSEEN = ROWS.assign(
    x=RNG.permutation(ROWS["x"]),
    colour=RNG.choice([*"abcdh", "", "-3", "unseen"], SIZE),
    size=RNG.integers(-6, 6, SIZE),
)
TARGET = (
    ROWS["colour"].isin(["a", "c"]) * 2.0
    + (ROWS["size"] % 3 == 0) * (ROWS["colour"] < "d")
    + (ROWS["x"] > 0) * (ROWS["flag"] == "q")
)
SETTINGS = {
    "iterations": 40,
    "depth": 4,
    "max_ctr_complexity": 4,
    "model_size_reg": 0,
    "learning_rate": 0.3,
    "verbose": 0,
    "allow_writing_files": False,
    "thread_count": 1,
    "cat_features": ["colour", "size", "flag"],
}


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    """A model of combinations of categories, with tests of the other columns among them."""
    path = tmp_path_factory.mktemp("statistics") / "m.json"
    model = catboost.CatBoostRegressor(**SETTINGS, combinations_ctr=["Borders", "Counter"])
    model.fit(ROWS, TARGET).save_model(str(path), format="json")
    return json.loads(path.read_text())


def element_kinds(document):
    ctrs = document["features_info"]["ctrs"]
    return {e["combination_element"] for ctr in ctrs for e in ctr["elements"]}


def require_as_catboost(document, tmp_path):
    """Compare the leaves with CatBoost's, whose reader rounds other numbers of a file."""
    path = tmp_path / "m.json"
    path.write_text(json.dumps(document))
    source = catboost.CatBoostRegressor().load_model(str(path), format="json")
    model = hbconv.convert(parse_catboost_json(path.read_bytes()), backend="reference")
    for rows in (ROWS, UNSEEN, UNSEEN[:1], UNSEEN[:0]):
        np.testing.assert_array_equal(model.apply(rows), source.calc_leaf_indexes(rows))


def test_the_model_of_these_tests_has_every_kind_of_element(document, tmp_path):
    assert element_kinds(document) == {
        "cat_feature_value",
        "cat_feature_exact_value",
        "float_feature",
    }
    require_as_catboost(document, tmp_path)


def test_codes_of_categories_are_shared(document):
    graph = parse_catboost_json(json.dumps(document).encode())
    found = [node for node in graph.nodes() if isinstance(node, FindCode)]
    statistics = [node for node in graph.nodes() if isinstance(node, Recode)][-1]
    assert max(node.type.width for node in found) <= 3  # colour, size, and both
    assert statistics.type.width == len(document["features_info"]["ctrs"]) > 10


def without_entries(document, kind, share):
    """Return the model without some entries of the tables of a kind."""
    changed = copy.deepcopy(document)
    rng = np.random.default_rng(1)
    for name, table in changed["ctr_data"].items():
        stride = table["hash_stride"]
        entries = np.array(table["hash_map"], object).reshape(-1, stride)
        if kind in name:
            entries = entries[rng.random(len(entries)) < share]
        table["hash_map"] = entries.ravel().tolist()
    return changed


@pytest.mark.parametrize("kind", ["float_feature", "cat_feature_exact_value", "cat_feature_value"])
@pytest.mark.parametrize("share", [0.5, 0.0])
def test_tables_that_lack_entries(document, kind, share, tmp_path):
    require_as_catboost(without_entries(document, kind, share), tmp_path)


def test_statistics_of_one_table_alone(document, tmp_path):
    """Nothing but its own hashes says which categories a table with tests knows."""
    changed = copy.deepcopy(document)
    tests = [t for t in changed["ctr_data"] if "float_feature" in t][:1]
    for name, table in changed["ctr_data"].items():
        if name not in tests:
            table["hash_map"] = table["hash_map"][: table["hash_stride"]]
    require_as_catboost(changed, tmp_path)


@pytest.mark.parametrize("prior", [(0, 0), (1, 0), (-1, 0), (0.3, 2)])
def test_priors(document, prior, tmp_path):
    changed = copy.deepcopy(document)
    first = {(c["identifier"], c["target_border_idx"]): c for c in changed["features_info"]["ctrs"]}
    for ctr in first.values():
        ctr["prior_numerator"] = prior[0]
        ctr["prior_denomerator"] = prior[1]
    require_as_catboost(changed, tmp_path)


CTR = ("features_info", "ctrs", 0)


def table_of(document):
    return document["ctr_data"][document["features_info"]["ctrs"][0]["identifier"]]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda d: d.pop("ctr_data"), "final_ctr_computation_mode='Skip'"),
        (lambda d: d["ctr_data"].clear(), "final_ctr_computation_mode='Skip'"),
        (lambda d: d["ctr_data"].popitem(), "has no table in ctr_data"),
        (lambda d: table_of(d).update(hash_stride=1), "numbers in entries of 1"),
        (lambda d: table_of(d).update(hash_stride=7), "numbers in entries of 7"),
        (lambda d: table_of(d).update(hash_stride=True), "numbers in entries of True"),
        (lambda d: table_of(d).pop("hash_map"), "cannot be read: KeyError"),
        (lambda d: table_of(d)["hash_map"].pop(), "numbers in entries of 3"),
        (lambda d: table_of(d)["hash_map"].__setitem__(0, 5), "no text of digits"),
        (lambda d: table_of(d)["hash_map"].__setitem__(0, "-1"), "no text of digits"),
        (lambda d: table_of(d)["hash_map"].__setitem__(0, "1" * 21), "a hash beyond 64 bits"),
        (
            lambda d: table_of(d)["hash_map"].__setitem__(
                slice(0, 4), [*table_of(d)["hash_map"][:3], table_of(d)["hash_map"][0]]
            ),
            "holds a hash twice",
        ),
        (lambda d: table_of(d)["hash_map"].__setitem__(1, 0.5), "no whole number of 31 bits"),
        (lambda d: table_of(d)["hash_map"].__setitem__(1, 2**31), "no whole number of 31 bits"),
        (lambda d: table_of(d)["hash_map"].__setitem__(1, None), "null, true, a text or NaN"),
        (lambda d: table_of(d).update(counter_denominator=-1), "counter_denominator=-1"),
        (lambda d: d["features_info"]["ctrs"][0].update(target_border_idx=9), "border_idx=9"),
        (lambda d: d["features_info"]["ctrs"][0].update(target_border_idx=None), "border_idx=None"),
        (lambda d: d["features_info"]["ctrs"][0].update(scale="15"), "null, true, a text or NaN"),
        (lambda d: d["features_info"]["ctrs"][0]["borders"].reverse(), "do not ascend"),
        (lambda d: d["features_info"]["ctrs"][0].update(ctr_type="Counter"), "named after other"),
        (lambda d: d["features_info"]["ctrs"][0].update(elements=[]), "named after other"),
        (lambda d: d["features_info"]["ctrs"][0].update(identifier="{"), "damaged"),
        (lambda d: d["features_info"]["ctrs"].pop(0), "not the one that its split_index names"),
        (lambda d: d["features_info"]["categorical_features"].clear(), "damaged|lacks features"),
        (lambda d: twice(d["features_info"]["categorical_features"]), "2 features have flat_fea"),
        (lambda d: twice(d["features_info"]["float_features"]), "2 features have flat_feature_ind"),
    ],
)
def test_tables_that_contradict_are_refused(document, change, says):
    changed = copy.deepcopy(document)
    change(changed)
    with pytest.raises((ConversionError, UnsupportedError), match=says):
        parse_catboost_json(json.dumps(changed).encode())


def twice(features):
    features.append(features[0])


def renamed(document, **change):
    """Return the model with another first element, and its table under the name of that."""
    changed = copy.deepcopy(document)
    ctr = changed["features_info"]["ctrs"][0]
    ctr["elements"] = [{**ctr["elements"][0], **change}]
    told = {"identifier": ctr["elements"], "type": ctr["ctr_type"]}
    before = ctr["identifier"]
    ctr["identifier"] = json.dumps(told)
    changed["ctr_data"][ctr["identifier"]] = changed["ctr_data"][before]
    return changed


@pytest.mark.parametrize("feature", [-1, 3, "0", None])
def test_statistics_of_other_features_are_refused(document, feature):
    changed = renamed(document, cat_feature_index=feature)
    with pytest.raises(ConversionError, match="which its features do not list"):
        parse_catboost_json(json.dumps(changed).encode())


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"combination_element": "text_feature"}, "combination_element='text_feature'"),
        (
            {"combination_element": "float_feature", "float_feature_index": 0, "border": 0.123},
            "about float_feature 0 0.123",
        ),
    ],
)
def test_elements_of_other_kinds_are_refused(document, change, says):
    with pytest.raises((ConversionError, UnsupportedError), match=says):
        parse_catboost_json(json.dumps(renamed(document, **change)).encode())


def test_inputs_are_numbers_then_categories_then_statistics(document):
    inputs = Inputs.of(document["features_info"], document["ctr_data"])
    assert inputs.numbers == (0,)
    assert [split.kind for split in inputs.splits[:: len(inputs.splits) - 1]] == [
        "FloatFeature",
        "OnlineCtr",
    ]
    assert inputs.splits[-1].column == inputs.width - 1
