import json

import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from scoring import assert_same, forest_of, score, threshold_rows
from tolerances import FUNCTION, assert_units

import hbconv
from hbconv.errors import ConversionError, InputError, UnsupportedError
from hbconv.parse import parse
from hbconv.parse.xgboost.estimators import parse_xgboost_bytes
from hbconv.parse.xgboost.model_file import decode_ubjson, read_xgboost_bytes
from hbconv.parse.xgboost.trees import LINKS

RNG = np.random.default_rng(0)
X = RNG.standard_normal((500, 5))
X[:, 4] = RNG.integers(-1, 3, 500)
X[RNG.random(X.shape) < 0.1] = np.nan
LABELS = RNG.integers(0, 3, 500)
TARGET = RNG.random(500) * 0.8 + 0.1
SMALL = {"n_estimators": 8, "max_depth": 4, "n_jobs": 1}
BOOSTERS = [
    {},
    {"booster": "dart", "rate_drop": 0.4},
    {"num_parallel_tree": 3, "subsample": 0.5},
    {"tree_method": "exact", "gamma": 1.0},
    {"grow_policy": "lossguide", "max_depth": 0, "max_leaves": 9},
]
DTYPES = ["float32", "float64"]


def answers_as_booster(model, booster, rows, ulp=0):
    assert_units("predict", score(model, rows), booster.predict(xgb.DMatrix(rows)), ulp)


def assert_raw_and_leaves(model, rows):
    """Leaf numbers and margins, bit for bit."""
    forest = forest_of(parse(model))
    narrow = rows.astype(np.float32)
    leaves = forest.leaf_id.data[forest.leaves(narrow)]
    finite = ~np.isinf(narrow).any(axis=1)
    np.testing.assert_array_equal(
        leaves[finite], model.apply(rows[finite]).reshape(-1, forest.n_trees)
    )
    np.testing.assert_array_equal(
        forest.scores(narrow), model.predict(rows, output_margin=True).reshape(len(rows), -1)
    )


def rows_of(model, dtype="float64", **kinds):
    return threshold_rows(forest_of(parse(model)), dtype, **kinds)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "labels",
    [LABELS, LABELS == 1, np.stack([LABELS == 0, LABELS > 0, LABELS == 2], axis=1)],
    ids=["three", "two", "multilabel"],
)
@pytest.mark.parametrize("parameters", BOOSTERS, ids=lambda p: next(iter(p), "gbtree"))
def test_classifiers_at_their_thresholds(parameters, labels, dtype):
    model = xgb.XGBClassifier(**{**SMALL, **parameters}).fit(X, labels)
    rows = rows_of(model, dtype)
    with np.errstate(over="ignore"):
        assert_raw_and_leaves(model, rows)
    assert_same(model, rows, "predict", "predict_proba", ulp=FUNCTION)
    finite = rows_of(model, dtype, infinite=False)
    answers_as_booster(model.get_booster(), model.get_booster(), finite, ulp=FUNCTION)


@pytest.mark.parametrize("base_score", [None, 0.3, 1e-7])
@pytest.mark.parametrize(
    "objective",
    sorted(
        o
        for o in LINKS
        if not o.startswith(("multi", "rank", "survival:aft")) and o != "reg:linear"
    ),
)
def test_objectives(objective, base_score):
    target = (TARGET > 0.5) if objective.startswith("binary") else TARGET
    alpha = {"quantile_alpha": [0.1, 0.5, 0.9]} if "quantile" in objective else {}
    model = xgb.XGBRegressor(**SMALL, **alpha, objective=objective, base_score=base_score).fit(
        X, target
    )
    rows = rows_of(model, infinite=False)
    assert_raw_and_leaves(model, rows)
    assert_same(model, rows, "predict", "apply", ulp=FUNCTION)
    booster = model.get_booster()
    for made_of in (
        booster,
        *(parse_xgboost_bytes(bytes(booster.save_raw(form))) for form in ("json", "ubj")),
    ):
        answers_as_booster(made_of, booster, rows, ulp=FUNCTION)


def test_accelerated_failure_time():
    data = xgb.DMatrix(X, label_lower_bound=TARGET, label_upper_bound=TARGET + 1)
    booster = xgb.train({"objective": "survival:aft", "max_depth": 3}, data, 5)
    answers_as_booster(booster, booster, rows_of(booster, infinite=False), ulp=FUNCTION)


