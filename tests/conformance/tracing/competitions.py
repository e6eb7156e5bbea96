"""Functions and classes in the style of entries to competitions, written before they were asked."""

import math
import re

import numpy as np
import pandas as pd
from pandas.api.types import CategoricalDtype
from sklearn.base import BaseEstimator, TransformerMixin

PLANS = CategoricalDtype(categories=["basic", "max", "plus"])
CITIES = pd.CategoricalDtype(["Bergen", "Lima", "Oslo", "Rome"])
DUMMIES = ["age", "plan_basic", "plan_max", "plan_plus", "city_Oslo", "city_Rome"]
MONTHS = {1: "winter", 2: "winter", 3: "spring", 4: "spring", 5: "spring", 6: "summer"}


def dummies_of_cast(df):
    df = df[["age", "plan"]].copy()
    df["plan"] = df["plan"].astype(PLANS)
    return pd.get_dummies(df, columns=["plan"])


def dummies_reindexed(df):
    df = df[["age", "plan", "city"]]
    return pd.get_dummies(df, columns=["plan", "city"]).reindex(columns=DUMMIES, fill_value=0)


def dummies_first_dropped(df):
    plan = df["plan"].astype(PLANS)
    return pd.get_dummies(plan, prefix="plan", drop_first=True, dtype=int)


def dummies_joined(df):
    dummies = pd.get_dummies(df["city"].astype(CITIES), prefix="city", dummy_na=True)
    return pd.concat([df[["age", "kids"]], dummies], axis=1)


def dummies_of_season(df):
    season = df["joined"].dt.month.map(MONTHS).fillna("autumn")
    dummies = pd.get_dummies(season)
    return dummies.reindex(columns=["winter", "spring", "summer", "autumn"], fill_value=False)


def dummies_of_categorical(df):
    plan = pd.Categorical(df["plan"], categories=["basic", "plus", "max"])
    return pd.get_dummies(plan, prefix="plan", dtype=float)


def ordered_codes(df):
    order = CategoricalDtype(["basic", "plus", "max"], ordered=True)
    return pd.DataFrame({"plan": df["plan"].astype(order).cat.codes, "age": df["age"]})


def kids_as_text(df):
    df = df[["plan", "kids"]].copy()
    df["kids"] = df["kids"].astype(str)
    df["plan_kids"] = df["plan"] + "_" + df["kids"]
    return df


def year_month(df):
    joined = df["joined"]
    key = joined.dt.year.astype(str) + "-" + joined.dt.month.astype(str).str.zfill(2)
    return key.to_frame("key")


def age_as_text(df):
    return df["age"].astype(int).astype(str).to_frame("age")


def number_of_code(df):
    number = pd.to_numeric(df["code"].str.split("-").str[1], errors="coerce")
    return pd.DataFrame({"number": number.fillna(-1)})


def coerced_city(df):
    number = pd.to_numeric(df["city"], errors="coerce")
    return pd.DataFrame({"is_number": number.notnull().astype(int)})


def code_parts(df):
    parts = df["code"].str.extract(r"([A-Z])-(\d+)")
    parts.columns = ["letter", "number"]
    parts["number"] = parts["number"].astype(int)
    return parts


def named_parts(df):
    found = df["name"].str.extract(r"^(?P<last>[^,]+), (?P<title>\w+)\.")
    return found[["title"]]


def name_split(df):
    df = df.copy()
    df[["last", "rest"]] = df["name"].str.split(", ", n=1, expand=True)
    df["last_len"] = df["last"].str.len()
    return df[["rest", "last_len"]]


def digit_flags(df):
    code = df["code"].str[2:]
    return pd.DataFrame(
        {
            "digit": code.str.isdigit().astype(int),
            "alpha": df["code"].str[0].str.isalpha().astype(int),
            "numeric": code.str.isnumeric(),
        }
    )


def title_by_search(df):
    def title(name):
        found = re.search(r" ([A-Za-z]+)\.", name)
        if found:
            return found.group(1)
        return ""

    return df["name"].apply(title).to_frame("title")


def cleaned_by_sub(df):
    return df["name"].map(lambda s: re.sub(r"[^A-Za-z ]+", "", s.lower()).strip()).to_frame("name")


def counted_by_findall(df):
    n_upper = df["name"].apply(lambda s: len(re.findall(r"[A-Z]", s)))
    return pd.DataFrame({"n_upper": n_upper})


def matched_code(df):
    pattern = re.compile(r"^[AB]-\d$")
    return df["code"].apply(lambda c: bool(pattern.match(c))).astype(int).to_frame("short")


def split_by_re(df):
    return df["name"].apply(lambda s: re.split(r"[,.]\s*", s)[1]).to_frame("title")


def decibels(df):
    return pd.DataFrame({"power": 10 ** (df["score"] * 2 - 1), "half": 0.5 ** df["kids"]})


def half_life(df):
    age = df["age"].to_numpy()
    return pd.DataFrame({"decay": 2 ** (-age / 30.0), "grown": np.power(1.05, age)})


def vectorized_band(df):
    def band(age, active):
        if age < 18:
            return 0
        return 2 if active else 1

    return pd.DataFrame({"band": np.vectorize(band)(df["age"], df["active"])}, index=df.index)


def vectorized_log(df):
    safe = np.vectorize(lambda v: math.log(v) if v > 0 else 0.0, otypes=[float])
    return pd.DataFrame({"log_debt": safe(df["debt"].values)})


def parsed_seen(df):
    seen = pd.to_datetime(df["seen"])
    return pd.DataFrame(
        {
            "month": seen.dt.month,
            "weekday": seen.dt.dayofweek,
            "days": (pd.Timestamp("2026-01-01") - seen).dt.days,
        }
    )


