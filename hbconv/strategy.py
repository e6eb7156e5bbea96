"""What a tree strategy is, what its work costs, how strategies are found, and how one lowers the trees of a program."""

from __future__ import annotations

import importlib
import math
import pkgutil
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

from hbconv.forest import Forest
from hbconv.names import unknown
from hbconv.target import Target
from hbconv.tensor import Builder, TensorProgram, Value
from hbconv.tensor.leaves import sum_leaves
from hbconv.tensor.rewrite import rewrite_program

__all__ = ["Prices", "Refusal", "Strategy", "Work", "find_strategy", "lower_trees", "strategies"]


@dataclass(frozen=True)
class Refusal:
    """Why a strategy may not be used for a forest."""

    reason: str


@dataclass(frozen=True)
class Work:
    """What a strategy does, counted on the primitives it writes: in entries computed per row, unless said otherwise.

    Parameters
    ----------
    operators : int
        Primitives in all, not per row; reshapes are free.
    elementwise, takes, reads : int
        Entries made by arithmetic and copies, read at fixed positions, read at computed positions (``lookup``, ``gather``).
    multiplications : int
        Multiply-adds of matrix products.
    visits : int
        Tests that a kernel of its own would evaluate.
    tables : int
        Bytes of constants, not per row.
    temporaries : int
        Bytes alive at once, at most.
    """

    operators: int = 0
    elementwise: int = 0
    takes: int = 0
    reads: int = 0
    multiplications: int = 0
    visits: int = 0
    tables: int = 0
    temporaries: int = 0

    def rows_at_once(self, target: Target) -> int:
        """Rows that one run takes: those of a typical call, in chunks where the temporaries are large."""
        return min(target.rows, target.rows_at_once(self.temporaries))


@dataclass(frozen=True)
class Prices:
    """Seconds for each unit of work on some backend and device; what is not named costs nothing.

    ``tile`` is the number of rows that a backend computes at least, wanted or not.
    """

    operator: float = 0.0
    elementwise: float = 0.0
    take: float = 0.0
    read: float = 0.0
    multiplication: float = 0.0
    visit: float = 0.0
    tile: int = 1

    def seconds(self, work: Work, target: Target) -> float:
        """Price of the work for ``target.rows`` rows, in runs of as many as the work takes at once.

        Examples
        --------
        >>> Prices(operator=0.5, take=0.125).seconds(Work(operators=2, takes=3), Target(rows=4))
        2.5
        """
        runs = math.ceil(target.rows / work.rows_at_once(target))
        streams = (
            work.elementwise * self.elementwise + work.takes * self.take + work.reads * self.read
        )
        row = streams + work.multiplications * self.multiplication + work.visits * self.visit
        return runs * work.operators * self.operator + max(target.rows, self.tile) * row


class Strategy(Protocol):
    """One algorithm for finding the leaf that each tree of a forest reaches.

    A strategy module defines these four functions at its top level; the module's name is the strategy's.
    """

    __name__: str

    def check(self, forest: Forest, target: Target) -> Refusal | None:
        """Say why it may not be used, or None."""

    def work(self, forest: Forest) -> Work:
        """Count what ``lower`` writes for the forest."""

    def cost(self, forest: Forest, target: Target, prices: Prices) -> float:
        """Predicted seconds for ``target.rows`` rows on one core, at the prices of a backend."""

    def lower(self, forest: Forest, x: Value, b: Builder) -> Value:
        """Write primitives giving the leaf of each tree, numbered over the forest: int32 (rows, n_trees)."""


@cache
def strategies() -> dict[str, Strategy]:
    """All strategies by name: the modules of the package ``hbconv_strategies``, helpers (``_name``) left out."""
    package = importlib.import_module("hbconv_strategies")
    names = sorted(
        m.name for m in pkgutil.iter_modules(package.__path__) if not m.name.startswith("_")
    )
    return {name: importlib.import_module(f"hbconv_strategies.{name}") for name in names}


def find_strategy(name: str) -> Strategy:
    """Return the strategy of that name, or raise OptionError with the nearest names."""
    if name not in strategies():
        raise unknown("strategy", name, strategies())
    return strategies()[name]


def lower_trees(program: TensorProgram, native: frozenset[str]) -> TensorProgram:
    """Write the trees as plain primitives, except where the backend runs their strategy natively."""

    def tree_leaves(b: Builder, x: Value, **trees: Any) -> Value:
        if trees["strategy"] in native:
            return b.op("tree_leaves", x, **trees)
        return find_strategy(trees["strategy"]).lower(trees["forest"], x, b)

    def tree_scores(b: Builder, x: Value, **trees: Any) -> Value:
        if trees["strategy"] in native:
            return b.op("tree_scores", x, **trees)
        return sum_leaves(trees["forest"], tree_leaves(b, x, **trees), b)

    rules: dict[str, Any] = {"tree_leaves": tree_leaves, "tree_scores": tree_scores}
    return rewrite_program(program, rules) if program.primitives & rules.keys() else program
