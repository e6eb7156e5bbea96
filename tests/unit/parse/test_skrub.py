"""skrub: tables drawn at random, texts that count as missing, and what is refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import skrub
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder, StandardScaler

import hbconv
from hbconv.errors import BackendError, InputError, UnsupportedError

pytestmark = [
    pytest.mark.filterwarnings("ignore:Found unknown categories"),
    pytest.mark.filterwarnings("ignore:The matrix shape is"),
]

WORDS = ["Paris", "Rome", "Oslo", "N/A", "?", "", "  ", "\t\n", "\u00a0\u3000", "null", "nullable"]
MISSING = [None, np.nan, "N/A", "", " ", "\u2003", "NULL"]
SIZE = 80


def _texts(rng: np.random.Generator, n: int) -> list[Any]:
    kinds = rng.choice(["city", "na", "rome", "item"])
    numbers = rng.integers(0, 99, (n, 2))
    drawn = {
        "city": [WORDS[i] for i in rng.integers(0, 3, n)],
        "na": [WORDS[i] for i in rng.integers(0, len(WORDS), n)],
        "rome": ["yes" if i else "no" for i in rng.integers(0, 2, n)],
        "item": [f"item {a} of Rome {b}" for a, b in numbers],
    }
    return drawn[str(kinds)]


def _table(seed: int, n: int = SIZE) -> pd.DataFrame:
    """Draw columns of numbers, bools, texts of each dtype, and categories."""
    rng = np.random.default_rng(seed)
    columns: dict[str, Any] = {
        "wide": rng.normal(size=n) * 10.0 ** rng.integers(-3, 6, n),
        "gaps": np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n)),
        "whole": rng.integers(-5, 2**40, n),
        "flag": rng.random(n) < 0.5,
        "narrow": rng.normal(size=n).astype(np.float32),
    }
    for name, dtype in (("a", "str"), ("b", object), ("c", "string"), ("d", "category")):
        columns[name] = pd.Series(_texts(rng, n), dtype=dtype)
    return pd.DataFrame(columns)


def _hostile(rows: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Put missing texts, blanks and unknown ones among the texts, in other dtypes."""
    rng = np.random.default_rng(seed)
    made = rows.copy()
    for name in "abcd":
        texts = rows[name].astype(object).to_numpy().copy()
        odd = rng.random(len(rows)) < 0.5
        pool = np.array([*WORDS, *MISSING, "Tokyo", "item 5 of Rome", "paris"], dtype=object)
        texts[odd] = rng.choice(pool, odd.sum())
        made[name] = pd.Series(texts, dtype=rng.choice(["str", "object", "string"]))
    made["wide"] = rng.choice([np.nan, np.inf, -0.0, 1e-310, 3e38, 1e300, 1.5], len(rows))
    return made


