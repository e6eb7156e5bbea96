"""Transformers of skrub, which read and return frames.

Each column of a frame is followed through the fitted steps of its own. Dates become numbers of a
calendar, and the offsets of their time zone a table, as pandas knows it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    Affine,
    Beside,
    CalendarField,
    Cast,
    CastLike,
    Choose,
    CleanText,
    Codes,
    Columns,
    Compare,
    Concat,
    ConstantRows,
    DateColumn,
    FillObjects,
    FrameFormat,
    Impute,
    Instants,
    IsMissing,
    LocalTime,
    Map,
    Multiply,
    Node,
    NoTexts,
    Output,
    Quotient,
    Relation,
    Schema,
    Select,
)
from hbconv.containers.vocabulary import PARTS, DateCodes, DateReading
from hbconv.parse.common.linear_scores import promote
from hbconv.parse.common.text_columns import MISSING, NA, item_column
from hbconv.parse.registry import parses
from hbconv.parse.schema import named_or_matrix, positions_by_name, transform_frame
from hbconv.parse.step import Step, concat, select

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
    return _as_output(step, _apply(step, step.estimator._wrapped_transformer, frame))


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
    # polars frames have other nulls and dtypes, which the fitted steps learned.
    if checked.module_name_ != "pandas":
        hint = "hbconv reads those fitted on pandas: fit on rows.to_pandas()."
        raise step.refuse("frames", checked.module_name_, hint)
    frame = _by_position(step, checked.feature_names_out_)
    for inner in others:
        frame = _apply(step, inner, frame)
    return _as_output(step, frame)


def _by_position(step: Step, names: Sequence[str]) -> Frame:
    return {name: select(step.x, [place]) for place, name in enumerate(names)}


def _by_name(step: Step, names: Sequence[str]) -> Frame:
    places = positions_by_name(step, "cols", names)
    return {name: select(step.x, [place]) for name, place in zip(names, places, strict=True)}


def _apply(step: Step, inner: Any, frame: Frame) -> Frame:
    """Return the columns that a step of skrub makes of a frame."""
    if type(inner).__name__ == "ApplyToSubFrame":
        return _apply_together(step, inner, frame)
    columns: Frame = {}
    for name, x in frame.items():
        transformer = inner.transformers_.get(name)
        if transformer is None or inner.keep_original:
            columns[name] = x
        if transformer is not None:
            parts = column_parts(step, transformer, x, name)
            columns |= zip(inner.input_to_outputs_[name], parts, strict=True)
    return columns


def _apply_together(step: Step, inner: Any, frame: Frame) -> Frame:
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
    is_skrubs = type(transformer).__module__.partition(".")[0] == "skrub"
    if is_skrubs and kind in _REFUSED:
        raise step.refuse(f"{kind} of column", name, _REFUSED[kind])
    if is_skrubs and kind in _MADE:
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


def _clean_texts(step: Step, transformer: Any, name: str) -> list[Node]:  # noqa: ARG001
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


def _encode_dates(step: Step, transformer: Any, name: str) -> list[Node]:  # noqa: ARG001
    return encode_dates(replace(step, estimator=transformer))


_MADE: dict[str, Callable[[Step, Any, str], list[Node]]] = {
    "CleanCategories": _categories,
    "CleanNullStrings": _clean_texts,
    "DatetimeEncoder": _encode_dates,
    "Drop": _none,
    "DropUninformative": _unless_uninformative,
    "PassThrough": _same,
    "ToCategorical": _same,
    "ToDatetime": _dates,
    "ToFloat": _floats,
    "ToStr": _texts,
}
"""Small transformers of skrub, by name."""


_IN_UTC = (Array(np.empty((1, 0))), Array(np.zeros(1)))
"""Offsets of UTC, and of dates without a time zone."""


def _one_column(_: Any) -> Schema:
    return Schema.sequence("string")


def _frame(encoder: Any) -> FrameFormat:
    return FrameFormat("pandas", tuple(encoder.get_feature_names_out()))


@parses("skrub.ToDatetime", features=_one_column)
def parse_to_datetime(step: Step) -> dict[str, Output]:
    """Read one column as dates, for a step behind."""
    return {"transform": Output(read_as_dates(step))}


@parses("skrub.DatetimeEncoder", features=_one_column, frames=_frame)
def parse_datetime_encoder(step: Step) -> dict[str, Output]:
    """Make a column of each field: those without a period in float32, then the others."""
    return transform_frame(encode_dates(step))


def read_as_dates(step: Step) -> Node:
    """Read a column of the input as dates of the fitted unit and time zone."""
    est = step.estimator
    nulls: tuple[str, ...] = ()
    x = step.x
    if isinstance(x, CleanText):
        nulls = x.nulls
        x = x.x
    if not isinstance(x, Columns):
        raise step.refuse(None, None, "It must read a column of the input as it comes.")
    dtype = est.output_dtype_
    zone = getattr(dtype, "tz", None)
    if getattr(dtype, "kind", "") != "M" or (zone is None) != (est.output_time_zone_ is None):
        hint = "Fit on columns of datetime64 of pandas."
        raise step.refuse("output_dtype_", str(dtype), hint)
    unit = dtype.unit if zone is not None else np.datetime_data(dtype)[0]
    if zone is None:
        return DateColumn(
            x, DateReading(unit, parses=True, format=est.format_, nulls=nulls), *_IN_UTC
        )
    offsets = read_offsets(zone)
    reading = DateReading(unit, parses=True, format=est.format_, nulls=nulls, within=offsets.within)
    return DateColumn(x, reading, Array(offsets.starts), Array(offsets.offsets))


def encode_dates(step: Step) -> list[Node]:
    """Return the columns that a DatetimeEncoder makes of one column of dates."""
    est = step.estimator
    periodic = est._periodic_encoders
    instants, local = _instants_and_local(step)
    plain = [name for name in est.extracted_features_ if name not in periodic]
    columns: list[Node] = [
        Cast(CalendarField(instants if name == "total_seconds" else local, name), "float32")
        for name in plain
    ]
    for name, encoder in periodic.items():
        columns += _PERIODIC[type(encoder).__name__](step, encoder, CalendarField(local, name))
    if not columns:
        raise step.refuse("resolution", est.resolution, "It makes no column: drop it before.")
    return columns


def _instants_and_local(step: Step) -> tuple[Node, Node]:
    """Return the instants of a column, and what clocks of its time zone show."""
    x = step.x
    dates = x if isinstance(x, DateColumn) else DateColumn(x, DateReading(), *_IN_UTC)
    column = dates.x
    if not isinstance(column, Columns):
        hint = "It must read a column of dates of the input, or a ToDatetime of one."
        raise step.refuse(None, None, hint)
    codes = (
        Codes(column.schema, column.columns[0], DateCodes(dates.reading, part)) for part in PARTS
    )
    instants = Instants(Concat(tuple(codes)))
    if not dates.starts.data.size and not dates.offsets.data.any():
        return instants, instants
    return instants, LocalTime(instants, dates.starts, dates.offsets)


def _circle(step: Step, encoder: Any, x: Node) -> list[Node]:  # noqa: ARG001
    """Return sine and cosine, with the source's order of operations."""
    share = Affine.of(x, div=float(encoder.period))
    # The source multiplies by 2, then by pi: one product with 2 pi would round otherwise.
    angle = Affine.of(Affine.of(share, mul=2.0), mul=np.pi)
    return [Map(angle, "sin"), Map(angle, "cos")]


