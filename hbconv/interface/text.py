"""Text in files for other runtimes: vocabularies without missing values, and class labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.containers import Hashed, Vocabulary
from hbconv.containers.dates import DateCodes
from hbconv.errors import BackendError

__all__ = ["labels", "require_one_meaning", "text_codes"]


def text_codes(
    vocabulary: Vocabulary | Hashed | DateCodes,
    column: str,
    missing: Mapping[str, str] | None = None,
) -> dict[str, int]:
    """Return texts and their codes, for runtimes that have no missing text.

    The empty text stands for a missing value, if the model has one code for all of them. A category
    of the same text takes precedence.

    Parameters
    ----------
    vocabulary : Vocabulary, Hashed or DateCodes
    column : str
        Its name, for messages.
    missing : mapping of str to {"none", "nan"}, optional
        More texts that stand for None or for NaN.

    Raises
    ------
    BackendError
        The column holds dates, the model kept hashes alone, has categories that are not text, or
        knows missing values for which no text is left.

    Examples
    --------
    >>> text_codes(Vocabulary(("a", "b"), nan=2), "city")
    {'a': 0, 'b': 1, '': 2}
    >>> text_codes(Vocabulary(("a", "b")), "city")
    {'a': 0, 'b': 1}
    """
    if isinstance(vocabulary, DateCodes):
        raise BackendError(
            f"Column {column!r} holds dates, which a file for another runtime does not read. Use "
            "Model, or fit on numbers made of the dates."
        )
    if isinstance(vocabulary, Hashed):
        raise BackendError(
            f"Column {column!r} holds categories of which the model kept hashes alone, "
            "and a file for another runtime has no operator that hashes text. Use Model."
        )
    if not vocabulary.is_text:
        raise BackendError(
            f"Column {column!r} holds objects of several types, which a file for another runtime "
            "cannot compare. Use Model, or make them all text before fitting."
        )
    if vocabulary.blank != -1:
        raise BackendError(
            f"The model takes each text of whitespace alone in column {column!r} for missing, and "
            "a file for another runtime holds a list of texts. Use Model, or fit on a column "
            "without missing values."
        )
    keys = {value: int(code) for value, code in zip(*vocabulary.texts, strict=True)}
    known = {vocabulary.none, vocabulary.nan} - {-1}
    for text, field in (missing or {}).items():
        if getattr(vocabulary, field) != -1:
            keys.setdefault(text, getattr(vocabulary, field))
    if len(known) == 1:
        keys.setdefault("", *known)
    if known - set(keys.values()):
        raise BackendError(
            f"Text column {column!r} has missing values, and categories named as every text that "
            "could stand for them in a file. Rename those, or use Model."
        )
    return keys


def require_one_meaning(
    vocabularies: Iterable[Vocabulary | Hashed | DateCodes], column: str
) -> None:
    """Refuse vocabularies of one column that disagree on the empty text.

    To one of them it is a category, and to another it would stand for a missing value.

    Raises
    ------
    BackendError
    """
    known = [v for v in vocabularies if isinstance(v, Vocabulary)]
    as_category = [v for v in known if "" in v.values]
    as_missing = [v for v in known if "" not in v.values and {v.none, v.nan} != {-1}]
    if as_category and as_missing:
        raise BackendError(
            f"The empty text of column {column!r} is a category to one encoder, and would stand "
            "for missing values of another. Use Model, or rename the category."
        )


def labels(classes: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return class labels in a dtype that files hold: text, int32, int64, float or bool."""
    if classes.dtype.kind == "O":
        kinds = {type(label) for label in classes.tolist()}
        if len(kinds) != 1 or not kinds <= {str, int, float, bool}:
            raise BackendError(
                "A file for another runtime cannot hold the class labels "
                f"{classes.tolist()[:5]}: they must all be text, or all numbers."
            )
        classes = np.array(classes.tolist())
    if classes.dtype.kind in "iu" and classes.dtype != np.int32:
        return classes.astype(np.int64)
    if classes.dtype.kind == "U" or classes.dtype.name in ("int32", "float32", "float64", "bool"):
        return classes
    raise BackendError(
        f"A file for another runtime cannot hold class labels of dtype {classes.dtype}. "
        "Encode them before fitting (LabelEncoder)."
    )
