"""Forests whose strategies ``regret.py`` times: those that prices are fitted to, and others."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from hbconv.containers import TreeEnsemble
from hbconv.parse import parse
from hbconv.trees.forest import Forest

__all__ = ["FITTED_TO", "LEFT_OUT", "Shape", "train"]


@dataclass(frozen=True)
class Shape:
    """A forest: trees, largest depth, largest number of leaves, columns and their dtype."""

    trees: int
    depth: int | None
    leaves: int | None
    columns: int
    dtype: str = "float32"
    classes: int = 0

    def __str__(self) -> str:
        limit = f"depth {self.depth}" if self.depth else f"{self.leaves} leaves"
        classes = f", {self.classes} classes" if self.classes else ""
        return f"{self.trees} trees, {limit}, {self.columns} {self.dtype} columns{classes}"


FITTED_TO = (
    Shape(1, 2, None, 4),
    Shape(1, 6, None, 28),
    Shape(1, 12, None, 28),
    Shape(1, 20, None, 200, "float64"),
    Shape(10, 3, None, 28),
    Shape(10, 6, None, 200),
    Shape(10, 10, None, 28, "float64"),
    Shape(10, 15, None, 28),
    Shape(30, None, 31, 28, "float64"),
    Shape(100, 2, None, 1000),
    Shape(100, 3, None, 28),
    Shape(100, 4, None, 28, "float64"),
    Shape(100, 6, None, 28),
    Shape(100, 6, None, 1000),
    Shape(100, 8, None, 28),
    Shape(100, 12, None, 28),
    Shape(100, 20, None, 28),
    Shape(100, None, 31, 28, "float64"),
    Shape(100, None, 255, 28, "float64"),
    Shape(100, 8, None, 28, "float32", 5),
    Shape(500, 2, None, 28),
    Shape(500, 4, None, 200, "float64"),
    Shape(500, 8, None, 200),
    Shape(500, None, 31, 28, "float64"),
    Shape(1000, 2, None, 28),
    Shape(1000, 4, None, 28),
    Shape(1000, 6, None, 28),
    Shape(1000, None, 8, 28, "float64"),
    Shape(1000, None, 31, 200),
)
"""The prices of ``cost_model/shipped.py`` were fitted to these."""

LEFT_OUT = (
    Shape(1, 9, None, 60),
    Shape(3, 4, None, 12, "float64"),
    Shape(5, 17, None, 28),
    Shape(20, 5, None, 50),
    Shape(25, 18, None, 100, "float64"),
    Shape(50, 7, None, 28),
    Shape(60, 3, None, 400),
    Shape(150, 10, None, 28),
    Shape(200, None, 63, 28, "float64"),
    Shape(200, 5, None, 28, "float32", 3),
    Shape(300, 3, None, 60, "float64"),
    Shape(400, None, 16, 28),
    Shape(700, 5, None, 28),
    Shape(1000, 3, None, 100, "float64"),
)
"""No price was fitted to these, which are of other sizes."""


@cache
def train(shape: Shape) -> Forest:
    """Return the Forest of a random forest fitted to noise, so that trees grow fully."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, shape.columns)).astype(np.float32)
    y = rng.integers(0, shape.classes, 3000) if shape.classes else rng.standard_normal(3000)
    kind = RandomForestClassifier if shape.classes else RandomForestRegressor
    model = kind(
        shape.trees,
        max_depth=shape.depth,
        max_leaf_nodes=shape.leaves,
        max_features=min(5, shape.columns),
        random_state=0,
    ).fit(X, y)
    return next(node.forest for node in parse(model).nodes() if isinstance(node, TreeEnsemble))
