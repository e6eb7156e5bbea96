"""Vectorizers in pipelines: what is read, what is refused, and that texts stay what they are in
every form.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction import DictVectorizer, FeatureHasher
from sklearn.feature_extraction.text import (
    CountVectorizer,
    HashingVectorizer,
    TfidfTransformer,
    TfidfVectorizer,
)
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MultiLabelBinarizer, StandardScaler

import hbconv
from hbconv.containers import NameArrays
from hbconv.errors import BackendError, InputError, UnsupportedError

DOCUMENTS = [
    "the cat sat",
    "a dog sat on a mat",
    "the cat and the dog",
    "mats for cats",
    "dogs",
    "cat dog mat sat",
] * 3
LABELS = np.array(["cat", "dog", "cat", "cat", "dog", "dog"] * 3)
NEW = ["the cat and a mat", "", "unheard of", "dog dog dog sat on the cat"]


def text_model() -> Any:
    """A linear model of texts."""
    return make_pipeline(TfidfVectorizer(ngram_range=(1, 2)), LogisticRegression()).fit(
        DOCUMENTS, LABELS
    )


def convert(estimator: Any) -> hbconv.Model:
    """Convert for the reference backend."""
    return hbconv.convert(estimator, backend="reference")


@pytest.mark.parametrize("vectorizer", [CountVectorizer, TfidfVectorizer])
def test_terms_are_stored_once(vectorizer: Any) -> None:
    """The inverse lists the texts that transform knows, not copies as wide as the longest."""
    source = vectorizer().fit(DOCUMENTS)
    model = convert(source)
    assert model.parsed.inverse is not None
    form = model.parsed.inverse.outputs["inverse_transform"].form
    known = {id(term) for term in source.vocabulary_}
    assert isinstance(form, NameArrays)
    assert {id(name) for name in form.names} == known
    assert {id(name) for leaf in model.reads.entries for name in leaf[1].columns.names} == known
    counts = source.transform(NEW)
    for found, want in zip(
        model.inverse_transform(counts), source.inverse_transform(counts), strict=True
    ):
        np.testing.assert_array_equal(found, want)
        assert found.dtype == want.dtype


def own(text: str) -> list[str]:
    """A function of the user's."""
    return text.split()


@pytest.mark.filterwarnings("ignore:The parameter")
@pytest.mark.parametrize("vectorizer", [CountVectorizer, TfidfVectorizer, HashingVectorizer])
@pytest.mark.parametrize("parameter", ["analyzer", "tokenizer", "preprocessor", "strip_accents"])
def test_refuses_functions_of_the_users_own(vectorizer: Any, parameter: str) -> None:
    """They could not be stored; the message says what to do instead."""
    function = {"preprocessor": str.lower, "strip_accents": str.lower}.get(parameter, own)
    with pytest.raises(UnsupportedError, match=f"{parameter}=<.*apply it to the texts before"):
        convert(vectorizer(**{parameter: function}).fit(DOCUMENTS))


@pytest.mark.parametrize(("estimator", "message"), [
    (HashingVectorizer(input="filename"), "input='filename'"),
    (HashingVectorizer(input="file"), "input='file'"),
    (HashingVectorizer(dtype=np.int8), "dtype='int8'"),
    (HashingVectorizer(ngram_range=(0, 2)), r"ngram_range=\(0, 2\)"),
    (CountVectorizer(dtype=np.uint16).fit(DOCUMENTS), "dtype='uint16'"),
    (TfidfVectorizer().fit(DOCUMENTS).set_params(dtype=np.uint8), "dtype='uint8'"),
    (DictVectorizer(dtype=np.complex128).fit([{"a": 1}]), "dtype='complex128'"),
    (DictVectorizer(sort=False).fit([{b"a": 1}]), "vocabulary_=b'a'"),
    (FeatureHasher(dtype=np.float16), "dtype='float16'"),
])  # fmt: skip
def test_refuses_parameters_by_name(estimator: Any, message: str) -> None:
    """Each with its value."""
    with pytest.raises(UnsupportedError, match=message):
        convert(estimator)


