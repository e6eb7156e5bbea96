"""Sparse rows that the host makes of texts, mappings and sequences are those of scikit-learn's
vectorizers, whatever their options.
"""

from __future__ import annotations

import pickle
import warnings
from collections import Counter, OrderedDict, UserDict
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from types import MappingProxyType
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from extracted_rows import agree, extractor_of, rows_of
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction import DictVectorizer, FeatureHasher
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer
from sklearn.utils import murmurhash3_32

from hbconv.containers.extractors import Extractor, Terms, Texts
from hbconv.errors import InputError
from hbconv.runtime.text import counters, term_table, vectorize
from hbconv.runtime.text.counters import Documents
from hbconv.runtime.text.vectorize import BLOCK, extract

TEXT = st.text(
    st.one_of(
        st.sampled_from("abcABC _-'.1\t\n éÉßÅİ\u0131\u017f\u212afi\ufb03\u0301\u00a0\u2003日本ñÑ"),
        st.characters(),
    ),
    max_size=40,
)
ASCII = st.text(st.sampled_from("abABC _-'.1\t\n\x00"), max_size=60)
DOCUMENTS = st.one_of(
    st.lists(TEXT, min_size=1, max_size=6), st.lists(ASCII, min_size=1, max_size=6)
)


def refuses(estimator: Any, x: Any, message: str) -> None:
    """Assert that the source raises, and that hbconv does with the message."""
    with pytest.raises((ValueError, TypeError, AttributeError)):
        estimator.transform(x)
    with pytest.raises(InputError, match=message):
        rows_of(x, estimator)


PATTERNS = [
    r"(?u)\b\w\w+\b",
    r"(?u)\b\w+\b",
    r"\S+",
    r"[^,\n]+",
    r"(?i)[a-fé]{2,}",
    r"(?a)\b\w+\b",
    r"\D\D+",
    r"\w{0,}",
    r"\b[a-z]+\b",
    r"\w{2,3}",
    r"(\w)\w*",
    r"(?a)\w+",
    r"(?i)[a-c]+|(?:é)",
    r"x*",
]


@st.composite
def text_options(draw: st.DrawFn) -> dict[str, Any]:
    """Options that say how documents are cut."""
    shortest = draw(st.integers(1, 3))
    unit = draw(st.sampled_from(["word", "word", "char", "char_wb"]))
    words = {
        "token_pattern": draw(st.sampled_from(PATTERNS)),
        "stop_words": draw(st.sampled_from([None, "english", ["ab", "b", "É", "日本"]])),
    }
    return {
        "analyzer": unit,
        "ngram_range": (shortest, shortest + draw(st.integers(0, 2))),
        "lowercase": draw(st.booleans()),
        "strip_accents": draw(st.sampled_from([None, "ascii", "unicode"])),
        "binary": draw(st.booleans()),
        **(words if unit == "word" else {}),
    }


