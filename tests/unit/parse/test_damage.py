"""Models that no training left: damaged, or changed by hand. Each is refused by name, and in
bounded time.
"""

from __future__ import annotations

import copy
import json
import warnings

import catboost
import lightgbm
import numpy as np
import pytest
from fitted import fit, labels, matrix
from sklearn.cluster import FeatureAgglomeration
from sklearn.decomposition import LatentDirichletAllocation
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    BaggingClassifier,
    BaggingRegressor,
    GradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    StackingClassifier,
)
from sklearn.feature_selection import RFE
from sklearn.impute import KNNImputer, MissingIndicator
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.multioutput import ClassifierChain
from sklearn.neighbors import (
    KNeighborsClassifier,
    KNeighborsRegressor,
    NearestCentroid,
    RadiusNeighborsClassifier,
    RadiusNeighborsRegressor,
    RadiusNeighborsTransformer,
)
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    KBinsDiscretizer,
    MultiLabelBinarizer,
    OneHotEncoder,
    PolynomialFeatures,
    QuantileTransformer,
    SplineTransformer,
    StandardScaler,
)
from sklearn.semi_supervised import LabelPropagation
from sklearn.svm import OneClassSVM
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import hbconv
from hbconv.cli.sources import load_source
from hbconv.errors import ConversionError, UnsupportedError
from hbconv.parse.catboost.estimators import parse_catboost_json
from hbconv.parse.lightgbm.estimators import parse_lightgbm_text
from hbconv.parse.xgboost.estimators import parse_xgboost_bytes
from hbconv.parse.xgboost.model_file import decode_ubjson

X = matrix()
MODELS = {
    "scaler": fit("scaler"),
    "regression": LinearRegression().fit(X, X[:, 0]),
    "logistic": LogisticRegression().fit(X, labels()),
    "forest": RandomForestClassifier(3, max_depth=3, random_state=0).fit(X, labels()),
    "boosting": GradientBoostingRegressor(n_estimators=3, random_state=0).fit(X, X[:, 0]),
    "sequence": RFE(LinearRegression()).fit(X, X[:, 0]),
    "polynomial": PolynomialFeatures().fit(X),
    "quantiles": QuantileTransformer(n_quantiles=5).fit(X),
    "bins": KBinsDiscretizer(4, quantile_method="averaged_inverted_cdf").fit(X),
    "missing": MissingIndicator().fit(np.where(X > 1, np.nan, X)),
    "network": MLPRegressor(
        hidden_layer_sizes=(3,), max_iter=2, random_state=0, solver="sgd", early_stopping=False
    ),
    "labels": LabelPropagation().fit(X, labels()),
    "dummy": DummyClassifier().fit(X, labels()),
    "one_hot": OneHotEncoder().fit(np.round(X)),
    "agglomeration": FeatureAgglomeration().fit(X),
    "topics": LatentDirichletAllocation(2, max_iter=1, random_state=0).fit(np.abs(X)),
    "outliers": OneClassSVM().fit(X),
    "chain": ClassifierChain(LogisticRegression()).fit(X, (X[:, :2] > 0).astype(int)),
    "stack": StackingClassifier([("a", DummyClassifier())], cv=2).fit(X, labels()),
    "neighbours": KNNImputer().fit(np.where(X > 1, np.nan, X)),
    "bagging": BaggingClassifier(LogisticRegression(), n_estimators=2).fit(X, labels()),
    "discriminant": QuadraticDiscriminantAnalysis(reg_param=0.1).fit(X, labels()),
    "isolation": IsolationForest(n_estimators=3, random_state=0).fit(X),
    "splines": SplineTransformer().fit(X),
    "label_sets": MultiLabelBinarizer().fit([{"a"}, {"b", "c"}]),
    "radius": RadiusNeighborsTransformer(radius=2.0).fit(X),
    "votes": RadiusNeighborsClassifier(outlier_label="most_frequent").fit(X, labels()),
    "centroid": NearestCentroid().fit(X, labels()),
    "kernels": Nystroem(n_components=4, random_state=0).fit(X),
}
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # two iterations are enough to be damaged
    MODELS["network"].fit(X, X[:, 0])


