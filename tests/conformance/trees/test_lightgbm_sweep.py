"""Each parameter of LightGBM in turn: the converted model is exact, or refused by name."""

from __future__ import annotations

import json
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
from trees.battery import FEW, check, hostile_rows

from hbconv.errors import UnsupportedError
from hbconv.parse import parse

RNG = np.random.default_rng(0)
X = RNG.standard_normal((250, 4))
X[:, 2], X[:, 3] = RNG.integers(0, 12, 250), RNG.integers(-1, 3, 250)
X[RNG.random(X.shape) < 0.1] = np.nan
VALUE = (
    np.nan_to_num(X[:, 0]) + (X[:, 2] % 3 == 1) + (X[:, 3] == 0) + 0.2 * RNG.standard_normal(250)
)
TARGETS = {
    "value": VALUE,
    "positive": np.exp(VALUE / 2),
    "share": 1 / (1 + np.exp(-VALUE)),
    "two": VALUE > 0.5,
    "three": np.digitize(VALUE, [0, 1]),
}
SMALL = {
    "n_estimators": 5,
    "num_leaves": 7,
    "min_child_samples": 5,
    "verbosity": -1,
    "n_jobs": 1,
    "random_state": 0,
}

BAGGED = {"bagging_fraction": 0.6, "bagging_freq": 1}
DART, QUANTIZED = (
    {"boosting": "dart", "drop_rate": 0.5, "skip_drop": 0.0},
    {"use_quantized_grad": True},
)
HUBER, POISSON, TWO, THREE = (
    {"objective": "huber"},
    {"objective": "poisson"},
    {"objective": "binary"},
    {"objective": "multiclass"},
)
RANK, MONOTONE, SETS = (
    {"objective": "lambdarank"},
    {"monotone_constraints": [1, -1, 0, 0], "numeric": True},
    {"max_cat_to_onehot": 1},
)

Values = dict[str, list[dict[str, Any]]]


def each(name: str, *values: Any, **beside: Any) -> Values:
    """Parameters that give one of them these values."""
    return {name: [{**beside, name: value} for value in values]}


WRAPPER: Values = {
    "boosting_type": [
        {"boosting_type": "gbdt"},
        {"boosting_type": "dart"},
        {"boosting_type": "rf", **BAGGED},
        {"boosting_type": "goss"},
    ],
    **each("class_weight", "balanced", {False: 1.0, True: 3.5}, **TWO),
    **each("colsample_bytree", 0.3),
    **each("importance_type", "gain"),
    **each("learning_rate", 0.01, 1.5),
    **each("max_depth", 1, 4),
    **each("min_child_samples", 1, 300),
    **each("min_child_weight", 10.0),
    **each("min_split_gain", 0.5, 1e9),
    **each("n_estimators", 1, 12),
    **each("n_jobs", 2),
    **each("num_leaves", 2, 60),
    "objective": [
        *(
            {"objective": name}
            for name in (
                "regression",
                "regression_l1",
                "huber",
                "fair",
                "quantile",
                "cross_entropy",
                "cross_entropy_lambda",
                "mape",
            )
        ),
        *(
            {"objective": name}
            for name in (
                "poisson",
                "gamma",
                "tweedie",
                "binary",
                "multiclass",
                "multiclassova",
                "lambdarank",
                "rank_xendcg",
            )
        ),
        {"objective": lambda y, raw: (raw - y, np.ones_like(y))},
    ],
    **each("random_state", 7),
    **each("reg_alpha", 0.5),
    **each("reg_lambda", 0.5),
    **each("subsample", 0.5, subsample_freq=1),
    **each("subsample_for_bin", 50),
    **each("subsample_freq", 2, subsample=0.5),
}

