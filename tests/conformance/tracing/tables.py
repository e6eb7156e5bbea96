"""Functions of frames that make features of numbers and categories, as notebooks write them."""

from functools import partial

import numpy as np
import pandas as pd

PLANS = {"basic": 1, "plus": 2, "max": 3}
PRICES = {"basic": 9.9, "plus": 19.9, "max": 49.9}
NORDIC = ["Oslo", "Bergen"]
CAPS = {"income": 20_000.0, "debt": 5_000.0}
NUMBERS = ["income", "debt", "age"]
AGE_EDGES = [0, 18, 35, 60, 120]


def ratios(df):
    df = df.copy()
    df["debt_to_income"] = df["debt"] / (df["income"] + 1)
    df["income_per_head"] = df["income"] / (df["kids"] + 2)
    return df[["debt_to_income", "income_per_head"]]


def logs(df):
    out = df[NUMBERS].copy()
    for col in NUMBERS:
        out[f"log_{col}"] = np.log1p(out[col].clip(lower=0))
    return out


def assigned(df):
    return df.assign(
        total=lambda d: d["income"] + d["debt"],
        share=lambda d: d["debt"] / d["total"],
        is_old=lambda d: (d["age"] >= 60).astype(int),
    )[["total", "share", "is_old"]]


def filled(df):
    df = df.copy()
    df["income"] = df["income"].fillna(3_000)
    df["debt"] = df["debt"].fillna(0)
    df["was_missing"] = df["score"].isna().astype(int)
    df["score"] = df["score"].fillna(-1)
    return df[["income", "debt", "score", "was_missing"]]


def filled_by_dict(df):
    return df[["income", "score"]].fillna({"income": 0.0, "score": 0.5})


def capped(df):
    out = df[list(CAPS)].copy()
    for name, cap in CAPS.items():
        out[name] = out[name].clip(upper=cap)
    return out


def flags(df):
    out = pd.DataFrame(index=df.index)
    out["young"] = df["age"] < 25
    out["parent"] = df["kids"] > 0
    out["rich_or_old"] = (df["income"] > 5_000) | (df["age"] > 60)
    return out


def flags_of_text(df):
    return pd.DataFrame({
        "oslo": (df["city"] == "Oslo").astype(int),
        "nordic": df["city"].isin(NORDIC),
        "paid": df["plan"] != "basic",
    })  # fmt: skip


def plan_codes(df):
    df = df.copy()
    df["plan"] = df["plan"].map(PLANS)
    return df[["plan", "age"]]


def plan_prices(df):
    return df["plan"].map(PRICES).fillna(0.0).to_frame("price")


def plan_replaced(df):
    return df[["plan"]].replace({"plan": PLANS}).astype(float)


def binary_text(df):
    df = df.copy()
    df["churned"] = np.where(df["plan"] == "max", 1, 0)
    return df[["churned"]]


def age_bands(df):
    return pd.cut(df["age"], bins=AGE_EDGES, labels=False).to_frame("band")


def age_bands_named(df):
    df = df.copy()
    df["band"] = pd.cut(df["age"], AGE_EDGES, labels=["child", "young", "adult", "old"])
    return df[["band"]]


def age_bands_left(df):
    return pd.DataFrame({"band": pd.cut(df["age"], AGE_EDGES, right=False, labels=[0, 1, 2, 3])})


def selected(df):
    conditions = [df["age"] < 18, df["age"].between(18, 64), df["age"] >= 65]
    df = df.assign(group=np.select(conditions, [0, 1, 2], default=-1))
    return df[["group", "income"]]


def selected_texts(df):
    conditions = [df["income"] > 8_000, df["income"] > 3_000]
    return pd.DataFrame({"level": np.select(conditions, ["high", "middle"], default="low")})


def where_and_mask(df):
    return pd.DataFrame({
        "income": df["income"].where(df["income"] > 0, np.nan),
        "debt": df["debt"].mask(df["debt"] > 4_000, 4_000.0),
    })  # fmt: skip