def changed(name: str, attribute: str, change):
    """A copy of a model with an attribute changed."""
    model = copy.deepcopy(MODELS[name])
    setattr(model, attribute, change(getattr(model, attribute)))
    return model


def test_classes_of_a_member_that_are_one():
    model = copy.deepcopy(MODELS["bagging"])
    model.estimators_[1].classes_[1] = model.estimators_[1].classes_[0]
    with pytest.raises(ConversionError, match=r"LogisticRegression .*estimators_\[1\].*twice"):
        hbconv.convert(model, backend="reference")


def reversed_first(edges):
    """The first column's edges in the other order."""
    edges = edges.copy()
    edges[0] = edges[0][::-1]
    return edges


@pytest.mark.parametrize(
    ("name", "attribute", "change", "says"),
    [
        (
            "regression",
            "coef_",
            lambda v: v[:3],
            "LinearRegression.*step .*does not fit the 6 columns",
        ),
        ("regression", "coef_", lambda v: np.tile(v, 2), "does not fit the 6 columns"),
        ("regression", "coef_", list, r"LinearRegression with coef_=.*numpy array"),
        (
            "regression",
            "coef_",
            lambda _: None,
            r"LinearRegression \(step .*cannot be read.*coef_=None",
        ),
        ("regression", "n_features_in_", lambda _: 10**9, "1000000000 columns"),
        ("scaler", "mean_", lambda _: None, r"StandardScaler \(step .*mean_=None"),
        ("scaler", "mean_", lambda v: v[:3], r"mean_ float64\[3\]"),
        ("scaler", "mean_", lambda v: v.astype(str), "no array of numbers"),
        ("logistic", "classes_", lambda v: v[:2], "distinguishes 3 classes, but names 2"),
        ("logistic", "classes_", lambda v: v[:, None], "shape"),
        ("logistic", "classes_", lambda v: v[[0, 0, 1]], "twice"),
        ("forest", "estimators_", lambda _: [], r"estimators_ a list of 0"),
        ("forest", "n_classes_", lambda _: 4, "n_classes_=4"),
        ("forest", "n_outputs_", lambda _: 0, "n_outputs_=0"),
        ("boosting", "estimators_", lambda v: v[:0], "GradientBoostingRegressor"),
        ("sequence", "support_", lambda v: v.astype(np.int16), r"get_support\(\) gives int16\[6\]"),
        ("polynomial", "_min_degree", lambda _: 2**70, "n_output_features_=28"),
        ("polynomial", "_max_degree", lambda _: -2, "_n_out_full=28, but there are 0 terms"),
        ("polynomial", "_n_out_full", lambda v: v + 1, "_n_out_full=29, but there are 27 terms"),
        ("quantiles", "quantiles_", lambda v: v[::-1], "its knots do not ascend"),
        (
            "quantiles",
            "quantiles_",
            lambda v: np.where(v == v[2, 1], np.nan, v),
            "the knots of a column are missing in part",
        ),
        (
            "quantiles",
            "quantiles_",
            lambda v: np.where(v == v[-1], np.inf, v),
            "a knot is infinite",
        ),
        ("bins", "bin_edges_", reversed_first, "its edges do not ascend"),
        ("missing", "_n_features", lambda _: -6, "_n_features=-6, but it has 6 columns"),
        ("network", "n_layers_", lambda _: 2, "n_layers_=2, but it has 3 layers"),
        (
            "labels",
            "X_",
            lambda v: np.where(v == v[0, 0], np.finfo(np.float64).max, v),
            "too far for a number to hold",
        ),
        ("dummy", "n_outputs_", lambda _: -1, "n_outputs_=-1, which is not a count"),
        (
            "agglomeration",
            "labels_",
            lambda v: v * 100,
            "leaves out a cluster below its largest, 100",
        ),
        (
            "topics",
            "exp_dirichlet_component_",
            lambda v: np.where(v == v[1, 0], np.nan, v),
            "not finite",
        ),
        ("topics", "doc_topic_prior_", lambda _: -1, "doc_topic_prior_=-1, which is not a prior"),
        ("outliers", "support_", lambda v: v[:2], "support_ names 2 rows"),
        ("chain", "order_", lambda _: np.array([0, 0]), "does not name each of 2 outputs once"),
        ("stack", "classes_", lambda v: v[::-1], "classes_ are not those of _label_encoder"),
        ("neighbours", "_mask_fit_X", np.logical_not, "_mask_fit_X does not show where"),
        ("bins", "n_bins_", lambda v: v[:3], "n_bins_"),
        (
            "kernels",
            "components_",
            lambda v: v.astype(np.uint32),
            "bool or unsigned int, which fitting never leaves",
        ),
        ("logistic", "classes_", lambda v: v[None], r"classes_ has shape \(1, 3\)"),
        ("missing", "features_", lambda v: np.tile(v, 2), "does not name columns in order"),
        (
            "one_hot",
            "categories_",
            lambda v: [v[0][::-1], *v[1:]],
            "the categories of column 0 do not ascend",
        ),
        ("radius", "n_samples_fit_", lambda v: v - 1, "n_samples_fit_=.*rows of _fit_X"),
        ("votes", "outlier_label_", lambda _: [None], "outlier_label_ holds None"),
        ("centroid", "within_class_std_dev_", list, "It is a list"),
        (
            "discriminant",
            "priors_",
            lambda v: v * [np.inf, 1, 1],
            "priors_ holds numbers that are not probabilities",
        ),
        (
            "discriminant",
            "means_",
            lambda v: np.where(v == v[2, 2], np.nan, v),
            "means_ holds NaN or infinity",
        ),
        ("isolation", "_max_samples", lambda v: -v, "which is not a count"),
        ("neighbours", "_valid_mask", lambda v: v.astype(np.int16), "not an array of bool"),
        (
            "one_hot",
            "_n_features_outs",
            lambda v: [0, *v[1:]],
            "_n_features_outs=.* but its categories make",
        ),
        (
            "splines",
            "n_features_out_",
            lambda v: v + 1,
            "n_features_out_=43, but it has 42 columns",
        ),
        (
            "label_sets",
            "_cached_dict",
            lambda _: {},
            "_cached_dict does not hold the places of classes_",
        ),
        ("one_hot", "categories_", lambda v: v[:-1], r"OneHotEncoder.*does not fit the 5 columns"),
    ],
)
def test_fitted_attributes_that_do_not_fit(name, attribute, change, says):
    with pytest.raises(ConversionError, match=says):
        hbconv.convert(changed(name, attribute, change), backend="reference")