CONFIG: Values = {
    **each("alpha", 0.3, **HUBER),
    **each("auc_mu_weights", [0, 1, 1, 1, 0, 1, 1, 1, 0], **THREE),
    **each("bagging_by_query", True, **BAGGED, **RANK),
    **each("bagging_fraction", 0.5, bagging_freq=1),
    **each("bagging_freq", 3, bagging_fraction=0.5),
    **each("bagging_seed", 5, **BAGGED),
    **each("bin_construct_sample_cnt", 60),
    **each("boost_from_average", False),
    "boosting": [{"boosting": "rf", **BAGGED}, DART],
    **each("cat_l2", 0.0, 50.0, **SETS),
    **each("cat_smooth", 0.0, 50.0, **SETS),
    **each("categorical_feature", [2, 3], ""),
    **each("cegb_penalty_feature_coupled", [1.0, 0, 0, 0]),
    **each("cegb_penalty_feature_lazy", [1.0, 0, 0, 0]),
    **each("cegb_penalty_split", 0.1),
    **each("cegb_tradeoff", 2.0, cegb_penalty_split=0.1),
    **each("data_random_seed", 3),
    **each("data_sample_strategy", "goss", "bagging"),
    **each("deterministic", True),
    **each("device_type", "cpu"),
    **each("drop_rate", 0.9, **{**DART, "drop_rate": 0}),
    **each("drop_seed", 9, **DART),
    **each("early_stopping_min_delta", 0.1),
    **each("early_stopping_round", 1),
    **each("enable_bundle", False),
    **each("eval_at", [2], **RANK),
    **each("extra_seed", 3, extra_trees=True),
    **each("extra_trees", True),
    **each("fair_c", 0.5, objective="fair"),
    **each("feature_contri", [0.1, 1, 1, 1]),
    **each("feature_fraction", 0.5),
    **each("feature_fraction_bynode", 0.5),
    **each("feature_fraction_seed", 5, feature_fraction=0.5),
    **each("feature_pre_filter", False),
    **each("first_metric_only", True),
    **each("force_col_wise", True),
    **each("force_row_wise", True),
    **each("histogram_pool_size", 1.0),
    **each("interaction_constraints", [[0, 1], [2, 3]]),
    **each("is_enable_sparse", False),
    **each("is_provide_training_metric", True),
    **each("is_unbalance", True, **TWO),
    **each("label_gain", [0, 1, 5], **RANK),
    **each("lambda_l1", 0.3),
    **each("lambda_l2", 0.3),
    **each("lambdarank_norm", False, **RANK),
    **each("lambdarank_position_bias_regularization", 0.5, **RANK),
    **each("lambdarank_truncation_level", 2, **RANK),
    **each("linear_lambda", 0.5, linear_tree=True),
    **each("linear_tree", True),
    **each("max_bin", 2, 20, 1000),
    **each("max_bin_by_feature", [5, 9, 20, 20]),
    **each("max_cat_threshold", 2, **SETS),
    **each("max_cat_to_onehot", 1, 100),
    **each("max_delta_step", 0.1),
    **each("max_drop", 1, **DART),
    **each("metric", "None", "l1"),
    **each("metric_freq", 2),
    **each("min_data_in_bin", 1, 40),
    **each("min_data_in_leaf", 1),
    **each("min_data_per_group", 1, **SETS),
    **each("min_gain_to_split", 0.2),
    **each("min_sum_hessian_in_leaf", 30.0),
    **each("monotone_constraints", [1, -1, 0, 0], numeric=True),
    **each("monotone_constraints_method", "intermediate", "advanced", **MONOTONE),
    **each("monotone_penalty", 0.5, **MONOTONE),
    **each("multi_error_top_k", 2, **THREE),
    **each("neg_bagging_fraction", 0.5, pos_bagging_fraction=0.8, bagging_freq=1, **TWO),
    **each("num_class", 2, objective="multiclass", target="two"),
    **each("num_grad_quant_bins", 8, **QUANTIZED),
    **each("num_iteration_predict", 2),
    **each("num_iterations", 3),
    **each("num_threads", 1),
    **each("objective_seed", 3, objective="rank_xendcg"),
    **each("other_rate", 0.3, data_sample_strategy="goss"),
    **each("path_smooth", 3.0),
    **each("poisson_max_delta_step", 0.1, **POISSON),
    **each("pos_bagging_fraction", 0.5, neg_bagging_fraction=0.8, bagging_freq=1, **TWO),
    **each("pre_partition", True),
    **each("pred_early_stop", True, **TWO),
    **each("pred_early_stop_freq", 1, **TWO),
    **each("pred_early_stop_margin", 0.1, **TWO),
    **each("predict_contrib", True),
    **each("predict_disable_shape_check", True),
    **each("predict_leaf_index", True),
    **each("predict_raw_score", True, **TWO),
    **each("quant_train_renew_leaf", True, **QUANTIZED),
    **each("refit_decay_rate", 0.1),
    **each("reg_sqrt", True),
    **each("saved_feature_importance_type", 1),
    **each("scale_pos_weight", 4.5, **TWO),
    **each("seed", 4, extra_trees=True),
    **each("sigmoid", 0.7, 5.0, 1 / 3, **TWO),
    **each("skip_drop", 0.9, **{**DART, "skip_drop": 0}),
    **each("start_iteration_predict", 2),
    **each("stochastic_rounding", False, **QUANTIZED),
    **each("top_k", 2),
    **each("top_rate", 0.4, data_sample_strategy="goss"),
    **each("tree_learner", "serial"),
    **each("tweedie_variance_power", 1.1, 1.9, objective="tweedie"),
    **each("two_round", True),
    **each("uniform_drop", True, **DART),
    **each("use_missing", False),
    **each("use_quantized_grad", True),
    **each("verbosity", -1),
    **each("xgboost_dart_mode", True, **DART),
    **each("zero_as_missing", True),
}