@pytest.mark.parametrize("objective", ["multi:softmax", "multi:softprob"])
def test_multiclass_objectives(objective):
    model = xgb.XGBClassifier(**SMALL, objective=objective).fit(X, LABELS)
    assert_same(model, rows_of(model), "predict", ulp=FUNCTION)
    # The wrapper takes this softmax in numpy's float32, whose exponential is good to 2 units.
    assert_same(model, rows_of(model), "predict_proba", ulp=FUNCTION)
    answers_as_booster(
        model.get_booster(), model.get_booster(), rows_of(model, infinite=False), ulp=FUNCTION
    )


@pytest.mark.parametrize("objective", ["binary:logitraw", "binary:hinge"])
def test_classifiers_of_other_binary_objectives(objective):
    model = xgb.XGBClassifier(**SMALL, objective=objective).fit(X, LABELS == 1)
    assert_same(model, rows_of(model), "predict", "predict_proba")


@pytest.mark.parametrize("objective", ["rank:ndcg", "rank:map", "rank:pairwise"])
def test_rankers(objective):
    model = xgb.XGBRanker(**SMALL, objective=objective).fit(X, LABELS == 1, group=[200, 300])
    assert_same(model, rows_of(model), "predict")


@pytest.mark.parametrize("parameters", BOOSTERS[:3], ids=lambda p: next(iter(p), "gbtree"))
def test_several_targets(parameters):
    model = xgb.XGBRegressor(**SMALL, **parameters).fit(
        X, np.stack([TARGET, -TARGET, LABELS], axis=1)
    )
    assert_same(model, rows_of(model), "predict")


@pytest.mark.parametrize("cls", [xgb.XGBRFClassifier, xgb.XGBRFRegressor])
def test_random_forests(cls):
    assert_same(
        cls(n_estimators=6, max_depth=3, random_state=0).fit(X, LABELS == 1),
        X,
        "predict",
        ulp=FUNCTION,
    )


@pytest.mark.parametrize(
    "rows",
    [X[:1], np.asfortranarray(X[:7]), X[::2], RNG.integers(-(2**40), 2**40, (9, 5))],
    ids=["one", "fortran", "strided", "int64"],
)
def test_row_layouts(rows):
    model = xgb.XGBClassifier(**SMALL).fit(X, LABELS)
    assert_same(model, rows, "predict", "predict_proba", "apply", ulp=FUNCTION)


def test_no_rows():
    model = xgb.XGBClassifier(**SMALL).fit(X, LABELS)
    assert score(model, X[:0], "predict_proba").shape == (0, 3)


def test_the_best_iteration_counts_for_the_wrapper_alone():
    model = xgb.XGBClassifier(
        **{**SMALL, "n_estimators": 40}, early_stopping_rounds=3, num_parallel_tree=2, subsample=0.5
    )
    model.fit(X, LABELS, eval_set=[(X, np.roll(LABELS, 1))], verbose=False)
    assert (
        forest_of(parse(model)).n_trees
        == (model.best_iteration + 1) * 6
        < len(model.get_booster().get_dump())
    )
    assert_same(model, X, "predict", "predict_proba", "apply", ulp=FUNCTION)
    answers_as_booster(model.get_booster(), model.get_booster(), X, ulp=FUNCTION)


def test_dart_sums_differ_between_wrapper_and_booster():
    model = xgb.XGBRegressor(**{**SMALL, "n_estimators": 40}, booster="dart", rate_drop=0.5).fit(
        X, TARGET
    )
    wrapper = model.predict(X)
    booster = model.get_booster().predict(xgb.DMatrix(X))
    assert not np.array_equal(wrapper, booster)
    np.testing.assert_array_equal(score(model, X), wrapper)
    np.testing.assert_array_equal(score(model.get_booster(), X), booster)


def test_single_leaf_trees_and_one_tree():
    assert_same(xgb.XGBRegressor(**SMALL, gamma=1e9).fit(X, TARGET), X, "predict", "apply")
    assert_same(xgb.XGBRegressor(n_estimators=1).fit(X, TARGET), X, "predict", "apply")


@pytest.mark.parametrize("value", [np.inf, -np.inf, 1e39])
def test_a_matrix_refuses_infinity_and_in_place_prediction_does_not(value):
    model = xgb.XGBRegressor(**SMALL).fit(X, TARGET)
    rows = X[:4].copy()
    rows[1, 2] = value
    assert_same(model, rows, "predict")
    with pytest.raises(xgb.core.XGBoostError, match="contains `inf`"):
        model.get_booster().predict(xgb.DMatrix(rows))
    with pytest.raises(
        ValueError, match="Input X contains infinity or a value too large for Booster"
    ):
        score(model.get_booster(), rows)


