import json

import catboost
import numpy as np
import pandas as pd
import pytest
from sources import compared, dense, quietly
from tolerances import FUNCTION, assert_units
from trees.battery import check

import hbconv
from hbconv.errors import (
    BackendError,
    ConversionError,
    InputError,
    NotFittedError,
    OptionError,
    UnsupportedError,
)
from hbconv.parse import parse
from hbconv.parse.catboost.estimators import parse_catboost_json
from hbconv.parse.catboost.model_json import read_catboost_json

RNG = np.random.default_rng(0)
X = RNG.standard_normal((300, 4))
VALUE = X[:, 0] + (X[:, 1] > 0) + 0.2 * RNG.standard_normal(300)
SMALL = {"iterations": 5, "depth": 3, "verbose": 0, "allow_writing_files": False, "thread_count": 1}
COLOURS = np.array(["red", "blue", "green", "dark blue"], dtype=object)


def table(*order):
    columns = {
        "a": X[:, 0],
        "colour": RNG.choice(COLOURS, 300),
        "b": X[:, 1],
        "size": RNG.integers(-2, 4, 300),
    }
    return pd.DataFrame({name: columns[name] for name in order or columns})


def listed(frame, **settings):
    """A model with two columns of categories."""
    told = (frame["colour"] == "red") * 2 + (frame["size"] % 3) + frame["a"]
    return catboost.CatBoostRegressor(
        cat_features=["colour", "size"], **{"one_hot_max_size": 9, **SMALL, **settings}
    ).fit(frame, told)


def exported(model, path):
    model.save_model(path / "model.json", format="json")
    return (path / "model.json").read_bytes()


def convert(model, **options):
    return hbconv.convert(model, backend="reference", **options)


def same(converted, model, rows, *methods, ulp=FUNCTION):
    """Assert equal answers; probabilities and their logarithms within units."""
    for method in methods or compared(converted):
        got = dense(getattr(converted, method)(rows))
        want = dense(quietly(model, method, rows))
        assert_units(method, got, want, ulp * method.endswith("proba"))


@pytest.mark.parametrize("policy", ["SymmetricTree", "Depthwise"])
@pytest.mark.parametrize(
    "order", [("a", "colour", "b", "size"), ("size", "colour", "b", "a"), ("colour", "size", "a")]
)
def test_categories_between_numbers(order, policy):
    frame = table(*order)
    model = listed(frame, grow_policy=policy)
    unseen = frame.assign(
        colour=RNG.choice([*COLOURS, "mauve", "Red", ""], 300), size=RNG.integers(-9, 9, 300)
    )
    check(model, [frame, unseen, unseen[:1]])
    assert "on categories" in str(convert(model).explain())


@pytest.mark.parametrize("most", [9, 2])
def test_categories_in_every_form(most):
    frame = table()
    model = listed(frame, one_hot_max_size=most)
    converted = convert(model)
    want = model.predict(frame)
    for colour in ("category", "string", object):
        for size in ("int8", "category", object, str):
            np.testing.assert_array_equal(
                converted.predict(frame.astype({"colour": colour, "size": size})), want
            )
    whole = catboost.CatBoostClassifier(cat_features=[0, 2], one_hot_max_size=9, **SMALL).fit(
        RNG.integers(0, 5, (300, 3)), VALUE > 0
    )
    same(convert(whole), whole, RNG.integers(-1, 7, (300, 3)))


@pytest.mark.parametrize("column", ["colour", "size"])
@pytest.mark.parametrize("bad", [np.nan, None, 1.5])
@pytest.mark.parametrize("most", [9, 2])
def test_values_that_are_no_categories_are_refused(column, bad, most):
    frame = table()
    model = listed(frame, one_hot_max_size=most)
    frame[column] = frame[column].astype(object)
    frame.loc[7, column] = bad
    with pytest.raises((catboost.CatBoostError, TypeError)):
        model.predict(frame)
    with pytest.raises(InputError, match=f"Column {column!r} holds"):
        convert(model).predict(frame)


def test_arrays_of_floats_hold_no_categories():
    model = catboost.CatBoostRegressor(cat_features=[1], one_hot_max_size=9, **SMALL).fit(
        RNG.integers(0, 5, (300, 3)), VALUE
    )
    with pytest.raises(InputError, match="not whole"):
        convert(model).predict(np.ones((2, 3)))