def coerced_seen(df):
    seen = pd.to_datetime(df["seen"], errors="coerce")
    return pd.DataFrame({"year": seen.dt.year.fillna(0).astype(int)})


def days_since_joined(df):
    waited = pd.to_datetime(df["seen"]) - df["joined"]
    return pd.DataFrame({"waited": waited / np.timedelta64(1, "D")})


def fare_bins(df):
    labels = ["low", "mid", "high", "very_high"]
    bins = [-np.inf, 1000, 3000, 6000, np.inf]
    cut = pd.cut(df["debt"], bins=bins, labels=labels)
    return pd.get_dummies(cut, prefix="debt")


def age_group_number(df):
    return pd.cut(df["age"], [0, 18, 35, 60, 100], labels=False, right=False).to_frame("group")


def ratio_or_zero(df):
    ratio = df["debt"] / df["income"].replace(0, np.nan)
    ratio = ratio.replace([np.inf, -np.inf], np.nan).fillna(0)
    return pd.DataFrame({"ratio": ratio, "log": np.log1p(ratio.clip(lower=0))})


def interactions(df):
    numbers = df[["age", "kids", "debt"]].copy()
    for a, b in [("age", "kids"), ("kids", "debt")]:
        numbers[f"{a}_x_{b}"] = numbers[a] * numbers[b]
        numbers[f"{a}_per_{b}"] = numbers[a] / (numbers[b] + 1)
    return numbers


def weekend_nights(df):
    hour, day = df["joined"].dt.hour, df["joined"].dt.dayofweek
    night = hour.between(22, 23) | hour.between(0, 5)
    return pd.DataFrame({"party": (night & (day >= 5)).astype("int8"), "night": night.astype(int)})


def email_like(df):
    df = df.copy()
    df["tld"] = df["name"].str.rsplit(" ", n=1).str[-1].str.lower()
    df["has_dot"] = df["name"].str.contains(r"\.").astype(int)
    return df[["tld", "has_dot"]]


class KnownDummies(TransformerMixin, BaseEstimator):
    def __init__(self, columns=("plan",)):
        self.columns = columns

    def fit(self, X, y=None):
        self.names_ = pd.get_dummies(X[["age", *self.columns]], columns=list(self.columns)).columns
        return self

    def transform(self, X):
        made = pd.get_dummies(X[["age", *self.columns]], columns=list(self.columns))
        return made.reindex(columns=self.names_, fill_value=0)


class TypedDummies(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        self.types_ = {
            c: CategoricalDtype(sorted(X[c].dropna().unique())) for c in ("plan", "city")
        }
        return self

    def transform(self, X):
        X = X[["plan", "city"]].copy()
        for column, dtype in self.types_.items():
            X[column] = X[column].astype(dtype)
        return pd.get_dummies(X, dtype=float)


class MeanTarget(TransformerMixin, BaseEstimator):
    def __init__(self, column="city", weight=10):
        self.column = column
        self.weight = weight

    def fit(self, X, y=None):
        y = pd.Series(np.asarray(y, float), index=X.index)
        stats = y.groupby(X[self.column]).agg(["mean", "count"])
        self.prior_ = y.mean()
        share = stats["count"] / (stats["count"] + self.weight)
        self.means_ = share * stats["mean"] + (1 - share) * self.prior_
        return self

    def transform(self, X):
        encoded = X[self.column].map(self.means_).fillna(self.prior_)
        return pd.DataFrame({f"{self.column}_te": encoded})


class CodeParser(TransformerMixin, BaseEstimator):
    pattern = re.compile(r"([A-Z])-(\d+)")

    def fit(self, X, y=None):
        self.letters_ = sorted(X["code"].str[0].unique())
        return self

    def _number(self, code):
        found = self.pattern.match(code)
        return int(found.group(2)) if found else -1

    def transform(self, X):
        letter = (
            X["code"].str[0].apply(lambda c: self.letters_.index(c) if c in self.letters_ else -1)
        )
        return pd.DataFrame({"letter": letter, "number": X["code"].apply(self._number)})


class TextAgeBins(TransformerMixin, BaseEstimator):
    def __init__(self, n_bins=4):
        self.n_bins = n_bins

    def fit(self, X, y=None):
        _, edges = pd.qcut(X["age"], self.n_bins, retbins=True)
        edges[0], edges[-1] = -np.inf, np.inf
        self.edges_ = edges
        return self

    def transform(self, X):
        return pd.DataFrame({"bin": pd.cut(X["age"], self.edges_, labels=False).astype(str)})


class SeenAge(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        self.latest_ = pd.to_datetime(X["seen"]).max()
        return self

    def transform(self, X):
        seen = pd.to_datetime(X["seen"], format="%Y-%m-%d")
        return pd.DataFrame({"days": (self.latest_ - seen).dt.days, "month": seen.dt.month})


ROWS = {
    f.__name__: f
    for f in (
        dummies_of_cast, dummies_reindexed, dummies_first_dropped, dummies_joined,
        dummies_of_season, dummies_of_categorical, ordered_codes, kids_as_text, year_month,
        age_as_text, number_of_code, coerced_city, code_parts, named_parts, name_split,
        digit_flags, title_by_search, cleaned_by_sub, counted_by_findall, matched_code,
        split_by_re, decibels, half_life, vectorized_band, vectorized_log, parsed_seen,
        coerced_seen, days_since_joined, fare_bins, age_group_number, ratio_or_zero,
        interactions, weekend_nights, email_like,
    )
}  # fmt: skip

CLASSES = (KnownDummies, TypedDummies, MeanTarget, CodeParser, TextAgeBins, SeenAge)