def test_refuses_an_infinite_idf() -> None:
    """Of a term in no document, whose product with no count is no number."""
    with np.errstate(divide="ignore"):
        estimator = TfidfVectorizer(vocabulary=["cat", "never"], smooth_idf=False).fit(DOCUMENTS)
    with pytest.raises(UnsupportedError, match=r"idf_='infinite'.*smooth_idf=True"):
        convert(estimator)


@pytest.mark.parametrize(
    "counter", [HashingVectorizer(norm=None), FeatureHasher(input_type="string"), DictVectorizer()]
)
def test_refuses_logarithms_of_entries_that_may_be_zero(counter: Any) -> None:
    """Where signs cancel or a value is 0, the source has an entry, of which it takes the
    logarithm.
    """
    rows = (
        [{"a": 1}, {"b": 2}]
        if isinstance(counter, DictVectorizer)
        else [["a", "b"], ["b"]]
        if isinstance(counter, FeatureHasher)
        else DOCUMENTS
    )
    with np.errstate(all="ignore"):
        estimator = make_pipeline(counter, TfidfTransformer(sublinear_tf=True)).fit(rows)
    with pytest.raises(UnsupportedError, match=r"sublinear_tf=True.*alternate_sign=False"):
        convert(estimator)


def test_refuses_a_vocabulary_with_gaps() -> None:
    """As a user may have left one."""
    estimator = CountVectorizer().fit(DOCUMENTS)
    estimator.vocabulary_["cat"] = 99
    with pytest.raises(UnsupportedError, match="vocabulary_"):
        convert(estimator)


def test_refuses_columns_given_as_a_list() -> None:
    """The source would read the names of the columns as the documents."""
    table = pd.DataFrame({"text": ["only one"]})
    estimator = ColumnTransformer([("text", make_pipeline(CountVectorizer()), ["text"])]).fit(table)
    with pytest.raises(
        UnsupportedError, match=r"transformers=\('text', \['text'\]\).*without a list"
    ):
        convert(estimator)


@pytest.mark.parametrize("column", ["text", 1, -2])
def test_reads_a_column_of_a_table(column: Any) -> None:
    """By name or position, beside numbers; columns in another order are found by name."""
    table = pd.DataFrame({"a": np.arange(18.0), "text": DOCUMENTS, "b": 1.0})
    parts = [("t", CountVectorizer(), column), ("n", StandardScaler(), ["a", "b"])]
    estimator = make_pipeline(ColumnTransformer(parts), LogisticRegression()).fit(table, LABELS)
    np.testing.assert_allclose(
        convert(estimator).predict_proba(table[["b", "text", "a"]]),
        estimator.predict_proba(table),
        rtol=1e-12,
    )
    with pytest.raises(InputError, match="Column 'text' holds numbers"):
        convert(estimator).predict(table.assign(text=1.0))
    with pytest.raises(InputError, match=r"np\.nan is an invalid document"):
        convert(estimator).predict(table.assign(text=pd.Series(["a", None] * 9)))


@pytest.mark.parametrize("wrap", [
    lambda model: GridSearchCV(model, {"logisticregression__C": [1.0]}, cv=2).fit(DOCUMENTS, LABELS),
    lambda model: make_pipeline("passthrough", model).fit(DOCUMENTS, LABELS),
    lambda model: make_pipeline(FeatureUnion([("none", "drop"), ("text", model[0])]), model[1]).fit(DOCUMENTS, LABELS),
])  # fmt: skip
def test_knows_its_input_through_what_stands_around(wrap: Any) -> None:
    """Searches, pipelines and unions take what their first step takes."""
    estimator = wrap(text_model())
    np.testing.assert_allclose(
        convert(estimator).predict_proba(NEW), estimator.predict_proba(NEW), rtol=1e-12
    )


