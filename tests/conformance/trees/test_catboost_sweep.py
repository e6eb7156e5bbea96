"""Every constructor parameter of CatBoost's estimators, at a few values: the converted model is
exact, or refused by name.
"""

from __future__ import annotations

import inspect
import json
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import catboost
import numpy as np
import pandas as pd
import pytest
from trees.battery import FEW, check, hostile_rows

from hbconv.errors import UnsupportedError
from hbconv.parse import parse

CLASSES = (catboost.CatBoostClassifier, catboost.CatBoostRegressor, catboost.CatBoostRanker)
SMALL = {"iterations": 4, "depth": 3, "verbose": 0, "allow_writing_files": False, "thread_count": 1}


class Squared:
    """A user's own objective."""

    def calc_ders_range(
        self, approxes: Any, targets: Any, weights: Any
    ) -> list[tuple[float, float]]:
        """Derivatives of half the squared error."""
        del weights
        return [(target - approx, -1.0) for approx, target in zip(approxes, targets, strict=True)]


LOSSES: dict[str, list[Any]] = {
    "CatBoostClassifier": [
        "Logloss",
        "CrossEntropy",
        "MultiClass",
        "MultiClassOneVsAll",
        Squared(),
    ],
    "CatBoostRegressor": [
        "RMSE",
        "MAE",
        "Poisson",
        "Quantile:alpha=0.1",
        "Tweedie:variance_power=1.9",
        "LogCosh",
        "RMSPE",
        "Lq:q=2",
        Squared(),
    ],
    "CatBoostRanker": [
        "YetiRank",
        "YetiRankPairwise",
        "PairLogit",
        "PairLogitPairwise",
        "QueryRMSE",
        "QuerySoftMax",
        "StochasticRank:metric=NDCG",
        "RMSE",
    ],
}