@pytest.mark.parametrize(
    "model",
    [KNeighborsRegressor(), KNeighborsClassifier(), RadiusNeighborsRegressor(radius=3.0)],
    ids=lambda model: type(model).__name__,
)
def test_neighbours_with_other_targets_than_rows(model):
    """The source reads as many targets as rows; its graph is as wide as the rows."""
    model.fit(X, X[:, 0] > 0)
    model._y = np.concatenate([model._y, model._y])
    with pytest.raises(ConversionError, match=r"n_samples_fit_=203, but it has 406 entries of _y"):
        hbconv.convert(model, backend="reference")


@pytest.mark.parametrize(
    ("array", "value"),
    [
        ("children_left", 0),
        ("children_right", 77),
        ("children_right", -5),
        ("feature", 9),
        ("feature", -7),
    ],
)
def test_nodes_that_are_no_tree(array, value):
    model = copy.deepcopy(MODELS["forest"])
    getattr(model.estimators_[1].tree_, array)[0] = value
    with pytest.raises(ConversionError, match="damaged"):
        hbconv.convert(model, backend="reference")


def test_a_member_whose_tests_read_columns_before_the_first():
    model = BaggingClassifier(DecisionTreeClassifier(), n_estimators=2, random_state=0).fit(
        X, labels()
    )
    model.estimators_[0].tree_.feature[:] = -101
    with pytest.raises(ConversionError, match="column that does not exist"):
        hbconv.convert(model, backend="reference")


