"""Votes: what each voter gives each candidate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hbconv.array import Array
from hbconv.containers.node import Node, container
from hbconv.containers.types import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["Votes"]


@container
class Votes(Node):
    """For each column of int32 codes a block of columns, one a candidate: ``for_it`` where the code is the candidate, else ``against``.

    Parameters
    ----------
    codes : Node
        A column for each voter.
    candidates : Array of int32
    for_it, against : Array, shape (n_voters,)
    """

    codes: Node
    candidates: Array
    for_it: Array
    against: Array

    @property
    def detail(self) -> str:
        return f"{len(self.for_it)} voters, {len(self.candidates)} candidates"

    def infer(self) -> Type:
        return Type(len(self.for_it) * len(self.candidates), self.for_it.dtype)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        voters, candidates = len(self.for_it), len(self.candidates)
        codes = b.take(inputs[0], np.repeat(np.arange(voters), candidates))
        for_it, against = (b.constant(np.repeat(weights.data, candidates)) for weights in (self.for_it, self.against))
        return b.where(b.op("eq", codes, b.constant(np.tile(self.candidates.data, voters), "int32")), for_it, against)