VALUES: dict[str, list[Any]] = {
    "allow_const_label": [True],
    "allow_writing_files": [True],
    "approx_on_full_history": [True],
    "auto_class_weights": ["Balanced", "SqrtBalanced"],
    "bagging_temperature": [0.0, 3.0],
    "best_model_min_trees": [2],
    "boost_from_average": [True, False],
    "boosting_type": ["Ordered", "Plain"],
    "bootstrap_type": ["Bernoulli", "MVS", "No"],
    "border_count": [1, 255, 1000],
    "callback": [None],
    "cat_features": [[3]],
    "class_names": [["2", "0", "1"], [0, 1, 2], [0, 1, 2, 3]],
    "class_weights": [[1.0, 5.0]],
    "classes_count": [3, 4],
    "colsample_bylevel": [0.5],
    "combinations_ctr": [["Borders"]],
    "counter_calc_method": ["Full", "SkipTest"],
    "ctr_description": [["Borders"]],
    "ctr_history_unit": ["Sample"],
    "ctr_leaf_count_limit": [3],
    "ctr_target_border_count": [2],
    "custom_loss": [["AUC"]],
    "custom_metric": [["AUC"]],
    "data_partition": ["FeatureParallel"],
    "depth": [1, 9, 16],
    "dev_efb_max_buckets": [10],
    "dev_score_calc_obj_block_size": [100],
    "device_config": ["0"],
    "devices": ["0"],
    "dictionaries": [
        [
            {"dictionary_id": "Word", "max_dictionary_size": "50"},
            {"dictionary_id": "BiGram", "gram_order": "2"},
        ]
    ],
    "diffusion_temperature": [100],
    "early_stopping_rounds": [1],
    "embedding_features": [["vector"]],
    "eta": [0.9],
    "eval_fraction": [0.3],
    "eval_metric": ["AUC"],
    "feature_border_type": [
        "Median",
        "Uniform",
        "UniformAndQuantiles",
        "MaxLogSum",
        "MinEntropy",
        "GreedyLogSum",
    ],
    "feature_calcers": [["BoW"]],
    "feature_weights": [[0.1, 1.0, 2.0, 3.0]],
    "final_ctr_computation_mode": ["Skip", "Default"],
    "first_feature_use_penalties": [[0.1, 1.0, 2.0, 3.0]],
    "fixed_binary_splits": [[0]],
    "fold_len_multiplier": [1.5],
    "fold_permutation_block": [2],
    "gpu_cat_features_storage": ["CpuPinnedMemory"],
    "gpu_ram_part": [0.5],
    "grow_policy": ["SymmetricTree", "Depthwise", "Lossguide", "Region"],
    "has_time": [True],
    "ignored_features": [[0, 2]],
    "input_borders": ["borders.tsv"],
    "iterations": [1, 12],
    "l2_leaf_reg": [0.0, 100.0],
    "langevin": [True],
    "leaf_estimation_backtracking": ["No", "AnyImprovement"],
    "leaf_estimation_iterations": [1, 5],
    "leaf_estimation_method": ["Newton", "Gradient", "Simple", "Exact"],
    "learning_rate": [0.001, 1.0],
    "logging_level": ["Silent"],
    "loss_function": [],
    "max_bin": [7],
    "max_ctr_complexity": [1],
    "max_depth": [5],
    "max_leaves": [5],
    "metadata": [{"author": "nobody"}],
    "metric_period": [2],
    "min_child_samples": [30],
    "min_data_in_leaf": [30],
    "model_shrink_mode": ["Constant", "Decreasing"],
    "model_shrink_rate": [0.3],
    "model_size_reg": [0.0],
    "monotone_constraints": [[1, -1, 0, 0]],
    "mvs_reg": [1.0],
    "n_estimators": [7],
    "name": ["a name"],
    "nan_mode": ["Min", "Max", "Forbidden"],
    "num_boost_round": [7],
    "num_leaves": [5],
    "num_trees": [7],
    "objective": [],
    "od_pval": [0.5],
    "od_type": ["IncToDec", "Iter"],
    "od_wait": [1],
    "one_hot_max_size": [2, 255],
    "output_borders": ["written.tsv"],
    "penalties_coefficient": [2.0],
    "per_feature_ctr": [["3:Borders:Prior=0.5"]],
    "per_float_feature_quantization": [["0:border_count=3", "1:nan_mode=Max"]],
    "per_object_feature_penalties": [[0.1, 1.0, 2.0, 3.0]],
    "pinned_memory_size": [1000000],
    "posterior_sampling": [True],
    "random_score_type": ["Gumbel", "NormalWithModelSizeDecrease"],
    "random_seed": [3],
    "random_state": [3],
    "random_strength": [0.0, 5.0],
    "reg_lambda": [7.0],
    "rsm": [0.5],
    "sampling_frequency": ["PerTree", "PerTreeLevel"],
    "sampling_unit": ["Object", "Group"],
    "save_snapshot": [True],
    "scale_pos_weight": [5.0],
    "score_function": ["L2", "Cosine", "NewtonL2", "NewtonCosine"],
    "silent": [True],
    "simple_ctr": [["Counter"]],
    "snapshot_file": ["snapshot"],
    "snapshot_interval": [10],
    "sparse_features_conflict_fraction": [0.5],
    "store_all_simple_ctr": [True],
    "subsample": [0.5],
    "target_border": [0.5],
    "task_type": ["CPU"],
    "text_features": [["words"]],
    "text_processing": [{}],
    "thread_count": [1],
    "tokenizers": [[{"tokenizer_id": "Space", "delimiter": " "}]],
    "train_dir": ["training"],
    "use_best_model": [True],
    "used_ram_limit": ["1gb"],
    "verbose": [0],
}

BY_TARGET_STATISTICS = ("combinations_ctr", "counter_calc_method", "ctr_description", "ctr_history_unit", "ctr_leaf_count_limit", "ctr_target_border_count",
    "final_ctr_computation_mode", "max_ctr_complexity", "model_size_reg", "per_feature_ctr", "simple_ctr", "store_all_simple_ctr")  # fmt: skip
"""Parameters of how categories become numbers, which are tried with a column of many categories."""

