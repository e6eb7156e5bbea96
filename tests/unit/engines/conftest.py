"""A fitted pipeline of text and numbers, its saved model, and rows made to hurt."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import hbconv

NAMES = ["age", "city", "income"]


def make_rows(count, seed=0):
    """Rows with ids that count backwards, missing values, unknown cities and extreme numbers."""
    draw = np.random.default_rng(seed)
    age = draw.normal(40, 12, count)
    age[::7] = np.nan
    age[3::11] = 5e-324
    age[5::13] = -0.0
    cities = np.array(["Rome", "Oslo", "Lima", "", "Łódź"], dtype=object)[
        draw.integers(0, 5, count)
    ]
    income = draw.normal(3e4, 1e4, count)
    income[4::9] = 1e300
    return pd.DataFrame(
        {"id": np.arange(count)[::-1], "city": cities, "income": income, "age": age}
    )


@pytest.fixture(scope="session")
def rows():
    """500 rows: other columns than the model reads, in another order."""
    return make_rows(500)


@pytest.fixture(scope="session")
def source():
    """The judge: a fitted classifier with text labels."""
    fitted = make_rows(300, seed=1)
    fitted["income"] = fitted.income.clip(0, 1e5)
    fitted.loc[fitted.city == "Łódź", "city"] = "Rome"
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    columns = make_column_transformer(
        (numbers, ["age", "income"]), (OneHotEncoder(handle_unknown="ignore"), ["city"])
    )
    labels = np.where(fitted.age.fillna(0) + fitted.income / 1e3 > 65, "stays", "goes")
    return make_pipeline(columns, LogisticRegression()).fit(fitted[NAMES], labels)


@pytest.fixture(scope="session")
def some_refused(rows):
    """The same rows, of which the model refuses every tenth."""
    return rows.assign(income=rows.income.where(rows.index % 10 != 0, np.inf))


@pytest.fixture(scope="session")
def check_reasons(some_refused, source):
    """Judge answers of these rows that have a column ``why``: each has an answer, or a reason."""

    def check(found):
        found = found.sort_values("id", ascending=False, ignore_index=True)
        assert found.id.tolist() == some_refused.id.tolist()
        refused = np.isinf(some_refused.income)
        assert found.why.notna().tolist() == found.predict.isna().tolist() == refused.tolist()
        assert found.why[refused].str.contains("infinity").all()
        answers = found.predict[~refused].tolist()
        assert answers == source.predict(some_refused[~refused]).tolist()

    return check


@pytest.fixture(scope="session")
def path(source, tmp_path_factory):
    """The saved model."""
    found = tmp_path_factory.mktemp("engines") / "model.hbc"
    hbconv.convert(source).save(found)
    return found


@pytest.fixture(scope="session")
def model(path):
    """The model in memory."""
    return hbconv.load(path)


@pytest.fixture
def dying(path, tmp_path):
    """A scorer whose process is killed in the middle of a job, once."""
    from dying_scorer import DyingScorer

    return DyingScorer(path, tmp_path / "died")
