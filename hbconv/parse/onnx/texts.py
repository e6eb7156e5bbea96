"""Texts, categories and labels: a text becomes a code where an operator knows some of them.

StringNormalizer, Tokenizer and TfIdfVectorizer make counts of n-grams.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    Affine,
    Check,
    Choose,
    Codes,
    Compare,
    Concat,
    ConstantRows,
    Entries,
    FindCode,
    Node,
    OneHot,
    Recode,
    Vocabulary,
)
from hbconv.containers.extractors import Extractor, Name, Terms, Texts
from hbconv.parse.onnx.operator import OnnxOperator, operator
from hbconv.parse.onnx.values import (
    KnownTensor,
    LabelTensor,
    MapList,
    RowTensor,
    TextTensor,
    TokenTensor,
    Value,
    attribute_value,
)

__all__ = ["choose_texts", "compare_texts", "is_text", "normalize_rows", "text_codes"]


def is_text(value: Value) -> bool:
    """Tell whether a value holds texts."""
    if isinstance(value, KnownTensor):
        return value.data.dtype.kind in "UO"
    return isinstance(value, TextTensor) or (
        isinstance(value, LabelTensor) and value.table.data.dtype.kind in "UO"
    )


def text_codes(op: OnnxOperator, x: TextTensor, listed: Sequence[Sequence[str]]) -> Node:
    """Return the position of each text among those known for it, -1 for any other."""
    if x.folded:
        raise op.refuse("input", "texts in lower case", "hbconv looks up texts as they come.")
    nodes = tuple(
        _codes(op, column, edits, texts)
        for column, edits, texts in zip(x.columns, x.edits_of, listed, strict=True)
    )
    return nodes[0] if len(nodes) == 1 else Concat(nodes)


def _codes(op: OnnxOperator, column: int, edits: Mapping[str, str], listed: Sequence[str]) -> Node:
    """Return the codes of one column, whose texts are replaced first."""
    if not edits:
        return Codes(op.schema, column, Vocabulary(tuple(listed)))
    read = tuple(dict.fromkeys([*listed, *edits]))
    place = {text: i for i, text in enumerate(listed)}
    # The first entry is for unknown texts, which stay unknown.
    codes = [-1, *(place.get(edits.get(text, text), -1) for text in read)]
    read_codes = Codes(op.schema, column, Vocabulary(read))
    return Recode(read_codes, (Array(np.array(codes, np.int32)),))


def compare_texts(op: OnnxOperator) -> RowTensor:
    """Compare texts, or entries of a table, with one constant text."""
    values = [op.value(0), op.value(1)]
    constants = [v for v in values if isinstance(v, KnownTensor)]
    if len(constants) != 1 or constants[0].data.size != 1:
        raise op.refuse("inputs", "two columns of texts", "hbconv compares with one text.")
    wanted = str(constants[0].data.ravel()[0])
    (x,) = (v for v in values if isinstance(v, LabelTensor | TextTensor))
    if isinstance(x, TextTensor):
        codes = text_codes(op, x, [(wanted,)] * x.width)
    else:
        codes = x.recode(np.where(x.table.data.astype(str) == wanted, 0, -1).astype(np.int32))
    return RowTensor(x.dims, x.axis, Compare.of(codes, "eq", 0))


def choose_texts(op: OnnxOperator) -> LabelTensor | TextTensor:
    """Choose between constant texts, or replace some texts of the input by one."""
    if isinstance(op.value(2), TextTensor):
        return _replace_texts(op)
    return _choose_labels(op)


def _choose_labels(op: OnnxOperator) -> LabelTensor:
    condition = op.rows()
    tables: list[npt.NDArray[Any]] = []
    codes: list[Node] = []
    for place in (1, 2):
        value = op.value(place)
        first = sum(len(table) for table in tables)
        if isinstance(value, LabelTensor) and value.dims == condition.dims:
            tables.append(value.table.data)
            codes.append(value.recode(np.arange(len(value.table), dtype=np.int32) + first))
        elif isinstance(value, KnownTensor) and value.data.size == 1:
            tables.append(value.data.ravel())
            codes.append(_repeat_code(op, condition.width, first))
        else:
            raise op.refuse(f"input {place}", "texts", "hbconv chooses between class labels.")
    node = Choose(condition.node, codes[0], codes[1])
    table = np.concatenate([np.asarray(t, str) for t in tables])
    return LabelTensor(condition.dims, condition.axis, node, Array(table))


def _repeat_code(op: OnnxOperator, width: int, code: int) -> Node:
    return ConstantRows(op.row, Array(np.full(width, code, np.int32)))


def _replace_texts(op: OnnxOperator) -> TextTensor:
    """Replace the texts of one column for which a condition on them holds."""
    condition, fill, x = op.value(0), op.value(1), op.value(2)
    decided = _table_of_texts(condition) if isinstance(condition, LabelTensor) else None
    if (
        not isinstance(x, TextTensor)
        or x.width != 1
        or decided is None
        or decided[0] != x.columns[0]
    ):
        raise op.refuse("condition", "of other values", "It must be one on the texts it replaces.")
    if not isinstance(fill, KnownTensor) or fill.data.size != 1 or decided[2]:
        raise op.refuse("input 1", "for unknown texts", "hbconv replaces known texts by one.")
    text = str(fill.data.ravel()[0])
    (edits,) = x.edits_of
    replaced = {
        original: text if holds else edits.get(original, original)
        for original, holds in decided[1].items()
    }
    return replace(x, edits=(tuple((edits | replaced).items()),))


def _table_of_texts(value: LabelTensor) -> tuple[int, dict[str, Any], Any] | None:
    """Return the column that an entry is computed of, its value for each text, and for others."""
    tables: list[npt.NDArray[Any]] = []
    node = value.node
    while isinstance(node, Recode) and len(node.tables) == 1:
        tables.append(node.tables[0].data)
        node = node.codes
    if not isinstance(node, Codes) or not isinstance(node.vocabulary, Vocabulary):
        return None
    texts = [str(text) for text in node.vocabulary.values]
    codes = np.arange(-1, len(texts))
    for table in reversed(tables):
        codes = table[codes + 1]
    entries = value.table.data[codes].tolist()
    return node.column, dict(zip(texts, entries[1:], strict=True)), entries[0]


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
    return _normalize(op)


def _normalize(op: OnnxOperator) -> TextTensor:
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


def normalize_rows(op: OnnxOperator) -> TextTensor:
    """Read a loop over the rows whose body is one StringNormalizer."""
    nodes = op.get("body").node
    if [node.op_type for node in nodes] != ["StringNormalizer"]:
        kinds = " ".join(node.op_type for node in nodes)
        raise op.refuse("body", kinds[:60], "Of texts, hbconv reads loops that normalize them.")
    attributes = {a.name: attribute_value(a) for a in nodes[0].attribute}
    return _normalize(replace(op, kind="StringNormalizer", attributes=attributes))


def _is_stop_word(
    op: OnnxOperator, x: TextTensor, letters: Literal["ascii", "characters"]
) -> Check:
    """Return what refuses the rows whose whole text is a stop word."""
    words = op.texts("stopwords")
    exact = bool(op.get("is_case_sensitive", 0))
    upper = [word for word in words if not exact and word != word.lower()]
    # Words are folded letter by letter, and a word with upper case is never met again.
    if upper or any(x.edits_of):
        raise op.refuse("stopwords", upper[:3], "hbconv looks for lower case, in the input itself.")
    texts = Texts(pattern=WHOLE, lowercase=False, folded="" if exact else letters)
    terms = Terms(tuple(dict.fromkeys(words)))
    counts = Entries(op.schema, x.columns[0], Extractor(texts, terms, "float32"))
    message = f"StringNormalizer (node {op.name!r:.100}) leaves rows out whose text is a stop word."
    return Check(Compare.of(counts, "gt", 0.0), message, op.name)


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
    match = _RUN.fullmatch(expression)
    bounded = match is not None and bool(match["opens"] or match["closes"])
    if match is None or (bounded and match["one"] != _WORD):
        hint = "hbconv finds runs of one class of characters, such as '[a-zA-Z0-9_]+'."
        raise op.refuse("tokenexp", expression, hint)
    letter = match["one"]
    body = expression.removeprefix(r"\b").removesuffix(r"\b")
    ends = _LEAST.search(body)
    repeats = int(ends[1]) if ends else 1
    before = body[: ends.start()] if ends else body[:-1]
    letters = len(before) // len(letter) - 1 + repeats
    return f"{WORD if letter == _WORD else letter}{{{max(letters, least, 1)},}}"


def _separator(op: OnnxOperator, separator: str) -> str:
    """Return a separator of one character, as part of a class."""
    match = re.fullmatch(r"\[(\W)\]|\\(\W)|([^\\.*+?()|\[\]^$])", separator, re.DOTALL)
    if match is None:
        hint = "hbconv separates at single characters, such as ' ' and '[.]'."
        raise op.refuse("separators", separator, hint)
    return re.escape(match[1] or match[2] or match[3])


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
    # n-grams are joined by spaces, so a token with one would make one gram of two.
    holds_spaces = x.texts.pattern != CHARACTER and re.search(x.texts.pattern, " " * 1000)
    if longest > 1 and holds_spaces:
        raise op.refuse("max_gram_length", longest, "Tokens that hold spaces have no n-grams.")
    terms, weights = _read_grams(op, x, shortest, longest)
    texts = replace(x.texts, shortest=shortest, longest=longest)
    counts: Node = Entries(
        op.schema, x.column, Extractor(texts, Terms(terms), "float32", binary=mode == "IDF")
    )
    node = counts if mode == "TF" else Affine.in_place(counts, mul=weights)
    return RowTensor((1, len(terms)), 0, node)


def _read_grams(
    op: OnnxOperator, x: TokenTensor, shortest: int, longest: int
) -> tuple[tuple[Name, ...], np.ndarray]:
    """Return the n-gram of each column, None where no text has it, and its weight."""
    pool = op.texts("pool_strings")
    # onnxruntime counts the tokens that fill up shorter rows.
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
        sized = [pool[at : at + size] for at in starting]
        grams += [" ".join(g) if counted and _are_cut(g, x.texts.pattern) else None for g in sized]
    width = max(places) + 1
    counted_grams = [gram for gram in grams if gram is not None]
    if len(places) != len(grams) or len(set(places)) < len(places) or not 0 < width < 1 << 22:
        raise op.damaged(f"has {len(places)} columns for {len(grams)} n-grams, or one twice")
    if len(set(counted_grams)) < len(counted_grams) or min(places) < 0:
        raise op.damaged("has an n-gram twice, or a column below 0")
    return _in_columns(op, grams, places, width)


def _are_cut(tokens: Sequence[str], pattern: str) -> bool:
    """Whether the tokens are such as a pattern finds: no text has an n-gram of others."""
    return all(re.fullmatch(pattern, token) for token in tokens)


def _in_columns(
    op: OnnxOperator, grams: list[Name], places: list[int], width: int
) -> tuple[tuple[Name, ...], np.ndarray]:
    stored = op.numbers("weights")
    stored = stored if len(stored) else np.ones(len(grams), np.float32)
    if len(stored) != len(grams):
        raise op.damaged(f"has {len(stored)} weights for {len(grams)} n-grams")
    columns: list[Name] = [None] * width
    weights = np.ones(width, np.float32)
    for gram, place, weight in zip(grams, places, stored.tolist(), strict=True):
        columns[place] = gram
        weights[place] = weight
    return tuple(columns), weights


ML = "ai.onnx.ml"

Numbers = npt.NDArray[Any]


def _positions(
    op: OnnxOperator, value: Value, listed: Numbers
) -> tuple[Node, tuple[int, ...], int]:
    """Return the position of each entry among the known values, -1 for others."""
    if isinstance(value, TextTensor):
        node = text_codes(op, value, [listed.tolist()] * value.width)
        return node, value.dims, value.axis
    if isinstance(value, LabelTensor):
        place = {v: i for i, v in enumerate(listed.tolist())}
        codes = [place.get(v, -1) for v in value.table.data.tolist()]
        return value.recode(np.array(codes, np.int32)), value.dims, value.axis
    x = op.rows()
    if listed.dtype.kind == "U":
        raise op.refuse("keys", listed.tolist()[:3], f"The input holds {x.dtype}.")
    return _find_numbers(x, listed), x.dims, x.axis


def _find_numbers(x: RowTensor, listed: Numbers) -> Node:
    """Return the position of numbers among known ones, which need not ascend."""
    order = np.argsort(listed, kind="stable")
    ascending = listed[order]
    node: Node = FindCode(x.node, (Array(ascending),) * x.width)
    if np.array_equal(order, np.arange(len(order))):
        return node
    return Recode(node, (Array(np.append(-1, order).astype(np.int32)),) * x.width)


@operator("OneHotEncoder", domain=ML)
def read_one_hot(op: OnnxOperator) -> RowTensor:
    """Write 1 at the position of the category; a new last axis holds the categories.

    Unknown ones are zeros, or refused where ``zeros`` is 0.
    """
    texts = op.texts("cats_strings")
    categories = np.array(texts) if texts else op.numbers("cats_int64s", "int64")
    if not len(categories) or len(set(categories.tolist())) != len(categories):
        raise op.damaged("has no categories, or one twice")
    value = op.value()
    if isinstance(value, RowTensor) and value.dtype.startswith("float"):
        value = value.cast("int64")
        node, dims, axis = _find_numbers(value, categories), value.dims, value.axis
    else:
        node, dims, axis = _positions(op, value, categories)
    if not op.get("zeros", 1):
        message = f"OneHotEncoder (node {op.name!r:.100}) reads a category that it does not know."
        op.checks.append(Check(Compare.of(node, "lt", 0), message, op.name))
    hot = OneHot(node, (len(categories),) * node.type.width, "float32")
    return RowTensor((*dims, len(categories)), axis, hot)


@operator("LabelEncoder", domain=ML)
def read_label_encoder(op: OnnxOperator) -> LabelTensor:
    """Map known values to others, and all else to a default."""
    if "classes_strings" in op.attributes:
        return _encode_classes(op)
    keys, values = _list(op, "keys"), _list(op, "values")
    if keys is None or values is None or len(keys) != len(values):
        raise op.damaged("has keys and values of other lengths")
    default = _default(op, values)
    return _map_keys(op, keys, np.append(values, default))


def _list(op: OnnxOperator, name: str) -> Numbers | None:
    texts = op.texts(f"{name}_strings")
    if texts:
        return np.array(texts)
    for kind, dtype in (("int64s", "int64"), ("floats", "float32")):
        if f"{name}_{kind}" in op.attributes:
            return op.numbers(f"{name}_{kind}", dtype)
    tensor = op.get(f"{name}_tensor")
    if tensor is None:
        return None
    entries = np.asarray(tensor).ravel()
    return entries.astype(str) if entries.dtype.kind == "O" else entries


def _default(op: OnnxOperator, values: Numbers) -> Numbers:
    tensor = op.get("default_tensor")
    if tensor is not None:
        entries = np.asarray(tensor).ravel()
        return entries.astype(str) if entries.dtype.kind == "O" else entries.astype(values.dtype)
    if values.dtype.kind == "U":
        return np.array([op.get("default_string", "_Unused")])
    if values.dtype.kind == "i":
        return np.array([op.get("default_int64", -1)], values.dtype)
    return np.array([op.get("default_float", -0.0)], values.dtype)


def _map_keys(op: OnnxOperator, keys: Numbers, table: Numbers) -> LabelTensor:
    """Return the entry of the table at each key's position; the last is for all else.

    Of equal keys the first counts.
    """
    _, first = np.unique(keys, return_index=True)
    kept = np.sort(first)
    if keys.dtype.kind == "f" and op.opset < 4:
        kept = kept[~np.isnan(keys[kept])]  # before opset 4 NaN is no key to onnxruntime
    node, dims, axis = _positions(op, op.value(), keys[kept])
    codes = np.append(len(table) - 1, kept).astype(np.int32)
    recoded = Recode(node, (Array(codes),) * node.type.width)
    return LabelTensor(dims, axis, recoded, Array(table))


def _encode_classes(op: OnnxOperator) -> LabelTensor:
    """Map texts to their positions, or positions to texts."""
    classes = np.array(op.texts("classes_strings"))
    value = op.value()
    if isinstance(value, TextTensor) or (
        isinstance(value, LabelTensor) and value.table.data.dtype.kind == "U"
    ):
        return _map_keys(
            op, classes, np.append(np.arange(len(classes)), op.get("default_int64", -1))
        )
    table = np.append(classes, op.get("default_string", "_Unused"))
    return _map_keys(op, np.arange(len(classes)), table)


@operator("CategoryMapper", domain=ML)
def read_category_mapper(op: OnnxOperator) -> LabelTensor:
    """Map texts to ints, or ints to texts."""
    texts = np.array(op.texts("cats_strings"))
    ints = op.numbers("cats_int64s", "int64")
    if len(texts) != len(ints):
        raise op.damaged(f"has {len(texts)} texts for {len(ints)} ints")
    value = op.value()
    if isinstance(value, RowTensor):
        return _map_keys(op, ints, np.append(texts, op.get("default_string", "_Unused")))
    return _map_keys(op, texts, np.append(ints, op.get("default_int64", -1)))


@operator("ZipMap", domain=ML)
def read_zip_map(op: OnnxOperator) -> MapList:
    """Name the columns: each row is a dict."""
    x = op.matrix()
    texts = op.texts("classlabels_strings")
    keys = np.array(texts) if texts else op.numbers("classlabels_int64s", "int64")
    if len(keys) != x.width or len(set(keys.tolist())) != len(keys):
        raise op.damaged(f"names {len(keys)} columns of {x.width}, or two alike")
    return MapList(x, Array(keys))