def test_answers_in_sparse_rows_with_the_names_of_the_source() -> None:
    """The terms; a CSR matrix whose columns ascend."""
    estimator = TfidfVectorizer().fit(DOCUMENTS)
    model = convert(estimator)
    got = model.transform(NEW)
    assert isinstance(got, csr_matrix)
    assert got.has_canonical_format
    np.testing.assert_allclose(got.toarray(), estimator.transform(NEW).toarray(), rtol=1e-15)
    np.testing.assert_array_equal(model.get_feature_names_out(), estimator.get_feature_names_out())


def test_rows_of_any_length_answer_as_alone() -> None:
    """Rows are grouped by their number of entries, and come back in their order."""
    rng = np.random.default_rng(0)
    documents = [
        " ".join(f"w{i}" for i in rng.integers(0, 900, size)) for size in rng.integers(0, 700, 60)
    ]
    estimator = make_pipeline(CountVectorizer(), TfidfTransformer(), LogisticRegression()).fit(
        documents, np.arange(60) % 3
    )
    model = convert(estimator)
    together = model.predict_proba(documents)
    np.testing.assert_allclose(together, estimator.predict_proba(documents), rtol=1e-12)
    np.testing.assert_allclose(
        together, np.concatenate([model.predict_proba([d]) for d in documents]), rtol=1e-12
    )


@pytest.mark.parametrize("backend", ["reference", "torch", "torchscript", "onnx", "tvm"])
def test_is_stored_with_its_vocabulary(tmp_path: Any, backend: str) -> None:
    """Loaded, it answers the same, without the source."""
    model = hbconv.convert(text_model(), backend=backend, sample=NEW)
    model.save(tmp_path / "model.hbc")
    np.testing.assert_array_equal(
        hbconv.load(tmp_path / "model.hbc").predict_proba(NEW), model.predict_proba(NEW)
    )


def test_stores_names_that_are_no_text(tmp_path: Any) -> None:
    """Keys of mappings: numbers, tuples, None."""
    rows = [{1: 2.0, ("a", 2): 3, None: 1, "x": "y"}, {"x": ["y", "z"]}]
    estimator = DictVectorizer(sort=False).fit(rows)
    convert(estimator).save(tmp_path / "model.hbc")
    np.testing.assert_array_equal(
        hbconv.load(tmp_path / "model.hbc").transform(rows).toarray(),
        estimator.transform(rows).toarray(),
    )


@pytest.mark.parametrize("suffix", [".onnx", ".pt", ".pt2"])
def test_files_for_other_runtimes_are_refused(tmp_path: Any, suffix: str) -> None:
    """They cannot cut texts into tokens."""
    with pytest.raises(BackendError, match="tokens"):
        convert(text_model()).export(tmp_path / f"model{suffix}")


@pytest.mark.parametrize("value", [np.nan, None, np.inf, -np.inf, 1e300, 1e17])
def test_refuses_values_that_the_model_behind_refuses(value: Any) -> None:
    """A mapping may hold what no text does."""
    rows = [{"a": 1.0, "b": "x"}, {"a": 2.0, "b": "y"}] * 5
    estimator = make_pipeline(DictVectorizer(), LogisticRegression()).fit(rows, [0, 1] * 5)
    if value in (1e300, 1e17):
        np.testing.assert_array_equal(
            convert(estimator).predict([{"a": value}]), estimator.predict([{"a": value}])
        )
        return
    with pytest.raises(InputError, match="NaN, infinity"):
        convert(estimator).predict([{"a": 1.0}, {"a": value}])


def test_counts_repeated_texts_of_a_mapping_as_one_entry() -> None:
    """The source leaves two entries in one place, which its matrix means to be added."""
    estimator = DictVectorizer().fit([{"genre": ["drama", "war"]}])
    got = convert(estimator).transform([{"genre": ["war", "war"]}])
    want = estimator.transform([{"genre": ["war", "war"]}])
    assert (got.nnz, want.nnz) == (1, 2)
    np.testing.assert_array_equal(got.toarray(), want.toarray())


