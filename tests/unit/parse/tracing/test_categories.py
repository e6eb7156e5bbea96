"""Categories that a function knows, their dummies and codes, and the texts of numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pandas.api.types import CategoricalDtype
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OrdinalEncoder

import hbconv
from hbconv.errors import InputError, UnsupportedError

# From version 4 on pandas raises at values that are none of the categories.
pytestmark = pytest.mark.filterwarnings("ignore:Constructing a Categorical")

Function = Callable[[Any], Any]

PLANS = CategoricalDtype(["basic", "max", "plus"])
KIDS = CategoricalDtype([0, 1, 2, 7])
N = 40
RNG = np.random.default_rng(3)
TABLE = pd.DataFrame(
    {
        "age": RNG.integers(10, 90, N).astype(float),
        "kids": RNG.integers(0, 4, N),
        "plan": RNG.choice(["basic", "max", "plus", "other"], N),
        "city": RNG.choice(np.array(["Oslo", "Rome", None], object), N),
        "joined": pd.date_range("2019-11-01", periods=N, freq="11D"),
    }
)
BINS = [-np.inf, 18, 40, np.inf]
PLAN_COLUMNS = ["plan_max", "age", "plan_none", "city_Oslo", "city_"]

RIGHT: dict[str, Function] = {
    "of a cast": lambda df: pd.get_dummies(df[["plan", "age"]].astype({"plan": PLANS})),
    "of a series": lambda df: pd.get_dummies(df["plan"].astype(PLANS), dtype=float),
    "with a prefix": lambda df: pd.get_dummies(
        df[["plan"]].astype(PLANS), prefix={"plan": "p"}, prefix_sep="=", columns=["plan"]
    ),
    "without the first": lambda df: pd.get_dummies(
        df["plan"].astype(PLANS), prefix="p", drop_first=True, dummy_na=True, dtype="int8"
    ),
    "of numbers": lambda df: pd.get_dummies(df["kids"].astype(KIDS), prefix="kids"),
    "of a categorical": lambda df: pd.get_dummies(
        pd.Categorical(df["plan"], categories=["plus", "max"])
    ),
    "of bins": lambda df: pd.get_dummies(
        pd.cut(df["age"], BINS, labels=["low", "middle", "high"]), prefix="age"
    ),
    "named behind it": lambda df: pd.get_dummies(df[["age", "plan", "city"]]).reindex(
        columns=PLAN_COLUMNS, fill_value=0
    ),
    "named, of edited texts": lambda df: pd.get_dummies(
        df["plan"].str.upper(), prefix="p", dtype=int
    ).reindex(columns=["p_MAX", "p_max"], fill_value=0),
    "named, of texts of ints": lambda df: pd.get_dummies(df["kids"].astype(str)).reindex(
        columns=["0", "1", "1.0"], fill_value=False
    ),
    "codes": lambda df: df["plan"].astype(PLANS).cat.codes.to_frame("plan"),
    "codes, compared": lambda df: (df["plan"].astype(PLANS).cat.codes >= 1).to_frame("plan"),
    "codes, widened": lambda df: (df["plan"].astype(PLANS).cat.codes.astype(int) * 99).to_frame(
        "plan"
    ),
    "codes of a categorical": lambda df: pd.DataFrame(
        {"plan": pd.Categorical(df["plan"], categories=["plus", "max"]).codes}
    ),
    "categories": lambda df: pd.DataFrame(
        {name: (df["plan"] == name).astype("uint8") for name in PLANS.categories}
    ),
    "columns that are not there": lambda df: df[["age"]].reindex(
        columns=["zero", "age"], fill_value=0
    ),
    "the lowest edge": lambda df: pd.cut(
        df["age"], [10, 40, 90], labels=False, include_lowest=True
    ).to_frame(),
    "number bins": lambda df: pd.cut(df["age"], BINS, labels=[1, 5, 7], right=False).to_frame(),
}
ODD_AGES = (np.nan, np.inf, -np.inf, 18.0, np.nextafter(18, 99), 10.0, np.nextafter(10, 0), 0.0)
ODD_TEXTS = (None, "", "max", "MAX", "nan", "other", "0", "plan_max")


@pytest.mark.parametrize("name", RIGHT)
def test_dummies_are_those_of_pandas(name: str) -> None:
    source = FunctionTransformer(RIGHT[name]).fit(TABLE)
    model = hbconv.convert(source, "reference", sample=TABLE[:5])
    tables = [TABLE, TABLE[::-1], TABLE[:1], TABLE[3:4].assign(plan="max", city="Oslo")]
    tables += [TABLE[:1].assign(age=age) for age in ODD_AGES]
    for text in ODD_TEXTS:
        odd = pd.Series([text], dtype=object)
        tables += [TABLE[:1].assign(plan=odd), TABLE[:1].assign(city=odd.astype("str"))]
    answered = 0
    for table in tables:
        try:
            got = model.transform(table)
        except InputError:
            continue
        answered += 1
        want = source.transform(table)
        np.testing.assert_array_equal(np.asarray(got, float), np.asarray(want).astype(float))
    assert answered > 10


def test_other_values_than_texts_are_refused_where_pandas_names_them_alike() -> None:
    source = FunctionTransformer(RIGHT["named behind it"]).fit(TABLE)
    model = hbconv.convert(source, "reference", sample=TABLE[:5])
    with pytest.raises(InputError):
        model.transform(TABLE[:1].assign(plan=pd.Series([3], dtype=object)))


REFUSED: list[tuple[Function, str]] = [
    (lambda df: pd.get_dummies(df), "each text that is among the rows"),  # noqa: PLW0108
    (lambda df: pd.get_dummies(df)["plan_max"], "each text that is among the rows"),
    (lambda df: pd.get_dummies(df).reindex(columns=["plan_max"]), "Give fill_value=0"),
    (lambda df: pd.get_dummies(df[["plan"]], drop_first=True), "drops the first category"),
    (lambda df: pd.get_dummies(df, columns=["kids"]).reindex(columns=["kids_1"], fill_value=0),
     "dummies of a column of numbers"),
    (lambda df: pd.get_dummies(df[["plan", "city"]], prefix="a").reindex(
        columns=["a_max"], fill_value=0), "two columns of the name 'a_max'"),
    (lambda df: pd.get_dummies(df["plan"], dummy_na=True).reindex(columns=["nan"], fill_value=0),
     "of the text 'nan'"),
    (lambda df: pd.get_dummies(df["plan"].astype("category")), "pd.CategoricalDtype"),
    (lambda df: df["plan"].astype(CategoricalDtype()).to_frame(), "finds the categories"),
    (lambda df: (df["plan"].astype(PLANS).cat.codes * 99).to_frame(), "narrow ints, which over"),
    (lambda df: df["plan"].astype(PLANS).cat.codes.to_frame().values, "an array of narrow ints"),
    (lambda df: df["plan"].cat.codes.to_frame(), "categories that depend on the rows"),
    (lambda df: df["age"].astype("int8").to_frame(), "converts to int8"),
    (lambda df: df["age"].astype(str).str[0].to_frame(), "edits texts of numbers by character"),
    (lambda df: df["joined"].astype(str).to_frame(), "this method of a column of dates"),
]  # fmt: skip


@pytest.mark.parametrize(("function", "why"), REFUSED, ids=[why for _, why in REFUSED])
def test_what_depends_on_the_other_rows_is_refused(function: Function, why: str) -> None:
    with pytest.raises(UnsupportedError, match=why):
        hbconv.convert(FunctionTransformer(function).fit(TABLE), "reference", sample=TABLE[:5])


NUMBERS: dict[str, Function] = {
    "ints": lambda df: df["kids"].astype(str).to_frame(),
    "floats": lambda df: df["age"].astype(str).to_frame(),
    "flags": lambda df: (df["age"] > 40).astype(str).to_frame(),
    "whole floats": lambda df: df["age"].astype(int).astype("str").to_frame(),
    "padded": lambda df: ("k" + df["kids"].astype(str).str.zfill(3)).to_frame(),
    "joined": lambda df: (df["kids"].astype(str) + "_" + df["plan"]).to_frame("both"),
    "months": lambda df: (
        df["joined"].dt.year.astype(str) + "-" + df["joined"].dt.month.astype(str).str.zfill(2)
    ).to_frame("month"),
    "bins": lambda df: pd.cut(df["age"], BINS, labels=False).astype(str).to_frame(),
    "lengths": lambda df: df["plan"].str.len().astype(str).to_frame(),
}
ODD_NUMBERS = (0.0, -0.0, np.nan, np.inf, -np.inf, 1e16, 1e300, 5e-324, 0.1 + 0.2, 2.0**53, -7.0)


@pytest.mark.parametrize("name", NUMBERS)
def test_texts_of_numbers_reach_an_encoder(name: str) -> None:
    encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    odd = [TABLE[:1].assign(age=number) for number in ODD_NUMBERS if name != "whole floats"]
    odd += [TABLE[:1].assign(kids=number) for number in ODD_NUMBERS]
    odd += [TABLE[:1].assign(kids=np.array([n])) for n in (-7, 2**53 + 1, 10**18)]
    fitted = pd.concat([TABLE, *(table for table in odd if name == "floats")])
    source = make_pipeline(FunctionTransformer(NUMBERS[name]), encoder).fit(fitted)
    model = hbconv.convert(source, "reference", sample=TABLE[:5])
    answered = 0
    for table in [TABLE, TABLE[::-1], TABLE[:1], *odd]:
        try:
            got = model.transform(table)
        except InputError:
            continue
        answered += 1
        np.testing.assert_array_equal(got, source.transform(table))
    assert answered >= 3
