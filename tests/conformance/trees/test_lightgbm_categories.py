"""LightGBM models fitted on pandas categories: which columns they are, the order of their
values, what is none of them.
"""

import json

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import VotingRegressor
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder
from sources import quietly
from trees.battery import FEW, check

import hbconv
from hbconv.errors import InputError, UnsupportedError
from hbconv.parse.lightgbm.estimators import parse_lightgbm_text

RNG = np.random.default_rng(0)
SMALL = {
    "n_estimators": 5,
    "num_leaves": 8,
    "min_child_samples": 5,
    "cat_smooth": 1,
    "min_data_per_group": 2,
    "verbosity": -1,
    "n_jobs": 1,
}
VALUES = {
    "text": ["wolf", "ant", "bee", "1"],
    "whole": [30, 10, 20],
    "flag": [True, False],
    "fraction": [0.5, -1.0, 0.25],
}
UNSEEN = {"text": "new", "whole": 99, "fraction": 7.0}


def frame(rows, *names, unseen=False, ordered=False):
    """Two plain columns, the second of a name with a space, and columns of categories in the
    order of VALUES.
    """
    data = pd.DataFrame(
        {
            "plain": RNG.standard_normal(rows).astype(np.float32),
            "with space": RNG.standard_normal(rows),
        }
    )
    for name in names:
        values = VALUES[name] + ([UNSEEN[name]] if unseen and name in UNSEEN else [])
        column = pd.Series(RNG.choice(np.array(values, dtype=object), rows)).mask(
            RNG.random(rows) < 0.1
        )
        data[name] = pd.Categorical(column, categories=values, ordered=ordered)
    return data


def target(data):
    codes = sum(
        (
            data[name].cat.codes % 2 * (1 + place)
            for place, name in enumerate(data.select_dtypes("category"))
        ),
        np.zeros(len(data)),
    )
    return np.asarray(data["plain"] + codes)


def fitted(data, **options):
    return lgb.LGBMRegressor(**SMALL).fit(data, target(data), **options)


@pytest.mark.parametrize(
    "names",
    [["text"], ["whole"], ["flag"], ["fraction"], ["fraction", "text", "flag", "whole"]],
    ids="-".join,
)
@pytest.mark.parametrize("ordered", [False, True], ids=["unordered", "ordered"])
def test_values_in_their_stored_order(names, ordered):
    data = frame(300, *names, ordered=ordered)
    model = fitted(data)
    rows = frame(200, *names, unseen=True, ordered=ordered)
    check(model, [data, rows, rows.iloc[:1]], backends=FEW)
    check(model.booster_, [rows], backends=FEW)
    from_text = hbconv.convert(parse_lightgbm_text(model.booster_.model_to_string()), "reference")
    np.testing.assert_array_equal(from_text.predict(rows), model.predict(rows))


def test_tables_of_other_libraries_hold_values():
    data = frame(300, "text", "whole")
    converted, want = hbconv.convert(fitted(data), "reference"), fitted(data).predict(data)
    values = {name: np.asarray(data[name]) for name in data}
    np.testing.assert_array_equal(converted.predict(values), want)
    with pytest.raises(InputError, match="reads columns by position"):
        converted.predict(data[["whole", "text", "with space", "plain"]])


ODD = [
    -np.inf,
    -1e300,
    -(2.0**31),
    -2,
    -1,
    -0.5,
    -0.0,
    0,
    0.5,
    1.999,
    2,
    3,
    4,
    31,
    32,
    2**24,
    2**31,
    1e300,
    np.inf,
    np.nan,
]
"""Numbers of categories, and numbers that are none."""


def coded(data, columns):
    """Rows of codes: those of the data, then odd ones."""
    codes = np.stack(
        [
            np.asarray(data[name].cat.codes if name in VALUES else data[name], np.float64)
            for name in data
        ],
        axis=1,
    )
    odd = np.resize(codes, (2 * len(ODD), codes.shape[1]))
    for place, column in enumerate(columns):
        odd[:, column] = np.roll(np.repeat(ODD, 2), place)
    return np.concatenate([codes, odd])


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize(
    "names", [["text"], ["whole"], ["flag"], ["fraction", "text", "flag", "whole"]], ids="-".join
)
def test_the_numbers_of_an_array_are_codes(names):
    """Whatever they are: of other dtypes, negative, out of range, fractions, missing, sparse."""
    data = frame(300, *names)
    model = fitted(data)
    codes = coded(data, range(2, 2 + len(names)))
    with np.errstate(over="ignore"):
        arrays = [codes, codes.astype(np.float32), np.asfortranarray(codes[:7]), codes[:1]]
    check(model, arrays, backends=FEW)
    check(model.booster_, arrays[:2], backends=FEW)
    converted = hbconv.convert(model, "reference")
    for rows in (
        codes[:300].astype(np.int64),
        codes[:50].tolist(),
        codes[:50].astype(object),
        scipy.sparse.csr_matrix(codes),
    ):
        np.testing.assert_array_equal(
            quietly(converted, "predict", rows), quietly(model, "predict", rows)
        )
    text = model.booster_.model_to_string()
    check(lgb.Booster(model_str=text), arrays[:1], backends=("reference",))
    read = hbconv.convert(parse_lightgbm_text(text), "reference")
    np.testing.assert_array_equal(quietly(read, "predict", codes), quietly(model, "predict", codes))
    bound = converted.bind(rows=1, dtype="float64")
    np.testing.assert_array_equal(bound(codes[:1]), quietly(model, "predict", codes[:1]))
    with pytest.raises(InputError, match=r"X has 2 columns|X has 1 columns"):
        converted.predict(codes[:, :2] if codes.shape[1] > 2 else codes[:, :1])