def test_names():
    frame = pd.DataFrame(X, columns=["a", "leaf", "f1", "f10", "yes"])
    named, unnamed = (xgb.XGBRegressor(**SMALL).fit(data, TARGET) for data in (frame, X))
    assert all(parse(model).schema.named for model in (named, named.get_booster()))
    assert not any(parse(model).schema.named for model in (unnamed, unnamed.get_booster()))
    assert parse(named).schema.names == tuple(frame.columns)
    for form in ("json", "ubj"):
        assert (
            parse_xgboost_bytes(bytes(named.get_booster().save_raw(form))).schema
            == parse(named).schema
        )
        assert (
            parse_xgboost_bytes(bytes(unnamed.get_booster().save_raw(form))).schema
            == parse(unnamed).schema
        )


LINEAR = [
    ("reg:squarederror", TARGET),
    ("binary:logistic", LABELS == 1),
    ("reg:squarederror", np.stack([TARGET, -TARGET, LABELS], axis=1)),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("objective", "target"), LINEAR, ids=["one", "logistic", "several"])
def test_linear_boosters_add_their_terms_in_order(objective, target, dtype):
    """NaN adds nothing, and all outputs start from the first base score."""
    rows = (X * np.array([1, 1e6, 1e-6, 1, 1])).astype(dtype)
    model = xgb.XGBRegressor(n_estimators=9, booster="gblinear", objective=objective, n_jobs=1).fit(
        rows, target
    )
    np.testing.assert_array_equal(
        score(model, rows, "raw_scores"), model.predict(rows, output_margin=True)
    )
    assert_same(model, rows, "predict", ulp=FUNCTION)
    answers_as_booster(model.get_booster(), model.get_booster(), rows, ulp=FUNCTION)
    assert "apply" not in parse(model).outputs


def test_linear_boosters_refuse_infinity_and_iterations():
    model = xgb.XGBClassifier(n_estimators=2, booster="gblinear").fit(X, LABELS)
    assert_same(model, X, "predict", "predict_proba", ulp=FUNCTION)
    with pytest.raises(ValueError, match="Input X contains infinity"):
        score(model, np.full((1, 5), np.inf))
    with pytest.raises(UnsupportedError, match=r"XGBClassifier with iterations=\(0, 1\)"):
        parse(model, iterations=(0, 1))


@pytest.mark.parametrize(
    "parameters",
    [{}, {"num_parallel_tree": 2, "subsample": 0.5}, {"gamma": 1e9}],
    ids=["trees", "forests", "single leaves"],
)
def test_vector_leaves(parameters):
    targets = np.stack([TARGET, -TARGET, LABELS], axis=1)
    model = xgb.XGBRegressor(**SMALL, **parameters, multi_strategy="multi_output_tree").fit(
        X, targets
    )
    rows = rows_of(model)
    assert forest_of(parse(model)).values.shape[1] == 3
    np.testing.assert_array_equal(
        score(model, rows, "raw_scores"), model.predict(rows, output_margin=True)
    )
    assert_same(model, rows, "predict")
    assert_same(model, rows_of(model, infinite=False), "apply")


def test_vector_leaves_of_classifiers():
    labels = np.stack([LABELS == 0, LABELS > 0, LABELS == 2], axis=1)
    for target in (LABELS, labels):
        model = xgb.XGBClassifier(**SMALL, multi_strategy="multi_output_tree").fit(X, target)
        assert_same(model, rows_of(model), "predict", "predict_proba", ulp=FUNCTION)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("missing", [0.1, 0.0, -0.0, -999.0, 1e-50, np.inf, -np.inf])
def test_another_missing_value(missing, dtype):
    """It is compared in float32; NaN is missing too."""
    rows = np.nan_to_num(X)
    rows[::3, 0] = missing if np.isfinite(missing) else 0
    model = xgb.XGBRegressor(**SMALL, missing=missing).fit(rows, TARGET)
    odd = np.array(
        [
            0.0,
            -0.0,
            0.1,
            np.float32(0.1),
            np.nextafter(0.1, 1),
            np.nextafter(np.float32(0.1), np.float32(1)),
            -999,
            1e-46,
            1e-44,
            np.nan,
            np.inf,
            -np.inf,
        ]
    )
    hostile = np.repeat(rows[:12], len(odd), axis=0)
    hostile[:, 0] = np.tile(odd, 12)
    assert_same(model, hostile.astype(dtype), "predict")
    assert_same(model, np.nan_to_num(hostile, posinf=1, neginf=1).astype(dtype), "apply")