def _same(found: Any, want: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(found, want, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("seed", range(8))
def test_drawn_tables_answer_as_skrub(seed: int) -> None:
    """Codes and casts are equal; components of texts within a tolerance."""
    encoder = skrub.StringEncoder(n_components=4, random_state=0)
    threshold = [40, 3][seed % 2]
    source = skrub.TableVectorizer(high_cardinality=encoder, cardinality_threshold=threshold)
    rows = _table(seed)
    source.fit(rows)
    model = hbconv.convert(source, "reference")
    for asked in (rows, _hostile(rows, seed), _hostile(rows, seed + 99).iloc[5:6]):
        with np.errstate(over="ignore"):
            _same(model.transform(asked), source.transform(asked))
    assert model.transform(rows.iloc[:0]).shape == (0, len(source.all_outputs_))


@pytest.mark.parametrize("backend", ["torch", "tvm", "onnx"])
@pytest.mark.parametrize("missing", [*MISSING, pd.NA, "\x1f\x0b", " N/A"])
def test_texts_of_whitespace_and_listed_ones_are_missing(missing: Any, backend: str) -> None:
    """The category of missing values is theirs, in every column that was cleaned."""
    source, model = _cities(backend)
    rows = pd.DataFrame({"city": pd.Series([missing, "Rome"], dtype=object)})
    _same(model.transform(rows), source.transform(rows))


_CITIES: dict[str, Any] = {}


def _cities(backend: str) -> Any:
    if backend not in _CITIES:
        rows = pd.DataFrame({"city": ["Paris", "Rome", "Oslo", None, "N/A", "..."] * 4})
        source = skrub.TableVectorizer(null_strings=["Oslo"]).fit(rows)
        _CITIES[backend] = (source, hbconv.convert(source, backend))
    return _CITIES[backend]


def test_records_and_saved_models_know_blanks(tmp_path: Path) -> None:
    """One row, and a model of a file."""
    source, model = _cities("reference")
    model.save(tmp_path / "m.hbc")
    for each in (model, hbconv.load(tmp_path / "m.hbc")):
        for text in ("   ", "Rome", "Tokyo"):
            want = source.transform(pd.DataFrame({"city": [text]})).to_numpy()
            np.testing.assert_array_equal(np.asarray(each.transform([{"city": text}])), want)


def test_a_file_that_cannot_tell_blanks_is_refused(tmp_path: Path) -> None:
    """Other runtimes hold lists of texts."""
    _, model = _cities("onnx")
    with pytest.raises(BackendError, match="whitespace alone in column 'city'"):
        model.export(tmp_path / "m.onnx")
    seen = pd.DataFrame({"city": ["Paris", "Rome", "Oslo"]})
    hbconv.convert(skrub.TableVectorizer().fit(seen), "onnx").export(tmp_path / "m.onnx")


@pytest.mark.parametrize("text", ["1_000", "\u0661", "15", b"1"])
def test_texts_in_a_column_of_numbers_are_refused(text: Any) -> None:
    """pandas, which skrub asks, reads some of them in another way than Python."""
    rows = pd.DataFrame({"a": [1.0, 2.5, None, 4.0], "b": [1, 2, 3, 4]})
    source = skrub.TableVectorizer().fit(rows)
    model = hbconv.convert(source, backend="reference")
    odd = pd.DataFrame({"a": [2.0, text, None], "b": [1, 2, 3]})
    for given in (odd, odd.to_dict("records"), odd.to_dict("records")[1]):
        with pytest.raises(InputError, match="Column 'a' holds the text"):
            model.transform(given)
    absent = odd.assign(a=pd.Series([2.0, None, None], dtype=object))
    np.testing.assert_array_equal(model.transform(absent), source.transform(absent).to_numpy())


def test_objects_that_are_no_texts_are_refused() -> None:
    """skrub writes them as texts, which may be categories."""
    _, model = _cities("reference")
    with pytest.raises(InputError, match="Column 'city' holds 7 of type int"):
        model.transform(pd.DataFrame({"city": pd.Series(["Rome", 7], dtype=object)}))


@pytest.mark.parametrize("text", ["N/A", "  "])
def test_categories_that_are_missing_as_texts_are_refused(text: str) -> None:
    """skrub cleans a column of texts, and leaves a column of categories as it is."""
    source, model = _cities("reference")
    rows = pd.DataFrame({"city": pd.Series(["Rome", None, "Tokyo"], dtype="category")})
    _same(model.transform(rows), source.transform(rows))
    odd = rows.assign(city=pd.Series(["Rome", text, None], dtype="category"))
    with pytest.raises(InputError, match=f"has the category '{text}'"):
        model.transform(odd)
    words = pd.DataFrame({"city": [f"item {i} of N/A" for i in range(50)]})
    encoder = skrub.StringEncoder(n_components=3, random_state=0)
    source = skrub.TableVectorizer(high_cardinality=encoder).fit(words)
    model = hbconv.convert(source, "reference")
    _same(model.transform(words.astype("category")), source.transform(words.astype("category")))
    with pytest.raises(InputError, match=f"has the category '{text}'"):
        model.transform(odd)


@pytest.mark.parametrize(
    "estimator",
    [
        LogisticRegression(),
        RandomForestClassifier(4, max_depth=4, random_state=0),
        HistGradientBoostingClassifier(max_iter=4, categorical_features="from_dtype"),
    ],
)
def test_tabular_pipelines_predict_as_skrub(estimator: Any) -> None:
    """Categories, imputers and squashed numbers before a model."""
    rows = _table(3)
    source = skrub.tabular_pipeline(estimator)
    source[0].high_cardinality.set_params(n_components=4, random_state=0)
    source.fit(rows, np.arange(SIZE) % 3 == 0)
    model = hbconv.convert(source, "reference")
    asked = _hostile(rows, 1).assign(wide=rows["wide"])
    for each in (rows, asked):
        np.testing.assert_allclose(
            model.predict_proba(each), source.predict_proba(each), rtol=1e-4, atol=1e-5
        )


def test_other_transformers_of_frames() -> None:
    """Columns by name, and transformers of some columns, in pipelines too."""
    rows = _table(4)[["wide", "gaps", "whole", "flag"]]
    scaled = skrub.ApplyToCols(
        StandardScaler(), cols=["wide", "gaps"], keep_original=True, rename_columns="s_{}"
    )
    chosen = skrub.SelectCols(["whole", "wide"])
    dropped = skrub.DropCols(["gaps"])
    for source in (scaled, chosen, dropped):
        found = hbconv.convert(source.fit(rows), "reference").transform(rows)
        _same(found, source.transform(rows))
    squashed = make_pipeline(chosen, skrub.SquashingScaler()).fit(rows)
    found = hbconv.convert(squashed, "reference").transform(rows)
    np.testing.assert_allclose(found, squashed.transform(rows), rtol=1e-12)
    shuffled = rows[rows.columns[::-1]]
    _same(hbconv.convert(chosen, "reference").transform(shuffled), chosen.transform(shuffled))


def test_a_cleaner_comes_before_other_encoders() -> None:
    """What it cleans is folded into the vocabulary of the encoder behind it."""
    rows = _table(5)[["a", "b", "c"]]
    options = {"handle_unknown": "use_encoded_value", "unknown_value": -1}
    source = make_pipeline(skrub.Cleaner(), OrdinalEncoder(**options), Ridge())
    rows = rows.assign(**{name: rows[name].replace({"": "x"}) for name in rows})
    source[:2].fit(rows)
    found = hbconv.convert(source[:2], "reference")
    asked = _hostile(rows.assign(d="x", wide=0.0), 7)[["a", "b", "c"]]
    np.testing.assert_array_equal(found.transform(asked), source[:2].transform(asked))


@pytest.mark.parametrize("values", [np.float32, np.float64])
def test_squashed_numbers_are_scaled_as_skrub(values: Any) -> None:
    """Infinite values, constant columns, and columns of which the quartiles are equal."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60, 4)).astype(values)
    rows[:, 1] = 2.5
    rows[:45, 2] = 0
    source = skrub.SquashingScaler(max_absolute_value=2.0).fit(rows)
    odd = np.array([[np.inf, np.nan, 3, 0.0], [-np.inf, np.inf, -1, np.nan], [1, -2, 0, -0.0]])
    model = hbconv.convert(source, "reference")
    for asked in (rows, odd.astype(values), odd.astype(np.float32), np.arange(8).reshape(2, 4)):
        found = model.transform(asked)
        want = source.transform(asked)
        assert found.dtype == want.dtype
        np.testing.assert_allclose(found, want, rtol=1e-6)


def test_a_string_encoder_alone_reads_one_column() -> None:
    """A missing text is an empty one; texts are not cleaned."""
    texts = pd.Series(_texts(np.random.default_rng(8), 60), name="t")
    asked = pd.Series(["N/A", None, "item 7 of Rome", "   "], name="t", dtype=object)
    for options in ({}, {"vectorizer": "hashing"}, {"analyzer": "char", "ngram_range": (1, 2)}):
        source = skrub.StringEncoder(n_components=3, random_state=0, **options).fit(texts)
        _same(hbconv.convert(source, "reference").transform(asked), source.transform(asked))


@pytest.mark.parametrize(
    ("column", "options", "parameter", "way_out"),
    [
        ([f"{i / 4}" for i in range(50)], {}, "ToFloat of column", "astype"),
        (
            pd.to_timedelta(np.arange(50), unit="h"),
            {},
            "DurationToFloat of column",
            "total_seconds",
        ),
        (
            [f"text {i}" for i in range(50)],
            {"high_cardinality": skrub.MinHashEncoder(n_components=3)},
            "MinHashEncoder of column",
            "StringEncoder",
        ),
        (
            [f"text {i}" for i in range(50)],
            {"high_cardinality": skrub.GapEncoder(n_components=2, max_iter=1)},
            "GapEncoder of column",
            "high_cardinality='drop'",
        ),
    ],
)
def test_refuses_by_column_with_a_way_out(
    column: Any, options: dict[str, Any], parameter: str, way_out: str
) -> None:
    """Durations, numbers in texts, and encoders that are not read."""
    source = skrub.TableVectorizer(**options).fit(pd.DataFrame({"x": column, "y": range(50)}))
    with pytest.raises(UnsupportedError, match=way_out) as caught:
        hbconv.convert(source, "reference")
    assert (caught.value.parameter, caught.value.value) == (parameter, "x")


def test_models_fitted_on_polars_are_refused() -> None:
    """polars takes other characters for whitespace."""
    source = skrub.TableVectorizer().fit(pl.DataFrame({"x": ["a", "b"]}))
    with pytest.raises(UnsupportedError, match=r"to_pandas\(\)"):
        hbconv.convert(source, "reference")
