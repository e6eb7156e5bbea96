"""Backend ``sql``: programs as one SELECT, run by DuckDB, and written for other databases.

Each entry of a row is an expression, and what is read more than once is a column of a common table
expression. Trees are CASE.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from hbconv.backends.base import Artifact, Backend
from hbconv.backends.sql.artifact import EMITS
from hbconv.errors import BackendError
from hbconv.tensor import Builder, Value
from hbconv.tensor.decompositions import rewrite_program
from hbconv.tensor.types import FLOATS
from hbconv.trees.strategy import strategies

if TYPE_CHECKING:
    from hbconv.target import Target
    from hbconv.tensor import TensorProgram
    from hbconv.tensor.decompositions import Rule

__all__ = ["BACKEND", "Sql"]

_NO_SHIFT = "databases differ in what bits beyond the last one become"
_ROW_BY_ROW = "it decides among equal entries, row by row"
_ORDER = "each of n entries is compared with all others, in the text of the query"
_CONTRIBUTIONS = "it visits each tree once for each feature, and its text is too long"


def first_two(b: Builder, x: Value, k: int) -> Value:
    """Find the smallest entry, and the next: the largest of the negatives, NaN last."""
    if k > 2 or (k > 1 and x.dtype not in FLOATS):
        return b.op("topk", x, k=k)
    if x.dtype not in FLOATS:
        return b.reshape(b.reduce("argmax", b.constant(-1, x.dtype) - x), 1)
    least = b.constant(-np.inf, x.dtype)
    nearness = b.where(b.op("isnan", x), least, -x)
    first = b.reshape(b.reduce("argmax", nearness), 1)
    if k == 1:
        return first
    is_first = b.op("eq", b.constant(np.arange(x.shape[0]), first.dtype), first)
    others = b.where(is_first, least, nearness)
    return b.concat([first, b.reshape(b.reduce("argmax", others), 1)])


def nearest_two(b: Builder, x: Value, points: Value, k: int) -> Value:
    """Find the point of the smallest squared distance, and the next."""
    if k > 2:
        return b.op("nearest", x, points, k=k)
    return first_two(b, b.op("pairwise", x, points, kind="square", p=2.0), k)


FIRST_TWO: Mapping[str, Rule] = {"topk": first_two, "nearest": nearest_two}
"""Searches for one entry, which need no order of all; the next one tells of ties."""


class Sql(Backend):
    """One SELECT, of one row out for each row in."""

    name = "sql"
    needs = ("duckdb", "pyarrow")
    extra = "duckdb"
    instead = "Score with hbconv's function in the engine (hbconv.engines)."
    emits = EMITS
    refuses: ClassVar[Mapping[str, str]] = {
        "heap_search": _ROW_BY_ROW,
        "tree_search": _ROW_BY_ROW,
        "sort": _ORDER,
        "topk": _ORDER,
        "nearest": _ORDER,
        "nearest_donors": _ORDER,
        "topk_donors": _ORDER,
        "donor_distances": _ORDER,
        "iterate": "a SELECT repeats no step until nothing changes",
        "shift_left": _NO_SHIFT,
        "shift_right": _NO_SHIFT,
        "tree_contributions": _CONTRIBUTIONS,
        "tree_interactions": _CONTRIBUTIONS,
    }

    def native_trees(self, target: Target) -> frozenset[str]:  # noqa: ARG002
        """Return all strategies: trees are CASE, whatever finds their leaves elsewhere."""
        return frozenset(strategies())

    def _rewritten(self, program: TensorProgram, target: Target) -> TensorProgram:
        return super()._rewritten(rewrite_program(program, FIRST_TWO), target)

    def emit(self, program: TensorProgram, target: Target) -> Artifact:
        """Write the query, for DuckDB."""
        from hbconv.backends.sql.artifact import SqlArtifact

        return SqlArtifact(program, target)

    def status(self, program: TensorProgram, target: Target) -> str:
        """Return how it runs a program; what is too long is only known when it is written."""
        from hbconv.backends.sql.artifact import write_query

        found = super().status(program, target)
        if found not in ("native", "lowered"):
            return found
        try:
            write_query(self.prepare(program, target))
        except BackendError:
            return "cannot: its text is longer than 1 MB"
        return found


BACKEND = Sql()
