"""Transformers of frames: TableVectorizer, Cleaner, ApplyToCols, SelectCols and DropCols.

Transformers of single columns: what each makes of a column of a frame.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from hbconv.containers import Beside, Cast, CleanText, Node, NoTexts, Output, Schema
from hbconv.parse.registry import parses
from hbconv.parse.schema import named_or_matrix, positions_by_name, transform_frame
from hbconv.parse.skrub.dates import encode_dates, read_as_dates
from hbconv.parse.step import Step, select

__all__: list[str] = []

Frame = dict[str, Node]
"""Columns by name, in order."""


def _pandas(_: Any) -> str:
    return "pandas"


def _fitted_columns(transformer: Any) -> Schema:
    return named_or_matrix(list(transformer.feature_names_in_))


def _of_pipeline(cleaner: Any) -> Schema:
    return _fitted_columns(cleaner._pipeline.steps[0][1])


@parses("skrub.TableVectorizer", features=_fitted_columns, frames=_pandas)
def parse_table_vectorizer(step: Step) -> dict[str, Output]:
    """Follow each column through the fitted steps; all that are encoded end in float32."""
    return _through_pipeline(step)


@parses("skrub.Cleaner", features=_of_pipeline, frames=_pandas)
def parse_cleaner(step: Step) -> dict[str, Output]:
    """Follow each column through the fitted steps; texts stay texts for the steps behind."""
    return _through_pipeline(step)


@parses("skrub.ApplyToCols", features=_fitted_columns, frames=_pandas)
def parse_apply_to_cols(step: Step) -> dict[str, Output]:
    """Apply a transformer to each of some columns, or to these together."""
    step.refuse_sparse("reads columns by name")
    frame = _by_position(step, step.estimator.feature_names_in_)
    return _as_output(step, _applied(step, step.estimator._wrapped_transformer, frame))


@parses("skrub.SelectCols", features=lambda est: Schema.table(list(est.columns_)), frames=_pandas)
def parse_select_cols(step: Step) -> dict[str, Output]:
    """Keep some columns, found by name."""
    return _as_output(step, _by_name(step, step.estimator.columns_))


@parses("skrub.DropCols", features=lambda est: Schema.table(list(est.kept_cols_)), frames=_pandas)
def parse_drop_cols(step: Step) -> dict[str, Output]:
    """Keep the other columns, found by name."""
    return _as_output(step, _by_name(step, step.estimator.kept_cols_))


def _through_pipeline(step: Step) -> dict[str, Output]:
    """Apply the steps behind the one that checks the frame."""
    step.refuse_sparse("reads columns by name")
    checked, *others = (inner for _, inner in step.estimator._pipeline.steps)
    if checked.module_name_ != "pandas":
        hint = "hbconv reads those fitted on pandas: fit on rows.to_pandas()."
        raise step.refuse("frames", checked.module_name_, hint)
    frame = _by_position(step, checked.feature_names_out_)
    for inner in others:
        frame = _applied(step, inner, frame)
    return _as_output(step, frame)


def _by_position(step: Step, names: Sequence[str]) -> Frame:
    return {name: select(step.x, [place]) for place, name in enumerate(names)}


def _by_name(step: Step, names: Sequence[str]) -> Frame:
    places = positions_by_name(step, "cols", names)
    return {name: select(step.x, [place]) for name, place in zip(names, places, strict=True)}


def _applied(step: Step, inner: Any, frame: Frame) -> Frame:
    """Return the columns that a step of skrub makes of a frame."""
    if type(inner).__name__ == "ApplyToSubFrame":
        return _applied_together(step, inner, frame)
    made: Frame = {}
    for name, x in frame.items():
        transformer = inner.transformers_.get(name)
        if transformer is None or inner.keep_original:
            made[name] = x
        if transformer is not None:
            parts = column_parts(step, transformer, x, name)
            made |= zip(inner.input_to_outputs_[name], parts, strict=True)
    return made


def _applied_together(step: Step, inner: Any, frame: Frame) -> Frame:
    """Put what a transformer makes of some columns behind the others."""
    kept = {
        name: x for name, x in frame.items() if inner.keep_original or name not in inner._columns
    }
    if inner.transformer_ is None:
        return kept
    together = Beside(tuple(frame[name] for name in inner._columns))
    output = step.transform_output(inner.transformer_, together, "transformer")
    return kept | dict(
        zip(inner._transformed_output_names, output_parts(step, output), strict=True)
    )


def _as_output(step: Step, frame: Frame) -> dict[str, Output]:
    """Return columns side by side, each of its own dtype."""
    if not frame:
        raise step.refuse(None, None, "It leaves no column.")
    return transform_frame(list(frame.values()))


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
