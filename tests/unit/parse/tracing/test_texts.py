"""Texts in functions of frames are traced: edits, parts, tests, counts, and numbers in texts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder

import hbconv
from hbconv.containers import TextEdit
from hbconv.containers.text_edits import TESTS_OF_ASCII
from hbconv.errors import InputError, UnsupportedError

# A part that no text has is a column of NaN, which pandas fills with a text and a warning.
pytestmark = pytest.mark.filterwarnings("ignore:'str' is not supported")

RNG = np.random.default_rng(5)
N = 50
TEXTS = ["name", "cabin", "price", "code"]
TABLE = pd.DataFrame(
    {
        "name": RNG.choice(["Mr. Smith", "Mrs. Jones", " miss x ", "Dr Who-a", "", "a-b-c"], N),
        "cabin": RNG.choice(["C85", "B2", "E101", "G6"], N),
        "price": RNG.choice(["$12.50", "$7", "$1,000.25", "$-0.1"], N),
        "code": RNG.choice(["A-1", "b-22", "c"], N),
        "x": RNG.normal(size=N),
    }
)
TABLE.loc[2, "name"] = TABLE.loc[3, "code"] = None


def counts(df):
    return pd.DataFrame(
        {
            "length": df["name"].str.len(),
            "words": df["name"].str.split().str.len(),
            "count": df.name.str.count("s"),
            "found": df["name"].str.find("r"),
            "missing": df["name"].isna(),
            "stripped": df["name"].str.strip().str.len().fillna(0).astype(int),
        }
    )


def matched(df):
    return pd.DataFrame(
        {
            "mr": df["name"].str.contains("Mr", na=False).astype(int),
            "titled": df["name"].fillna("").str.startswith(("Mr", "Dr")),
            "ends": df["code"].fillna("x").str.lower().str.endswith("1"),
            "same": df["name"].str.lower().str.strip() == "miss x",
            "among": df["code"].str.upper().isin(["A-1", "C"]),
            "other": df["name"].str.title() != "Mr. Smith",
            "first": df["code"].str[0].map({"A": 1, "b": 2}),
        }
    )


def numbers(df):
    return pd.DataFrame(
        {
            "deck": df["cabin"].str[0].map({"C": 1, "B": 2}).fillna(0),
            "room": df["cabin"].str[1:].astype(int),
            "price": df["price"].str.replace("$", "").str.replace(",", "").astype(float),
            "filled": df["cabin"].str.slice(1, 3).str.zfill(3) == "085",
        }
    )


def parts(df):
    return pd.DataFrame(
        {
            "head": df["code"].str.split("-").str[0].map({"A": 0, "b": 1, "c": 2}),
            "tail": df["code"].str.split("-").str[1].fillna("none").map({"1": 1, "none": 0}),
            "last": df["name"].fillna("-").str.split("-", n=1).str.get(-1).str.len(),
            "joined": ("p_" + df["code"] + "_s").isin(["p_c_s"]),
            "bare": df["code"].str.removesuffix("-1").str.capitalize() == "A",
        }
    )


def cleaned(df):
    df = df.copy()
    df["name"] = df["name"].str.strip().str.lower().fillna("none")
    df["deck"] = df["cabin"].str[0]
    df["tail"] = df["code"].fillna("z-0").str.upper().str.split("-").str[-1]
    return df[["name", "deck", "tail", "x"]]


RIGHT: list[Callable[[Any], Any]] = [counts, matched, numbers, parts]


@pytest.mark.parametrize("function", RIGHT, ids=lambda f: f.__name__)
def test_texts_are_edited_as_pandas_edits_them(function: Callable[[Any], Any]) -> None:
    source = FunctionTransformer(function).fit(TABLE)
    model = hbconv.convert(source, "reference")
    for dtype in ("str", object):
        rows = TABLE.astype(dict.fromkeys(TEXTS, dtype))
        for part in (rows, rows[4:5], rows[:0], rows[4:]):
            want = np.asarray(source.transform(part), float)
            np.testing.assert_array_equal(np.asarray(model.transform(part), float), want)
    record = TABLE[7:8].to_dict("records")
    want = np.asarray(source.transform(TABLE[7:8]), float)
    np.testing.assert_array_equal(np.asarray(model.transform(record), float), want)


@pytest.mark.parametrize("backend", ["tvm", "torch", "onnx"])
def test_edited_texts_before_encoders_on_every_backend(backend: str, tmp_path: Path) -> None:
    encode = ColumnTransformer(
        [
            ("hot", OneHotEncoder(handle_unknown="ignore"), ["name", "deck"]),
            ("place", OrdinalEncoder(), ["tail"]),
        ],
        remainder="passthrough",
    )
    source = make_pipeline(FunctionTransformer(cleaned), encode, LinearRegression())
    source.fit(TABLE, TABLE["x"] + TABLE["cabin"].str.len())
    model = hbconv.convert(source, backend)
    rows = TABLE.assign(name=TABLE["name"].str.upper(), cabin="Z" + TABLE["cabin"])
    model.save(tmp_path / "model.hbc")
    loaded = hbconv.load(tmp_path / "model.hbc")
    for part in (TABLE, rows, rows.astype(dict.fromkeys(TEXTS, object))):
        want = source.predict(part)
        np.testing.assert_allclose(model.predict(part), want, rtol=1e-9)
        assert np.array_equal(loaded.predict(part), model.predict(part))
    np.testing.assert_allclose(model.bind("predict")(TABLE[:2]), source.predict(TABLE[:2]))


def test_rows_that_pandas_refuses_or_answers_by_storage_are_refused() -> None:
    model = hbconv.convert(FunctionTransformer(numbers).fit(TABLE), "reference")
    with pytest.raises(InputError, match="A text that is no number is read as one"):
        model.transform(TABLE.assign(price="$none"))
    with pytest.raises(InputError, match="A text that is no number is read as one"):
        model.transform(TABLE.assign(cabin="B1.5"))
    with pytest.raises(InputError, match="holds 5 of type int"):
        model.transform(TABLE.astype({"cabin": object}).assign(cabin=[5, *TABLE["cabin"][1:]]))
    model = hbconv.convert(FunctionTransformer(matched).fit(TABLE), "reference")
    # Objects make "STRASSE" of it, and Arrow a capital ß.
    for text in ("Straße", "ΑΣ"):
        with pytest.raises(
            InputError, match=r"another (upper|lower|title) in Python than in Arrow"
        ):
            model.transform(TABLE.assign(code=text, name=text))

    def unfilled(df):
        return pd.DataFrame({"mr": df["name"].str.contains("Mr"), "x": df["x"]})

    model = hbconv.convert(FunctionTransformer(unfilled).fit(TABLE), "reference")
    assert np.array_equal(np.asarray(model.transform(TABLE[4:])), unfilled(TABLE[4:]).astype(float))
    with pytest.raises(InputError, match="give na=False"):
        model.transform(TABLE)


def test_case_is_that_of_arrow_wherever_it_is_taken() -> None:
    pa = pytest.importorskip("pyarrow")
    compute = pytest.importorskip("pyarrow.compute")
    places = (*range(0x600), *range(0x1E00, 0x2C00), *range(0xA640, 0xA7FF), *range(0xFB00, 0xFB18))
    for form in ("{}", "a{}b"):
        texts = [form.format(chr(place)) for place in places]
        for name in ("lower", "upper", "title", "capitalize"):
            arrow = getattr(compute, f"utf8_{name}")(pa.array(texts)).to_pylist()
            taken = 0
            for text, other in zip(texts, arrow, strict=True):
                try:
                    TextEdit("require_case", (name,)).apply(text)
                except InputError:
                    continue
                taken += 1
                assert TextEdit(name).apply(text) == other
            assert taken > 900


NUMBERS = ["1", "-1.5e3", " 7", "1_0", "007", "1.", ".5", "+3", "1\n", "3.5x", "0x10", "-", "1e"]


def numeric(df):
    return pd.DataFrame({"number": pd.to_numeric(df["name"], errors="coerce")})


def test_numbers_in_texts_are_those_of_pandas() -> None:
    model = hbconv.convert(FunctionTransformer(numeric).fit(TABLE), "reference", sample=TABLE)
    digits = RNG.integers(0, 10**15, 2_000)
    places = RNG.integers(-22, 23, 2_000)
    texts = [*NUMBERS, *(f"{d}e{p}" for d, p in zip(digits, places, strict=True))]
    texts += [f"{d % 10**9 / 10**5}" for d in digits[:500]]
    texts += ["nan", "-nan", "nano", "information", "infx", "--inf"]
    rows = pd.DataFrame({"name": texts}).reindex(columns=list(TABLE))
    np.testing.assert_array_equal(model.transform(rows), numeric(rows))
    for text in ("Inf", " -infinity", "1234567890123456", "1e400", "0.1234567890123456", "1e-23"):
        with pytest.raises(InputError, match="may read otherwise"):
            model.transform(rows[:1].assign(name=text))


def test_tests_of_characters_are_those_of_arrow() -> None:
    pa = pytest.importorskip("pyarrow")
    compute = pytest.importorskip("pyarrow.compute")
    characters = [chr(place) for place in range(128)]
    texts = ["", *characters, *(a + b for a in characters for b in "aA1 .")]
    for name in TESTS_OF_ASCII:
        # pandas asks Arrow for the digits of isdecimal, too.
        arrow = getattr(compute, f"utf8_is_{name.removeprefix('is')}")(pa.array(texts)).to_pylist()
        for text, other in zip(texts, arrow, strict=True):
            try:
                got = TextEdit(name).apply(text)
            except InputError:
                continue
            assert got == other == getattr(text, name)(), (name, text)
        with pytest.raises(InputError, match="beyond ASCII"):
            TextEdit(name).apply("é")


def columns(df):
    df = df[["code", "x"]].copy()
    df[["letter", "number"]] = df["code"].str.split("-", n=1, expand=True)
    parts = df["code"].str.rsplit("-", n=1, expand=True)
    return pd.DataFrame(
        {"n": parts[1].astype(int), "a": df["letter"] == "A", "x": df["number"] == "1"}
    )


def test_parts_become_columns_where_each_text_has_them() -> None:
    whole = TABLE[TABLE["code"].str.contains("-", na=False)]
    model = hbconv.convert(FunctionTransformer(columns).fit(whole), "reference", sample=whole)
    np.testing.assert_array_equal(model.transform(whole), columns(whole).astype(float))
    for code in ("c", None):
        with pytest.raises(InputError, match="part"):
            model.transform(TABLE[:1].assign(code=code))


REFUSED: list[tuple[Callable[[Any], Any], str]] = [
    (lambda df: pd.DataFrame({"a": df.name.str.extract("a+", expand=False)}), "without groups"),
    (lambda df: pd.DataFrame({"a": df.name.str.count("a*")}), "matches no characters"),
    (lambda df: pd.DataFrame({"a": df.name.str.split("ab.").str[0]}), "looks for a pattern"),
    (lambda df: pd.DataFrame({"a": df.name.str.match("A", flags=2)}), "with flags"),
    (lambda df: pd.DataFrame({"a": df.name.str.lower() == df.code}), "compares two columns"),
    (lambda df: df.name.str.split("-", expand=True), "as many columns as the rows need"),
    (lambda df: pd.DataFrame({"a": df.name.str.get_dummies()}), "calls .str.get_dummies"),
    (lambda df: df.assign(a=df.name.str.lower()), "Answers are numbers or labels"),
    (lambda df: pd.DataFrame({"a": df.x.str.len(), "b": df.x * 2}), "multiply of texts"),
    (lambda df: pd.DataFrame({"a": df.name.str.lower() > "a"}), "computes greater of a text"),
    (lambda df: pd.DataFrame({"a": pd.to_numeric(df.price, downcast="float")}), "such options"),
    (lambda df: df.name.str.split("-", expand=True)[1:], "several columns of parts"),
    (lambda df: pd.DataFrame({"a": df.name.str.strip().clip("a")}), "method of a column of texts"),
    (lambda df: pd.DataFrame({"a": df.name.str.zfill("3") == "a"}), "arguments of other types"),
]


@pytest.mark.parametrize(("function", "why"), REFUSED, ids=[why for _, why in REFUSED])
def test_what_texts_do_not_tell_alone_is_refused(function: Callable[[Any], Any], why: str) -> None:
    source = FunctionTransformer(function)
    source.n_features_in_ = TABLE.shape[1]
    source.feature_names_in_ = np.array(list(TABLE), object)
    with pytest.raises(UnsupportedError, match=why):
        hbconv.convert(source, "reference")


def encoded(function: Callable[..., Any], table: pd.DataFrame = TABLE) -> Any:
    encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    return make_pipeline(FunctionTransformer(function), encoder).fit(table)


MADE: dict[str, Callable[..., Any]] = {
    "chosen": lambda df: pd.DataFrame({"a": np.where(df["x"] > 0, "up", "down")}),
    "kept or other": lambda df: df["code"].where(df["code"].isin(["c"]), "other").to_frame(),
    "chosen, then edited": lambda df: df["code"].mask(df["x"] > 0, "Up").str.lower().to_frame(),
    "chosen, then filled": lambda df: df["code"].mask(df["x"] > 0).fillna("none").to_frame(),
    "looked up": lambda df: df["cabin"].map({"C85": "high", "B2": "low"}).to_frame(),
    "replaced": lambda df: df["cabin"].replace({"C85": "B2"}).to_frame(),
    "cut": lambda df: pd.cut(df["x"], [-1, 0, 2], labels=["low", "high"]).to_frame(),
    "of a value": lambda df: df["x"].apply(lambda v: "up" if v > 0 else "down").to_frame(),
    "of a text": lambda df: df["cabin"].apply(lambda v: v[0] if v != "B2" else "none").to_frame(),
    "of a row": lambda df: df.apply(
        lambda row: row["cabin"] if row["x"] > 0 else "none", axis=1
    ).to_frame("a"),
    "joined": lambda df: (df["cabin"] + "/" + df["code"]).to_frame("both"),
    "joined without a sign": lambda df: (df["cabin"].str[0] + df["code"]).to_frame("both"),
    "joined twice": lambda df: (df["cabin"] + "-" + df["code"] + "-" + df["cabin"]).to_frame("a"),
    "joined, then filled": lambda df: (
        df["cabin"].str.cat(df["code"], sep=" ").fillna("?").to_frame()
    ),
}


@pytest.mark.parametrize("name", MADE)
def test_texts_that_are_made_reach_an_encoder(name: str) -> None:
    source = encoded(MADE[name])
    model = hbconv.convert(source, "reference", sample=TABLE)
    other = TABLE.iloc[::-1].assign(
        code=TABLE["cabin"], cabin=["B2", "C85", "E101", "x-", "-"] * 10
    )
    for rows in (TABLE, other, TABLE.iloc[:1]):
        np.testing.assert_array_equal(model.transform(rows), source.transform(rows))


@pytest.mark.parametrize(
    "function",
    [
        lambda df: df["x"].apply(lambda v: "up" if v > 0 else None).to_frame(),
        lambda df: df["x"].apply(lambda v: "up" if v > 0 else 1.0).to_frame(),
        lambda df: (df["cabin"] + df["code"]).str.len().to_frame(),
        lambda df: df["cabin"].map({"C85": "high", "B2": 1}).to_frame(),
    ],
    ids=["None beside texts", "numbers beside texts", "a length of joined texts", "mixed table"],
)
def test_texts_that_are_not_made(function: Callable[..., Any]) -> None:
    with pytest.raises(UnsupportedError, match="Line"):
        hbconv.convert(FunctionTransformer(function).fit(TABLE), "reference", sample=TABLE)


PATTERNS: dict[str, Callable[..., Any]] = {
    "extract": lambda df: df["name"].str.extract(r"^([A-Z][a-z]+)\.", expand=False).to_frame(),
    "extract a number": lambda df: (
        df["code"].str.extract(r"([0-9]+)")[0].astype(float).to_frame("n")
    ),
    "contains": lambda df: df["name"].str.contains("^(?:Mr|Dr)", na=False).to_frame(),
    "any case": lambda df: df["name"].str.contains("MR", case=False, na=False).to_frame(),
    "match": lambda df: df["name"].str.match("[A-Z]", na=False).to_frame(),
    "replace": lambda df: df["name"].str.replace("[^a-z]+", "_", regex=True).to_frame(),
    "count": lambda df: df["name"].str.count("[a-m]").to_frame(),
}


@pytest.mark.parametrize("name", PATTERNS)
def test_patterns(name: str) -> None:
    source = encoded(PATTERNS[name])
    model = hbconv.convert(source, "reference", sample=TABLE)
    for rows in (TABLE, TABLE.astype({"name": object, "code": object})):
        np.testing.assert_array_equal(model.transform(rows), source.transform(rows))


@pytest.mark.parametrize("pattern", ["a(?=b)", r"(a)\1", "(a*)*", "(?i:a)", "x{,3}", "("])
def test_patterns_of_which_engines_differ(pattern: str) -> None:
    source = FunctionTransformer(lambda df: df["x"].to_frame()).fit(TABLE)
    source.func = lambda df: df["name"].str.contains(pattern, na=False).to_frame()
    with pytest.raises(UnsupportedError, match="pattern"):
        hbconv.convert(source, "reference", sample=TABLE)


def test_a_text_that_engines_read_otherwise_is_refused() -> None:
    digits = FunctionTransformer(lambda df: df["name"].str.contains(r"\d", na=False).to_frame())
    model = hbconv.convert(digits.fit(TABLE), "reference", sample=TABLE)
    with pytest.raises(InputError, match="Arrow"):
        model.transform(TABLE.assign(name="\u0663"))
    assert model.transform(TABLE.assign(name="\u00e9 3")).all()