def test_a_saved_model_reads_arrays_of_codes(tmp_path):
    data = frame(300, "text", "whole")
    model = fitted(data)
    hbconv.convert(model, "reference").save(tmp_path / "model.hbc")
    codes = coded(data, [2, 3])
    np.testing.assert_array_equal(
        quietly(hbconv.load(tmp_path / "model.hbc"), "predict", codes),
        quietly(model, "predict", codes),
    )


def test_numbers_in_a_table_are_no_codes():
    """The source refuses them in pandas, and reads those of Arrow and polars as codes, where
    hbconv sees a column of another kind.
    """
    data = frame(300, "whole")
    model = hbconv.convert(fitted(data), "reference")
    with pytest.raises(ValueError, match="categorical_feature do not match"):
        fitted(data).predict(data.assign(whole=1.0))
    with pytest.raises(
        InputError, match="'whole' holds plain numbers; LGBMRegressor was fitted on categories"
    ):
        model.predict(data.assign(whole=1.0))


def test_an_encoder_beside_the_model_reads_values_that_an_array_does_not_hold():
    data = frame(300, "text").drop(columns=["with space"])
    encoded = make_pipeline(
        ColumnTransformer([("text", OneHotEncoder(handle_unknown="ignore"), ["text"])]),
        LinearRegression(),
    )
    both = VotingRegressor([("booster", lgb.LGBMRegressor(**SMALL)), ("encoded", encoded)]).fit(
        data, target(data)
    )
    model = hbconv.convert(both, "reference")
    np.testing.assert_allclose(model.predict(data), both.predict(data), rtol=1e-12)
    with pytest.raises(InputError, match="fitted on columns of categories"):
        model.predict(np.zeros((3, 2)))


def test_other_columns_of_categories_are_refused():
    data = frame(300, "whole").assign(code=RNG.integers(0, 3, 300))
    converted = hbconv.convert(fitted(data, categorical_feature=["code"]), "reference")
    with pytest.raises(
        InputError,
        match="Column 'whole' has dtype category; LGBMRegressor was fitted on categories in 'code' alone",
    ):
        converted.predict(data)


def test_ordered_categories_beside_whole_numbers_are_refused():
    data = frame(300, "whole", ordered=True).assign(code=RNG.integers(0, 3, 300))
    with pytest.raises(
        UnsupportedError, match=r"pandas_categorical='\[\[30, 10, 20\]\]'.*unordered"
    ):
        hbconv.convert(fitted(data))


@pytest.mark.parametrize("name", ["text", "whole"])
def test_a_pipeline_that_begins_with_it_reads_tables_as_it_does(name):
    data = frame(300, name).drop(columns="with space")
    pipeline = make_pipeline(lgb.LGBMRegressor(**SMALL)).fit(data, target(data))
    model = hbconv.convert(pipeline, "reference")
    np.testing.assert_array_equal(model.predict(data), pipeline.predict(data))
    np.testing.assert_array_equal(
        quietly(model, "predict", np.zeros((3, 2))), quietly(pipeline, "predict", np.zeros((3, 2)))
    )


def test_numbers_as_categories_are_refused_behind_a_step():
    data = frame(300, "whole").drop(columns="with space")
    model = lgb.LGBMRegressor(**SMALL)
    with pytest.raises(UnsupportedError, match="pandas_categorical"):
        hbconv.convert(make_pipeline(FunctionTransformer(), model).fit(data, target(data)))


@pytest.mark.parametrize(
    "lists", [[["a"], ["b"], ["c"], ["d"]], [[1, "a"]]], ids=["more than columns", "mixed"]
)
def test_texts_whose_lists_fit_no_column_are_refused(lists):
    text = fitted(frame(300, "text")).booster_.model_to_string()
    with pytest.raises(UnsupportedError, match=r"pandas_categorical|categories_"):
        parse_lightgbm_text(text.replace(json.dumps([VALUES["text"]]), json.dumps(lists)))