def small_trees(ensemble, *, regression=False):
    single = DecisionTreeRegressor if regression else DecisionTreeClassifier
    target = X[:, 0] if regression else labels()
    return ensemble(single(max_depth=2), n_estimators=3, random_state=0).fit(X, target)


@pytest.mark.parametrize("attribute", ["n_classes_", "n_outputs_"])
@pytest.mark.parametrize(
    "model",
    [
        MODELS["forest"],
        small_trees(BaggingClassifier),
        small_trees(AdaBoostClassifier),
        small_trees(BaggingRegressor, regression=True),
        small_trees(AdaBoostRegressor, regression=True),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_tree_that_counts_otherwise_than_its_nodes(model, attribute):
    changed = copy.deepcopy(model)
    setattr(changed.estimators_[1], attribute, 2)
    with pytest.raises(ConversionError, match=f"a tree has {attribute}=2, but its tree_ has"):
        hbconv.convert(changed, backend="reference")


def test_a_single_tree_whose_counts_have_another_order():
    targets = np.column_stack([labels(), X[:, 0] > 0])
    model = DecisionTreeClassifier(max_depth=2).fit(X, targets)
    model.classes_ = model.classes_[::-1]
    model.n_classes_ = model.n_classes_[::-1]
    with pytest.raises(ConversionError, match=r"n_classes_=\[2 3\], but its tree_ has \[3 2\]"):
        hbconv.convert(model, backend="reference")


def test_a_boosted_member_with_a_class_of_its_own():
    model = small_trees(AdaBoostClassifier)
    model.estimators_[1].classes_ = np.array(["high", "low", "other"])
    with pytest.raises(ConversionError, match=r"estimators_\[1\] has classes_ that are not"):
        hbconv.convert(model, backend="reference")


def test_the_cause_of_an_error_stays_in_sight():
    with pytest.raises(ConversionError) as caught:
        hbconv.convert(changed("forest", "estimators_", lambda _: []), backend="reference")
    assert isinstance(caught.value.__cause__, IndexError)


def test_a_step_inside_a_pipeline_is_named():
    model = make_pipeline(StandardScaler(), LinearRegression()).fit(X, X[:, 0])
    model[1].coef_ = model[1].coef_[:2]
    with pytest.raises(
        ConversionError, match=r"LinearRegression \(step 'linearregression/LinearRegression'\)"
    ):
        hbconv.convert(model, backend="reference")


def replaced(name, at=lambda model: model, method="predict"):
    model = copy.deepcopy(MODELS[name])
    setattr(at(model), method, lambda X, **_: np.zeros(len(X)))
    return model


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (
            replaced("regression"),
            r"LinearRegression with predict=.*It replaces predict of the class",
        ),
        (
            replaced("forest", lambda m: m.estimators_[0]),
            r"DecisionTreeClassifier with predict=.*estimators_\[0\]",
        ),
        (
            replaced("forest", lambda m: m.estimators_[0], "_validate_X_predict"),
            "_validate_X_predict",
        ),
        (replaced("boosting", lambda m: m.init_), r"DummyRegressor with predict=.*init_"),
        (
            replaced("logistic", method="decision_function"),
            "LogisticRegression with decision_function",
        ),
        (
            make_pipeline(MODELS["scaler"], replaced("regression")),
            r"LinearRegression with predict=.*steps\[1\]",
        ),
    ],
)
def test_methods_replaced_on_an_instance(model, says):
    with pytest.raises(UnsupportedError, match=says):
        hbconv.convert(model, backend="reference")


def test_what_the_class_has_itself_and_what_no_answer_depends_on_may_be_replaced():
    model = copy.deepcopy(MODELS["regression"])
    model.predict, model.fit, model.score, model.note = model.predict, len, len, len
    np.testing.assert_array_equal(
        hbconv.convert(model, backend="reference").predict(X), MODELS["regression"].predict(X)
    )


