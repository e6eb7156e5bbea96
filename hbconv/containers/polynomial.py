"""Polynomial: products of columns."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from hbconv.array import Array
from hbconv.containers.node import Node, container
from hbconv.containers.types import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["Polynomial"]


@container
class Polynomial(Node):
    """Each output is the product of the columns its term lists, multiplied in that order; an int x becomes float64.

    Parameters
    ----------
    terms : Array of int32, shape (outputs, degree)
        Columns, then -1 (a factor of one) up to the highest degree.
    """

    x: Node
    terms: Array

    @property
    def detail(self) -> str:
        return f"degree {self.terms.shape[1]}  width {self.type.width}"

    def narrowed(self, columns: Array) -> Node:
        return replace(self, terms=Array(self.terms.data[columns.data]))

    def infer(self) -> Type:
        return Type(len(self.terms), self.x.type.dtype if self.x.type.dtype.startswith("float") else "float64")

    def lower(self, b: Builder, *inputs: Value) -> Value:
        """Multiply factor by factor; a last column of ones stands for the factors that are not there."""
        x = b.cast(inputs[0], self.type.dtype)
        factors = b.concat([x, b.op("expand", x, b.constant([1.0], x.dtype))])
        terms = np.where(self.terms.data < 0, x.shape[0], self.terms.data)
        product = b.take(factors, terms[:, 0])
        for column in terms.T[1:]:
            product = product * b.take(factors, column)
        return product
