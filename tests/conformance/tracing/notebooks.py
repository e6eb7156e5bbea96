"""Functions and classes in the style of public notebooks, over frames of mixed columns."""

import re

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

RARE = ["Lady", "Countess", "Capt", "Col", "Dr", "Major", "Rev", "Sir", "Jonkheer"]
QUALITY = {"basic": 1, "plus": 2, "max": 3}
REGION = {"Oslo": "north", "Bergen": "north", "Rome": "south", "Lima": "far"}


def titanic_titles(df):
    title = df["name"].str.extract(r" ([A-Za-z]+)\.", expand=False)
    title = title.replace(RARE, "Rare").replace({"Mlle": "Miss", "Mme": "Mrs"})
    return pd.DataFrame({"title": title.map({"Mr": 1, "Miss": 2, "Mrs": 3, "Rare": 4}).fillna(0)})


def titanic_family(df):
    df = df.copy()
    df["family_size"] = df["kids"] + 1
    df["is_alone"] = 0
    df.loc[df["family_size"] == 1, "is_alone"] = 1
    return df[["family_size", "is_alone"]]


def titanic_age_band(df):
    df = df.copy()
    df.loc[df["age"] <= 16, "band"] = 0
    df.loc[(df["age"] > 16) & (df["age"] <= 32), "band"] = 1
    df.loc[(df["age"] > 32) & (df["age"] <= 64), "band"] = 2
    df.loc[df["age"] > 64, "band"] = 3
    return df[["band"]]


def titanic_deck(df):
    return df["code"].fillna("U").apply(lambda c: c[0]).to_frame("deck")


def titanic_sex(df):
    df = df.copy()
    df["is_mrs"] = df["name"].apply(lambda x: 1 if "Mrs." in x else 0)
    df["name_len"] = df["name"].apply(len)
    return df[["is_mrs", "name_len"]]


def house_quality(df):
    df = df.copy()
    df["quality"] = df["plan"].replace(QUALITY)
    df["total"] = df["quality"] * df["age"]
    return df[["quality", "total"]]


def house_skew(df):
    df = df.copy()
    for col in ["income", "debt"]:
        df[col] = np.log1p(df[col])
    return df.select_dtypes(include=[np.number])


def house_flags(df):
    out = pd.DataFrame(index=df.index)
    out["has_debt"] = df["debt"].apply(lambda x: 1 if x > 0 else 0)
    out["has_kids"] = (df["kids"] > 0).astype(int)
    return out


def house_types(df):
    df = df[["plan", "kids"]].copy()
    df["kids"] = df["kids"].astype(str)
    return df


def churn_services(df):
    df = df.copy()
    df["many"] = np.where((df["plan"] != "basic") & (df["kids"] > 1), "yes", "no")
    return df[["many"]]


def churn_tenure(df):
    def group(age):
        if age <= 20:
            return "0-20"
        if age <= 40:
            return "20-40"
        if age <= 60:
            return "40-60"
        return "60+"

    return df["age"].apply(group).to_frame("group")


def churn_binary(df):
    df = df.copy()
    df["active"] = df["active"].map({True: "Yes", False: "No"})
    return df[["active"]]


def churn_dummies(df):
    return pd.get_dummies(df[["plan"]], columns=["plan"])


def bank_age_labels(df):
    labels = ["young", "middle", "old"]
    return pd.cut(df["age"], bins=[0, 30, 60, 120], labels=labels).to_frame("age")


def bank_month(df):
    return df.assign(month=df["joined"].dt.strftime("%b").str.lower())[["month"]]


def bank_contacted(df):
    return pd.DataFrame({"never": np.where(df["left"].isnull(), 1, 0)})


def taxi_times(df):
    df = df.copy()
    df["hour"] = df["joined"].dt.hour
    df["weekend"] = df["joined"].dt.weekday.isin([5, 6]).astype(int)
    df["rush"] = ((df["hour"] >= 7) & (df["hour"] <= 9)).astype(int)
    df["hour_sin"] = np.sin(2 * np.pi * df["hour"] / 24)
    return df[["hour", "weekend", "rush", "hour_sin"]]


def taxi_part_of_day(df):
    def part(hour):
        if 5 <= hour < 12:
            return "morning"
        if 12 <= hour < 18:
            return "afternoon"
        return "night"

    return df["joined"].dt.hour.apply(part).to_frame("part")


def taxi_duration(df):
    minutes = (df["left"] - df["joined"]).dt.total_seconds() / 60
    return minutes.clip(lower=0).fillna(-1).to_frame("minutes")


def sales_calendar(df):
    d = pd.to_datetime(df["seen"])
    return pd.DataFrame({"year": d.dt.year, "week": d.dt.isocalendar().week.astype(int)})