# The first example of some options makes tables of all characters, in 0.4 s.
@settings(deadline=None)
@given(
    DOCUMENTS,
    DOCUMENTS,
    text_options(),
    st.sampled_from([np.int64, np.float32, np.float64, np.int32, int]),
)
@example(["The cat: a cat", "sat"], ["cat CAT sat", ""], {}, np.int64)
def test_counts_terms_as_the_source(
    seen: list[str], new: list[str], options: dict[str, Any], dtype: Any
) -> None:
    """Whatever the documents and the options."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            estimator = CountVectorizer(dtype=dtype, **options).fit(seen)
        except ValueError:  # No term in any document.
            return
        agree(estimator, [*new, *seen])


@settings(deadline=None)
@given(
    DOCUMENTS,
    text_options(),
    st.booleans(),
    st.sampled_from([1, 7, 2**10, 2**31 - 1]),
    st.sampled_from([np.float64, np.float32, np.int64]),
)
@example([""], {}, True, 7, np.float64)
def test_hashes_tokens_as_the_source(
    new: list[str], options: dict[str, Any], signed: bool, width: int, dtype: Any
) -> None:
    """Entries whose signs cancel stay, as zeros; ``binary`` makes them ones."""
    new = [text.encode("utf-8", "ignore").decode() for text in new]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        agree(
            HashingVectorizer(
                n_features=width, alternate_sign=signed, norm=None, dtype=dtype, **options
            ),
            new,
        )


NUMBERS = st.one_of(
    st.integers(-(2**40), 2**40),
    st.floats(allow_nan=False, width=32),
    st.booleans(),
    st.sampled_from([np.float32(0.5), np.int8(3)]),
)
NAMES = st.sampled_from(["a", "b", "a=b", "é", "", "long name", "日本", "c"])
VALUES = st.one_of(
    NUMBERS,
    st.none(),
    NAMES,
    st.lists(NAMES, max_size=4),
    st.sampled_from([Decimal("1.5"), Fraction(1, 3), {"x"}, ("a", "a"), np.array(["b"])]),
)


@settings(deadline=None)
@given(
    st.lists(st.dictionaries(NAMES, VALUES), min_size=1, max_size=5),
    st.lists(st.dictionaries(NAMES, VALUES), min_size=1, max_size=5),
    st.booleans(),
)
def test_reads_mappings_as_the_source(
    seen: list[dict[str, Any]], new: list[dict[str, Any]], narrow: bool
) -> None:
    """Numbers of every type, texts, sequences of texts, None; names never seen."""
    estimator = DictVectorizer(
        dtype=np.float32 if narrow else np.float64, separator="=" if narrow else "_is_"
    ).fit(seen)
    with np.errstate(over="ignore"):
        agree(estimator, [*new, *seen])


def test_reads_names_that_are_no_text() -> None:
    """Numbers and tuples are names too; a mapping alone is one row; a separator joins any name
    to a text.
    """
    estimator = DictVectorizer(sort=False).fit([{1: 2.0, ("a", 2): 3, None: 1, "x": "y", 5: "z"}])
    agree(estimator, [{1.0: 1, ("a", 2): 2, None: 3, 5: "z"}, {True: 9}, {}])
    agree(estimator, {1: 4})


SMALL = st.one_of(
    st.integers(-100, 100),
    st.floats(-100, 100),
    st.booleans(),
    st.sampled_from([np.float32(0.5), np.int8(3), Fraction(1, 3)]),
)


@settings(deadline=None)
@given(
    st.lists(st.dictionaries(NAMES, st.one_of(SMALL, NAMES)), min_size=1, max_size=5),
    st.booleans(),
    st.sampled_from([1, 2, 1000]),
)
def test_hashes_features_as_the_source(
    rows: list[dict[str, Any]], signed: bool, width: int
) -> None:
    """Mappings and pairs; zeros are left out, texts become part of the name."""
    for dtype in (np.float64, np.float32):
        with np.errstate(over="ignore"):
            want = FeatureHasher(width, alternate_sign=signed, dtype=dtype).transform(rows)
            pairs = FeatureHasher(width, alternate_sign=signed, dtype=dtype, input_type="pair")
            got = rows_of(rows, FeatureHasher(width, alternate_sign=signed, dtype=dtype))
            also = rows_of([list(row.items()) for row in rows], pairs)
        for starts, columns, values in (got, also):
            assert values.dtype == want.dtype
            np.testing.assert_array_equal(starts, want.indptr)
            np.testing.assert_array_equal(columns, want.indices)
            np.testing.assert_allclose(
                values, want.data, rtol=1e-6, atol=1e-4
            )  # added in another order


class Colour(str, Enum):  # noqa: UP042  (whose texts are those of a StrEnum)
    """Texts that name themselves otherwise than they are spelled."""

    RED = "red"


ODD_MAPPINGS = [
    {"a": 0, 1: 0.0, "b": -0.0, "c": False},
    OrderedDict(b=1.5, a="x"),
    Counter("aab"),
    UserDict({"a": Colour.RED, Colour.RED: 2}),
    {np.str_("a"): np.str_("x"), Colour.RED: "y", "b": np.float32(0.1), "c": np.int64(0)},
    MappingProxyType({"a": Decimal("0.1"), "b": Fraction(0)}),
    {},
]


@pytest.mark.parametrize("rows", [ODD_MAPPINGS, [ODD_MAPPINGS[0]], [ODD_MAPPINGS[4]] * 2], ids=len)
def test_reads_mappings_and_values_of_unusual_types_as_the_source(rows: list[Any]) -> None:
    """A zero counts for nothing, so that its name may be anything; each kind of text is spelled as
    the source does.
    """
    agree(FeatureHasher(64), rows)
    agree(FeatureHasher(64, input_type="pair"), [list(row.items()) for row in rows])
    if plain := [row for row in rows if Colour.RED not in row]:
        agree(DictVectorizer(sort=False).fit(plain), plain)


def test_adds_values_of_one_column_in_their_order() -> None:
    """Sums of floats depend on it: 1e16 + 1 - 1e16 is 0, and 1e16 - 1e16 + 1 is 1."""
    rows = [[("a", 1e16), ("a", 1.0), ("a", -1e16)], [("a", 1e16), ("a", -1e16), ("a", 1.0)]]
    agree(FeatureHasher(1, input_type="pair", alternate_sign=False), rows)


def test_hashes_sequences_of_names_as_the_source() -> None:
    """Texts and bytes, in lists, tuples, sets and arrays of any shape."""
    hasher = FeatureHasher(50, input_type="string")
    agree(hasher, [["a", "b", "a"], ("é", b"bytes"), {"c"}, []])
    agree(hasher, np.array([["a", "b"], ["c", "d"]]))
    agree(hasher, [{"a": 1}.keys(), {"b": 2}, Counter("ab"), ("c",), frozenset("d")])
    agree(FeatureHasher(50, input_type="string", dtype=np.int64), [["a", "b", "a"]])


def test_cuts_towards_zero_where_values_are_ints() -> None:
    """As numpy stores a number of the other kind."""
    agree(FeatureHasher(9, dtype=np.int64), [{"a": 1.7, "b": -1.7, "c": 2}])
    agree(DictVectorizer(dtype=np.int64).fit([{"a": 1}]), [{"a": 1.7}, {"a": -2.9}])


def test_finds_terms_of_every_length() -> None:
    """Those whose keys share a slot, and those longer than a key; letters beyond a key tell
    words apart.
    """
    rng = np.random.default_rng(0)
    terms = sorted({"".join(rng.choice(list("abc_1"), size)) for size in rng.integers(1, 14, 3000)})
    documents = [" ".join(rng.choice(terms, 40)) for _ in range(100)]
    agree(CountVectorizer(vocabulary=[t.lower() for t in terms[::2]]).fit(documents), documents)
    agree(
        CountVectorizer(
            lowercase=False, vocabulary=["cat\0", "cat", "Dog", "été", "abcdefgh", "abcdefghi"]
        ).fit([""]),
        ["cat Dog abcdefghij abcdefghi ABCDEFGH", "cat\0 d"],
    )


def test_terms_of_one_hash_are_told_apart() -> None:
    """Where all long terms of a length have one hash, which the kernel has not."""
    terms = ["abcdefgh_one", "abcdefgh_two"]
    with (
        mock.patch.object(term_table, "_LOW", np.uint64(0)),
        mock.patch.object(vectorize, "counter_of", return_value=None),
    ):
        assert not term_table.table_of(Terms(tuple(terms))).is_exact
        agree(CountVectorizer(vocabulary=terms), [" ".join([*terms, terms[1], "abc"])])
        agree(CountVectorizer(vocabulary=terms[:1]), terms)
        agree(CountVectorizer(stop_words=terms[:1]).fit(terms), terms)


@pytest.mark.parametrize(
    "vectorizer",
    [
        CountVectorizer(vocabulary=["cat", "dog"]),
        HashingVectorizer(n_features=8, ngram_range=(1, 2)),
    ],
    ids=["terms", "hashed pairs"],
)
def test_few_documents_do_not_wait_for_a_kernel(vectorizer: Any) -> None:
    """Importing TVM and compiling take a second, which a kernel never saves on few documents.

    What counts is the call, not the block: hashed pairs are cut in smaller ones.
    """
    extractor = extractor_of(vectorizer)
    with (
        mock.patch.object(counters, "find_counter", return_value=None) as find,
        mock.patch.object(counters, "is_at_hand", return_value=False),
    ):
        for count, is_found in ((1, False), (counters.MANY, True)):
            extract(np.array(["cat dog"] * count, object), extractor, "Column 0")
            assert find.called == is_found
        find.reset_mock()
        with mock.patch.object(vectorize, "Documents") as documents:
            extract(np.array(["cat dog"], object), extractor, "Column 0")
        # No kernel could be made, so nothing is written side by side for one.
        assert not find.called
        assert not documents.of_texts.called


def test_tells_long_terms_apart_by_each_letter() -> None:
    """Terms of 7 to 600 letters that differ in one, or in length."""
    terms = [
        "x" * place + other + "x" * (size - place - 1)
        for size in (7, 8, 9, 15, 16, 17, 24, 25, 300, 600)
        for place in {0, 1, size // 2, size - 2, size - 1}
        for other in "xyz"
    ]
    agree(CountVectorizer(vocabulary=sorted({t for t in terms if "y" not in t})), terms)


def test_more_rows_than_a_block() -> None:
    """Blocks are put together; rows without a term are kept."""
    documents = [f"word{i % 7} word{i % 11} " * (i % 3) for i in range(2 * BLOCK + 1)]
    agree(CountVectorizer().fit(documents), documents)


@pytest.mark.parametrize("form", [
    list, tuple, iter, np.array, lambda x: np.array(x, dtype=object), pd.Series,
    lambda x: np.array(x, np.dtypes.StringDType()), lambda x: pd.Series(x, dtype=object), lambda x: pd.Series(x, dtype="category"),
    pa.array, lambda x: pa.chunked_array([x[:1], x[1:]]), lambda x: pa.array(x).dictionary_encode(),
    pl.Series, lambda x: [t.encode() for t in x],
    lambda x: np.array([t.encode() for t in x]), lambda x: pa.array(x, pa.string_view()),
])  # fmt: skip
def test_takes_documents_in_any_form(form: Any) -> None:
    """The same rows from each."""
    documents = ["the cat", "a cät sat", "", "the cat"]
    estimator = CountVectorizer().fit(documents)
    want = rows_of(documents, estimator)
    for got, expected in zip(rows_of(form(documents), estimator), want, strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
@pytest.mark.parametrize("unit", ["word", "char_wb"])
def test_reads_texts_of_arrow_where_they_lie(kind: Any, unit: Any) -> None:
    """In slices, and in chunks of which a block holds several; documents that a kernel leaves."""
    documents = ["The cat", "a cät sat", "", "\ufb01 \u03a3\u03a3 cat", "cat" * 9, "sat"] * 500
    estimator = CountVectorizer(analyzer=unit).fit(documents)
    column = pa.array(documents, kind)
    chunks = pa.chunked_array([column[:700], column[700:700], column[700:1300], column[1300:]])
    with mock.patch.object(counters, "MANY", 0):
        for x, wanted in (
            (column, documents),
            (column[3:9], documents[3:9]),
            (column[:0], []),
            (column[2:3], [""]),
            (chunks, documents),
            (chunks[650:], documents[650:]),
            (pl.Series(documents), documents),
            (pd.Series(documents, dtype="str"), documents),
        ):
            want = estimator.transform(wanted) if wanted else None
            got = rows_of(x, estimator)
            if want is None:
                assert [len(part) for part in got] == [1, 0, 0]
                continue
            want.sum_duplicates()
            np.testing.assert_equal(list(got), [want.indptr, want.indices, want.data])


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()], ids=str)
def test_texts_of_arrow_become_no_objects(kind: Any) -> None:
    """Documents that the kernel reads are never texts of Python."""
    estimator = CountVectorizer().fit(["the cat sat"])
    column = pa.array(["the cat", "a cät", ""] * 500, kind)
    with (
        mock.patch.object(counters, "MANY", 0),
        mock.patch.object(Documents, "of_texts", side_effect=AssertionError),
        mock.patch.object(vectorize, "_at", side_effect=AssertionError),
    ):
        starts, _, _ = rows_of(column, estimator)
    assert starts[-1] == 1000


def test_scratch_of_a_long_document_is_not_kept() -> None:
    """Or a thread would hold it as long as the model lives."""
    estimator = CountVectorizer().fit(["the cat sat"])
    extractor = extractor_of(estimator)
    with mock.patch.object(counters, "MANY", 0), mock.patch.object(counters, "MOST_KEPT", 40):
        sums = [
            int(extract(np.array([text], object), extractor, "Column 0")[2].sum())
            for text in ("cat " * 5, "cat " * 500, "the cat " * 5)
        ]
    assert sums == [5, 500, 10]
    counter = counters.counter_of(extractor, counters.MANY)
    assert counter is not None
    assert counter._local.kept.room.letters == len("the cat " * 5)


@pytest.mark.parametrize("offsets", [[0, 3, 1, 3], [0, 1, 2, 900], [-5, 1, 2, 3]], ids=str)
def test_refuses_texts_of_arrow_with_invalid_offsets(offsets: list[int]) -> None:
    """A kernel would write beyond its memory."""
    places = np.arange(4, dtype=np.int32)
    buffers = [None, pa.py_buffer(places), pa.py_buffer(b"cat")]
    column = pa.Array.from_buffers(pa.string(), 3, buffers)
    places[:] = offsets  # which Arrow does not look at again
    with (
        mock.patch.object(counters, "MANY", 0),
        pytest.raises(InputError, match=r"validate\(\)"),
    ):
        rows_of(column, CountVectorizer().fit(["the cat sat"]))


def test_decodes_bytes_as_asked() -> None:
    """In the encoding, with errors as asked for."""
    latin = CountVectorizer(encoding="latin-1").fit(["déjà vu"])
    agree(latin, ["déjà".encode("latin-1"), "vu"])
    agree(CountVectorizer(decode_error="ignore").fit(["déjà vu"]), ["déjà".encode("latin-1")])
    refuses(CountVectorizer().fit(["déjà vu"]), ["déjà".encode("latin-1")], "no text.*utf-8")


def test_counts_a_cancelled_bucket_as_one_where_binary() -> None:
    """Signs cancel first, then what is stored becomes 1: that of two tokens in one bucket too."""
    names = [f"w{i}" for i in range(20)]
    signs = {name: murmurhash3_32(name) >= 0 for name in names}
    positive, negative = next(n for n in names if signs[n]), next(n for n in names if not signs[n])
    agree(HashingVectorizer(n_features=1, norm=None), [f"{positive} {negative}"])
    agree(HashingVectorizer(n_features=1, norm=None, binary=True), [f"{positive} {negative}"])


@pytest.mark.parametrize(("rows", "message"), [
    ("a text", "string object received"), ([np.nan], "np.nan is an invalid document"),
    (["a", None], "None of type NoneType"), ([1], "type int"),
    ([["a"]], "type list"), (np.array([["a"], ["b"]]), "type ndarray"),
    (np.array([1.0]), "numbers"), (5, "iterable"), (pd.Series(["a", None]), "np.nan is an"),
])  # fmt: skip
def test_refuses_what_is_no_document(rows: Any, message: str) -> None:
    """With the source's words where it has some."""
    refuses(CountVectorizer().fit(["some text"]), rows, message)