@pytest.mark.parametrize("most", [9, 2])
def test_a_saved_model_keeps_its_categories(most, tmp_path):
    frame = table()
    model = listed(frame, one_hot_max_size=most)
    convert(model).save(tmp_path / "model.hbc")
    same(hbconv.load(tmp_path / "model.hbc"), model, frame)


@pytest.mark.parametrize("most", [9, 2])
def test_onnx_files_hold_no_hashes(most, tmp_path):
    model = hbconv.convert(listed(table(), one_hot_max_size=most), backend="onnx")
    with pytest.raises(
        BackendError, match="Column 'colour' holds categories of which the model kept hashes alone"
    ):
        model.export(tmp_path / "model.onnx")


@pytest.mark.parametrize("policy", ["SymmetricTree", "Lossguide"])
def test_a_file_answers_as_the_model_it_was_written_from(policy, tmp_path):
    model = catboost.CatBoostClassifier(grow_policy=policy, **SMALL).fit(
        X, np.digitize(VALUE, [0, 1])
    )
    converted = hbconv.convert(parse_catboost_json(exported(model, tmp_path)), backend="reference")
    same(
        converted, model, X, *(set(compared(converted)) - {"apply"})
    )  # CatBoost itself reads the numbers of its JSON less exactly
    same(
        converted,
        catboost.CatBoostClassifier().load_model(tmp_path / "model.json", format="json"),
        X,
        "apply",
    )


def test_a_regressor_file_predicts_what_its_objective_is_about(tmp_path):
    model = catboost.CatBoostRegressor(loss_function="Tweedie:variance_power=1.5", **SMALL).fit(
        table()[["a", "b"]], np.exp(VALUE)
    )
    graph = parse_catboost_json(exported(model, tmp_path))
    assert graph.schema.names == ("a", "b")
    same(hbconv.convert(graph, backend="reference"), model, table()[["a", "b"]])


def test_numbers_of_the_file_are_exact(tmp_path):
    model = catboost.CatBoostRegressor(**SMALL).fit(X, VALUE)
    values = RNG.standard_normal(model.get_leaf_values().size) * 10.0 ** RNG.integers(
        -300, 300, model.get_leaf_values().size
    )
    model.set_leaf_values(values)
    forest = read_catboost_json(exported(model, tmp_path)).forest
    np.testing.assert_array_equal(forest.values.data[:, 0], values)
    assert set(forest.threshold.data.tolist()) <= {
        float(np.float32(b)) for own in model.get_borders().values() for b in own
    }


def test_sums_of_models():
    models = [
        catboost.CatBoostRegressor(random_seed=seed, **SMALL).fit(X, VALUE) for seed in (0, 1)
    ]
    blend = catboost.sum_models(models, [0.3, 0.7])
    same(convert(blend), blend, X)
    two = [
        catboost.CatBoostClassifier(random_seed=seed, **SMALL).fit(X, VALUE > 0) for seed in (0, 1)
    ]
    blend = catboost.to_classifier(catboost.sum_models(two, [0.5, 0.5]))
    same(convert(blend), blend, X)


@pytest.mark.parametrize("policy", ["LeaveMostDiversifiedTable", "IntersectingCountersAverage"])
def test_sums_of_models_with_statistics_of_categories(policy):
    frame = table()
    models = [listed(frame, one_hot_max_size=2, random_seed=seed) for seed in (0, 1)]
    blend = catboost.sum_models(models, [0.3, 0.7], ctr_merge_policy=policy)
    same(convert(blend), blend, frame, "raw_scores", "apply")


@pytest.mark.parametrize("kind", ["Borders", "Buckets"])
def test_statistics_that_share_one_table_are_refused(kind):
    """CatBoost's JSON keeps one table of those that differ by TargetBorderCount alone."""
    frame = table()[["colour"]]
    settings = {"simple_ctr": [kind, f"{kind}:TargetBorderCount=4"], "one_hot_max_size": 1}
    model = catboost.CatBoostRegressor(cat_features=["colour"], **settings, **SMALL)
    with pytest.raises(UnsupportedError, match=f"simple_ctr='{kind}'"):
        convert(model.fit(frame, VALUE))


