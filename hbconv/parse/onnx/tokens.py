"""Texts become counts of n-grams: StringNormalizer, Tokenizer and TfIdfVectorizer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Literal

import numpy as np

from hbconv.containers import Affine, Check, Compare, Entries, Node
from hbconv.containers.extractors import Extractor, Name, Terms, Texts
from hbconv.parse.onnx.operator import OnnxOperator, operator
from hbconv.parse.onnx.stored import attribute_value
from hbconv.parse.onnx.values import RowTensor, TextTensor, TokenTensor

__all__ = ["normalized_rows"]

WORD = "[a-zA-Z0-9_]"
"""What is a part of a word to RE2, which onnxruntime finds tokens by."""

WHOLE = r"(?s)\A.*\Z"
"""A text is one token."""

CHARACTER = "(?s)."
"""Each character is a token, the end of a line too."""

_RUN = re.compile(
    r"(?P<opens>\\b)?(?P<one>\\w|\[[^\[\]\\]+\])(?P=one)*(?:\+|\{\d+,\})(?P<closes>\\b)?"
)
_WORD = r"\w"
_LEAST = re.compile(r"\{(\d+),\}$")


@operator("StringNormalizer")
def read_normalizer(op: OnnxOperator) -> TextTensor:
    """Normalize a column of texts."""
    return _normalized(op)


def _normalized(op: OnnxOperator) -> TextTensor:
    """Write lower case, letter by letter; locales "C" and "POSIX" know the letters of ASCII.

    Stop words are whole texts: onnxruntime leaves such rows out, so they are refused.
    """
    x = op.value()
    if not isinstance(x, TextTensor) or x.width != 1 or x.folded:
        raise op.refuse("input", "other texts", "hbconv normalizes one column of the input.")
    ascii_alone = op.get("locale", "en_US") in ("C", "POSIX")
    letters: Literal["ascii", "characters"] = "ascii" if ascii_alone else "characters"
    if op.texts("stopwords"):
        op.checks.append(_is_stop_word(op, x, letters))
    if op.one_of("case_change_action", "NONE", "NONE", "LOWER") == "NONE":
        return x
    return replace(x, folded=letters)


def normalized_rows(op: OnnxOperator) -> TextTensor:
    """Read a loop over the rows whose body is one StringNormalizer."""
    nodes = op.get("body").node
    if [node.op_type for node in nodes] != ["StringNormalizer"]:
        kinds = " ".join(node.op_type for node in nodes)
        raise op.refuse("body", kinds[:60], "Of texts, hbconv reads loops that normalize them.")
    attributes = {a.name: attribute_value(a) for a in nodes[0].attribute}
    return _normalized(replace(op, kind="StringNormalizer", attributes=attributes))


def _is_stop_word(
    op: OnnxOperator, x: TextTensor, letters: Literal["ascii", "characters"]
) -> Check:
    """Return what refuses the rows whose whole text is a stop word."""
    words = op.texts("stopwords")
    exact = bool(op.get("is_case_sensitive", 0))
    upper = [word for word in words if not exact and word != word.lower()]
    if upper or any(x.edits_of):
        raise op.refuse("stopwords", upper[:3], "hbconv looks for lower case, in the input itself.")
    texts = Texts(pattern=WHOLE, lowercase=False, folded="" if exact else letters)
    terms = Terms(tuple(dict.fromkeys(words)))
    found = Entries(op.schema, x.columns[0], Extractor(texts, terms, "float32"))
    told = f"StringNormalizer (node {op.name!r:.100}) leaves rows out whose text is a stop word."
    return Check(Compare.of(found, "gt", 0.0), told, op.name)


@operator("Tokenizer", domain="com.microsoft")
def read_tokenizer(op: OnnxOperator) -> TokenTensor:
    """Find tokens: the longest runs of a class of characters, or the single characters."""
    x = op.value()
    if not isinstance(x, TextTensor) or x.width != 1 or any(x.edits_of):
        raise op.refuse("input", "other texts", "hbconv cuts one column of the input.")
    op.one_of("mark", 0, 0)
    least = max(int(op.get("mincharnum", 1)), 1)
    pattern = _pattern(op, least)
    texts = Texts(pattern=pattern, lowercase=False, folded=x.folded)
    return TokenTensor(x.columns[0], texts, str(op.get("pad_value", "")))


def _pattern(op: OnnxOperator, least: int) -> str:
    """Return the pattern of the tokens, for Python."""
    expression = op.get("tokenexp", "")
    separators = op.texts("separators")
    if expression == "." or separators == [""]:
        if least > 1:
            raise op.refuse("mincharnum", least, "Characters have a length of 1.")
        return CHARACTER
    if expression:
        return _run(op, expression, least)
    return f"[^{''.join(_separator(op, each) for each in separators)}]{{{least},}}"


def _run(op: OnnxOperator, expression: str, least: int) -> str:
    r"""Return a pattern of runs of one class, such as ``[a-z]+`` and ``\b\w\w+\b``.

    Others may find other tokens than RE2 does, which looks for the longest match.
    """
    found = _RUN.fullmatch(expression)
    bounded = found is not None and bool(found["opens"] or found["closes"])
    if found is None or (bounded and found["one"] != _WORD):
        hint = "hbconv finds runs of one class of characters, such as '[a-zA-Z0-9_]+'."
        raise op.refuse("tokenexp", expression, hint)
    one = found["one"]
    body = expression.removeprefix(r"\b").removesuffix(r"\b")
    ends = _LEAST.search(body)
    repeats = int(ends[1]) if ends else 1
    before = body[: ends.start()] if ends else body[:-1]
    own = len(before) // len(one) - 1 + repeats
    return f"{WORD if one == _WORD else one}{{{max(own, least, 1)},}}"


def _separator(op: OnnxOperator, separator: str) -> str:
    """Return a separator of one character, as part of a class."""
    found = re.fullmatch(r"\[(\W)\]|\\(\W)|([^\\.*+?()|\[\]^$])", separator, re.DOTALL)
    if found is None:
        hint = "hbconv separates at single characters, such as ' ' and '[.]'."
        raise op.refuse("separators", separator, hint)
    return re.escape(found[1] or found[2] or found[3])


@operator("TfIdfVectorizer")
def read_vectorizer(op: OnnxOperator) -> RowTensor:
    """Count the n-grams that are known, and weigh the counts."""
    x = op.value()
    if not isinstance(x, TokenTensor):
        raise op.refuse("input", type(x).__name__, "hbconv counts the tokens of a Tokenizer.")
    if op.get("max_skip_count", 0):
        raise op.refuse("max_skip_count", op.get("max_skip_count"), "Use 0.")
    mode = op.one_of("mode", None, "TF", "IDF", "TFIDF")
    shortest = int(op.get("min_gram_length", 1))
    longest = int(op.get("max_gram_length", 1))
    if not 1 <= shortest <= longest < 100:
        raise op.damaged(f"counts n-grams of {shortest} to {longest} tokens")
    holds_spaces = x.texts.pattern != CHARACTER and re.search(x.texts.pattern, " " * 1000)
    if longest > 1 and holds_spaces:
        raise op.refuse("max_gram_length", longest, "Tokens that hold spaces have no n-grams.")
    terms, weights = _known(op, x, shortest, longest)
    texts = replace(x.texts, shortest=shortest, longest=longest)
    counts: Node = Entries(
        op.schema, x.column, Extractor(texts, Terms(terms), "float32", binary=mode == "IDF")
    )
    node = counts if mode == "TF" else Affine.in_place(counts, mul=weights)
    return RowTensor((1, len(terms)), 0, node)


def _known(
    op: OnnxOperator, x: TokenTensor, shortest: int, longest: int
) -> tuple[tuple[Name, ...], np.ndarray]:
    """Return the n-gram of each column, None where no text has it, and its weight."""
    pool = op.texts("pool_strings")
    if x.padding in pool:
        hint = "How often it is counted depends on the other rows. Pad by a token that none holds."
        raise op.refuse("pad_value", x.padding, hint)
    places = op.numbers("ngram_indexes", "int64").tolist()
    starts = [*op.numbers("ngram_counts", "int64").tolist(), len(pool)]
    if starts != sorted(starts) or starts[0] != 0 or not pool:
        raise op.damaged("has n-grams that are not in the order of their sizes")
    grams: list[Name] = []
    for size, (first, last) in enumerate(pairwise(starts), start=1):
        if (last - first) % size:
            raise op.damaged(f"has {last - first} tokens for n-grams of {size}")
        counted = shortest <= size <= longest
        starting = range(first, last, size)
        found = [pool[at : at + size] for at in starting]
        grams += [" ".join(g) if counted and _are_cut(g, x.texts.pattern) else None for g in found]
    width = max(places) + 1
    told = [gram for gram in grams if gram is not None]
    if len(places) != len(grams) or len(set(places)) < len(places) or not 0 < width < 1 << 22:
        raise op.damaged(f"has {len(places)} columns for {len(grams)} n-grams, or one twice")
    if len(set(told)) < len(told) or min(places) < 0:
        raise op.damaged("has an n-gram twice, or a column below 0")
    return _in_columns(op, grams, places, width)


def _are_cut(tokens: Sequence[str], pattern: str) -> bool:
    """Whether the tokens are such as a pattern finds: no text has an n-gram of others."""
    return all(re.fullmatch(pattern, token) for token in tokens)


def _in_columns(
    op: OnnxOperator, grams: list[Name], places: list[int], width: int
) -> tuple[tuple[Name, ...], np.ndarray]:
    given = op.numbers("weights")
    given = given if len(given) else np.ones(len(grams), np.float32)
    if len(given) != len(grams):
        raise op.damaged(f"has {len(given)} weights for {len(grams)} n-grams")
    columns: list[Name] = [None] * width
    weights = np.ones(width, np.float32)
    for gram, place, weight in zip(grams, places, given.tolist(), strict=True):
        columns[place] = gram
        weights[place] = weight
    return tuple(columns), weights