def loc_assigned(df):
    df = df.copy()
    df["risk"] = 0
    df.loc[df["debt"] > df["income"], "risk"] = 1
    df.loc[df["age"] < 18, "risk"] = 2
    return df[["risk"]]


def loc_texts(df):
    df = df.copy()
    df.loc[df["city"] == "Bergen", "income"] = 0.0
    return df[["income"]]


def renamed(df):
    return df.rename(columns={"income": "x", "age": "y"})[["x", "y"]]


def lowered_names(df):
    df = df[NUMBERS].copy()
    df.columns = [f"{c.upper()}_EUR" for c in df.columns]
    return df


def dropped(df):
    return df.drop(columns=["city", "plan", "name", "code", "seen", "joined", "active"])


def dropped_by_axis(df):
    return df.drop(["city", "plan", "name", "code", "seen", "joined", "left", "active"], axis=1)


def prefixed(df):
    return df[NUMBERS].add_prefix("num_")


def row_sums(df):
    numbers = df[["income", "debt", "score"]]
    return pd.DataFrame({"sum": numbers.sum(axis=1), "mean": numbers.mean(axis=1)})


def row_extremes(df):
    numbers = df[["income", "debt", "score"]]
    return pd.concat([numbers.max(axis=1), numbers.min(axis=1)], axis=1, keys=["max", "min"])


def row_spread(df):
    return df[["income", "debt"]].std(axis=1).to_frame("spread")


def missing_count(df):
    return df[["income", "debt", "score"]].isnull().sum(axis=1).to_frame("n_missing")


def any_flag(df):
    return (df[["income", "debt"]] > 4_000).any(axis=1).to_frame("any")


def joined(df):
    extra = pd.DataFrame({"ratio": df["income"] / df["age"]})
    return pd.concat([df[["income", "age"]], extra], axis=1)


def squares(df):
    out = df[["income", "age"]].copy()
    out["age2"] = out["age"] ** 2
    out["both"] = out["income"] * out["age"]
    return out


def renamed_total(df):
    total = df["income"] - df["debt"]
    total.name = "balance"
    return total.to_frame()


def inserted(df):
    df = df[["income", "debt"]].copy()
    df.insert(0, "balance", df["income"] - df["debt"])
    return df


def evaluated(df):
    return df.eval("balance = income - debt")[["balance", "age"]]


def column_apply(df):
    return df[["income", "debt"]].apply(lambda col: np.sqrt(col.abs()))


def column_apply_numpy(df):
    return df[["income", "debt"]].abs().apply(np.log1p)


def value_apply(df):
    return df["age"].apply(lambda a: 1 if a > 40 else 0).to_frame("over_forty")


def family(size):
    if size == 0:
        return "alone"
    if size <= 2:
        return "small"
    return "large"


def value_map_function(df):
    return df["kids"].map(family).to_frame("family")


def row_apply(df):
    return df.apply(lambda r: r["income"] / r["age"] if r["age"] > 0 else 0.0, axis=1).to_frame("x")


def row_rule(row):
    if row["city"] == "Oslo" and row["income"] > 4_000:
        return 2
    if row["plan"] == "max":
        return 1
    return 0


def row_rules(df):
    df = df.copy()
    df["segment"] = df.apply(row_rule, axis=1)
    return df[["segment"]]


def dummies_known(df):
    cities = pd.CategoricalDtype(["Bergen", "Oslo", "Rome"])
    return pd.get_dummies(df["city"].astype(cities), prefix="city").astype(int)


def category_codes(df):
    plans = pd.CategoricalDtype(["basic", "plus", "max"], ordered=True)
    return df["plan"].astype(plans).cat.codes.to_frame("plan")


def arrays(df):
    return np.column_stack([df["income"].to_numpy(), np.log1p(df["age"].values)])


def values(df):
    return df[NUMBERS].values / 1_000


def as_floats(df):
    return df[["age", "kids", "active"]].astype(float)


