"""Models of columns that a request may have: texts, categories, numbers with holes, and words."""

from __future__ import annotations

from functools import cache

import numpy as np
from catboost import CatBoostClassifier
from lightgbm import LGBMClassifier
from row_table import NUMBERS, PEOPLE, TEXTS, WORDS, fitted_on, labels, people
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder, OrdinalEncoder, StandardScaler

import hbconv
from hbconv.errors import HbconvError

__all__ = [
    "SOURCES",
    "catboost",
    "encoder",
    "lightgbm",
    "missing_texts",
    "numbers",
    "one_hot",
    "reading",
    "strict",
    "stump",
    "worded",
]


def joined(encode, numbers, last):
    steps = [("text", encode, TEXTS), ("numbers", numbers, NUMBERS)]
    return make_pipeline(ColumnTransformer(steps), last)


def one_hot():
    encode = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    trees = HistGradientBoostingClassifier(max_iter=5)
    return joined(encode, SimpleImputer(), trees).fit(people(), labels())


def strict():
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    encode = OrdinalEncoder(dtype=np.float32)
    return joined(encode, numbers, LogisticRegression()).fit(people(), labels())


def missing_texts():
    frame = people().copy()
    frame.loc[::5, "port"] = None
    frame.loc[1::5, "sex"] = np.nan
    encode = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    trees = RandomForestRegressor(3, max_depth=3, random_state=0)
    return joined(encode, "passthrough", trees).fit(frame, labels())


def encoder():
    return ColumnTransformer(
        [("text", OneHotEncoder(sparse_output=False), TEXTS), ("age", "passthrough", ["age"])]
    ).fit(people())


def numbers():
    return make_pipeline(SimpleImputer(), StandardScaler(), LogisticRegression()).fit(
        people()[NUMBERS], labels()
    )


def stump():
    """Read one of the columns that it checks: the host looks at the other, and refuses NaN."""
    frame = people()[["sex", "fare", "sibsp"]].assign(sibsp=np.arange(PEOPLE) / 7)
    bins = KBinsDiscretizer(encode="ordinal", quantile_method="averaged_inverted_cdf")
    encode = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    columns = ColumnTransformer([("text", encode, ["sex"]), ("bins", bins, ["fare", "sibsp"])])
    trees = HistGradientBoostingRegressor(max_iter=1, max_leaf_nodes=2)
    return make_pipeline(columns, trees).fit(frame, frame["fare"])


def lightgbm():
    frame = people()[[*TEXTS, *NUMBERS]].astype(dict.fromkeys(TEXTS, "category"))
    return LGBMClassifier(n_estimators=5, min_child_samples=2, verbose=-1).fit(frame, labels())


def catboost():
    frame = people()[[*TEXTS, *NUMBERS]]
    trees = CatBoostClassifier(
        iterations=5,
        depth=3,
        cat_features=[0, 1, 4],
        one_hot_max_size=10,
        verbose=False,
        allow_writing_files=False,
    )
    return trees.fit(frame, labels())


def worded():
    """Read words, and count them again as characters."""
    frame = people().assign(name=[WORDS[: i % 40] for i in range(PEOPLE)])
    columns = ColumnTransformer(
        [
            ("words", TfidfVectorizer(sublinear_tf=True), "name"),
            ("characters", CountVectorizer(analyzer="char", dtype=np.float32), "name"),
            ("text", OneHotEncoder(handle_unknown="ignore"), ["sex"]),
            ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), NUMBERS),
        ]
    )
    return make_pipeline(columns, LogisticRegression()).fit(frame, labels())


@cache
def reading(storage, value, name):
    """Return a model that reads a column, or None where there is none."""
    source = fitted_on(storage, value, name)
    try:
        return None if source is None else hbconv.convert(source, "torch")
    except HbconvError:
        return None


SOURCES = [one_hot, strict, missing_texts, encoder, numbers, stump, lightgbm, catboost, worded]