def test_weighs_dense_counts_as_sparse_ones() -> None:
    """An array has no entry where it is 0, also behind a step that computes."""
    counts = np.random.default_rng(0).poisson(0.5, (20, 6))
    estimator = TfidfTransformer(sublinear_tf=True).fit(counts)
    for x in (
        counts,
        counts.astype(np.float32),
        csr_matrix(counts),
        csr_matrix(counts.astype(np.float32)),
    ):
        got = convert(estimator).transform(x)
        want = estimator.transform(x)
        assert got.dtype == want.dtype
        np.testing.assert_allclose(
            got.toarray(), want.toarray(), rtol=1e-6 if got.dtype == np.float32 else 1e-13
        )


@pytest.mark.parametrize("vectorizer", [DictVectorizer(), FeatureHasher(8)], ids=repr)
def test_mappings_of_differing_keys_are_rows(vectorizer: Any) -> None:
    """A list of them is no list of records, which need the same keys."""
    rows = [{"a": 1.0, "b": "x"}, {"a": 2.0, "c": 3.0}, {"b": "y"}, {}] * 3
    source = make_pipeline(vectorizer, LogisticRegression()).fit(rows, [0, 1, 1, 0] * 3)
    model = hbconv.convert(source, backend="reference", sample=rows[:3])
    assert hbconv.verify(source, model, rows).ok
    assert hbconv.verify(source, model.compile(rows[2:]), rows[:1]).ok


@pytest.mark.parametrize(
    ("source", "rows"),
    [
        (FeatureHasher(8), [{"a": 1.5, "b": "x"}, {}, {"b": 0}] * 900),
        (FeatureHasher(8, input_type="string"), [["a", "b", "a"], []] * 900),
        (DictVectorizer().fit([{"a": 1, "b": "x"}]), [{"a": 2, "c": 3}, {}] * 900),
        (DictVectorizer(sparse=False, dtype=np.float32).fit([{"b": "x"}]), [{"b": ["x", "y"]}, {}]),
        (CountVectorizer().fit(DOCUMENTS), NEW),
        (HashingVectorizer(n_features=8, norm=None, dtype=np.float32), NEW),
        (MultiLabelBinarizer().fit([["a", "b"]]), [("a",), (), {"b", "a"}] * 900),
        (MultiLabelBinarizer(sparse_output=True).fit([[1, 2]]), [[2, 2, 1], {1: 0}]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_rows_that_are_the_answer_need_no_program(source: Any, rows: Any) -> None:
    """What the host extracts is answered at once, in the form of the source, and nothing compiles;
    a model whose next step computes compiles still.
    """
    model = convert(source)
    got, want = model.transform(iter(rows)), source.transform(rows)
    assert type(got) is type(want)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    np.testing.assert_array_equal(dense(got), dense(want))
    assert model.transform([]).shape == (0, want.shape[1])
    assert not model.compiled
    behind = convert(make_pipeline(source, MaxAbsScaler().fit(want)))
    np.testing.assert_array_equal(dense(behind.transform(rows)) != 0, dense(want) != 0)
    assert behind.compiled


def dense(found: Any) -> Any:
    """Return a matrix of either kind as an array."""
    return found.toarray() if hasattr(found, "toarray") else found


def test_rows_that_are_the_answer_come_in_the_frame_that_is_asked_for() -> None:
    """A frame names its columns, which no program needs either way."""
    source = DictVectorizer(sparse=False).fit([{"a": 1, "b": "x"}]).set_output(transform="pandas")
    rows = [{"b": "x"}, {"a": 3}]
    pd.testing.assert_frame_equal(convert(source).transform(rows), source.transform(rows))