def sales_day(df):
    return df["joined"].dt.day_name().to_frame("day")


def sales_period(df):
    return (df["joined"].dt.year.astype(str) + "-" + df["plan"]).to_frame("period")


def store_code(df):
    parts = df["code"].str.split("-", expand=True)
    return pd.DataFrame({"letter": parts[0], "number": parts[1].astype(int)})


def store_key(df):
    return (df["plan"] + "_" + df["city"].fillna("none")).to_frame("key")


def region(df):
    return df["city"].map(REGION).fillna("unknown").to_frame("region")


def region_get(df):
    return df["city"].apply(lambda c: REGION.get(c, "unknown")).to_frame("region")


def cleaned(df):
    name = df["name"].str.lower().str.replace(r"[^a-z\s]", "", regex=True).str.strip()
    return pd.DataFrame({"n_words": name.str.split().str.len(), "n_letters": name.str.len()})


def has_digit(df):
    return df["code"].str.contains(r"\d{2}", regex=True).astype(int).to_frame("two")


def any_case(df):
    return df["city"].str.contains("oslo|bergen", case=False, na=False).to_frame("norway")


def digits_of(df):
    def digits(text):
        return int(re.sub(r"\D", "", text))

    return df["code"].apply(digits).to_frame("digits")


def credit_rules(df):
    def rule(row):
        if row["debt"] > row["income"]:
            return "risky"
        if row["plan"] == "max":
            return "safe"
        return "unclear"

    return df.apply(rule, axis=1).to_frame("rule")


def credit_score(df):
    points = pd.Series(0, index=df.index)
    points += (df["income"] > 3000).astype(int)
    points += (df["age"] > 30).astype(int) * 2
    points -= (df["debt"] > 5000).astype(int)
    return points.to_frame("points")


def to_numbers(df):
    df = df.copy()
    df["number"] = pd.to_numeric(df["code"].str.replace(r"[A-Z]-", "", regex=True))
    return df[["number"]]


def query_free(df):
    return df.drop(df.select_dtypes(include=["object", "str"]).columns, axis=1)[["age", "kids"]]


class ColumnSelector(TransformerMixin, BaseEstimator):
    def __init__(self, dtype="number"):
        self.dtype = dtype

    def fit(self, X, y=None):
        self.columns_ = X.select_dtypes(self.dtype).columns.tolist()
        return self

    def transform(self, X):
        return X[self.columns_].fillna(-1)


class RareToOther(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        share = X["city"].value_counts(normalize=True)
        self.known_ = set(share[share > 0.2].index)
        return self

    def transform(self, X):
        X = X.copy()
        X["city"] = X["city"].apply(lambda c: c if c in self.known_ else "other")
        return X[["city"]]


class OneHotByHand(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        self.plans_ = sorted(X["plan"].unique())
        return self

    def transform(self, X):
        plans = pd.Categorical(X["plan"], categories=self.plans_)
        return pd.get_dummies(plans).astype(float)


class GroupAges(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        self.medians_ = X.groupby("plan")["income"].median()
        return self

    def transform(self, X):
        X = X[["income", "plan"]].copy()
        missing = X["income"].isna()
        X.loc[missing, "income"] = X.loc[missing, "plan"].map(self.medians_)
        return X[["income"]]


class DateParts(TransformerMixin, BaseEstimator):
    def __init__(self, columns=("joined",)):
        self.columns = columns

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        out = pd.DataFrame(index=X.index)
        for column in self.columns:
            for part in ("year", "month", "day"):
                out[f"{column}_{part}"] = getattr(X[column].dt, part)
        return out


class ScaledLogit(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        numbers = X[["debt", "age", "kids"]]
        self.scaler_ = StandardScaler().fit(numbers)
        self.model_ = LogisticRegression().fit(self.scaler_.transform(numbers), y)
        return self

    def transform(self, X):
        scaled = self.scaler_.transform(X[["debt", "age", "kids"]])
        return X[["age"]].assign(p=self.model_.predict_proba(scaled)[:, 1])


ROWS = {
    f.__name__: f
    for f in (
        titanic_titles, titanic_family, titanic_age_band, titanic_deck, titanic_sex,
        house_quality, house_skew, house_flags, house_types, churn_services, churn_tenure,
        churn_binary, churn_dummies, bank_age_labels, bank_month, bank_contacted, taxi_times,
        taxi_part_of_day, taxi_duration, sales_calendar, sales_day, sales_period, store_code,
        store_key, region, region_get, cleaned, has_digit, any_case, digits_of, credit_rules,
        credit_score, to_numbers, query_free,
    )
}  # fmt: skip

CLASSES = (ColumnSelector, RareToOther, OneHotByHand, GroupAges, DateParts, ScaledLogit)
