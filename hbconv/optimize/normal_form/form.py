"""The normal form of a root: a polynomial of degree 2 about a centre, and tables for codes.

About a centre, ``(c + d) (c' + d') = c c' + c' d + c d' + d d'``. The middle terms are linear, and
are handed on to the node's input. The last one is a square where both are the same column of a
leaf. Else it is a quadratic form in the columns of all leaves: ``d = x @ J``, with J from an
expansion of the input.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hbconv.containers import Map, Node, Polynomial, RowDot

__all__ = ["PRODUCTS", "ColumnProducts", "LeafWeights", "NormalForm", "factors"]

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


PRODUCTS = (Map, Polynomial, RowDot)
"""Containers that multiply columns of their input; of the maps, those that square."""


Columns = npt.NDArray[np.integer]


def factors(node: Node) -> tuple[Columns, Columns]:
    """Return the columns of its input that a node multiplies; -1 stands for a factor of one."""
    if isinstance(node, Polynomial):
        terms = node.terms.data
        return terms[:, 0], terms[:, 1] if terms.shape[1] > 1 else np.full(len(terms), -1)
    columns = np.arange(node.inputs[0].type.width)
    return columns, columns


@dataclass(frozen=True)
class ColumnProducts:
    """What a node multiplies, with the weights of each product.

    Parameters
    ----------
    first, second : ndarray of int, shape (terms,)
        Columns of its input, as ``factors`` gives them.
    weights : ndarray, shape (terms, outputs)
    """

    first: Columns
    second: Columns
    weights: Floats

    @staticmethod
    def of(node: Node, weights: Floats) -> ColumnProducts:
        """Return the products of a node that has these weights on its columns."""
        first, second = factors(node)
        return ColumnProducts(
            first, second, np.broadcast_to(weights, (len(first), weights.shape[1]))
        )

    def linear(self, centre: Floats) -> Floats:
        """Return the weights on the input's columns, for the input's values at the centre."""
        total = np.zeros((len(centre), self.weights.shape[1]))
        # A factor of -1 reads this last one.
        values = np.append(centre, 1.0)
        for column, factor in ((self.first, self.second), (self.second, self.first)):
            kept = column >= 0
            np.add.at(total, column[kept], values[factor[kept], None] * self.weights[kept])
        return total

    def squares(self, width: int) -> Floats:
        """Return the weights on the squares of the input's columns."""
        total = np.zeros((width, self.weights.shape[1]))
        np.add.at(total, self.first, self.weights)
        return total

    def between(self, jacobian: Floats) -> Floats:
        """Return the weights on products of columns of the leaves, upper triangular.

        Parameters
        ----------
        jacobian : ndarray, shape (columns, width)
            Weights of the leaves' columns on the input's.

        Returns
        -------
        ndarray, shape (columns, columns, outputs)
        """
        kept = (self.first >= 0) & (self.second >= 0)
        first, second = jacobian[:, self.first[kept]], jacobian[:, self.second[kept]]
        forms = (_form(first, weights, second) for weights in self.weights[kept].T)
        # x y and y x are one product: the upper triangle holds the weights of both.
        return np.stack([np.triu(form + np.tril(form, -1).T) for form in forms], axis=-1)


def _form(first: Floats, weights: Floats, second: Floats) -> Floats:
    """Return ``first @ diag(weights) @ second.T``; most weights are 0 where groups are added up."""
    # Sums of groups weigh few of the products, so most of the matrix would be zeros.
    columns = np.flatnonzero(weights)
    form: Floats = (first[:, columns] * weights[columns]) @ second[:, columns].T
    return form