def test_refuses_a_table_whose_names_the_source_would_count() -> None:
    """A frame is iterated by its names: never what is meant."""
    with pytest.raises(InputError, match="whose items are its names"):
        rows_of(pd.DataFrame({"text": ["some text"]}), CountVectorizer().fit(["some text"]))


@pytest.mark.parametrize(("row", "message"), [
    ({"a": object()}, "unsupported value"), ({"a": {"b": 1}}, "unsupported value"),
    ({"a": ["x", 1]}, "unsupported 1 of type int"),
    ({"a": b"bytes"}, "unsupported 98 of type int"), ("text", "needs a mapping"),
    ({"a": 1j}, "no float64"), ({"a": np.bool_(1)}, "unsupported value"),
    ({"a": ["x", None]}, "unsupported None"),
])  # fmt: skip
def test_refuses_values_of_other_types(row: Any, message: str) -> None:
    """As the source does."""
    refuses(DictVectorizer().fit([{"a": 1}]), [row], message)


@pytest.mark.parametrize(("estimator", "row", "message"), [
    (FeatureHasher(), {"a": None}, "unsupported value"),
    (FeatureHasher(), {1: 2}, "feature names must be strings"),
    (FeatureHasher(), "text", "needs a mapping"),
    (FeatureHasher(input_type="pair"), [("a", 1, 2)], "pairs of a name and a value"),
    (FeatureHasher(input_type="pair"), 5, "pairs of a name and a value"),
    (FeatureHasher(input_type="string"), "text", "Samples can not be a single string"),
    (FeatureHasher(input_type="string"), [1], "must be strings"),
    (FeatureHasher(input_type="string"), ["\ud800"], "surrogates"),
    (FeatureHasher(dtype=np.int64), {"a": np.nan}, "no finite number"),
    (FeatureHasher(), {"a": [1, 2]}, "unsupported value"),
    (FeatureHasher(), {"a": 1j}, "no float64"),
    (HashingVectorizer(analyzer="char"), "\ud800a", "surrogates"),
    (FeatureHasher(), {"a": b"1"}, "unsupported value"),
    (DictVectorizer(dtype=np.int64).fit([{"a": 1}]), {"a": None}, "no int64"),
])  # fmt: skip
def test_refuses_names_and_values_it_cannot_hash(estimator: Any, row: Any, message: str) -> None:
    """As the source does."""
    refuses(estimator, [row], message)


