"""Transformers of single columns: what each makes of a column of a frame."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hbconv.containers import Cast, CleanText, Node, NoTexts, Output
from hbconv.parse.skrub.dates import encode_dates, read_as_dates
from hbconv.parse.step import Step, select

__all__ = ["column_parts", "output_parts"]

_REFUSED = {
    "DurationToFloat": "Give seconds as numbers: rows['lasts'].dt.total_seconds().",
    "GapEncoder": "Use StringEncoder, or leave the column out with high_cardinality='drop'.",
    "MinHashEncoder": "Use StringEncoder, or leave the column out with high_cardinality='drop'.",
    "SimilarityEncoder": "Use StringEncoder, or OneHotEncoder of scikit-learn.",
    "LLMEncoder": "Use StringEncoder, or leave the column out with high_cardinality='drop'.",
    "TextEncoder": "Use StringEncoder, or leave the column out with high_cardinality='drop'.",
    "CatEncoder": "Use OneHotEncoder or TargetEncoder of scikit-learn.",
}
"""Transformers that are not read, and the way out."""


def column_parts(step: Step, transformer: Any, x: Node, name: str) -> list[Node]:
    """Return the columns that a fitted transformer makes of one column.

    Raises
    ------
    UnsupportedError
        hbconv does not read the transformer, or it parses texts.
    """
    kind = type(transformer).__name__
    own = type(transformer).__module__.partition(".")[0] == "skrub"
    if own and kind in _REFUSED:
        raise step.refuse(f"{kind} of column", name, _REFUSED[kind])
    if own and kind in _MADE:
        return _MADE[kind](replace(step, x=x), transformer, name)
    return output_parts(step, step.transform_output(transformer, x, name))


def output_parts(step: Step, output: Output) -> list[Node]:
    """Return each column of an output."""
    if output.returns_sparse is not False:
        raise step.refuse(
            None, None, "A transformer makes a sparse matrix, and skrub takes frames."
        )
    return [
        select(node if dtype is None else Cast(node, dtype), [place])
        for node, dtype in output.blocks
        for place in range(node.type.width)
    ]


def _same(step: Step, transformer: Any, name: str) -> list[Node]:  # noqa: ARG001
    return [step.x]


def _none(step: Step, transformer: Any, name: str) -> list[Node]:  # noqa: ARG001
    return []


def _unless_uninformative(step: Step, transformer: Any, name: str) -> list[Node]:  # noqa: ARG001
    return [] if transformer.drop_ else [step.x]


def _cleaned(step: Step, transformer: Any, name: str) -> list[Node]:  # noqa: ARG001
    """Count listed texts, and those of whitespace alone, as missing."""
    return [CleanText(step.x, tuple(transformer.null_strings_), blank=True)]


def _categories(step: Step, transformer: Any, name: str) -> list[Node]:  # noqa: ARG001
    return [CleanText(step.x)]


def _texts(step: Step, transformer: Any, name: str) -> list[Node]:  # noqa: ARG001
    if not isinstance(step.x, CleanText):
        hint = "Its column held no texts in fitting. Make texts of it before."
        raise step.refuse("ToStr of column", name, hint)
    return [step.x]


def _floats(step: Step, transformer: Any, name: str) -> list[Node]:
    """Round to float32.

    pandas reads "1_0" as missing, where Python reads 10: texts are refused.
    """
    if isinstance(step.x, CleanText):
        hint = (
            f"It parses numbers from texts. Convert before fitting: rows[{name!r}].astype(float)."
        )
        raise step.refuse("ToFloat of column", name, hint)
    if transformer._needs_str_replace:
        raise step.refuse("decimal", transformer.decimal, "Convert the texts before.")
    return [Cast(NoTexts(step.x), "float32")]


def _dates(step: Step, transformer: Any, name: str) -> list[Node]:  # noqa: ARG001
    return [read_as_dates(replace(step, estimator=transformer))]


def _encoded_dates(step: Step, transformer: Any, name: str) -> list[Node]:  # noqa: ARG001
    return encode_dates(replace(step, estimator=transformer))


_MADE: dict[str, Callable[[Step, Any, str], list[Node]]] = {
    "CleanCategories": _categories,
    "CleanNullStrings": _cleaned,
    "DatetimeEncoder": _encoded_dates,
    "Drop": _none,
    "DropUninformative": _unless_uninformative,
    "PassThrough": _same,
    "ToCategorical": _same,
    "ToDatetime": _dates,
    "ToFloat": _floats,
    "ToStr": _texts,
}
"""Small transformers of skrub, by name."""
