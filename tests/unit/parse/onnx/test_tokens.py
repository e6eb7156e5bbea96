"""Texts are cut and counted as onnxruntime does."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import hbconv
from hbconv.errors import UnsupportedError

onnxruntime = pytest.importorskip("onnxruntime")

DOCUMENTS = [
    "The cat sat", "", "  ", "a.b, c", "x\ny é\u0301z", "ÉTÉ été", "cat cat CAT_1", "\u0130x \u03a3x",
    "the  cat\tsat on 12 mats", "ab abc a", "\x0b\x85 a\u2028b",
]  # fmt: skip
ROWS = np.array(DOCUMENTS, object).reshape(-1, 1)
GRAMS = {
    "pool_strings": ["cat", "sat", "a", "é", "ab", "12", "x", "the", "cat", "cat", "sat"],
    "ngram_counts": [0, 7],
    "ngram_indexes": [3, 0, 1, 8, 5, 2, 4, 7, 6],
    "weights": [0.5, 2.0, 1.5, 1.0, 3.0, -1.0, 0.25, 4.0, 5.0],
}


def model_of(
    cut: dict[str, Any], counts: dict[str, Any], normalizes: dict[str, Any] | None = None
) -> ModelProto:
    """Return a model that normalizes texts, cuts them and counts the tokens."""
    shape = helper.make_tensor("shape", TensorProto.INT64, [1], [-1])
    nodes = [helper.make_node("Reshape", ["X", "shape"], ["flat"])]
    if normalizes is not None:
        nodes.append(helper.make_node("StringNormalizer", ["flat"], ["low"], **normalizes))
    cut = {"mark": 0, "pad_value": "#", "mincharnum": 1, **cut}
    read = "flat" if normalizes is None else "low"
    nodes.append(helper.make_node("Tokenizer", [read], ["t"], domain="com.microsoft", **cut))
    nodes.append(helper.make_node("Flatten", ["t"], ["f"]))
    counts = {"mode": "TF", "max_skip_count": 0, "min_gram_length": 1, **GRAMS, **counts}
    nodes.append(helper.make_node("TfIdfVectorizer", ["f"], ["y"], **counts))
    x = helper.make_tensor_value_info("X", TensorProto.STRING, [None, 1])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "texts", [x], [y], [shape])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def require_as_runtime(model: ModelProto, rows: Any = ROWS) -> None:
    session = onnxruntime.InferenceSession(model.SerializeToString())
    expected = session.run(None, {"X": rows})[0]
    (found,) = hbconv.convert(model, backend="reference").run(None, {"X": rows})
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


def test_tokens_that_no_text_has_are_not_counted():
    counts = {
        "pool_strings": ["z", "a b", "c", "x", "y"],
        "ngram_counts": [0, 1],
        "ngram_indexes": [0, 1, 2],
        "weights": [1.0, 1.0, 1.0],
        "max_gram_length": 2,
    }
    model = model_of({"tokenexp": "[a-z]+"}, counts)
    require_as_runtime(model, np.array([["a b c"], ["z x y"]], object))


def test_padding_that_is_counted_is_refused():
    counts = {**GRAMS, "pool_strings": ["#", *GRAMS["pool_strings"][1:]]}
    with pytest.raises(UnsupportedError, match="pad_value='#'"):
        hbconv.convert(model_of({"tokenexp": "."}, counts))


CUTS = {
    "words": {"tokenexp": "[a-zA-Z0-9_]+"},
    "words of two": {"tokenexp": r"\b\w\w+\b"},
    "words of three": {"tokenexp": r"\w{2,}", "mincharnum": 3},
    "all but spaces": {"tokenexp": "[^ ]+"},
    "characters": {"tokenexp": "."},
    "letters apart": {"separators": [""]},
    "separators": {"separators": [" ", "[.]", "\\?", ",", "\n"]},
    "separated words of two": {"separators": [" ", "x"], "mincharnum": 2},
}


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("longest", [1, 2])
def test_tokens_and_their_grams(cut: str, longest: int):
    require_as_runtime(model_of(CUTS[cut], {"max_gram_length": longest}))
    require_as_runtime(model_of(CUTS[cut], {"max_gram_length": longest}), ROWS[1:2])


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
@pytest.mark.parametrize("sizes", [(1, 1), (1, 2), (2, 2)])
def test_modes(mode: str, sizes: tuple[int, int]):
    shortest, longest = sizes
    counts = {"mode": mode, "min_gram_length": shortest, "max_gram_length": longest}
    require_as_runtime(model_of(CUTS["words"], counts))


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_lower_case_letter_by_letter(locale: str):
    normalizes = {"case_change_action": "LOWER", "is_case_sensitive": 0, "locale": locale}
    model = model_of(CUTS["characters"], {"max_gram_length": 1, "pool_strings": [
        "i", "\u03c3", "\u03c2", "é", "É", "c", "C", "the", "cat", "cat", "sat"]}, normalizes)  # fmt: skip
    try:
        onnxruntime.InferenceSession(model.SerializeToString())
    except Exception:
        pytest.skip(f"this machine has no locale {locale}")
    require_as_runtime(model)


@pytest.mark.parametrize(
    "cut",
    [{"tokenexp": "a|ab"}, {"tokenexp": r"\s+"}, {"tokenexp": "(a)+"}, {"tokenexp": "[[:alpha:]]+"},
     {"separators": ["--"]}, {"separators": ["a|b"]}, {"tokenexp": ".", "mincharnum": 2},
     {"tokenexp": "a", "mark": 1}],
)  # fmt: skip
def test_what_may_find_other_tokens_is_refused(cut: dict[str, Any]):
    with pytest.raises(hbconv.UnsupportedError, match="Tokenizer with"):
        hbconv.convert(model_of(cut, {"max_gram_length": 1}))


def test_what_counts_otherwise_is_refused():
    with pytest.raises(hbconv.UnsupportedError, match="StringNormalizer with stopwords"):
        hbconv.convert(model_of(CUTS["words"], {}, {"stopwords": ["A"]}))
    with pytest.raises(hbconv.UnsupportedError, match="max_skip_count=1"):
        hbconv.convert(model_of(CUTS["words"], {"max_skip_count": 1, "max_gram_length": 2}))
    with pytest.raises(hbconv.UnsupportedError, match="Tokens that hold spaces"):
        hbconv.convert(model_of({"separators": [","]}, {"max_gram_length": 2}))
    for wrong in ({"ngram_counts": [0, 6]}, {"ngram_indexes": [0] * 9}, {"weights": [1.0]}):
        with pytest.raises(hbconv.ConversionError, match="damaged"):
            hbconv.convert(model_of(CUTS["words"], {"max_gram_length": 2, **wrong}))


@pytest.mark.parametrize("exact", [0, 1])
@pytest.mark.parametrize("action", ["NONE", "LOWER"])
def test_rows_that_are_a_stop_word_are_refused(action: str, exact: int):
    stops = ["the", "a", "cat", "cat sat"]
    given = {"stopwords": stops, "is_case_sensitive": exact, "case_change_action": action}
    model = model_of(CUTS["words"], {"max_gram_length": 1}, {**given, "locale": "C"})
    texts = ["The cat", "a  cat", "THE", "the ", "", " a", "A", "CAT", "\u0130", "Cat sat", "x\na"]
    lower = str if exact else str.lower
    kept = [text for text in texts if lower(text) not in stops]
    require_as_runtime(model, np.array(kept, object).reshape(-1, 1))
    session = onnxruntime.InferenceSession(model.SerializeToString())
    converted = hbconv.convert(model, backend="reference")
    for text in {*texts, *stops} - {*kept}:
        rows = np.array([["x"], [text]], object)
        assert len(session.run(None, {"X": rows})[0]) == 1
        with pytest.raises(hbconv.InputError, match="leaves rows out whose text is a stop word"):
            converted.run(None, {"X": rows})


def test_a_loop_that_normalizes_each_row_is_read():
    from skl2onnx import convert_sklearn
    from skl2onnx.common.data_types import StringTensorType

    vectorizer = CountVectorizer().fit(["the cat", "a dog"])
    vectorizer.stop_words_ = {"on"}
    options = {id(vectorizer): {"locale": "C", "keep_empty_string": True}}
    types = [("X", StringTensorType([None, 1]))]
    model = convert_sklearn(vectorizer, None, types, target_opset=18, options=options)
    assert any(node.op_type == "Scan" for node in model.graph.node)
    require_as_runtime(model, np.array([["The cat on"], [""], ["DOG dog"]], object))
    with pytest.raises(hbconv.InputError, match="whose text is a stop word"):
        hbconv.convert(model, backend="reference").run(None, {"X": np.array([["On"]], object)})


def fitted() -> dict[str, Any]:
    """Return vectorizers and a pipeline, fitted on the documents."""
    words = [text for text in DOCUMENTS if text.isascii()] * 3
    found: dict[str, Any] = {
        "counts": CountVectorizer(ngram_range=(1, 2)).fit(words),
        "characters": CountVectorizer(analyzer="char", lowercase=False).fit(words),
        "weights": TfidfVectorizer(lowercase=False, sublinear_tf=True).fit(words),
    }
    pipeline = make_pipeline(TfidfVectorizer(), LogisticRegression())
    found["classes"] = pipeline.fit(words, np.arange(len(words)) % 3)
    return found


@cache
def exported(name: str) -> ModelProto:
    from skl2onnx import to_onnx
    from skl2onnx.common.data_types import StringTensorType

    source = fitted()[name]
    vectorizer = source[0] if name == "classes" else source
    options: dict[int, Any] = {id(vectorizer): {"locale": "C"}}
    if name == "classes":
        options[id(source[-1])] = {"zipmap": False}
    given = [("X", StringTensorType([None, 1]))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # skl2onnx is not sure of characters
        model: ModelProto = to_onnx(
            source, initial_types=given, options=options, target_opset={"": 18, "ai.onnx.ml": 3}
        )
    return model


@pytest.mark.parametrize("name", ["counts", "characters", "weights", "classes"])
def test_exports_of_scikit_learn(name: str):
    session = onnxruntime.InferenceSession(exported(name).SerializeToString())
    converted = hbconv.convert(exported(name), backend="tvm" if name == "classes" else "reference")
    names = [output.name for output in session.get_outputs()]
    found = converted.run(names, {"X": ROWS})
    for expected, own in zip(session.run(names, {"X": ROWS}), found, strict=True):
        np.testing.assert_allclose(own, expected, rtol=1e-5, atol=1e-6)