ODD = [
    "A b\u00a0\u00a0c\u2003d \t e\n",
    "\u00a0ab\u00a0",
    "ab  ",
    " ",
    "",
    "x",
    "\U0001f600 \u65e5\u672c",
]


@pytest.mark.parametrize("unit", ["word", "char", "char_wb"])
@pytest.mark.parametrize("sizes", [(1, 1), (2, 4), (5, 9)])
@pytest.mark.parametrize("hashed", [False, True], ids=["terms", "hashes"])
def test_a_kernel_reads_each_unit(unit: Any, sizes: tuple[int, int], hashed: bool) -> None:
    """Numpy is left no document: of terms, none of other scripts and kinds of whitespace."""
    words = {"token_pattern": r"\w+"} if unit == "word" else {}
    options: dict[str, Any] = {"analyzer": unit, "ngram_range": sizes, **words}
    documents = ["The cat: a  cat, Sat\ton the\n mat", "cats", "a", "", *([] if hashed else ODD)]
    estimator = (
        HashingVectorizer(norm=None, **options)
        if hashed
        else CountVectorizer(**options).fit([*documents, "a b c d e f"])
    )
    want = estimator.transform(documents)
    want.sum_duplicates()
    with (
        mock.patch.object(counters, "MANY", 0),
        mock.patch.object(vectorize, "_cut_block", side_effect=AssertionError),
    ):
        starts, columns, values = rows_of(documents, estimator)
    np.testing.assert_array_equal(starts, want.indptr)
    np.testing.assert_array_equal(columns, want.indices)
    np.testing.assert_array_equal(values, want.data)


def test_equal_terms_are_compared_once() -> None:
    """Not at each call: to compare 80,000 terms takes 6 ms, and two models may have the same."""
    names = ("cat", "dog")
    extractors = [Extractor(Texts(), Terms(names)) for _ in range(2)]
    documents = np.array(["cat dog"], object)
    want = [extract(documents, extractor, "Column 0") for extractor in extractors]
    assert extractors[0].made is extractors[1].made
    assert extractors[0].columns.made is extractors[1].columns.made
    with mock.patch.object(Terms, "__eq__", side_effect=AssertionError):
        got = [extract(documents, extractor, "Column 0") for extractor in extractors]
    np.testing.assert_equal(got, want)


def test_what_is_made_of_terms_stays_in_its_process() -> None:
    """Hashes of texts differ between processes, and kernels cannot be copied."""
    extractor = Extractor(Texts(), Terms(("cat", "dog")))
    extract(np.array(["cat dog"], object), extractor, "Column 0")
    copy = pickle.loads(pickle.dumps(extractor))
    assert copy == extractor
    assert vars(copy).keys() == {"rows", "columns", "dtype", "binary"}
    assert vars(copy.columns).keys() == {"names"}
