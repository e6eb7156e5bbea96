"""The normal form of a root: a polynomial of degree 2 about a centre, and tables for codes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hbconv.containers import Node

__all__ = ["LeafWeights", "NormalForm"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class LeafWeights:
    """Weights on the columns of a node, and on their squares.

    Parameters
    ----------
    linear : ndarray, shape (width, outputs)
    squares : ndarray, shape (width, outputs), or None
    """

    linear: Floats
    squares: Floats | None = None

    def __add__(self, other: LeafWeights) -> LeafWeights:
        if self.squares is None or other.squares is None:
            squares = other.squares if self.squares is None else self.squares
        else:
            squares = self.squares + other.squares
        return LeafWeights(self.linear + other.linear, squares)

    def through(self, change: Callable[[Floats], Floats]) -> LeafWeights:
        """Change both alike, as where columns move."""
        return LeafWeights(
            change(self.linear), None if self.squares is None else change(self.squares)
        )

    @property
    def are_finite(self) -> bool:
        """Whether all weights are finite."""
        squares = 0.0 if self.squares is None else self.squares
        return bool(np.isfinite(self.linear).all() and np.isfinite(squares).all())


@dataclass(frozen=True)
class NormalForm:
    """A polynomial of degree 2 in the columns of some leaves, with tables for codes.

    ``bias + sum(z @ linear + z**2 @ squares) + z' mixed z + sum(table[code + 1])``, with
    ``z = x - centre`` of each leaf, and of all leaves side by side.

    Parameters
    ----------
    bias : ndarray, shape (outputs,)
    leaves : mapping of Node to LeafWeights
    centres : mapping of Node to ndarray
        Of each leaf.
    tables : mapping of Node to tuple of ndarray
        For each column of a node of codes, a table as LookupSum has it.
    mixed : ndarray, shape (columns, columns, outputs), or None
        Weights on products of columns of all leaves, upper triangular.
    """

    bias: Floats
    leaves: Mapping[Node, LeafWeights]
    centres: Mapping[Node, Floats]
    tables: Mapping[Node, tuple[Floats, ...]]
    mixed: Floats | None = None

    @property
    def is_finite(self) -> bool:
        """Whether all constants are finite."""
        tables = (np.isfinite(t).all() for of_node in self.tables.values() for t in of_node)
        terms = (terms.are_finite for terms in self.leaves.values())
        mixed = self.mixed is None or np.isfinite(self.mixed).all()
        return bool(np.isfinite(self.bias).all() and mixed) and all(terms) and all(tables)
