"""Vectorizers of texts and mappings: the host makes sparse rows, nodes weigh them."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from operator import itemgetter
from typing import Any

import numpy as np

from hbconv.containers import (
    Affine,
    Cast,
    Entries,
    Map,
    NameArrays,
    NamedValues,
    Node,
    Normalize,
    Output,
    Sparse,
    sparse_form,
    topological,
)
from hbconv.containers.extractors import (
    Buckets,
    Mappings,
    Pairs,
    Terms,
    Texts,
    Tokens,
)
from hbconv.parse.common.text_columns import entry_name, extract_entries, item_column
from hbconv.parse.inverses import inverts
from hbconv.parse.registry import parses
from hbconv.parse.step import Step

_DTYPES = ("float32", "float64", "int32", "int64")


def _has_vocabulary(vectorizer: Any) -> bool:
    return vectorizer.vocabulary is not None


@parses(
    "sklearn.feature_extraction.text.CountVectorizer",
    features=item_column,
    is_fitted=_has_vocabulary,
)
def parse_count_vectorizer(step: Step) -> dict[str, Output]:
    """Count the terms."""
    step = replace(step, estimator=_with_vocabulary(step.estimator))
    return _sparse(_entries(step, _texts(step), _terms(step), _dtype(step)))


def _with_vocabulary(vectorizer: Any) -> Any:
    """Return the vectorizer as its first transform leaves it, where a vocabulary was given."""
    if not _has_vocabulary(vectorizer) or hasattr(vectorizer, "vocabulary_"):
        return vectorizer
    # Converting must not change the estimator of the user.
    clone = copy(vectorizer)
    clone._validate_vocabulary()
    return clone


@parses("sklearn.feature_extraction.text.TfidfVectorizer", features=item_column)
def parse_tfidf_vectorizer(step: Step) -> dict[str, Output]:
    """Count the terms, in float64 unless asked for float32, and weigh the counts.

    Counts of small ints would wrap in the source.
    """
    dtype = "float32" if _dtype(step) == "float32" else "float64"
    return _sparse(
        _weigh(step, step.estimator._tfidf, _entries(step, _texts(step), _terms(step), dtype))
    )


@parses("sklearn.feature_extraction.text.TfidfTransformer")
def parse_tfidf_transformer(step: Step) -> dict[str, Output]:
    """Weigh counts."""
    return _sparse(_weigh(step, step.estimator, Cast(step.require_finite(), "float")))


@parses(
    "sklearn.feature_extraction.text.HashingVectorizer",
    features=item_column,
    is_fitted=lambda _: True,  # Fitting keeps nothing.
)
def parse_hashing_vectorizer(step: Step) -> dict[str, Output]:
    """Count tokens by their hashes."""
    norm = step.require("norm", "l1", "l2", None)
    counts = _entries(step, _texts(step), _buckets(step), _dtype(step))
    return _sparse(Normalize(counts, norm, sparse=True) if norm else counts)


@parses(
    "sklearn.feature_extraction.FeatureHasher",
    features=item_column,
    is_fitted=lambda _: True,  # As above.
)
def parse_feature_hasher(step: Step) -> dict[str, Output]:
    """Add up values by the hashes of their names."""
    kinds: dict[str, Pairs | Tokens] = {
        "dict": Pairs(),
        "pair": Pairs(mappings=False),
        "string": Tokens(),
    }
    return _sparse(
        _entries(step, kinds[step.require("input_type", *kinds)], _buckets(step), _dtype(step))
    )


@parses("sklearn.feature_extraction.DictVectorizer", features=item_column)
def parse_dict_vectorizer(step: Step) -> dict[str, Output]:
    """Give each known name its column."""
    entries = _entries(step, Mappings(step.estimator.separator), _terms(step), _dtype(step))
    return {"transform": Output(entries, sparse_form(bool(step.estimator.sparse)))}


@inverts(
    "sklearn.feature_extraction.text.CountVectorizer",
    "sklearn.feature_extraction.text.TfidfVectorizer",
    takes_sparse=True,
)
def invert_vectorizer(step: Step) -> Output:
    """List the terms of each row that are not 0 as an array."""
    terms = _terms(replace(step, estimator=_with_vocabulary(step.estimator))).names
    texts = [term for term in terms if isinstance(term, str)]
    if len(texts) < len(terms):
        raise step.refuse("vocabulary_", f"{len(terms)} terms", "They must all be texts.")
    # numpy has no texts of length 0: an array of empty ones is <U1.
    longest = max(1, *map(len, texts))
    return Output(step.require_finite(), NameArrays(terms, f"<U{longest}"))


@inverts("sklearn.feature_extraction.DictVectorizer", takes_sparse=True)
def invert_dict_vectorizer(step: Step) -> Output:
    """Give each row its values that are not 0, by name."""
    names = tuple(entry_name(step, name) for name in step.estimator.feature_names_)
    return Output(step.require_finite(), NamedValues(names))


def _sparse(node: Node) -> dict[str, Output]:
    return {"transform": Output(node, Sparse())}


def _entries(
    step: Step, rows: Texts | Mappings | Pairs | Tokens, columns: Terms | Buckets, dtype: str
) -> Node:
    binary = bool(getattr(step.estimator, "binary", False))
    return extract_entries(step, rows, columns, dtype, binary=binary)


def _dtype(step: Step) -> str:
    dtype: str = np.dtype(step.estimator.dtype).name
    if dtype not in _DTYPES:
        raise step.refuse("dtype", dtype, f"hbconv handles {', '.join(_DTYPES)}.")
    return dtype


def _terms(step: Step) -> Terms:
    """Return the names in the order of their columns."""
    # A vocabulary given by the user may be in any order.
    ordered = sorted(step.estimator.vocabulary_.items(), key=itemgetter(1))
    if [place for _, place in ordered] != list(range(len(ordered))):
        raise step.refuse(
            "vocabulary_", f"{len(ordered)} terms", "Its columns must be 0, 1, 2... without a gap."
        )
    names = [name for name, _ in ordered]
    plain = set(map(type, names)) <= {str}
    return Terms(tuple(names if plain else [entry_name(step, name) for name in names]))


def _buckets(step: Step) -> Buckets:
    return Buckets(int(step.estimator.n_features), bool(step.estimator.alternate_sign))


def _texts(step: Step) -> Texts:
    """Read how documents are cut; functions of the user are refused."""
    est = step.estimator
    step.require("input", "content")
    for parameter in ("preprocessor", "tokenizer"):
        if getattr(est, parameter) is not None:
            raise step.refuse(parameter, getattr(est, parameter), _OWN_FUNCTION)
    for parameter in ("analyzer", "strip_accents"):
        if callable(getattr(est, parameter)):
            raise step.refuse(parameter, getattr(est, parameter), _OWN_FUNCTION)
    unit = step.require("analyzer", "word", "char", "char_wb")
    shortest, longest = est.ngram_range
    if not 1 <= shortest <= longest:
        raise step.refuse(
            "ngram_range", est.ngram_range, "Its bounds must be at least 1, the smaller first."
        )
    if unit == "word" and est.token_pattern is None:
        raise step.refuse(
            "token_pattern", None, "The source model then has no pattern to find words by."
        )
    # The source looks stop words up only among whole words.
    stop_words = (est.get_stop_words() or ()) if unit == "word" else ()
    return Texts(
        unit,
        int(shortest),
        int(longest),
        pattern=est.token_pattern or "",
        lowercase=bool(est.lowercase),
        accents=est.strip_accents or "",
        stop_words=tuple(sorted(word for word in stop_words if isinstance(word, str))),
        encoding=est.encoding,
        decode_error=est.decode_error,
    )


_OWN_FUNCTION = (
    "A function of your own cannot be stored in a model: apply it to the texts before, and leave "
    "this parameter at its default."
)


def _weigh(step: Step, weights: Any, counts: Node) -> Node:
    """Dampen the counts, multiply by ``idf_``, normalize each row; any of them may be off."""
    if weights.sublinear_tf:
        _require_counts(step, counts)
        counts = Map(counts, "sublinear")
    if hasattr(weights, "idf_"):
        # The source multiplies in place, so float32 counts stay float32.
        counts = Affine.in_place(counts, mul=_finite_idf(step, np.asarray(weights.idf_)))
    return Normalize(counts, weights.norm, sparse=True) if weights.norm else counts


def _require_counts(step: Step, counts: Node) -> None:
    """Refuse entries that may be 0, whose logarithm the source model takes too."""
    if any(
        isinstance(node, Entries) and not node.extractor.counts for node in topological((counts,))
    ):
        raise step.refuse(
            "sublinear_tf",
            True,
            "Give it counts: hash with alternate_sign=False, or count with a vocabulary.",
        )


def _finite_idf(step: Step, idf: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if not np.isfinite(idf).all():
        raise step.refuse(
            "idf_",
            "infinite",
            "No document held some of the terms: fit with smooth_idf=True, or without these terms.",
        )
    return idf