def test_raw_scores_and_leaves_of_boosters():
    for objective, target in {"multi:softprob": LABELS, "binary:logistic": LABELS == 1}.items():
        model = xgb.XGBClassifier(**SMALL, objective=objective, num_parallel_tree=2).fit(X, target)
        booster = model.get_booster()
        rows = rows_of(model, infinite=False)
        data = xgb.DMatrix(rows)
        np.testing.assert_array_equal(
            score(booster, rows, "raw_scores"), booster.predict(data, output_margin=True)
        )
        np.testing.assert_array_equal(
            score(booster, rows, "apply"), booster.predict(data, pred_leaf=True)
        )
        np.testing.assert_array_equal(
            score(model, rows, "raw_scores"), model.predict(rows, output_margin=True)
        )


@pytest.mark.parametrize("parameters", BOOSTERS[:3], ids=lambda p: next(iter(p), "gbtree"))
@pytest.mark.parametrize("chosen", [(0, 3), (2, 5), (7, 8), (0, 8)])
def test_some_iterations(parameters, chosen):
    model = xgb.XGBClassifier(**SMALL, **parameters).fit(X, LABELS)
    rows = rows_of(model, infinite=False)
    graph = parse(model, iterations=chosen)
    booster = model.get_booster()
    np.testing.assert_array_equal(
        score(graph, rows, "raw_scores"),
        model.predict(rows, output_margin=True, iteration_range=chosen),
    )
    np.testing.assert_array_equal(
        score(graph, rows, "apply"),
        model.apply(rows, iteration_range=(0, chosen[1]))[
            :, -graph.outputs["apply"].node.type.width :
        ],
    )
    graph = parse(booster, iterations=chosen)
    np.testing.assert_array_equal(
        score(graph, rows, "raw_scores"),
        booster.predict(xgb.DMatrix(rows), output_margin=True, iteration_range=chosen),
    )


@pytest.mark.parametrize(
    "parameters",
    [{}, {"booster": "dart", "rate_drop": 0.5}, {"num_parallel_tree": 3, "subsample": 0.5}],
    ids=["trees", "dart", "forests"],
)
def test_slices_and_continued_training(parameters):
    first = xgb.train({"max_depth": 3, "nthread": 1, **parameters}, xgb.DMatrix(X, TARGET), 6)
    longer = xgb.train(
        {"max_depth": 2, "nthread": 1, **parameters}, xgb.DMatrix(X, TARGET), 3, xgb_model=first
    )
    for booster in (
        first[2:5],
        first[5:6],
        longer,
        *([] if "booster" in parameters else [first[::2]]),
    ):
        np.testing.assert_array_equal(score(booster, X), booster.predict(xgb.DMatrix(X)))
        np.testing.assert_array_equal(
            score(booster, X, "apply"), booster.predict(xgb.DMatrix(X), pred_leaf=True)
        )


def test_a_dart_cut_into_steps_loses_its_weights_in_xgboost():
    cut = xgb.train({"booster": "dart", "rate_drop": 0.5, "nthread": 1}, xgb.DMatrix(X, TARGET), 6)[
        ::2
    ]
    with pytest.raises(xgb.core.XGBoostError):
        cut.predict(xgb.DMatrix(X))
    with pytest.raises(ConversionError, match="weight_drop has another length"):
        parse(cut)


def test_iterations_beyond_the_last_are_refused():
    model = xgb.XGBRegressor(**SMALL).fit(X, TARGET)
    with pytest.raises(xgb.core.XGBoostError):
        model.predict(X, iteration_range=(0, 9))
    with pytest.raises(
        UnsupportedError, match=r"XGBRegressor with iterations=\(0, 9\).*The model has 8"
    ):
        parse(model, iterations=(0, 9))


BOOSTER = xgb.XGBRegressor(**SMALL).fit(X, TARGET).get_booster()
JSON, UBJ = (bytes(BOOSTER.save_raw(form)) for form in ("json", "ubj"))


