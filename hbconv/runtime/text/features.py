"""Rows of texts, mappings or sequences to named features, as scikit-learn reads them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import singledispatch
from itertools import chain
from numbers import Number
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.containers.extractors import (
    Extractor,
    Mappings,
    Pairs,
    Terms,
    Texts,
    Tokens,
    TypedMappings,
)
from hbconv.errors import InputError, shown
from hbconv.runtime.text.grams import are_many, find_grams, find_places
from hbconv.runtime.text.runs import Grams
from hbconv.runtime.text.tokenize import decode_documents, fold_letters, preparation, tokenizer

__all__ = ["INVALID", "Features", "read_documents", "read_features"]

INVALID = "np.nan is an invalid document, expected byte or unicode string."


@dataclass(frozen=True)
class Features:
    """Features of some rows: the row, name and value of each; None for values of 1."""

    rows: npt.NDArray[np.int64]
    names: Sequence[Any] | Grams | npt.NDArray[np.int64]
    """Those of an array are columns already."""
    values: npt.NDArray[Any] | None = None


def read_documents(rows: Sequence[Any], texts: Texts, where: str) -> Sequence[str]:
    """Return rows, texts or bytes, as texts.

    Raises
    ------
    InputError
        A row is neither, or holds bytes that are no text.
    """
    try:
        return fold_letters(decode_documents(rows, texts), texts.folded)
    except TypeError as error:
        odd = next(row for row in rows if not isinstance(row, str | bytes))
        missing = isinstance(odd, float) and odd != odd
        raise InputError(
            f"{where}: {INVALID if missing else f'the model needs text, and got {_shown(odd)}.'}"
        ) from error
    except UnicodeError as error:
        raise InputError(f"{where} holds bytes that are no text: {error}") from error


@singledispatch
def read_features(kind: object, rows: Sequence[Any], extractor: Extractor, where: str) -> Features:
    """Return the features of rows of a kind.

    Parameters
    ----------
    kind : Texts, Mappings, TypedMappings, Pairs or Tokens
    rows : sequence
    extractor : Extractor
        How their features become columns.
    where : str
        What the rows are called in messages.

    Raises
    ------
    InputError
        Rows of another kind.
    """
    raise NotImplementedError


@read_features.register
def _(kind: Texts, rows: Sequence[Any], extractor: Extractor, where: str) -> Features:
    documents = read_documents(rows, kind, where)
    found = _all_at_once(documents, kind, extractor) if are_many(documents, kind) else None
    if found is not None:
        return found
    prepared = map(preparation(kind.lowercase, kind.accents), documents)
    return _without_values(list(map(tokenizer(kind), prepared)))


def _all_at_once(documents: Sequence[str], texts: Texts, extractor: Extractor) -> Features | None:
    """Return None where that cannot be: of some patterns, and of halves of surrogate pairs."""
    try:
        if isinstance(extractor.columns, Terms):
            placed = find_places(documents, texts, extractor.columns)
            if placed is not None:
                return Features(*placed)
        grams = find_grams(documents, texts)
    except UnicodeEncodeError:
        return None
    return None if grams is None else Features(*grams)


@read_features.register
def _(kind: Tokens, rows: Sequence[Any], extractor: Extractor, where: str) -> Features:  # noqa: ARG001
    kinds = set(map(type, rows))
    odd = {k for k in kinds if issubclass(k, str | bytes) or not issubclass(k, Iterable)}
    if odd:
        first = next(row for row in rows if type(row) in odd)
        raise InputError(
            f"{where} holds {_shown(first)}. Samples can not be a single string. The input must "
            "be an iterable over iterables of strings."
        )
    has_sizes = kinds <= {list, tuple, set, frozenset}
    return _without_values(rows if has_sizes else list(map(list, rows)))


def _without_values(tokens: Sequence[Collection[Any]]) -> Features:
    return Features(_rows_of(_sizes(tokens)), list(chain.from_iterable(tokens)))


def _sizes(rows: Sequence[Collection[Any]]) -> npt.NDArray[np.int64]:
    return np.fromiter(map(len, rows), np.int64, len(rows))


def _steps(ends: Sequence[int]) -> npt.NDArray[np.int64]:
    """Return how many features each row has, of which it is told where the rows begin and end."""
    found = np.fromiter(ends, np.int64, len(ends))
    return found[1:] - found[:-1]


def _rows_of(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the row of each feature, given how many each row has."""
    return np.repeat(np.arange(len(counts)), counts)