def as_types(df):
    return df[["age", "kids"]].astype({"age": "float64", "kids": "int64"})


def selected_by_position(df):
    return df.iloc[:, :3] * 2


def selected_by_loc(df):
    return df.loc[:, ["kids", "age"]]


def filtered(df):
    return df.filter(items=["income", "age"])


def filtered_like(df):
    return df.filter(like="e").select_dtypes("number")


def numeric_only(df):
    return df.select_dtypes(include="number").fillna(0)


def scaled(df, columns, by=1.0):
    out = df[columns].copy()
    out[columns] = out[columns] / by
    return out


def piped(df):
    return df.pipe(scaled, ["income"], by=2.0).rename(columns=str.upper)


def coalesced(df):
    return df["score"].fillna(df["income"] / 10_000).to_frame("score")


def combined_first(df):
    return df["score"].combine_first(df["age"]).to_frame("score")


def rounded(df):
    return df[["income"]].round(-2).assign(age=df["age"].round())


def unique_city(df):
    return df["city"].replace({"Oslo": "north", "Bergen": "north", "Rome": "south"}).to_frame()


def filled_text(df):
    df = df.copy()
    df["city"] = df["city"].fillna("nowhere")
    return df[["city", "age"]]


def only_texts(df):
    return df[["city", "plan"]]


def masked_frame(df):
    numbers = df[["income", "debt"]]
    return numbers.where(numbers > 0, 0)


def diff_columns(df):
    return pd.DataFrame({"gap": df["income"].sub(df["debt"]), "times": df["income"].mul(2).div(3)})


def powers(df):
    return pd.DataFrame({"a": df["age"].pow(2), "b": np.power(df["age"], 0.5)})


def modulo(df):
    return pd.DataFrame({"even": (df["kids"] % 2 == 0).astype(int), "tens": df["age"] // 10})


def set_in_place(df):
    df = df.copy()
    df.fillna({"income": 0}, inplace=True)
    df.drop(columns=["debt"], inplace=True)
    return df[["income", "age"]]


def reindexed(df):
    return df.reindex(columns=["age", "income"])


def counted(df):
    return (df[["income", "debt", "score"]] > 100).sum(axis=1).to_frame("n")


def dotted(df):
    return df[["income", "debt"]].dot(np.array([0.3, -0.7])).to_frame("index")


def z_given(df, mean=3_000.0, deviation=1_200.0):
    return ((df[["income"]] - mean) / deviation).clip(-3, 3)


def looped(df):
    return pd.DataFrame({"x": [row["income"] * 2 for _, row in df.iterrows()]})


def merged(df):
    prices = pd.DataFrame({"plan": ["basic", "max"], "price": [1.0, 2.0]})
    return df.merge(prices, on="plan", how="left")[["price"]]


ROWS = {
    **{
        f.__name__: f
        for f in (
            ratios, logs, assigned, filled, filled_by_dict, capped, flags, flags_of_text,
            plan_codes, plan_prices, plan_replaced, binary_text, age_bands, age_bands_named,
            age_bands_left, selected, selected_texts, where_and_mask, loc_assigned, loc_texts,
            renamed, lowered_names, dropped, dropped_by_axis, prefixed, row_sums, row_extremes,
            row_spread, missing_count, any_flag, joined, squares, renamed_total, inserted,
            evaluated, column_apply, column_apply_numpy, value_apply, value_map_function,
            row_apply, row_rules, dummies_known, category_codes, arrays, values, as_floats,
            as_types, selected_by_position, selected_by_loc, filtered, filtered_like,
            numeric_only, piped, coalesced, combined_first, rounded, unique_city, filled_text,
            only_texts, masked_frame, diff_columns, powers, modulo, set_in_place, reindexed,
            counted, dotted, z_given, looped, merged,
        )
    },
    "scaled_partial": partial(scaled, columns=["income", "debt"], by=100.0),
}  # fmt: skip