TEXT = lightgbm.train(
    {"verbose": -1, "num_threads": 1, "num_leaves": 4}, lightgbm.Dataset(X, X[:, 0]), 2
).model_to_string()


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("max_feature_idx=5", "max_feature_idx=999999999", "max_feature_idx=999999999"),
        (
            "num_tree_per_iteration=1",
            "num_tree_per_iteration=999999999",
            "num_tree_per_iteration=999999999",
        ),
        ("num_leaves=4", "num_leaves=999999999", "wrong length"),
        ("num_class=1", "num_class=1\nnum_class=2", "twice"),
        ("left_child=", "left_child=7 ", "damaged"),
        ("feature_names=", "", "damaged"),
        ("is_linear=0", "is_linear=nan", "is_linear is neither 0 nor 1"),
        ("is_linear=", "\nis_linear=", "a line of a tree is not key=value"),
        ("leaf_value=", "leaf_value=0\rx=", "a line of a tree is not key=value"),
        ("shrinkage=1", "shrinkage", "a line of a tree is not key=value"),
        (
            "objective=regression",
            "objective=multiclass num_class:-0.3",
            "num_class:-0.3, but it has 1 outputs",
        ),
        ("tree_sizes=", "tree_sizes=1", "tree_sizes are not the sizes"),
    ],
)
def test_a_lightgbm_text_that_contradicts_itself(old, new, says):
    with pytest.raises(ConversionError, match=says):
        parse_lightgbm_text(TEXT.replace(old, new, 1))


@pytest.mark.parametrize(
    ("suffix", "data"),
    [
        (".txt", b"tree\nversion=v4\n\xff"),
        (".txt", b""),
        (".json", b"[" * 100_000),
        (".json", b'{"learner": 1, "learner": 2}'),
        (".json", b'{"learner": ' + b"9" * 5000 + b"}"),
        (".json", b'{"features_info": 3, "scale_and_bias": 4}'),
        (".ubj", b"{L\x00\x00\x00\x00\x00\x00\x00\x07learner[$T#l\x7f\xff\xff\xff"),
        (".skops", b"PK\x03\x04 no archive"),
        (".skops", b""),
        (".cbm", b"CBM1\x00\x00"),
    ],
)
def test_files_that_hold_no_model(tmp_path, suffix, data):
    path = tmp_path / f"m{suffix}"
    path.write_bytes(data)
    with pytest.raises(ConversionError):
        load_source(path)


def test_a_ubjson_array_of_constants_is_no_longer_than_the_file():
    with pytest.raises(ConversionError, match="ends before"):
        decode_ubjson(b"[$T#l\x7f\xff\xff\xff")


def test_an_xgboost_file_of_a_billion_features():
    param = {"base_score": "0", "num_class": "0", "num_feature": "999999999"}
    booster = {
        "name": "gbtree",
        "model": {"trees": [], "tree_info": [], "gbtree_model_param": {"num_parallel_tree": "1"}},
    }
    document = {
        "learner": {
            "gradient_booster": booster,
            "learner_model_param": param,
            "objective": {"name": "reg:squarederror"},
        }
    }
    with pytest.raises(ConversionError, match="num_feature=999999999"):
        parse_xgboost_bytes(json.dumps(document).encode())


@pytest.fixture(scope="module")
def catboost_document(tmp_path_factory):
    path = tmp_path_factory.mktemp("catboost") / "m.json"
    model = catboost.CatBoostRegressor(
        iterations=2, depth=2, verbose=0, thread_count=1, allow_writing_files=False
    ).fit(X, X[:, 0])
    model.save_model(str(path), format="json")
    return json.loads(path.read_text())


def put(document, value, *keys):
    """Put a value where the keys lead, or nothing."""
    *leading, last = keys
    for key in leading:
        document = document[key]
    if value is ...:
        del document[last]
    else:
        document[last] = value


@pytest.fixture(scope="module")
def catboost_classes(tmp_path_factory):
    path = tmp_path_factory.mktemp("catboost") / "m.json"
    rows = np.column_stack([X.round(), labels().astype(str)]).astype(object)
    model = catboost.CatBoostClassifier(
        iterations=2,
        depth=2,
        one_hot_max_size=9,
        cat_features=[6],
        verbose=0,
        thread_count=1,
        allow_writing_files=False,
    )
    model.fit(rows, X[:, 0] > 0).save_model(str(path), format="json")
    return json.loads(path.read_text())


