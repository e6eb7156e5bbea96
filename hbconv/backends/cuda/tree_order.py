"""Trees in the order in which kernels take them, and their leaf values as words."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.trees.forest import Forest

__all__ = ["TreeOrder", "order_trees", "tables_of_values"]

NAMES = {"float32": "float", "float64": "double", "int32": "int"}
"""Names of dtypes in the kernels."""


@dataclass(frozen=True, eq=False)
class TreeOrder:
    """The trees of one output after those of another, each output's in their own order.

    So a kernel keeps one sum. Leaves of vectors, and leaf numbers, have one output here.

    Parameters
    ----------
    number : int32 (n_trees,)
        The trees, as the forest counts them.
    of_output : int32 (n_outputs + 1,)
        First tree of each output.
    values : float or int32 (n_leaves,)
        What is added for a leaf; its number, where leaves are asked for.
    start : array (n_outputs,)
        Of the same dtype.
    apart : bool
        Each tree's value is asked for, not their sums. Then a slice of the trees takes the place
        of an output, and blocks side by side take one each.
    """

    number: npt.NDArray[np.int32]
    of_output: npt.NDArray[np.int32]
    values: npt.NDArray[Any]
    start: npt.NDArray[Any]
    apart: bool

    @property
    def outputs(self) -> int:
        """Number of sums, or of slices."""
        return len(self.of_output) - 1

    @property
    def slices(self) -> int:
        """Number of blocks that share the trees of a row."""
        return self.outputs if self.apart else 1

    @property
    def constants(self) -> tuple[tuple[str, str | int], ...]:
        """Macros of the kernels."""
        return ("SUM", NAMES[self.values.dtype.name]), ("TERMS", int(self.apart))

    @property
    def words(self) -> int:
        """Words of a value."""
        return self.values.dtype.itemsize // 4

    def tables(self) -> dict[str, npt.NDArray[Any]]:
        """Return the tables that every kernel reads."""
        return {"of_output": self.of_output, "start": self.start}

    def sliced(self, slices: int) -> TreeOrder:
        """Return the same trees in slices, each of whose values is asked for.

        Examples
        --------
        >>> numbers = np.arange(5, dtype=np.int32)
        >>> whole = TreeOrder(numbers, np.array([0, 5]), np.zeros(9), np.zeros(1), apart=False)
        >>> whole.sliced(2).of_output.tolist()
        [0, 2, 5]
        """
        ends = np.arange(slices + 1) * len(self.number) // slices
        return replace(self, of_output=ends.astype(np.int32), apart=True)


def order_trees(forest: Forest, scores: bool) -> TreeOrder:
    """Order the trees for sums of scalars, or for leaf numbers."""
    if not scores:
        number = np.arange(forest.n_trees, dtype=np.int32)
        leaves = np.arange(forest.n_leaves, dtype=np.int32)
        ends = np.array([0, forest.n_trees], np.int32)
        return TreeOrder(number, ends, leaves, np.zeros(1, np.int32), apart=True)
    number = np.argsort(forest.target.data, kind="stable").astype(np.int32)
    counts = np.bincount(forest.target.data, minlength=forest.n_outputs)
    of_output = np.append(0, np.cumsum(counts)).astype(np.int32)
    return TreeOrder(number, of_output, forest.values.data[:, 0], forest.start.data, apart=False)


def tables_of_values(values: npt.NDArray[Any]) -> dict[str, npt.NDArray[Any]]:
    """Split values into words: the low ones, which are all there is of 32 bits, and the high ones.

    Examples
    --------
    >>> {name: table.tolist() for name, table in tables_of_values(np.array([1.0])).items()}
    {'low': [0], 'high': [1072693248]}
    """
    words = np.ascontiguousarray(values).view(np.uint32).reshape(*values.shape, -1)
    return {
        "low": np.ascontiguousarray(words[..., 0]),
        "high": np.ascontiguousarray(words[..., -1]),
    }
