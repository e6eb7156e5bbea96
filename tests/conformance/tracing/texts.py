"""Functions of frames that read texts: what they return is numbers, or texts for an encoder."""

import re

import numpy as np
import pandas as pd

TITLES = {"Mr": "Mr", "Mrs": "Mrs", "Miss": "Miss", "Ms": "Miss", "Mme": "Mrs"}
VOWELS = set("aeiou")


def lowered(df):
    return df["city"].str.lower().to_frame("city")


def stripped(df):
    return pd.DataFrame({"city": df["city"].str.strip().str.title()})


def upper_filled(df):
    return df["city"].fillna("none").str.upper().to_frame()


def length(df):
    return df["name"].str.len().to_frame("length")


def words(df):
    return df["name"].str.split().str.len().to_frame("words")


def spaces(df):
    return (df["name"].str.count(" ") + 1).to_frame("words")


def starts(df):
    return df["code"].str.startswith("A").astype(int).to_frame("a")


def ends(df):
    return df["code"].str.endswith("7").to_frame("seven")


def contains(df):
    return df["name"].str.contains("Mr", regex=False).astype(int).to_frame("mr")


def contains_word(df):
    return df["name"].str.contains("Mrs.", regex=False, na=False).to_frame("mrs")


def contains_case(df):
    return df["city"].str.contains("os", case=False, regex=False, na=False).to_frame("os")


def contains_pattern(df):
    return df["name"].str.contains(r"M(?:r|rs)\.", regex=True).to_frame("title")


def title(df):
    return df["name"].str.extract(r" ([A-Za-z]+)\.", expand=False).to_frame("title")


def title_split(df):
    after = df["name"].str.split(", ").str[1]
    return after.str.split(".").str[0].str.strip().to_frame("title")


def title_mapped(df):
    found = df["name"].str.split(", ").str[1].str.split(".").str[0]
    return found.map(TITLES).fillna("Rare").to_frame("title")


def surname(df):
    return df["name"].str.split(",").str.get(0).to_frame("surname")


def deck(df):
    return df["code"].str[0].to_frame("deck")


def deck_filled(df):
    return df["code"].str[:1].fillna("U").to_frame("deck")


def number_of_code(df):
    return df["code"].str.split("-").str[1].astype(float).to_frame("number")


def number_to_numeric(df):
    return pd.to_numeric(df["code"].str[2:], errors="coerce").to_frame("number")


def number_extracted(df):
    return df["code"].str.extract(r"(\d+)", expand=False).astype(float).to_frame("number")


def replaced(df):
    return df["city"].str.replace("ø", "o", regex=False).str.replace(" ", "").to_frame()


def replaced_pattern(df):
    return df["name"].str.replace(r"[^a-z]", "", regex=True).to_frame("letters")


def padded(df):
    return df["kids"].astype(str).str.zfill(3).to_frame("kids")


def concatenated(df):
    return (df["city"] + "_" + df["plan"]).to_frame("both")


def concatenated_number(df):
    return (df["plan"] + df["kids"].astype(str)).to_frame("both")


def concatenated_cat(df):
    return df["city"].str.cat(df["plan"], sep="/").to_frame("both")


def is_missing(df):
    return pd.DataFrame({"no_city": df["city"].isna().astype(int), "plan": df["plan"].notna()})


def is_upper(df):
    return df["code"].str[0].str.isupper().to_frame("upper")


def is_digit(df):
    return df["code"].str[-1].str.isdigit().to_frame("digit")


def applied_length(df):
    return df["name"].apply(len).to_frame("length")


def applied_title(df):
    return df["name"].apply(lambda n: n.split(", ")[1].split(".")[0]).to_frame("title")


def applied_search(df):
    def find(name):
        match = re.search(r" ([A-Za-z]+)\.", name)
        return match.group(1) if match else ""

    return df["name"].map(find).to_frame("title")


def applied_missing(df):
    return df["city"].apply(lambda c: 0 if pd.isna(c) else 1).to_frame("known")


def vowels(df):
    return df["name"].map(lambda n: sum(c in VOWELS for c in n)).to_frame("vowels")


def grouped(df):
    big = ["Oslo", "Rome"]
    return pd.DataFrame({"city": np.where(df["city"].isin(big), df["city"], "other")})


def yes_no(df):
    return df["active"].map({True: 1, False: 0}).to_frame("active")


def one_of(df):
    out = df[["plan"]].copy()
    for plan in ("basic", "plus", "max"):
        out[f"is_{plan}"] = (df["plan"] == plan).astype(int)
    return out.drop(columns=["plan"])


def partitioned(df):
    return df["code"].str.partition("-")[0].to_frame("head")


def find_place(df):
    return df["code"].str.find("-").to_frame("place")


ROWS = {
    f.__name__: f
    for f in (
        lowered, stripped, upper_filled, length, words, spaces, starts, ends, contains,
        contains_word, contains_case, contains_pattern, title, title_split, title_mapped, surname,
        deck, deck_filled, number_of_code, number_to_numeric, number_extracted, replaced,
        replaced_pattern, padded, concatenated, concatenated_number, concatenated_cat, is_missing,
        is_upper, is_digit, applied_length, applied_title, applied_search, applied_missing, vowels,
        grouped, yes_no, one_of, partitioned, find_place,
    )
}  # fmt: skip