def edited(path, value):
    """Return the JSON with one entry replaced."""
    model = json.loads(JSON)
    *way, last = path.split("/")
    at = model["learner"]
    for key in way:
        at = at[int(key) if key.isdigit() else key]
    at[last] = value
    return json.dumps(model).encode()


TREE = "gradient_booster/model/trees/0/"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not valid UBJSON|damaged"),
        (b"binf....", "ends before its last value"),
        (b'{"learner": 3}', "not an XGBoost model"),
        (b'{"a": 1}', "not an XGBoost model"),
        (JSON[:500], "damaged"),
        (UBJ[:500], "ends before its last value"),
        (UBJ[: len(UBJ) // 2], "ends before its last value"),
        (edited("objective/name", "reg:surprise"), "XGBoost with objective='reg:surprise'"),
        (edited(TREE + "left_children", [0]), "damaged: the arrays of its trees differ in length"),
        (
            edited(
                TREE + "split_indices",
                [99]
                * len(
                    json.loads(JSON)["learner"]["gradient_booster"]["model"]["trees"][0][
                        "split_indices"
                    ]
                ),
            ),
            "a column that does not",
        ),
        (edited("learner_model_param/base_score", "half"), "damaged"),
        (edited("learner_model_param/base_score", "-inf"), "base_score '-inf' is not finite"),
        (edited("learner_model_param/base_score", "[1E-1,nan]"), "is not finite"),
    ],
)
def test_damaged_and_foreign_files(data, message):
    with pytest.raises(ConversionError, match=message):
        parse_xgboost_bytes(data)


def test_older_files():
    """One base score for all outputs, no ends of iterations, no categories, default directions
    as booleans.
    """
    model = json.loads(JSON)
    learner = model["learner"]
    learner["learner_model_param"]["base_score"] = "2.5E-1"
    del (
        learner["learner_model_param"]["num_target"],
        learner["gradient_booster"]["model"]["iteration_indptr"],
        learner["gradient_booster"]["model"]["cats"],
    )
    for tree in learner["gradient_booster"]["model"]["trees"]:
        tree["default_left"] = [bool(left) for left in tree["default_left"]]
    read = read_xgboost_bytes(json.dumps(model, indent=2).encode())
    assert read.margin.tolist() == [0.25]
    assert list(read.booster.ends) == list(range(9))
    assert (
        read.booster.nodes.default_left.tolist()
        == read_xgboost_bytes(UBJ).booster.nodes.default_left.tolist()
    )


def test_json_and_ubjson_say_the_same():
    assert parse_xgboost_bytes(JSON) == parse_xgboost_bytes(UBJ)


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"i\xff", -1), (b"U\xff", 255), (b"I\xff\xfe", -2), (b"l\x00\x01\x00\x00", 65536),
        (b"L" + bytes(7) + b"\x05", 5), (b"d\x3f\x80\x00\x00", 1.0),
        (b"D\x3f\xf0" + bytes(6), 1.0), (b"T", True), (b"F", False), (b"Z", None),
        (b"SU\x02hi", "hi"), (b"[U\x01[]{}]", [1, [], {}]),
        (b"[#U\x02TF", [True, False]), (b"{#U\x01U\x01aT", {"a": True}),
        (b"[$S#U\x01U\x01x", ["x"]),
    ],
)  # fmt: skip
def test_ubjson_values(data, value):
    assert decode_ubjson(data) == value


@pytest.mark.parametrize(
    "data",
    [b"?", b"[", b"{U\x01", b"[" * 1000, b"SU\xff", b"[$?#U\x01", b"[$d#i\xff", b"SU\x01\xff"],
)
def test_damaged_ubjson(data):
    with pytest.raises(ConversionError, match="damaged"):
        decode_ubjson(data)


def test_plain_numbers_for_categories_are_refused():
    """A Booster reads the numbers of such a frame as codes, the wrapper refuses them: only a
    column of dtype category holds values.
    """
    rows = pd.DataFrame({"code": np.tile([30, 10, 20], 40), "plain": np.arange(120.0)})
    listed = rows.assign(code=rows["code"].astype("category"))
    model = xgb.XGBRegressor(n_estimators=3, enable_categorical=True, n_jobs=1).fit(
        listed, rows["code"] % 4 + rows["plain"]
    )
    converted = hbconv.convert(model, "reference")
    np.testing.assert_array_equal(converted.predict(listed), model.predict(listed))
    with pytest.raises(
        InputError, match="Column 'code' holds plain numbers; XGBRegressor was fitted on categories"
    ):
        converted.predict(rows)
