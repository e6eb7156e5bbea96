"""A forest as a module: its columns prepared, one row or many taken down its trees, the leaves' values added in order."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from hbconv.backends.torch.tree_modules import Descent, Next, Select, Walk
from hbconv.forest import Forest
from hbconv.target import Target

__all__ = ["NATIVE", "Trees"]

NATIVE: dict[str, tuple[Any, Any]] = {
    "select": (Next, Select),
    "perfect_tree_traversal": (Walk, Descent),
}
"""What runs each strategy: for one row, and for many."""


class Leaves(nn.Module):
    """The leaves' numbers, (rows, trees)."""

    numbers: Tensor

    def __init__(self, leaves: npt.NDArray[np.int32]) -> None:
        super().__init__()
        self.register_buffer("numbers", torch.tensor(leaves, dtype=torch.int64))

    def forward(self, at: Tensor) -> Tensor:
        """Look them up for places (trees,) of one row or (trees, rows)."""
        numbers = self.numbers.index_select(0, at.flatten())
        return numbers.unsqueeze(0) if at.dim() == 1 else numbers.view(at.shape).t().contiguous()


class Sums(nn.Module):
    """The leaves' values added to the outputs, tree after tree, from the start: (rows, outputs)."""

    values: Tensor
    start: Tensor
    target: Tensor

    def __init__(self, forest: Forest, leaves: npt.NDArray[np.int32]) -> None:
        super().__init__()
        self.width = forest.values.shape[1]
        values = forest.values.data[leaves]
        self.register_buffer("values", torch.tensor(values[:, 0] if self.width == 1 else values))
        self.register_buffer("start", torch.tensor(forest.start.data))
        self.register_buffer("target", torch.tensor(forest.target.data, dtype=torch.int64))

    def forward(self, at: Tensor) -> Tensor:
        """Add for places (trees,) of one row or (trees, rows); ``index_add`` on the CPU adds one term after another."""
        terms = self.values.index_select(0, at.flatten())
        if self.width > 1:
            rows = at.shape[1] if at.dim() == 2 else 1
            start = self.start.repeat(rows).unsqueeze(0)
            return start.index_add_(
                0, torch.zeros_like(self.target), terms.view(at.shape[0], start.shape[1])
            ).view(rows, self.width)
        if at.dim() == 1:
            return self.start.index_add(0, self.target, terms).unsqueeze(0)
        return (
            self.start.unsqueeze(1)
            .repeat(1, at.shape[1])
            .index_add_(0, self.target, terms.view(at.shape))
            .t()
        )


class Part(nn.Module):
    """What is done with as many rows as are taken at once: columns prepared, then the trees."""

    def __init__(self, columns: nn.Module | None, trees: nn.Module) -> None:
        super().__init__()
        self.columns, self.trees = columns, trees


class OneRow(Part):
    """A single row, as a vector."""

    def forward(self, x: Tensor) -> Tensor:
        """Answer for x (1, columns)."""
        answer: Tensor = self.trees((self.columns(x) if self.columns else x).flatten())
        return answer


class ManyRows(Part):
    """Rows side by side."""

    def forward(self, x: Tensor, whole: bool = False) -> Tensor:
        """Answer for x (rows, columns); ``whole`` where the rows may be very many."""
        answer: Tensor = self.trees(
            (self.columns(x) if self.columns else x).t().contiguous(), whole
        )
        return answer


class Trees(nn.Module):
    """The sums of a forest, or its leaves. One row is taken by other means than many, and very many in parts.

    Parameters
    ----------
    forest : Forest
    strategy : str
        One of NATIVE.
    scores : bool
        Sums, rather than leaves.
    columns : nn.Module or None
        Makes the columns that the tests read.
    column, threshold : array, shape (n_tests,)
        The tests over them: a row goes left where ``x[column] <= threshold``.
    """

    def __init__(
        self,
        forest: Forest,
        strategy: str,
        scores: bool,
        columns: nn.Module | None,
        column: npt.NDArray[np.int32],
        threshold: npt.NDArray[Any],
    ) -> None:
        super().__init__()
        one, many = NATIVE[strategy if forest.n_tests else "select"]
        answer = partial(Sums, forest) if scores else Leaves
        trees = many(forest, column, threshold, answer)
        self.one, self.many = (
            OneRow(columns, one(forest, column, threshold, answer)),
            ManyRows(columns, trees),
        )
        self.rows, self.width, self.dtype = (
            Target().rows_at_once(trees.bytes_per_row),
            forest.n_features,
            getattr(torch, threshold.dtype.name),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Answer for x (rows, columns); who traces or compiles sees one piece that takes any number of rows."""
        x = x.detach() if x.requires_grad else x
        if torch.compiler.is_compiling() or torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]
            answer: Tensor = self.many(x, True)
        elif len(x) == 1:
            answer = self.one(x)
        elif len(x) <= self.rows:
            answer = self.many(x)
        else:
            answer = torch.cat([self.many(part) for part in torch.split(x, self.rows)])
        return answer

    def example(self) -> Tensor:
        """Return two rows, for a tracer."""
        return torch.zeros(2, self.width, dtype=self.dtype, device=next(self.buffers()).device)