def test_sums_that_keep_all_tables_are_refused():
    frame = table()
    models = [listed(frame, one_hot_max_size=2, random_seed=seed) for seed in (0, 1)]
    blend = catboost.sum_models(models, [0.3, 0.7], ctr_merge_policy="KeepAllTables")
    with pytest.raises(UnsupportedError, match="KeepAllTables"):
        convert(blend)


def test_categories_that_no_tree_reads_are_refused():
    frame = pd.DataFrame({"id": [str(i) for i in range(300)]})
    model = catboost.CatBoostRegressor(cat_features=["id"], **SMALL).fit(frame, VALUE)
    with pytest.raises(UnsupportedError, match="unused by all trees"):
        convert(model)


def test_a_model_loaded_as_another_class(tmp_path):
    model = catboost.CatBoostRegressor(loss_function="Poisson", **SMALL).fit(X, np.exp(VALUE))
    model.save_model(tmp_path / "model.cbm")
    for cls in (catboost.CatBoost, catboost.CatBoostRegressor, catboost.CatBoostRanker):
        loaded = cls().load_model(tmp_path / "model.cbm")
        same(convert(loaded), loaded, X)
    with pytest.raises(UnsupportedError, match="loss_function='Poisson'"):
        convert(catboost.CatBoostClassifier().load_model(tmp_path / "model.cbm"))


def test_iterations_beyond_the_last_are_refused():
    model = catboost.CatBoostRegressor(**SMALL).fit(X, VALUE)
    with pytest.raises(OptionError, match="beyond the model's 5 trees"):
        convert(model, iterations=(2, 6))


def test_columns_are_found_by_name():
    frame = table()
    same(convert(listed(frame)), listed(frame), frame, "predict")
    model = listed(frame)
    np.testing.assert_array_equal(
        convert(model).predict(frame[["size", "b", "colour", "a"]]), model.predict(frame)
    )


def test_features_dropped_from_a_model_are_refused():
    model = catboost.CatBoostRegressor(ignored_features=[0], **SMALL).fit(X, VALUE)
    same(convert(model), model, X)
    model.drop_unused_features()
    with pytest.raises(UnsupportedError, match="drop_unused_features"):
        convert(model)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"text_features": ["colour"]}, "text_features"),
        ({"class_names": [0, 1, 2], "loss_function": "MultiClass"}, "class_names"),
    ],
)
def test_what_has_no_exact_form_is_refused_by_name(settings, message):
    frame = table("a", "colour")
    frame["colour"] += RNG.choice([" a", " b", " c"], 300)
    if "class_names" in settings:
        frame = frame[["a"]]
    with pytest.raises(UnsupportedError, match=message):
        parse(catboost.CatBoostClassifier(**settings, **SMALL).fit(frame, (VALUE > 0).astype(int)))


def test_trees_of_no_finite_leaf_are_refused():
    model = catboost.CatBoostRegressor(**SMALL).fit(X, VALUE)
    values = model.get_leaf_values()
    values[3] = np.inf
    model.set_leaf_values(values)
    with pytest.raises(UnsupportedError, match=r"does not write it as JSON.*inf"):
        parse(model)


def test_models_that_are_not_fitted():
    with pytest.raises(NotFittedError, match=r"CatBoostRegressor.*is not fitted"):
        parse(catboost.CatBoostRegressor())


def damaged(document, change):
    change(document)
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.pop("scale_and_bias"),
        lambda d: d.pop("oblivious_trees"),
        lambda d: d["oblivious_trees"][0]["leaf_values"].pop(),
        lambda d: d["oblivious_trees"][1]["splits"].pop(),
        lambda d: d["oblivious_trees"][0]["splits"][0].update(float_feature_index=9),
        lambda d: d["oblivious_trees"][0]["splits"][0].update(border="wide"),
        lambda d: d["features_info"]["float_features"][0].pop("nan_value_treatment"),
        lambda d: d["model_info"].update(params="{"),
    ],
)
def test_damaged_files_are_refused(change, tmp_path):
    document = json.loads(exported(catboost.CatBoostRegressor(**SMALL).fit(X, VALUE), tmp_path))
    with pytest.raises(ConversionError, match="damaged"):
        parse_catboost_json(damaged(document, change))


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"features_info": 3', b"\x00\x01"])
def test_other_files_are_refused(data):
    with pytest.raises(ConversionError, match="not a CatBoost model"):
        parse_catboost_json(data)