@read_features.register
def _(kind: Mappings, rows: Sequence[Any], extractor: Extractor, where: str) -> Features:
    ends, names, values = [0], list[Any](), list[Any]()
    for items in _items(rows, where):
        for name, value in items:
            if type(value) is str:
                names.append(f"{name!s}{kind.separator}{value}")
                values.append(1)
            elif type(value) in _PLAIN or value is None or isinstance(value, Number):
                names.append(name)
                values.append(value)
            else:
                texts = _texts(value, name, where)
                names += [f"{name!s}{kind.separator}{text!s}" for text in texts]
                values += [1] * len(texts)
        ends.append(len(names))
    return Features(_rows_of(_steps(ends)), names, _numbers(values, extractor.dtype, where))


@read_features.register
def _(kind: TypedMappings, rows: Sequence[Any], extractor: Extractor, where: str) -> Features:
    maps = list(map(dict[Any, Any], _items(rows, where)))
    names = list(chain.from_iterable(maps))
    values = list(chain.from_iterable(each.values() for each in maps))
    _require_names(names, kind, where)
    numbers = int if extractor.dtype == "int64" else int | float
    odd = [v for v in values if not isinstance(v, numbers | np.number | np.bool_)]
    if odd:
        raise InputError(f"{where}: the model reads {extractor.dtype}, and got {_shown(odd[0])}.")
    return Features(_rows_of(_sizes(maps)), names, _numbers(values, extractor.dtype, where))


def _require_names(names: Sequence[Any], kind: TypedMappings, where: str) -> None:
    wanted = str if kind.names == "text" else int | np.integer
    odd = [name for name in names if not isinstance(name, wanted)]
    if kind.names == "position" and not odd:
        odd = [name for name in names if name < 0]
    if odd:
        reason = (
            f"{where}: the model reads mappings of a {kind.names} to a number, and got the name"
        )
        raise InputError(f"{reason} {_shown(odd[0])}.")


@read_features.register
def _(kind: Pairs, rows: Sequence[Any], extractor: Extractor, where: str) -> Features:  # noqa: ARG001
    ends, names, values = [0], list[Any](), list[Any]()
    for items in _items(rows, where) if kind.mappings else (_pairs(row, where) for row in rows):
        for name, value in items:
            if type(value) is str:
                names.append(f"{name!s}={value}")
                values.append(1)
            elif type(value) in _PLAIN or _is_number(value, name, where):
                if value:
                    names.append(name)
                    values.append(value)
            else:
                names.append(f"{name!s}={value!s}")
                values.append(1)
        ends.append(len(names))
    return Features(_rows_of(_steps(ends)), names, _numbers(values, "float64", where))


_PLAIN = frozenset({bool, int, float})
"""The usual numbers: a set tells them in a tenth of the time that an abstract class takes."""


def _is_number(value: Any, name: Any, where: str) -> bool:
    """Whether an unusual value is a number, not a text; anything else is refused."""
    if isinstance(value, Number | np.bool_):
        return True
    if isinstance(value, str):
        return False
    raise InputError(
        f"{where}: unsupported value {_shown(value)} for {name}. Only numbers and texts are "
        "supported."
    )


def _items(rows: Sequence[Any], where: str) -> Iterable[Iterable[tuple[Any, Any]]]:
    """Return the items of each mapping; those of plain dicts take no call of Python for each."""
    if list(map(type, rows)).count(dict) == len(rows):
        return map(dict.items, rows)
    return (_items_of(row, where) for row in rows)


def _items_of(row: Any, where: str) -> Iterable[tuple[Any, Any]]:
    if not hasattr(row, "items"):
        raise InputError(f"{where}: the model needs a mapping, and got {_shown(row)}.")
    items: Iterable[tuple[Any, Any]] = row.items()
    return items


def _pairs(row: Any, where: str) -> list[tuple[Any, Any]]:
    try:
        return [(name, value) for name, value in row]
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{where}: the model needs pairs of a name and a value, and got {_shown(row)}."
        ) from error


def _texts(value: Any, name: Any, where: str) -> list[str]:
    if isinstance(value, str):
        return [value]
    if not isinstance(value, Iterable) or isinstance(value, Mapping):
        raise InputError(f"{where}: unsupported value {_shown(value)} for {name}.")
    texts = list(value)
    odd = [text for text in texts if not isinstance(text, str)]
    if odd:
        raise InputError(
            f"{where}: unsupported {_shown(odd[0])} in iterable value for {name}. Only iterables "
            "of string are supported."
        )
    return texts


def _numbers(values: list[Any], dtype: str, where: str) -> npt.NDArray[Any]:
    try:
        with np.errstate(over="ignore"):
            return np.array(values, dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{where} holds a value that is no {dtype}: {error}") from error


def _shown(value: object) -> str:
    return f"{shown(value)} of type {type(value).__name__}"
