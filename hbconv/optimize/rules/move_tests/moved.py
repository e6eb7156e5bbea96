"""One forest with its tests moved, and what is to be told of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from hbconv.containers import (
    Beside,
    Codes,
    Columns,
    Concat,
    Node,
    Schema,
    Select,
    Together,
    at_step,
    topological,
)
from hbconv.optimize.rules.move_tests.distinct_tests import DistinctTests, find_distinct_tests
from hbconv.optimize.rules.move_tests.lineage import Lineage
from hbconv.optimize.rules.move_tests.places import CategorySets, Destination, find_places
from hbconv.optimize.rules.move_tests.rebuilt import rebuild
from hbconv.trees.forest import Forest

__all__ = ["Moved", "move_forest"]

WIRING = (Beside, Codes, Columns, Concat, Select, Together)
"""Nodes that compute nothing."""


@dataclass(frozen=True, eq=False)
class Moved:
    """A forest over the columns that its tests moved to.

    Parameters
    ----------
    x : Node
    forest : Forest
    drops : bool
        Something that was computed for the forest no longer is.
    required : bool
        Backends differ in a last bit of what it read.
    proof : str
    refusals : tuple of str
        Why tests on some columns did not move further.
    """

    x: Node
    forest: Forest
    drops: bool = False
    required: bool = False
    proof: str = ""
    refusals: tuple[str, ...] = ()


@lru_cache(maxsize=32)  # the search asks again after each rewrite
def move_forest(x: Node, forest: Forest, schema: Schema) -> Moved:
    """Move the tests of one forest as far towards the input as each column allows."""
    if forest.slopes is not None:
        refusals = ("its leaves are linear models of the computed columns",)
        return Moved(x, forest, refusals=refusals if _computed(x) else ())
    if not forest.n_tests or not _computed(x):
        return Moved(x, forest)
    lineage = Lineage(schema)
    dtype = x.type.dtype if x.type.dtype.startswith("float") else "float64"
    tests = find_distinct_tests(forest, dtype)
    places = find_places(lineage, x, tests)
    with at_step(x.step):
        columns, moved = rebuild(forest, places, tests)
    return Moved(
        columns,
        moved,
        any(place.written is not None for place in places)
        and not _computed(x) <= _computed(columns),
        any(_is_inexact(lineage, x, place) for place in places),
        _proof(moved, places, tests),
        _refusals(places),
    )


def _computed(x: Node) -> set[Node]:
    """Return what is computed for x."""
    return {node for node in topological((x,)) if not isinstance(node, WIRING)}


def _is_inexact(lineage: Lineage, x: Node, place: Destination) -> bool:
    """Whether backends differ in the function that the tests on a column no longer need."""
    return any(node.inexact for node, _ in lineage.between((x, place.column), place.cut))


def _proof(forest: Forest, places: Sequence[Destination], tests: DistinctTests) -> str:
    """Count the tests by why they decide as before."""
    counts: Counter[str] = Counter()
    per_column = np.bincount(tests.column[tests.of_test])
    for place in places:
        if place.written is not None:
            counts[_kind(place)] += int(per_column[place.column])
    kinds = ", ".join(f"{count} {kind}" for kind, count in counts.items())
    return f"to {forest.n_features} columns: {kinds}"


def _kind(place: Destination) -> str:
    if isinstance(place.written, CategorySets):
        return "sets of enumerated codes"
    function = place.function
    if function is not None and not function.is_exact:
        judge = "the source's function" if function.is_sources else "the reference"
        return f"thresholds checked around the switch against {judge}"
    if function is not None and function.breaks:
        return "thresholds piecewise"
    return "thresholds monotone by construction"


def _refusals(places: Sequence[Destination]) -> tuple[str, ...]:
    """Group the columns that stay computed by the reason."""
    columns: dict[str, list[int]] = {}
    for place in places:
        for reason in place.refusals[:1]:
            columns.setdefault(reason, []).append(place.column)
    return tuple(f"{_listed(found)}: {reason}" for reason, found in columns.items())


def _listed(columns: list[int]) -> str:
    """Name a few columns."""
    named = ", ".join(map(str, columns[:5]))
    more = f" and {len(columns) - 5} more" if len(columns) > 5 else ""
    return f"column{'s' if len(columns) > 1 else ''} {named}{more}"
