"""Functions of one value or of one row are traced through all their branches."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import FunctionTransformer
from tolerances import FUNCTION, assert_units

import hbconv
from hbconv.errors import InputError, UnsupportedError

RNG = np.random.default_rng(6)
N = 40
TABLE = pd.DataFrame(
    {
        "age": RNG.integers(0, 90, N).astype(float),
        "x": RNG.normal(size=N),
        "fare": RNG.normal(10, 5, N).round(1),
        "name": RNG.choice(["Braund, Mr. Owen", "Heikkinen, Miss. L", "Dr-x, Mrs. J"], N),
        "d": pd.Timestamp("2020-01-01") + pd.to_timedelta(RNG.integers(0, 10**8, N), unit="s"),
    }
)
TABLE.loc[3, "age"] = np.nan


def band(age):
    if pd.isna(age):
        return -1
    if age < 18:
        band = 0
    elif age < 65:
        band = 1
    else:
        band = 2
    return band


def title(name):
    found = name.split(",")[1].strip().split(".")[0]
    if found == "Mr":
        return 1
    return 2 if found in ("Mrs", "Miss") else 0


def rate(row):
    if row["age"] > 60 and row["x"] > 0:
        return row["x"] * 2
    return 0 if row["fare"] == 0 else row["x"] / row["fare"]


def of_numbers(df):
    return pd.DataFrame(
        {
            "band": df["age"].apply(band),
            "bent": df["x"].map(lambda x: x * 2 + 1 if x > 0 else -x),
            "among": df["age"].apply(lambda age: 1 if age in (1, 2, 3) else 0),
            "least": df["x"].map(lambda x: max(x, 0.0)),
            "more": df["x"].apply(lambda x, bound=0.5: x > bound),
            "filled": df["age"].map(lambda age: age + 1, na_action="ignore"),
            "power": df["x"].apply(lambda x, by: abs(x) ** by, args=(2,)),
        }
    )


def of_texts(df):
    return pd.DataFrame(
        {
            "title": df["name"].apply(title),
            "length": df["name"].apply(len),
            "doctor": df["name"].map(lambda name: "Dr" in name and "J" in name),
            "b": df["name"].apply(
                lambda name: 1 if isinstance(name, str) and name.lower().startswith("b") else 0
            ),
        }
    )


def of_dates(df):
    return pd.DataFrame(
        {
            "weekday": df["d"].apply(lambda day: day.weekday()),
            "summer": df["d"].map(lambda day: day.month in (6, 7, 8)),
            "minute": df["d"].apply(lambda day: day.hour * 60 + day.minute),
        }
    )


def of_rows(df):
    return pd.DataFrame(
        {
            "rate": df.apply(rate, axis=1),
            "gap": df.apply(lambda row: row["x"] - row.fare, axis=1),
            "j": df.apply(lambda row: 1 if row["name"].endswith("J") else row["x"], axis=1),
        }
    )


COMMA = re.compile(r"([A-Za-z-]+), (Mrs?|MISS)", re.IGNORECASE)


def titled(name):
    found = COMMA.match(name)
    return found.group(2) + "!" if found else "none"


def capitals(name):
    return len(re.findall(r"[A-Z]", name)) if re.findall(r"[A-Z]r", name) else -1


def of_patterns(df):
    return pd.DataFrame(
        {
            "title": df["name"].map(titled).map({"Mr!": 1, "Mrs!": 2, "Miss!": 3, "none": 4}),
            "capitals": df["name"].apply(capitals),
            "plain": df["name"].apply(lambda s: re.sub(r"[^a-z]+", "", s, count=1)).str.len(),
            "ends": df["name"].map(lambda s: bool(re.search(r"[A-Z]$", s))),
            "whole": df["name"].map(lambda s: 1 if re.fullmatch(r"\w+, \w+. \w+", s) else 0),
            "part": df["name"].map(lambda s: re.split(r"[,.] *", s)[1]) == "Mrs",
            "alone": df["name"].map(lambda s: s[:2].isalpha() and not s.isupper()),
        }
    )


def logarithm(x):
    if math.isnan(x):
        return -1.0
    return math.log(x) + math.sqrt(math.fabs(x)) if x > 0 else math.exp(x) + math.sin(x)


def of_mathematics(df):
    return pd.DataFrame({"log": df["x"].apply(logarithm), "age": df["age"].map(logarithm)})


RIGHT: list[Callable[[Any], Any]] = [
    *(of_numbers, of_texts, of_dates, of_rows),
    *(of_patterns, of_mathematics),
]


@pytest.mark.parametrize("function", RIGHT, ids=lambda f: f.__name__)
def test_each_branch_is_followed(function: Callable[[Any], Any]) -> None:
    source = FunctionTransformer(function).fit(TABLE)
    model = hbconv.convert(source, "reference")
    for rows in (TABLE, TABLE[3:4], TABLE[5:6], TABLE.assign(x=-TABLE["x"], age=1.0)):
        want = np.asarray(source.transform(rows), float)
        got = np.asarray(model.transform(rows), float)
        # Python's functions are the C library's, numpy's its own with AVX-512, and terms cancel.
        limit = FUNCTION if function is of_mathematics else 0
        assert_units(function.__name__, got, want, limit, least=1.0)


def test_rows_at_which_python_raises_are_refused() -> None:
    def share(df):
        return pd.DataFrame({"a": df["x"].map(lambda x: 1 / x), "b": df["name"].apply(title)})

    model = hbconv.convert(FunctionTransformer(share).fit(TABLE), "reference")
    for rows, why in (
        (TABLE.assign(x=0.0), "divided by zero"),
        (TABLE.assign(name=[None, *TABLE["name"][1:]]), "missing text is edited"),
        (TABLE.assign(name="Owen"), "fewer parts"),
    ):
        with pytest.raises(InputError, match=why):
            model.transform(rows)
        with pytest.raises((ZeroDivisionError, AttributeError, IndexError)):
            share(rows)


def test_rows_at_which_patterns_and_mathematics_raise_are_refused() -> None:
    def group(df):
        found = df["name"].map(lambda s: m.group(1) if (m := re.search("(A)|B", s)) else "-")
        return pd.DataFrame({"log": df["x"].map(lambda x: 2 * math.log(x)), "a": found == "A"})

    model = hbconv.convert(FunctionTransformer(group).fit(TABLE.assign(x=1.0)), "reference")
    rows = TABLE[:1].assign(x=2.0, name="AB")
    np.testing.assert_array_equal(model.transform(rows), group(rows))
    with pytest.raises(InputError, match="takes no part in a match"):
        model.transform(rows.assign(name="BA"))
    with pytest.raises(InputError, match=r"math\.log raises"):
        model.transform(rows.assign(x=0.0))


def many_ways(row):
    return sum(1 if row["x"] > bound / 8 else 0 for bound in range(8))


def one(function: Callable[[Any], Any], name: str = "x") -> Callable[[Any], Any]:
    return lambda df: pd.DataFrame({"a": df[name].apply(function)})


REFUSED: list[tuple[Callable[[Any], Any], str]] = [
    (one(lambda x: "old" if x > 3 else None), "returns None beside texts"),
    (one(lambda x: "old" if x > 3 else 0), "returns texts for some values"),
    (one(lambda x: round(x, 1)), "rounds as Python does"),
    (one(int), "calls|needs the values"),
    (one(lambda s: re.sub("(a)", r"\1b", s), "name"), "replaces by what is matched"),
    (one(lambda s: 1 if re.search("^a", s, re.MULTILINE) else 0, "name"), "with such flags"),
    (one(lambda s: re.findall("a", s)[0], "name"), "takes one of all matches"),
    (one(lambda s: re.search("a", s).start() if "a" in s else 0, "name"), "start of a match|None"),
    (one(lambda s: re.split("(a)", s)[0], "name"), "splits by a pattern with groups"),
    (one(lambda x: {1: 2}.get(x, 0)), "needs the values"),
    (one(lambda x: f"{x} years"), "needs the values"),
    (one(lambda name: 5 if name is None else 1, "name"), "compares by 'is'"),
    (one(lambda x: 1 if isinstance(x, float) else 0), "asks for the type of a value"),
    (one(lambda x: 1 if type(x) == float else 0), "asks for the type"),  # noqa: E721
    (one(lambda x: sum(1 for _ in x)), "needs the values"),
    (lambda df: df.apply(lambda row: row[0], axis=1).to_frame("a"), "by position"),
    (lambda df: df.apply(lambda row: row.sum(), axis=1).to_frame("a"), "uses sum of a row"),
    (lambda df: pd.DataFrame({"a": df.apply(many_ways, axis=1)}), "more than 128 ways"),
]


@pytest.mark.parametrize(("function", "why"), REFUSED, ids=[why for _, why in REFUSED])
def test_what_a_cell_cannot_answer_is_refused(function: Callable[[Any], Any], why: str) -> None:
    source = FunctionTransformer(function)
    source.n_features_in_ = TABLE.shape[1]
    source.feature_names_in_ = np.array(list(TABLE), object)
    with pytest.raises(UnsupportedError, match=why):
        hbconv.convert(source, "reference")
