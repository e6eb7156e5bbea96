"""Models of LightGBM that converters are known to read wrongly without a word, one test each."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
from trees.battery import BACKENDS, FEW, check, hostile_rows

import hbconv
from hbconv.errors import ConversionError, InputError
from hbconv.parse import parse
from hbconv.parse.lightgbm.estimators import parse_lightgbm_text

RNG = np.random.default_rng(0)
X = RNG.standard_normal((300, 3))
Y = X[:, 0] + (X[:, 1] > 0) + 0.1 * RNG.standard_normal(300)
SMALL = {"n_estimators": 6, "num_leaves": 8, "min_child_samples": 5, "verbosity": -1, "n_jobs": 1}


def try_rows(model: Any, *more: Any, infinite: bool = True) -> None:
    rows = [
        hostile_rows(parse(model), np.random.default_rng(1), 200, dtype, plain=X, infinite=infinite)
        for dtype in ("float64", "float32")
    ]
    check(model, [*rows, *more], backends=FEW)


def test_missing_values_when_none_were_seen_in_training():
    try_rows(lgb.LGBMRegressor(**SMALL).fit(X, Y), np.full((2, 3), np.nan))


def test_missing_values_seen_in_training():
    try_rows(
        lgb.LGBMRegressor(**SMALL).fit(np.where(RNG.random(X.shape) < 0.3, np.nan, X), Y),
        np.full((2, 3), np.nan),
    )


@pytest.mark.parametrize(
    "labels",
    [np.array([3, 7]), np.array(["no", "yes"]), np.array([-1.0, 2.0]), np.array([True, False])],
    ids=str,
)
def test_labels_other_than_zero_and_one(labels):
    try_rows(lgb.LGBMClassifier(**SMALL).fit(X, labels[(Y > 0).astype(int)]))


@pytest.mark.parametrize(
    "parameters",
    [
        *({"objective": name} for name in ("poisson", "gamma", "tweedie", "cross_entropy")),
        {"reg_sqrt": True},
        {"linear_tree": True},
        {"boosting_type": "rf", "subsample": 0.5, "subsample_freq": 1},
    ],
    ids=lambda parameters: "-".join(map(str, parameters.items())),
)
def test_what_stands_between_the_leaves_and_the_answer(parameters):
    try_rows(
        lgb.LGBMRegressor(**SMALL, **parameters).fit(X, 1 / (1 + np.exp(-Y))),
        infinite="linear_tree" not in parameters,
    )


@pytest.mark.parametrize(
    "parameters",
    [
        {"objective": "multiclassova"},
        {"boosting_type": "rf", "subsample": 0.5, "subsample_freq": 1},
    ],
    ids=["ova", "rf"],
)
def test_three_classes(parameters):
    try_rows(lgb.LGBMClassifier(**SMALL, **parameters).fit(X, np.digitize(Y, [0, 1])))


@pytest.mark.parametrize("objective", ["binary", "multiclass"])
def test_boosters_answer_with_probabilities(objective):
    y, classes = (Y > 0, 1) if objective == "binary" else (np.digitize(Y, [0, 1]), 3)
    try_rows(
        lgb.train(
            {"objective": objective, "num_class": classes, "verbosity": -1, "num_threads": 1},
            lgb.Dataset(X, y),
            5,
        )
    )


def test_float64_values_closer_than_float32_tells_apart():
    close = 1.0 + np.arange(300)[:, None] * 1e-12
    model = lgb.LGBMRegressor(**SMALL).fit(close, np.arange(300) % 50)
    assert len(np.unique(close.astype(np.float32))) == 1
    check(model, [close, close.astype(np.float32), np.nextafter(close, 2)], backends=BACKENDS)


def test_categories_of_every_odd_kind():
    category = RNG.integers(0, 40, 300)
    x = np.stack([X[:, 0], category], axis=1)
    settings = {"min_data_per_group": 1, "cat_smooth": 1}
    model = lgb.LGBMRegressor(**SMALL, **settings).fit(
        x, np.isin(category, [0, 3, 31, 32, 39]) + 0.1 * X[:, 0], categorical_feature=[1]
    )
    odd = [
        0.0,
        -0.0,
        -0.5,
        -0.99999,
        -1,
        0.99,
        3.5,
        39.9,
        40,
        np.nan,
        np.inf,
        -np.inf,
        2**24,
        2**31,
        2**31 + 3,
        2**32,
        2**32 + 3,
        3 - 2**32,
        1e300,
        1e-36,
    ]
    rows = np.stack([np.resize(X[:, 0], len(odd)), odd], axis=1)
    with np.errstate(over="ignore"):
        check(model, [rows, rows.astype(np.float32), x], backends=BACKENDS)


def test_categories_of_large_numbers():
    category = RNG.choice(RNG.integers(0, 10**6, 30), 300)
    x = np.stack([X[:, 0], category, RNG.integers(0, 20, 300)], axis=1)
    settings = {"min_data_per_group": 1, "cat_smooth": 1}
    model = lgb.LGBMRegressor(**SMALL, **settings).fit(
        x, category % 2 + (x[:, 2] % 3 == 0) + 0.1 * X[:, 0], categorical_feature=[1, 2]
    )
    forest = parse(model).outputs["raw_scores"].node.forest
    assert len(forest.tables.goes_left) < 40 * forest.tables.count
    unknown = np.concatenate(
        [category + 0.5, category + 1, category - 1, -category, [np.nan, -0.5, -1, 0, 2**24, 1e300]]
    )
    rows = np.stack(
        [np.resize(X[:, 0], len(unknown)), unknown, np.resize(x[:, 2], len(unknown))], axis=1
    )
    with np.errstate(over="ignore"):
        check(model, [x, rows, rows.astype(np.float32)], backends=BACKENDS)


def test_columns_in_another_order():
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = lgb.LGBMRegressor(**SMALL).fit(frame, Y)
    with pytest.raises(
        InputError,
        match="'c' stands at position 0, and stood at 2 in fitting: LGBMRegressor reads columns by position",
    ):
        hbconv.convert(model, "reference").predict(frame[["c", "a", "b"]])


def test_early_stopping_uses_the_best_iteration_alone():
    model = lgb.LGBMRegressor(**{**SMALL, "n_estimators": 50, "learning_rate": 0.9})
    model.fit(
        X[:99],
        Y[:99],
        eval_X=X[99:],
        eval_y=RNG.permutation(Y[99:]),
        callbacks=[lgb.early_stopping(3, verbose=False)],
    )
    assert model.best_iteration_ < 50
    try_rows(model)


def test_trees_of_a_single_leaf():
    try_rows(lgb.LGBMRegressor(**SMALL).fit(X[:6], Y[:6]))
    try_rows(lgb.LGBMClassifier(**SMALL).fit(X[:9], np.arange(9) % 3))


def test_a_booster_without_trees():
    try_rows(lgb.Booster({"verbosity": -1, "num_threads": 1}, lgb.Dataset(X, Y)))


def test_a_trap_of_names():
    frame = pd.DataFrame(X, columns=["leaf value", "threshold=1", "Tree=0"])
    model = lgb.LGBMRegressor(**SMALL).fit(frame, Y)
    check(model, [frame], backends=FEW)


def test_more_columns_than_the_trees_read():
    wide = np.concatenate([np.zeros((300, 997)), X], axis=1)
    model = lgb.LGBMRegressor(**SMALL).fit(wide, Y)
    check(model, [wide, np.asfortranarray(wide), wide[::3]], backends=FEW)


def test_models_files_need_no_lightgbm(tmp_path):
    model = lgb.LGBMRegressor(**SMALL, linear_tree=True).fit(X, Y, categorical_feature=[])
    model.booster_.save_model(tmp_path / "model.txt")
    np.save(tmp_path / "rows.npy", X)
    script = "import sys; sys.modules['lightgbm'] = None; import numpy as np; import hbconv\n"
    script += "from hbconv.cli.sources import load_source; from pathlib import Path\n"
    script += "folder = Path(sys.argv[1]); model = hbconv.convert(load_source(folder / 'model.txt'), 'reference')\n"
    script += "np.save(folder / 'answer.npy', model.predict(np.load(folder / 'rows.npy')))"
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True)
    np.testing.assert_array_equal(np.load(tmp_path / "answer.npy"), model.predict(X))


def damaged(**lines: str) -> str:
    """Text of a model with linear leaves and sets of categories, some lines of its second tree
    replaced.
    """
    category = RNG.integers(0, 9, 300)
    x = np.stack([X[:, 0], category], axis=1)
    settings = {"linear_tree": True, "min_data_per_group": 1, "cat_smooth": 1}
    model = lgb.LGBMRegressor(**SMALL, **settings).fit(
        x, np.isin(category, [0, 3]) * 9 + X[:, 0], categorical_feature=[1]
    )
    head, mark, tree = model.booster_.model_to_string().partition("Tree=1")
    for key, value in lines.items():
        assert f"\n{key}=" in tree
        before, _, after = tree.partition(f"\n{key}=")
        tree = f"{before}\n{key}={value}\n{after.partition(chr(10))[2]}"
    return head + mark + tree


@pytest.mark.parametrize(
    "lines",
    [
        {},
        {"num_cat": "0"},
        {"cat_boundaries": "0 9"},
        {"cat_threshold": "1 2 3 4 5 6 7"},
        {"threshold": "7 7 7 7 7 7 7"},
    ],
)
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"leaf_coeff": "1"},
        {"leaf_const": "x"},
        {"leaf_features": "9 9 9 9 9 9 9 9"},
        {"num_features": "1"},
    ],
)
def test_damaged_sets_and_linear_leaves_are_refused(lines, more):
    if lines or more:
        with pytest.raises(ConversionError, match="damaged"):
            parse_lightgbm_text(damaged(**lines, **more))
    else:
        parse_lightgbm_text(damaged())
