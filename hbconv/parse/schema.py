"""The columns of an estimator: those that it reads, and those that ``transform`` returns.

Columns are found by name or by position, as its parser or scikit-learn's attributes declare.
What ``score`` computes is read here too, and which columns contributions and interactions are of:
those that the trees' estimator reads, which the steps before it name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hbconv.containers import (
    Beside,
    Blocks,
    Columns,
    Conventions,
    FrameFormat,
    NamesOut,
    Node,
    Output,
    Schema,
)
from hbconv.containers.schema import place
from hbconv.errors import ConversionError
from hbconv.parse.registry import find_parser, is_other
from hbconv.parse.step import Step, require_fitted

__all__ = [
    "as_validated",
    "common_schema",
    "in_order",
    "named_or_matrix",
    "picked_by_name",
    "positions_by_name",
    "read_explained",
    "read_frame_format",
    "read_metric",
    "read_names_out",
    "read_schema",
    "transform_frame",
]


def read_schema(
    estimator: object, n_features: int | None = None, names_given: Sequence[str] = ()
) -> Schema:
    """Read the input columns that an estimator was fitted on.

    ``n_features`` is their number, for an estimator that does not know it, and ``names_given``
    their names, for one that begins with a class without a parser.
    """
    entry = find_parser(estimator)
    require_fitted(estimator, type(estimator).__name__)
    columns = entry.features(estimator) if entry.features is not None else None
    if isinstance(columns, Schema):
        return columns
    if isinstance(columns, int):
        return Schema.matrix(columns)
    if columns is not None:
        return _as_sklearn(columns)
    names: Sequence[Any] | None = getattr(estimator, "feature_names_in_", None)
    if names is not None:
        return _as_sklearn(names)
    if names_given and is_other(_first_step(estimator)):
        return _as_sklearn(names_given)
    width = getattr(estimator, "n_features_in_", n_features)
    if width is None:
        raise ConversionError(
            f"{type(estimator).__name__} does not know how many columns it reads. Pass "
            "sample=X[:5] to convert."
        )
    return Schema.matrix(int(width))


def _first_step(estimator: Any) -> Any:
    """Return what reads the rows first, in a pipeline of pipelines too."""
    while getattr(estimator, "steps", None):
        estimator = estimator.steps[0][1]
    return estimator


def common_schema(estimators: Iterable[object]) -> Schema:
    """Return the columns of estimators that read the same rows.

    Names come from a scikit-learn estimator where there is one.
    A table is refused where one of them refuses it, and taken where all take it.
    Where some find columns by name and others by position, the fitted order is required.
    """
    schemas = [read_schema(estimator) for estimator in estimators]
    first = next((schema for schema in schemas if schema.conventions == Conventions()), schemas[0])
    if all(schema == first for schema in schemas):
        return first
    each = [schema.conventions for schema in schemas]
    shared = Conventions(
        tables_only=any(c.tables_only for c in each),
        no_categories=any(c.no_categories for c in each),
    )
    alike = len({schema.finds for schema in schemas}) == 1
    return (
        replace(first, conventions=shared)
        if alike
        else in_order(replace(first, conventions=shared))
    )


def picked_by_name(estimator: object) -> Schema | None:
    """Return the columns of an estimator that picks them from a table by name.

    It ignores other columns. None where it was fitted without names.
    """
    names = getattr(estimator, "feature_names_in_", None)
    return None if names is None else Schema.table([str(name) for name in names])


def named_or_matrix(names: Sequence[object]) -> Schema:
    """Return the columns of a frame by their names, of an array by their number.

    Libraries that make frames of arrays number their columns.
    """
    if all(isinstance(name, str) for name in names):
        return _as_sklearn(names)
    return Schema.matrix(len(names))


def in_order(schema: Schema) -> Schema:
    """Return the same columns, found by position once their names are the fitted ones."""
    return replace(schema, finds="names in order")


def as_validated(estimator: object, schema: Schema | None) -> Schema | None:
    """Return the columns of an estimator that checks names and gives its members plain arrays."""
    names = getattr(estimator, "feature_names_in_", None)
    return (
        schema
        if names is None or schema is None
        else replace(_as_sklearn(names), conventions=schema.conventions)
    )


def _as_sklearn(names: Iterable[object]) -> Schema:
    """Return the columns of an estimator that requires the fitted names in their order."""
    return Schema.table([str(name) for name in names], finds="names in order")


def read_names_out(estimator: Any, width: int) -> NamesOut | None:
    """Read the output names, and how they follow from the names of the input columns.

    None where the source model itself cannot name them.
    """
    default = read_step_names(estimator)
    if default is None:
        return None
    # Placeholders for the input names show where each of them returns.
    pattern = read_step_names(estimator, [place(i) for i in range(width)])
    # An estimator that checks names refuses one too many.
    checked = read_step_names(estimator, [place(i) for i in range(width + 1)]) is None
    return NamesOut(default, pattern if pattern is not None and pattern != default else (), checked)


def read_frame_format(estimator: Any) -> FrameFormat | None:
    """Read which data frame ``transform`` returns; None where it is always an array."""
    last = _output_estimator(estimator)
    read_library = None if last is None else find_parser(last).frames
    library = read_library(last) if read_library else ""
    if isinstance(library, FrameFormat):
        return library if library.names is not None or last is estimator else None
    names = (
        read_step_names(last)
        if "transform" in getattr(last, "_sklearn_auto_wrap_output_keys", ())
        else None
    )
    if names is None:
        return None
    chosen = getattr(last, "_sklearn_output_config", {}).get("transform", "")
    if library and chosen in ("", "default"):
        return FrameFormat(library, names)
    return FrameFormat(chosen, names, renames=True)


def read_step_names(estimator: Any, columns: Sequence[str] | None = None) -> tuple[str, ...] | None:
    """Read the names of the columns that ``transform`` returns; None where it cannot name them."""
    try:
        return tuple(
            map(
                str,
                estimator.get_feature_names_out()
                if columns is None
                else estimator.get_feature_names_out(columns),
            )
        )
    except (AttributeError, IndexError, TypeError, ValueError, NotImplementedError):
        return None


def _output_estimator(estimator: Any) -> Any:
    """Return the estimator that makes the output: the last of a pipeline, the best of a search."""
    if hasattr(estimator, "best_estimator_"):
        return _output_estimator(estimator.best_estimator_)
    if not hasattr(estimator, "named_steps"):
        return estimator
    steps = [step for _, step in estimator.steps if not (step is None or isinstance(step, str))]
    return _output_estimator(steps[-1]) if steps else None


_METRICS = {
    "ClassifierMixin.score": "accuracy",
    "KNeighborsClassifier.score": "accuracy",
    "RadiusNeighborsClassifier.score": "accuracy",
    "RegressorMixin.score": "r2",
}
"""What methods of scikit-learn compute of ``predict``, for rows and true targets."""


def read_metric(estimator: Any) -> str:
    """Return the metric that ``score`` computes of ``predict``: "accuracy", "r2", or "" for others.

    A search scores by its best estimator where no scoring was named, and a pipeline by its last
    step.
    """
    if type(estimator).__name__ == "FrozenEstimator":
        return read_metric(estimator.estimator)
    method: Any = getattr(estimator, "score", None)
    # A method of the user may compute anything.
    if getattr(method, "__module__", "").partition(".")[0] != "sklearn":
        return ""
    if method.__qualname__ == "Pipeline.score":
        return read_metric(estimator.steps[-1][1])
    if method.__qualname__ == "BaseSearchCV.score":
        # Without scoring= a search passes score of its estimator through.
        names_none = type(estimator.scorer_).__name__ == "_PassthroughScorer"
        return read_metric(estimator.best_estimator_) if names_none else ""
    return _METRICS.get(method.__qualname__, "")


def positions_by_name(step: Step, parameter: str, names: Sequence[object]) -> list[int]:
    """Return the places in x of columns of the input, by name.

    Raises
    ------
    UnsupportedError
        A step before makes the columns, whose names are not known here.
    """
    step.refuse_sparse("reads columns by name")
    columns = _input_columns(step.x)
    if columns is None:
        hint = "It finds columns by name in what a step before makes: put it first."
        raise step.refuse(parameter, list(names), hint)
    return [columns.index(str(name)) for name in names]


def _input_columns(x: Node) -> list[str] | None:
    """Return the names of columns of the input that nothing has changed; None of others."""
    parts = x.xs if isinstance(x, Beside) else (x,)
    names: list[str] = []
    for part in parts:
        if not isinstance(part, Columns):
            return None
        names += [part.schema.names[column] for column in part.columns]
    return names


def transform_frame(columns: Sequence[Node]) -> dict[str, Output]:
    """Return columns as what ``transform`` returns, each of its own dtype."""
    blocks = Blocks(tuple((column, None) for column in columns))
    return {"transform": Output(Beside(tuple(columns)), blocks)}


def read_explained(
    estimator: object, outputs: Mapping[str, Output], schema: Schema
) -> tuple[str, ...]:
    """Return the names of the features that contributions are of.

    Empty where there are no contributions, or a step before the trees cannot name its columns.
    """
    contributions = outputs.get("contributions")
    if contributions is None:
        return ()
    names = _names_read(estimator, schema.names)
    if names is None or len(names) != contributions.n_explained:
        return ()
    return tuple(map(str, names))


def _names_read(estimator: Any, names: Sequence[str] | None) -> Sequence[str] | None:
    """Return the names of the columns that the trees within an estimator read.

    Parameters
    ----------
    estimator : object
        The trees themselves, or what holds them: a pipeline, a search, a selection.
    names : sequence of str, optional
        Of the columns that it reads itself; None where they have none.
    """
    if names is None:
        return None
    if hasattr(estimator, "best_estimator_"):
        return _names_read(estimator.best_estimator_, names)
    if hasattr(estimator, "named_steps"):
        before, last = estimator[:-1], estimator.steps[-1][1]
        return _names_read(last, read_step_names(before, names) if before.steps else names)
    if hasattr(estimator, "final_estimator_"):
        return _names_read(estimator.final_estimator_, read_step_names(estimator, names))
    if hasattr(estimator, "get_support"):
        return _names_read(estimator.estimator_, read_step_names(estimator, names))
    if type(estimator).__name__ == "FrozenEstimator":
        return _names_read(estimator.estimator, names)
    if hasattr(estimator, "estimator_"):
        return _names_read(estimator.estimator_, names)
    return names