WITH: dict[str, dict[str, Any]] = {
    "approx_on_full_history": {"boosting_type": "Ordered"},
    "diffusion_temperature": {"langevin": True},
    "dictionaries": {"text_features": ["words"]},
    "feature_calcers": {"text_features": ["words"]},
    "max_leaves": {"grow_policy": "Lossguide"},
    "min_child_samples": {"grow_policy": "Depthwise"},
    "min_data_in_leaf": {"grow_policy": "Depthwise"},
    "model_shrink_mode": {"model_shrink_rate": 0.2},
    "mvs_reg": {"bootstrap_type": "MVS"},
    "num_leaves": {"grow_policy": "Lossguide"},
    "one_hot_max_size": {"cat_features": [3]},
    "sampling_unit": {"bootstrap_type": "Bernoulli"},
    "output_borders": {"train_dir": "."},
    "save_snapshot": {"allow_writing_files": True},
    "subsample": {"bootstrap_type": "Bernoulli"},
    "tokenizers": {"text_features": ["words"]},
    **{parameter: {"cat_features": [3]} for parameter in BY_TARGET_STATISTICS},
    **{
        parameter: {"loss_function": "MultiClass"} for parameter in ("class_names", "classes_count")
    },
}
"""What a parameter needs beside it."""

INSTEAD = {
    "max_depth": "depth",
    **dict.fromkeys(("n_estimators", "num_boost_round", "num_trees"), "iterations"),
    **dict.fromkeys(("silent", "logging_level"), "verbose"),
}
"""Second names, which stand instead of the first."""

REFUSED = {
    **dict.fromkeys(
        ("text_features", "tokenizers", "dictionaries", "feature_calcers"), "text_features"
    ),
    "embedding_features": "embedding_features",
    ("final_ctr_computation_mode", "Skip"): "final_ctr_computation_mode",
    ("class_names", "[0, 1, 2, 3]"): "class_names",
    ("classes_count", "4"): "classes_count",
}
"""Parameter, or parameter and value, and what the refusal names."""

UNFIT: dict[Any, str] = {
    "fixed_binary_splits": "unimplemented for task type CPU",
    ("grow_policy", "Region"): "unimplemented for CPU",
    ("leaf_estimation_method", "Exact"): "Exact method is only available|prohibit",
    ("nan_mode", "Forbidden"): "nan values for  float features are not allowed",
    ("score_function", "NewtonL2"): "Only Cosine and L2",
    ("score_function", "NewtonCosine"): "Only Cosine and L2",
    ("boost_from_average", "True", "CatBoostRanker"): "only for these loss functions",
    (
        "leaf_estimation_backtracking",
        "AnyImprovement",
        "CatBoostRanker",
    ): "not supported for yetiRank",
    **{
        ("leaf_estimation_method", method, "CatBoostRanker"): "prohibited"
        for method in ("Gradient", "Simple")
    },
    **{
        ("ctr_target_border_count", "2", cls): "is not supported for loss"
        for cls in ("CatBoostClassifier", "CatBoostRanker")
    },
    **{
        ("sampling_unit", "Group", cls): "No groups in dataset"
        for cls in ("CatBoostClassifier", "CatBoostRegressor")
    },
}
"""What the source itself refuses, with its words."""


@cache
def data() -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Rows with whole numbers and holes, and a target for each kind of estimator."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((240, 4))
    x[:, 2], x[:, 3] = rng.integers(-3, 4, 240), rng.integers(0, 5, 240)
    x[:, :2][rng.random((240, 2)) < 0.1] = np.nan
    value = np.nan_to_num(x[:, 0]) + (x[:, 3] % 2) + 0.3 * rng.standard_normal(240)
    return x, {
        "value": np.exp(value),
        "binary": (value > 0.5).astype(int),
        "three": np.digitize(value, [0, 1]),
    }