SPLIT = ("oblivious_trees", 0, "splits", 0)
FIRST = ("features_info", "float_features", 0)


@pytest.mark.parametrize(
    ("value", "keys", "says"),
    [
        (..., (*SPLIT, "split_index"), "split_index"),
        (True, (*SPLIT, "split_index"), "not the one that its split_index names"),
        (99, (*SPLIT, "split_index"), "not the one that its split_index names"),
        (0.123, (*SPLIT, "border"), "not the one that its split_index names"),
        ([2.0, 1.0], (*FIRST, "borders"), "borders of feature 0 do not ascend"),
        (
            float("nan"),
            ("oblivious_trees", 0, "leaf_values", 0),
            "it holds NaN, which JSON does not have",
        ),
        (None, ("oblivious_trees", 0, "leaf_values", 0), "null, true, a text or NaN"),
        ("1", ("scale_and_bias", 0), "null, true, a text or NaN"),
        (2**53 + 1, ("oblivious_trees", 0, "leaf_values", 0), "an integer is beyond 2"),
        (-(2**63), ("scale_and_bias", 0), "an integer is beyond 2"),
        (2.5, ("scale_and_bias", 1), "the bias in scale_and_bias is 2.5, not a list"),
        pytest.param(
            10**400,
            ("oblivious_trees", 0, "leaf_weights", 0),
            "it holds 10000000000000000000..., which float64 cannot hold",
            id="400 digits",
        ),
        (
            "MAE",
            ("model_info", "params", "flat_params", "loss_function"),
            "loss_function is RMSE, and 'MAE'",
        ),
        ("a", ("model_info", "params", "flat_params"), "damaged"),
    ],
)
def test_a_catboost_file_that_contradicts_itself_or_holds_no_numbers(
    catboost_document, value, keys, says
):
    document = copy.deepcopy(catboost_document)
    put(document, value, *keys)
    with pytest.raises(ConversionError, match=says):
        parse_catboost_json(json.dumps(document).encode())


@pytest.mark.parametrize(
    ("value", "keys", "says"),
    [
        (
            "no",
            ("model_info", "class_params", "class_names", 0),
            "not all of class_label_type='Boolean'",
        ),
        (
            [False, False],
            ("model_info", "class_params", "class_names"),
            "class_names holds a label twice",
        ),
        (
            [True, False],
            ("model_info", "class_params", "class_names"),
            r"class_names is \[True, False\]",
        ),
        (
            float("inf"),
            ("oblivious_trees", 0, "leaf_weights", 0),
            "it holds Infinity, which JSON does not have",
        ),
        (
            [7, 7],
            ("features_info", "categorical_features", 0, "values"),
            "the values of category feature 0 hold one twice",
        ),
    ],
)
def test_a_catboost_classifier_that_contradicts_itself(catboost_classes, value, keys, says):
    document = copy.deepcopy(catboost_classes)
    put(document, value, *keys)
    with pytest.raises(ConversionError, match=says):
        parse_catboost_json(json.dumps(document).encode())


@pytest.mark.parametrize(
    "number",
    [
        "1e400",
        "-1E+0400",
        f"1{'0' * 250}e99",
        f"1{'0' * 400}.5",
        f"{'9' * 150}.{'9' * 150}e200",
    ],
    ids=["exponent", "signs", "digits and exponent", "digits", "digits, point and exponent"],
)
def test_a_number_that_float64_cannot_hold_stands_where_nobody_reads(catboost_document, number):
    document = copy.deepcopy(catboost_document)
    document["oblivious_trees"][0]["unread"] = "@"
    data = json.dumps(document)
    with pytest.raises(ConversionError, match="which float64 cannot hold"):
        parse_catboost_json(data.replace('"@"', number).encode())
    assert parse_catboost_json(data.replace('"@"', "1e-400").encode()).outputs
    assert parse_catboost_json(data.replace('"@"', f"1{'0' * 250}").encode()).outputs