ELSEWHERE = {
    **dict.fromkeys(
        (
            "config",
            "convert_model",
            "convert_model_language",
            "input_model",
            "output_model",
            "output_result",
            "task",
        ),
        "the command-line program",
    ),
    **dict.fromkeys(
        (
            "data",
            "valid",
            "header",
            "group_column",
            "ignore_column",
            "label_column",
            "weight_column",
            "parser_config_file",
        ),
        "data from files",
    ),
    **dict.fromkeys(
        ("precise_float_parser", "save_binary", "snapshot_freq"),
        "data from files, files of training",
    ),
    **dict.fromkeys(
        ("gpu_device_id", "gpu_device_id_list", "gpu_platform_id", "gpu_use_dp", "num_gpu"),
        "training on a GPU",
    ),
    **dict.fromkeys(
        ("local_listen_port", "machine_list_filename", "machines", "num_machines", "time_out"),
        "training on several machines",
    ),
    **dict.fromkeys(("forcedbins_filename", "forcedsplits_filename"), "a test of its own, below"),
}
"""Parameters that a model fitted in Python on one machine never meets."""

REFUSED = {"pred_early_stop": [True]}

KINDS = {
    **dict.fromkeys(("poisson", "gamma", "tweedie", "mape"), "positive"),
    **dict.fromkeys(("cross_entropy", "cross_entropy_lambda"), "share"),
    **dict.fromkeys(("multiclass", "multiclassova", "lambdarank", "rank_xendcg"), "three"),
    "binary": "two",
}


def fitted(numeric: bool = False, target: str = "", **parameters: Any) -> Any:
    """Fit the class that the objective is for, to two columns of numbers and two of categories."""
    objective = parameters.get("objective", "regression")
    kind = target or KINDS.get(objective if isinstance(objective, str) else "", "value")
    ranks = objective in ("lambdarank", "rank_xendcg")
    cls = (
        lgb.LGBMRanker
        if ranks
        else lgb.LGBMClassifier
        if kind in ("two", "three")
        else lgb.LGBMRegressor
    )
    fit: dict[str, Any] = {"group": [100, 150]} if ranks else {}
    if "early_stopping_round" in parameters:
        fit |= {"eval_X": X[:90], "eval_y": TARGETS[kind][:90]}
    if not numeric and "categorical_feature" not in parameters:
        fit["categorical_feature"] = [2, 3]
    return cls(**{**SMALL, **parameters}).fit(X, TARGETS[kind], **fit)


def rows_of(model: Any, *, infinite: bool) -> list[np.ndarray]:
    return [
        hostile_rows(parse(model), np.random.default_rng(1), 120, dtype, plain=X, infinite=infinite)
        for dtype in ("float64", "float32")
    ]


def cases(values: Values) -> list[Any]:
    """One case for each value, named by it."""
    return [
        pytest.param(name, chosen, id=f"{name}-{place}")
        for name, several in values.items()
        for place, chosen in enumerate(several)
    ]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("name", "parameters"), [*cases(WRAPPER), *cases(CONFIG)])
@pytest.mark.share("sweep")
def test_a_value_is_exact_or_refused(name, parameters):
    model = fitted(**parameters)
    if parameters[name] in REFUSED.get(name, []):
        with pytest.raises(UnsupportedError, match=name):
            parse(model)
        return
    check(model, rows_of(model, infinite="linear_tree" not in parameters), backends=FEW)
    if not callable(parameters.get("objective")) and name != "sigmoid":
        check(
            model.booster_,
            rows_of(model, infinite="linear_tree" not in parameters),
            backends=("reference",),
        )


@pytest.mark.parametrize(
    "cls", [lgb.LGBMClassifier, lgb.LGBMRegressor, lgb.LGBMRanker, lgb.LGBMModel]
)
def test_no_parameter_of_the_wrappers_is_left_out(cls):
    assert set(cls().get_params()) == set(WRAPPER)


def test_no_parameter_of_the_library_is_left_out():
    aliases = lgb.basic._ConfigAliases._get_all_param_aliases()
    own = {name for name in WRAPPER if name in aliases}
    assert set(CONFIG) | set(ELSEWHERE) | own == set(aliases)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (
            "forcedsplits_filename",
            {"feature": 0, "threshold": 0.25, "left": {"feature": 1, "threshold": -0.5}},
        ),
        ("forcedbins_filename", [{"feature": 0, "bin_upper_bound": [-0.3, 0.1, 0.7]}]),
    ],
)
def test_forced_splits_and_bins(name, content, tmp_path):
    path = tmp_path / "forced.json"
    path.write_text(json.dumps(content))
    model = fitted(numeric=True, **{name: str(path)})
    check(model, rows_of(model, infinite=True), backends=FEW)