def _splines(step: Step, encoder: Any, x: Node) -> list[Node]:
    """Evaluate splines of 0 where a date is missing, and leave these out then."""
    splines = step.transform(encoder.transformer_, Impute(x, Array(np.zeros(1))), "splines")
    nothing = ConstantRows(splines, Array(np.full(splines.type.width, np.nan)))
    parts = Choose(IsMissing(x), nothing, splines)
    return [select(parts, [i]) for i in range(splines.type.width)]


_PERIODIC = {"_CircularEncoder": _circle, "_SplineEncoder": _splines}


FIRST = -4_417_977_600
"""The second at which 1830 begins, before the first time zone."""
LAST = 16_725_225_600
"""The second at which 2500 begins: a cycle of 400 years behind the last table."""
STEP = 3 * 86_400
"""Seconds between two looks: no offset of any zone lasts less, but for those before 1830."""
FIRST_DAY = -62_135_596_800
"""The second at which year 1 begins, the first that Python's clocks know."""
LAST_SECOND = 253_402_300_799
"""The last second of 9999."""

Seconds = npt.NDArray[np.int64]


class Offsets(NamedTuple):
    """Offsets of a time zone.

    Parameters
    ----------
    starts : ndarray of shape (1, m)
        Seconds since 1970 at which an offset begins.
    offsets : ndarray of shape (m + 1,)
        In seconds.
    within : tuple of int, or None
        First and last second that pandas takes; None where it takes all.
    """

    starts: npt.NDArray[np.float64]
    offsets: npt.NDArray[np.float64]
    within: tuple[int, int] | None


