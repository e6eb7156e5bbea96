"""Parse: read a fitted estimator into a Graph.

Every fitted attribute that changes an output is read, or refused by name.
The parser of an estimator is in the file of the public module that users import it from.
A parser is registered by public dotted name and imports no machine-learning library.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from hbconv.containers import Codes, Columns, Entries, Graph, Output, Schema, Traits, topological
from hbconv.errors import OptionError, UnsupportedError
from hbconv.names import ARGUMENT_METHODS, INVERSE, METHODS
from hbconv.parse.common.members import find_source
from hbconv.parse.common.versions import estimator_type
from hbconv.parse.damage import reading_estimator
from hbconv.parse.inverses import inverse_columns, read_inverse
from hbconv.parse.registry import find_parser, parser_names, parses
from hbconv.parse.schema import (
    read_explained,
    read_frame_format,
    read_metric,
    read_names_out,
    read_schema,
)
from hbconv.parse.soundness import refuse_handmade, require_sound
from hbconv.parse.step import Conditions, Step, parse_step

__all__ = ["METHODS", "Step", "parse", "parser_names", "parses"]

NONE_KNOWN: Mapping[Any, str] = MappingProxyType({})

# Parsers register themselves when they are imported, which loads no library.
for _module in pkgutil.walk_packages(__path__, f"{__name__}."):
    importlib.import_module(_module.name)


def parse(
    estimator: object,
    n_features: int | None = None,
    iterations: tuple[int, int] | None = None,
    categories: Mapping[int, str] = NONE_KNOWN,
    kinds: Mapping[str, str] = NONE_KNOWN,
) -> Graph:
    """Read a fitted estimator into a Graph.

    Parameters
    ----------
    estimator : object
        Fitted scikit-learn, LightGBM, XGBoost or CatBoost model, or a pipeline of them.
    n_features : int, optional
        Width of the input, for the few estimators that do not know it.
    iterations : tuple of int, optional
        First and last (not included) boosting iteration to use.
    categories : mapping of int to str
        Names of the columns of dtype category, by position, of rows that the user gave.
    kinds : mapping of str to str
        What each column of these rows holds, by its name, for transformers of the user's own.

    Raises
    ------
    UnsupportedError, NotFittedError, ConversionError, OptionError
    """
    with reading_estimator(estimator, type(estimator).__name__):
        return require_sound(_parse_graph(estimator, n_features, iterations, categories, kinds))


def _parse_graph(
    estimator: object,
    n_features: int | None,
    iterations: tuple[int, int] | None,
    categories: Mapping[int, str],
    kinds: Mapping[str, str],
) -> Graph:
    find_parser(estimator)
    refuse_handmade(estimator)
    schema = read_schema(estimator, n_features, tuple(kinds))
    if iterations is not None:
        _require_truncating(estimator, iterations)
    step = Step(
        estimator,
        Columns.of(schema),
        x_sparse=None,
        iterations=iterations,
        categories=_find_categories(categories, schema),
        kinds=kinds,
    )
    outputs = parse_step(step)
    ordered = {m: outputs[m] for m in (*METHODS, *outputs) if m in outputs}
    graph = _graph(step.conditions, schema, ordered, _traits(estimator, ordered, schema))
    refused = step.conditions.refused
    # A refusal of a method that the estimator lacks would be no use to its user.
    asked = (m for m in refused if hasattr(estimator, m) or m in ARGUMENT_METHODS)
    missing = {m: refused[m] for m in asked if m not in ordered}
    return _with_inverse(replace(graph, refused=missing), estimator)


def _find_categories(categories: Mapping[int, str], schema: Schema) -> frozenset[int]:
    """Return the columns of the schema that are categories, found as the source finds columns."""
    if not schema.named or schema.finds == "positions":
        return frozenset(categories)
    named = set(categories.values())
    return frozenset(i for i, name in enumerate(schema.names) if name in named)


def _graph(
    conditions: Conditions, schema: Schema, outputs: dict[str, Output], traits: Traits
) -> Graph:
    graph = Graph(
        schema,
        outputs,
        tuple(conditions.checks),
        traits,
        not conditions.why_dense,
        tuple(conditions.warnings),
        conditions.why_dense,
        without_na=conditions.without_na,
    )
    graph = graph.with_schema(_mark_text(graph))
    return (
        graph.for_rows(sparse=False)
        if conditions.why_dense or "string" in graph.schema.dtypes
        else graph
    )


def _with_inverse(graph: Graph, estimator: object) -> Graph:
    """Add the graph of ``inverse_transform``, or why the source's is refused."""
    if "transform" not in graph.outputs or not hasattr(estimator, INVERSE):
        return graph
    try:
        inverse = _inverse(estimator, graph.outputs["transform"].node.type.width)
    except UnsupportedError as error:
        return replace(graph, refused={**graph.refused, INVERSE: str(error)})
    return replace(graph, inverse=require_sound(inverse))


def _inverse(estimator: object, width: int) -> Graph:
    """Read ``inverse_transform`` over the columns that ``transform`` returns."""
    schema = inverse_columns(estimator, width)
    step = Step(estimator, Columns.of(schema), x_sparse=None)
    outputs = {INVERSE: read_inverse(step, estimator, step.x, "", x_sparse=None)}
    return _graph(step.conditions, schema, outputs, Traits(type(estimator).__name__))


def _require_truncating(estimator: object, iterations: tuple[int, int]) -> None:
    if not find_parser(estimator).truncates:
        raise OptionError(
            "iterations is for LightGBM, XGBoost and CatBoost models, not for "
            f"{type(estimator).__name__}."
        )
    first, last = iterations
    if not 0 <= first < last:
        raise OptionError(
            f"iterations={iterations!r} is not a valid range; pass (first, last + 1), such as "
            "(0, 50)."
        )


def _mark_text(graph: Graph) -> Schema:
    """Return the schema with the columns marked that are read as text."""
    # Programs never see such columns: the host reads them.
    text = {n.column for n in topological(graph.roots) if isinstance(n, Codes | Entries)}
    return graph.schema.with_dtypes(
        ["string" if i in text else c.dtype for i, c in enumerate(graph.schema.columns)]
    )


def _traits(estimator: Any, outputs: dict[str, Output], schema: Schema) -> Traits:
    transforms = "transform" in outputs
    return Traits(
        type(estimator).__name__,
        _kind(estimator, outputs),
        outputs["predict"].classes if "predict" in outputs else None,
        read_names_out(estimator, len(schema.columns)) if transforms else None,
        read_frame_format(estimator) if transforms else None,
        read_metric(estimator) if "predict" in outputs else "",
        source=find_source(estimator),
        explained=read_explained(estimator, outputs, schema),
    )


def _kind(estimator: Any, outputs: dict[str, Output]) -> str:
    return estimator_type(estimator) or ("transformer" if "transform" in outputs else "")
