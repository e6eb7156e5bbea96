"""Rows of constant tables, looked up by code: LookupSum, LookupRows, WeightedLookup."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from hbconv.array import Array
from hbconv.containers.interval import Interval, largest_constant
from hbconv.containers.node import Node, container
from hbconv.containers.nodes.wiring import Select
from hbconv.containers.schema import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["LookupRows", "LookupSum", "WeightedLookup"]


@container
class LookupSum(Node):
    """Compute ``sum over j of tables[j][codes[:, j] + 1]``.

    Each table is (size + 1, outputs); its first row is for the code -1.

    What ``Linear(OneHot(codes))`` computes, without the zeros.
    """

    codes: Node
    tables: tuple[Array, ...]

    @property
    def detail(self) -> str:
        return f"tables of {', '.join(str(len(t)) for t in self.tables)}  width {self.type.width}"

    def infer(self) -> Type:
        return Type(self.tables[0].shape[1], self.tables[0].dtype)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        """Look rows up; single numbers as such, since libraries add up a row of them faster."""
        codes = b.cast(inputs[0], "int32")
        single = self.type.width == 1
        tables = [table.data[:, 0] if single else table.data for table in self.tables]
        return b.reshape(b.reduce("reduce_sum", b.lookup_codes(tables, codes)), self.type.width)


@container
class LookupRows(Node):
    """For each column of int32 positions, the row of the table that it names."""

    positions: Node
    table: Array

    @property
    def detail(self) -> str:
        return f"table of {len(self.table)}  width {self.type.width}"

    def narrowed(self, columns: Array) -> Node | None:
        """Look up fewer positions, where all columns of some are left out."""
        each = self.table.shape[1]
        if each == 1:
            return replace(self, positions=Select(self.positions, columns))
        read, place = np.unique(columns.data // max(each, 1), return_inverse=True)
        if len(read) == self.positions.type.width:
            return None
        fewer = replace(self, positions=Select(self.positions, Array.of(read, "int32")))
        places = place * each + columns.data % each
        whole = np.array_equal(places, np.arange(fewer.type.width))
        return fewer if whole else Select(fewer, Array.of(places, "int32"))

    def infer(self) -> Type:
        return Type(self.positions.type.width * self.table.shape[1], self.table.dtype)

    def interval(self, *inputs: Interval) -> Interval | None:  # noqa: ARG002
        largest = largest_constant(self.table)
        return None if largest is None else Interval(largest)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        return b.reshape(b.lookup(b.constant(self.table), inputs[0]), self.type.width)


@container
class WeightedLookup(Node):
    """Compute ``sum over i of weights[:, i] * table[positions[:, i]]``.

    The dtype is numpy's common one of weights and table.
    """

    positions: Node
    weights: Node
    table: Array

    @property
    def detail(self) -> str:
        return f"table of {len(self.table)}  width {self.type.width}"

    def narrowed(self, columns: Array) -> Node:
        return replace(self, table=Array(self.table.data[:, columns.data]))

    def infer(self) -> Type:
        return Type(
            self.table.shape[1], np.result_type(self.weights.type.dtype, self.table.dtype).name
        )

    def lower(self, b: Builder, *inputs: Value) -> Value:
        weights, table = b.promote(inputs[1], b.constant(self.table))
        return b.op("embedding_sum", inputs[0], weights, table)
