"""Functions whose answer for a row is not of that row alone: each must be refused."""

import os
import random
import re
import time
from datetime import datetime

import numpy as np
import pandas as pd

CALLS = []
SEEN = {}
GENERATOR = np.random.default_rng(3)


class Meter:
    n = 0


def standard(x):
    return (x - x.mean(axis=0)) / x.std(axis=0)


def min_max(x):
    low, high = np.min(x, axis=0), np.max(x, axis=0)
    return (x - low) / (high - low)


def ranks(x):
    return np.argsort(np.argsort(x[:, 0])).reshape(-1, 1)


def filled_by_mean(x):
    return np.where(np.isnan(x), np.nanmean(x, axis=0), x)


def outliers_cut(x):
    low, high = np.percentile(x, [1, 99], axis=0)
    return np.clip(x, low, high)


def lagged(x):
    return np.vstack([x[:1], x[:-1]])


def row_number(x):
    return np.c_[x, np.arange(len(x))]


def per_row(x):
    return x / len(x)


def branch_on_values(x):
    if np.isnan(x).any():
        return np.nan_to_num(x)
    return x


def branch_on_size(x):
    return x * 2 if x.shape[0] > 100 else x


def noisy(x):
    return x + np.random.normal(0, 0.01, x.shape)  # noqa: NPY002


def noisy_generator(x):
    return x + GENERATOR.normal(size=x.shape)


def chance(x):
    return x * random.random()


def timed(x):
    return x + time.time()


def counted(x):
    CALLS.append(1)
    return x + len(CALLS)


def remembered(x):
    SEEN.setdefault("first", float(x[0, 0]))
    return x - SEEN["first"]


def metered(x):
    Meter.n += 1
    return x * Meter.n


def environment(x):
    return x * len(os.environ.get("HOME", ""))


def saved(x):
    np.save("/tmp/rows.npy", x)
    return x


def swallowed(x):
    try:
        return x - x.mean(axis=0)
    except Exception:
        return x


def whitened(x):
    return x @ np.linalg.inv(np.cov(x.T))


def unique_counts(x):
    _, inverse, counts = np.unique(x[:, 4], return_inverse=True, return_counts=True)
    return counts[inverse].reshape(-1, 1)


def in_place(x):
    x[:, 0] = 0
    return x


def fewer(x):
    return x[x[:, 0] > 0]


def smoothed(x):
    return np.apply_along_axis(lambda c: np.convolve(c, [0.5, 0.5], mode="same"), 0, x)


ARRAYS = {
    f.__name__: f
    for f in (
        standard, min_max, ranks, filled_by_mean, outliers_cut, lagged, row_number, per_row,
        branch_on_values, branch_on_size, noisy, noisy_generator, chance, timed, counted,
        remembered, metered, environment, saved, swallowed, whitened, unique_counts, in_place,
        fewer, smoothed,
    )
}  # fmt: skip


def mean_filled(df):
    return df[["income"]].fillna(df["income"].mean())


def z_score(df):
    return ((df["income"] - df["income"].mean()) / df["income"].std()).to_frame()


def by_city(df):
    return df.groupby("city")["income"].transform("mean").to_frame()


def frequency(df):
    return df["city"].map(df["city"].value_counts()).to_frame()


def ranked(df):
    return df["income"].rank(pct=True).to_frame()


def previous(df):
    return df["income"].shift(1).to_frame()


def rolling(df):
    return df["income"].rolling(3).mean().to_frame()


def quantiles(df):
    return pd.qcut(df["income"], 4, labels=False).to_frame()


def dummies(df):
    return pd.get_dummies(df[["city"]])


def dummies_kept(df):
    return pd.get_dummies(df["city"])[["Oslo"]]


def dummies_not_filled(df):
    return pd.get_dummies(df["city"]).reindex(columns=["Oslo", "Paris"])


def dummies_without_the_first(df):
    columns = ["city_Oslo", "city_Rome"]
    return pd.get_dummies(df[["city"]], drop_first=True).reindex(columns=columns, fill_value=0)


def parts_as_they_come(df):
    return df["name"].str.split(" ", expand=True).isna()


def vectorized_chance(df):
    return pd.DataFrame(
        {"a": np.vectorize(lambda v: v + random.random(), otypes=[float])(df["age"])}
    )


COUNTED = [0]


def counts(v):
    COUNTED[0] += 1
    return COUNTED[0]


def vectorized_counter(df):
    return pd.DataFrame({"a": np.vectorize(counts)(df["age"])})


def decided_by_the_first_row(df):
    return pd.DataFrame({"a": np.vectorize(lambda v: 0 if v > 50 else v / 2)(df["age"])})


def numbered_matches(df):
    found = df["code"].map(lambda s: re.sub("[AB]", lambda _: str(counts(0)), s))
    return found.str.len().to_frame()


def factorized(df):
    return pd.DataFrame({"city": pd.factorize(df["city"])[0]})


def codes(df):
    return df["city"].astype("category").cat.codes.to_frame()


def equal_bins(df):
    return pd.cut(df["income"], 5, labels=False).to_frame()


def until_now(df):
    return (datetime.now() - df["joined"]).dt.days.to_frame()


def until_today(df):
    return (pd.Timestamp.today() - df["joined"]).dt.days.to_frame()


def since_first(df):
    return (df["joined"] - df["joined"].min()).dt.days.to_frame()


def guessed_dates(df):
    return pd.to_datetime(df["joined"].dt.strftime("%d/%m/%Y")).dt.year.to_frame()


def carried(df):
    return df[["score"]].ffill()


def without_missing(df):
    return df[["income"]].dropna()


def indexed(df):
    return pd.DataFrame({"i": df.index})


def sampled(df):
    return df[["income"]].sample(frac=1.0)


def wrote(df):
    df["income"] = 0.0
    return df[["income"]]


TABLES = {
    f.__name__: f
    for f in (
        mean_filled, z_score, by_city, frequency, ranked, previous, rolling, quantiles, dummies,
        dummies_kept, dummies_not_filled, dummies_without_the_first, parts_as_they_come,
        vectorized_chance, vectorized_counter, decided_by_the_first_row, numbered_matches,
        factorized, codes, equal_bins, until_now, until_today, since_first, guessed_dates, carried,
        without_missing, indexed, sampled, wrote,
    )
}  # fmt: skip
