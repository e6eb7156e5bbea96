"""Tree strategies: the protocol of their modules, how they are found, and how they lower trees."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

from hbconv.cost_model import Work
from hbconv.names import unknown
from hbconv.target import Target
from hbconv.tensor import Builder, TensorProgram, Value
from hbconv.tensor.decompositions import rewrite_program
from hbconv.trees.contributions import write_interaction_matrices
from hbconv.trees.covered_forest import CoveredForest
from hbconv.trees.forest import Forest
from hbconv.trees.leaves import sum_leaves
from hbconv.trees.symmetric_forest import sum_as_leaves

__all__ = ["Refusal", "Strategy", "find_strategy", "lower_trees", "strategies"]


@dataclass(frozen=True)
class Refusal:
    """Why a strategy may not be used for a forest."""

    reason: str


class Strategy(Protocol):
    """One algorithm for finding the leaf that each tree of a forest reaches.

    A strategy module defines these three functions at its top level. The module's name is that of
    the strategy.
    """

    __name__: str

    def check(self, forest: Forest, target: Target) -> Refusal | None:
        """Return why it may not be used for the forest, or None."""

    def work(self, forest: Forest) -> Work:
        """Count what ``lower`` writes for the forest."""

    def lower(self, forest: Forest, x: Value, b: Builder) -> Value:
        """Write primitives that find the leaf of each tree: int32 (n_rows, n_trees).

        Leaves are numbered over the forest.
        """


@cache
def strategies() -> dict[str, Strategy]:
    """Return all strategies by name: the modules of ``hbconv_strategies``, without helpers.

    The name of a helper begins with an underscore.
    """
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
    """Write the trees as plain primitives, except those whose strategy is native.

    Contributions of symmetric trees become sums over trees. Matrices of interactions are put
    together of what pairs of features add.
    """

    def tree_leaves(b: Builder, x: Value, **trees: Any) -> Value:
        if trees["strategy"] in native:
            return b.op("tree_leaves", x, **trees)
        return find_strategy(trees["strategy"]).lower(trees["forest"], x, b)

    def tree_scores(b: Builder, x: Value, **trees: Any) -> Value:
        if trees["strategy"] in native:
            return b.op("tree_scores", x, **trees)
        return sum_leaves(trees["forest"], tree_leaves(b, x, **trees), b)

    def tree_contributions(b: Builder, x: Value, covered: CoveredForest) -> Value:
        sums = sum_as_leaves(covered)
        if sums is None:
            return b.op("tree_contributions", x, covered=covered)
        return tree_scores(b, x, forest=sums, strategy="tree_traversal")

    def interaction_matrices(b: Builder, x: Value, covered: CoveredForest) -> Value:
        contributions = tree_contributions(b, x, covered)
        return write_interaction_matrices(b, x, covered, contributions)

    rules: dict[str, Any] = {
        "tree_leaves": tree_leaves,
        "tree_scores": tree_scores,
        "tree_contributions": tree_contributions,
        "tree_interaction_matrices": interaction_matrices,
    }
    # A program without trees is not written again.
    return rewrite_program(program, rules) if program.primitives & rules.keys() else program