@lru_cache(32)
def read_offsets(zone: Any) -> Offsets:
    """Ask pandas for the offsets of a time zone, from 1830 to 2500.

    It looks at each third day, and divides the time in which the offset changes.
    """
    # About 81,600 instants, which one call of pandas converts.
    days = np.arange(FIRST, LAST, STEP)
    at_days = _offsets_at(zone, days)
    changes = np.flatnonzero(at_days[1:] != at_days[:-1])
    before = days[changes]
    after = days[changes + 1]
    # All changes are halved together: 18 rounds for three days of seconds.
    while (after - before > 1).any():
        middle = (before + after) // 2
        same = _offsets_at(zone, middle) == at_days[changes]
        before = np.where(same, middle, before)
        after = np.where(same, after, middle)
    offsets = at_days[np.append(changes, len(at_days) - 1)]
    starts = after[None].astype(np.float64)
    return Offsets(starts, offsets.astype(np.float64), _within(zone, offsets))


def _within(zone: Any, offsets: Seconds) -> tuple[int, int] | None:
    """Return the seconds of which both the clock in UTC and the local one show years 1 to 9999."""
    import pandas as pd

    # 27 days beyond year 9999: zones of Python's datetime cannot show them, and pandas' own can.
    far = pd.DatetimeIndex(np.array([LAST_SECOND + STEP * 9], "datetime64[s]"), tz="UTC")
    try:
        far.tz_convert(zone).tz_localize(None)
    except (NotImplementedError, OverflowError, ValueError):
        first = FIRST_DAY - min(int(offsets[0]), 0)
        return first, LAST_SECOND - max(int(offsets[-1]), 0)
    return None


def _offsets_at(zone: Any, seconds: Seconds) -> Seconds:
    """Return the offset at each second."""
    import pandas as pd

    instants = pd.DatetimeIndex(seconds.astype("datetime64[s]"), tz="UTC")
    local = instants.tz_convert(zone).tz_localize(None)
    return np.asarray(local).view(np.int64) - seconds


@parses("skrub.SquashingScaler")
def parse_squashing_scaler(step: Step) -> Node:
    """Scale, then divide by ``sqrt(1 + (x / limit) ** 2)``; infinite values become the limit."""
    limit = float(step.estimator.max_absolute_value)
    step.refuse_sparse()
    x = Cast(step.x, "float")
    above = Compare.of(x, "eq", np.inf)
    below = Compare.of(x, "eq", -np.inf)
    finite = Choose(Relation(above, below, "or"), _constant(x, np.nan), x)
    scaled = _scale_columns(step, finite)
    share = Affine.of(scaled, div=limit)
    root = Map(Affine.of(Multiply((share, share)), add=1.0), "sqrt")
    clipped = Choose(above, _constant(x, limit), Quotient((scaled, root)))
    return Choose(below, _constant(x, -limit), clipped)


def _constant(x: Node, value: float) -> Node:
    """Return the same number in each column of x, in its dtype."""
    return CastLike(ConstantRows(x, Array(np.full(x.type.width, value))), x)


def _scale_columns(step: Step, x: Node) -> Node:
    """Scale columns by quantiles, by their range where these are equal, and constants to 0."""
    est = step.estimator
    parts: list[Node] = []
    if est.robust_cols_.any():
        chosen = _select_columns(x, est.robust_cols_)
        parts.append(CastLike(step.transform(est.robust_scaler_, chosen, "robust_scaler_"), chosen))
    if est.minmax_cols_.any():
        chosen = _select_columns(x, est.minmax_cols_)
        scaler = est.minmax_scaler_
        wide = promote(chosen, scaler.median_)
        parts.append(CastLike(Affine.of(wide, sub=scaler.median_, mul=scaler.scale_), chosen))
    if est.zero_cols_.any():
        chosen = _select_columns(x, est.zero_cols_)
        parts.append(Choose(IsMissing(chosen), chosen, _constant(chosen, 0.0)))
    kinds = (est.robust_cols_, est.minmax_cols_, est.zero_cols_)
    order = np.argsort(np.concatenate([np.flatnonzero(chosen) for chosen in kinds]))
    return Select(concat(parts), Array(order.astype(np.int32)))


def _select_columns(x: Node, chosen: np.ndarray) -> Node:
    return Select(x, Array(np.flatnonzero(chosen).astype(np.int32)))


_MISSING = (None, float("nan"), NA, MISSING)


@parses("skrub.StringEncoder", features=item_column, frames=lambda _: "pandas")
def parse_string_encoder(step: Step) -> Node:
    """Weigh n-grams in float64, project them in float32, and divide by one scale.

    A missing text is an empty one.
    Where there are few n-grams, the first of them are kept instead of components.
    """
    est = step.estimator
    # The vectorizer counts no n-gram of an empty text.
    texts = FillObjects(step.x, ("",), _MISSING)
    weighed = Cast(step.transform(est.vectorizer_, texts, "vectorizer_"), "float32")
    if hasattr(est, "tsvd_"):
        components = step.transform(est.tsvd_, weighed, "tsvd_")
    else:
        components = Select(weighed, Array(np.arange(est.n_components_, dtype=np.int32)))
    return Affine.of(components, div=est.scaling_factor_)
