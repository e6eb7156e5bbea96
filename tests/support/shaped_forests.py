"""Forests whose trees have as many leaves as asked for, and few thresholds, tested often."""

from __future__ import annotations

import numpy as np

from hbconv.array import Array
from hbconv.trees.forest import Forest

__all__ = ["grown"]

Path = tuple[int, ...]


def grown(
    rng: np.random.Generator,
    n_trees: int,
    n_leaves: int,
    lean: str,
    n_features: int = 3,
    n_thresholds: int = 9,
) -> Forest:
    """Grow trees of so many leaves.

    Parameters
    ----------
    lean : {"chain", "random", "balanced"}
        The leaf that is split next: the last one, any, or the shallowest.
    n_thresholds : int
        Thresholds of a feature.
    """
    fields: dict[str, list[int]] = {name: [] for name in ("left", "right", "roots")}
    for tree in range(n_trees):
        nodes, leaves = _shape(rng, n_leaves, lean)
        first = len(fields["left"])
        leaf_of = {path: tree * n_leaves + i for i, path in enumerate(sorted(leaves))}
        where = {path: first + node for path, node in nodes.items()} | {
            path: ~leaf for path, leaf in leaf_of.items()
        }
        for path in nodes:
            fields["left"].append(where[*path, 0])
            fields["right"].append(where[*path, 1])
        fields["roots"].append(where[()])
    tests = n_trees * (n_leaves - 1)
    total = n_trees * n_leaves
    return Forest(
        **{name: Array.of(np.array(numbers), "int32") for name, numbers in fields.items()},
        feature=Array.of(rng.integers(n_features, size=tests), "int32"),
        threshold=Array(rng.integers(n_thresholds, size=tests) / 4 - 1),
        default_left=Array(rng.random(tests) < 0.5),
        first_leaf=Array.of(np.arange(n_trees + 1) * n_leaves, "int32"),
        values=Array(rng.standard_normal((total, 1))),
        target=Array.of(np.zeros(n_trees), "int32"),
        start=Array([0.25]),
        strict=False,
        n_features=n_features,
        leaf_id=Array.of(np.arange(total), "int32"),
    )


def _shape(
    rng: np.random.Generator, n_leaves: int, lean: str
) -> tuple[dict[Path, int], list[Path]]:
    """Return the numbers of a tree's splits, and its leaves, by the sides taken to them."""
    nodes: dict[Path, int] = {}
    leaves: list[Path] = [()]
    while len(leaves) < n_leaves:
        at = {
            "chain": len(leaves) - 1,
            "random": int(rng.integers(len(leaves))),
            "balanced": int(np.argmin([len(path) for path in leaves])),
        }[lean]
        path = leaves.pop(at)
        nodes[path] = len(nodes)
        leaves[at:at] = [(*path, 0), (*path, 1)]
    return nodes, leaves