def fit(cls: Any, parameter: str, value: Any) -> tuple[Any, Any]:
    """Fit with what the parameter calls for, in the current folder; return the plain rows too."""
    x, targets = data()
    settings = (
        {k: v for k, v in SMALL.items() if k != INSTEAD.get(parameter)}
        | WITH.get(parameter, {})
        | {parameter: value}
    )
    rows: Any = x
    if {"cat_features", "text_features", "embedding_features"} & settings.keys():
        many = parameter in BY_TARGET_STATISTICS
        rows = pd.DataFrame(x[:, :3]).assign(
            c=x[:, 3].astype(int) + many * 5 * np.arange(240) // 24
        )
        rows.columns = ["a", "b", "whole", "c"]
        rows["words"], rows["vector"] = (
            [f"some {'words' if v > 2 else 'text'}" for v in x[:, 3]],
            list(np.nan_to_num(x[:, :2])),
        )
        rows = rows[
            [
                "a",
                "b",
                "whole",
                "c",
                *(
                    {"words", "vector"}
                    & set(
                        map(
                            str,
                            settings.get("text_features", settings.get("embedding_features", [])),
                        )
                    )
                ),
            ]
        ]
    kind = (
        "value"
        if cls is catboost.CatBoostRegressor
        else "three"
        if cls is catboost.CatBoostRanker or settings.get("loss_function") == "MultiClass"
        else "binary"
    )
    if isinstance(value, Squared):
        settings["eval_metric"] = "Logloss" if kind == "binary" else "RMSE"
    more: dict[str, Any] = (
        {"group_id": np.repeat(np.arange(24), 10)} if cls is catboost.CatBoostRanker else {}
    )
    if parameter in (
        "early_stopping_rounds",
        "od_pval",
        "od_type",
        "od_wait",
        "use_best_model",
        "best_model_min_trees",
    ):
        more["eval_set"] = catboost.Pool(rows, targets[kind][::-1].copy(), **more)
    if parameter == "input_borders":
        catboost.CatBoostRegressor(**SMALL).fit(x, targets["value"]).save_borders(value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return cls(**settings).fit(rows, targets[kind], **more), rows


def has_no_exact_form(model: Any) -> bool:
    """Whether the model reads what it was fitted to read in a way that hbconv refuses; a ranker
    may not.
    """
    if (
        model.get_text_feature_indices()
        or model.get_embedding_feature_indices()
        or len(model.classes_) == 4
    ):
        return True
    model.save_model("model.json", format="json")
    return "ctrs" in json.loads(Path("model.json").read_text())["features_info"]


def tried(cls: Any) -> list[tuple[str, Any]]:
    """Parameters of a class and their values."""
    names = [name for name in inspect.signature(cls.__init__).parameters if name != "self"]
    return [
        (name, value)
        for name in names
        for value in (
            LOSSES[cls.__name__] if name in ("loss_function", "objective") else VALUES[name]
        )
    ]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_no_parameter_is_left_out(cls):
    named = set(inspect.signature(cls.__init__).parameters) - {"self"}
    assert named <= set(VALUES)
    assert set(cls(**SMALL).get_params()) <= set(VALUES)


@pytest.mark.parametrize(
    ("cls", "parameter", "value"),
    [(c, p, v) for c in CLASSES for p, v in tried(c)],
    ids=lambda v: getattr(v, "__name__", str(v)[:25]),
)
@pytest.mark.share("sweep")
def test_every_value_is_exact_or_refused(cls, parameter, value, tmp_path, monkeypatch):
    """Leaves, raw scores, labels and probabilities, with hostile rows."""
    monkeypatch.chdir(tmp_path)
    unfit = next(
        (
            UNFIT[key]
            for key in (parameter, (parameter, str(value)), (parameter, str(value), cls.__name__))
            if key in UNFIT
        ),
        None,
    )
    if unfit:
        with pytest.raises(catboost.CatBoostError, match=unfit):
            fit(cls, parameter, value)
        return
    model, plain = fit(cls, parameter, value)
    refused = REFUSED.get((parameter, str(value)), REFUSED.get(parameter))
    if refused and has_no_exact_form(model):
        with pytest.raises(UnsupportedError, match=f"CatBoost.* with {refused}="):
            parse(model)
        return
    graph = parse(model)
    rng = np.random.default_rng(1)
    rows = (
        [hostile_rows(graph, rng, 60, dtype, plain=plain) for dtype in ("float64", "float32")]
        if isinstance(plain, np.ndarray)
        else [plain]
    )
    check(model, rows, backends=FEW)
