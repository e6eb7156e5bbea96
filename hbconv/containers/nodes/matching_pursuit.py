"""MatchingPursuit: rows as sums of few atoms of a dictionary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers.counts import misfit_of_table
from hbconv.containers.node import Node, container
from hbconv.containers.nodes.row_vectors import as_row, dot
from hbconv.containers.schema import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["MatchingPursuit"]


@container
class MatchingPursuit(Node):
    """Find the coefficients of each row's best sum of at most ``n_atoms`` atoms, in x's dtype.

    This is orthogonal matching pursuit. Each step takes the atom nearest to the rest of the row,
    and projects the row on all atoms taken. A row is done when nothing is left.
    It is also done when its next atom is taken already, or depends on those taken up to the
    epsilon of x's dtype.

    The atoms taken are kept orthonormal (Gram-Schmidt) rather than as a Cholesky factor. Both give
    the same numbers except for rounding.

    Parameters
    ----------
    dictionary : Array, shape (n_dictionary, width)
        An atom a row.
    n_atoms : int
    """

    x: Node
    dictionary: Array
    n_atoms: int

    decides: ClassVar[bool] = True

    @property
    def detail(self) -> str:
        return f"{self.n_atoms} of {len(self.dictionary)} atoms"

    def infer(self) -> Type:
        return Type(
            len(self.dictionary),
            self.x.type.dtype if self.x.type.dtype.startswith("float") else "float64",
        )

    def check(self) -> str | None:
        misfit = misfit_of_table(self.dictionary, self.x.type.width)
        if misfit or 0 < self.n_atoms <= len(self.dictionary):
            return misfit
        return f"takes {self.n_atoms} of {len(self.dictionary)} atoms"

    def lower(self, b: Builder, *inputs: Value) -> Value:
        x = b.cast(inputs[0], self.type.dtype)
        atoms = self.dictionary.data
        correlation = b.cast(b.matmul(*b.promote(x, b.constant(atoms.T))), "float64")
        gram = (atoms @ atoms.T).astype(x.dtype).astype(np.float64)
        pursuit = _Pursuit(gram, self.n_atoms, float(np.finfo(x.dtype).eps))
        start = b.op("expand", x, b.constant(np.zeros(pursuit.width), "float64"))
        state = b.iterate(self.n_atoms, start, correlation, pursuit.step)
        return b.cast(b.take(state, np.arange(len(atoms))), x.dtype)


@dataclass(frozen=True)
class _State:
    """State of a row: coefficients and flags of the atoms, how many are taken, and directions.

    The directions are orthonormal and span the atoms taken. For each, the state keeps its products
    with all atoms, and its coefficients in them.
    """

    code: Value
    taken: Value
    count: Value
    products: Value
    mixtures: Value


@dataclass(frozen=True, eq=False)
class _Pursuit:
    gram: npt.NDArray[np.float64]
    n_atoms: int
    least: float

    @property
    def width(self) -> int:
        """Entries of a state."""
        return (2 + 2 * self.n_atoms) * len(self.gram) + 1

    def step(self, b: Builder, before: Value, correlation: Value) -> Value:
        """Take one more atom, unless the row is done."""
        state = self._state(b, before)
        left = correlation - b.matmul(state.code, b.constant(self.gram))
        best = b.reduce("argmax", b.op("abs", left))
        chosen = b.cast(
            b.op("eq", b.reshape(best, 1), b.constant(np.arange(len(self.gram)), "int32")),
            left.dtype,
        )
        row = b.lookup(b.constant(self.gram), best)
        strength = dot(b, left, chosen)
        shares = b.reduce("reduce_sum", state.products * as_row(b, chosen), axis=1)
        square = dot(b, row, chosen) - dot(b, shares, shares)
        least, zero, one = (b.constant(number, left.dtype) for number in (self.least, 0.0, 1.0))
        is_done = (
            (strength * strength < least)
            | (dot(b, state.taken, chosen) > zero)
            | ((state.count > zero) & (square <= least))
        )
        length = b.op("sqrt", square)
        product, mixture = (
            (new - _mixed(b, shares, old)) / length
            for new, old in ((row, state.products), (chosen, state.mixtures))
        )
        code = state.code + strength / length * mixture
        directions = (
            self._added(b, state, old, new)
            for old, new in ((state.products, product), (state.mixtures, mixture))
        )
        return b.where(
            is_done, before, b.concat([code, state.taken + chosen, state.count + one, *directions])
        )

    def _added(self, b: Builder, state: _State, directions: Value, new: Value) -> Value:
        """Put a direction in the first free place."""
        place = b.cast(
            b.op("eq", state.count, b.constant(np.arange(self.n_atoms), new.dtype)), new.dtype
        )
        return b.reshape(
            directions + b.reshape(place, self.n_atoms, 1) * as_row(b, new),
            self.n_atoms * len(self.gram),
        )

    def _state(self, b: Builder, state: Value) -> _State:
        size = len(self.gram)
        area = self.n_atoms * len(self.gram)
        runs = np.split(np.arange(self.width), np.cumsum([size, size, 1, area]))
        code, taken, count, *directions = (b.take(state, run) for run in runs)
        return _State(
            code, taken, count, *(b.reshape(part, self.n_atoms, size) for part in directions)
        )


def _mixed(b: Builder, shares: Value, directions: Value) -> Value:
    """Sum of the directions, each times its share."""
    return b.reduce("reduce_sum", b.reshape(shares, shares.shape[0], 1) * directions)
