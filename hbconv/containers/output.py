"""Output: what one method of the model returns, and the form in which it does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from hbconv.array import Array
from hbconv.containers.node import Node

__all__ = ["Output", "Paths"]


@dataclass(frozen=True)
class Paths:
    """How the nodes of a forest hang together, in the source's numbering over all trees.

    Parameters
    ----------
    parent : Array of int32, shape (n_nodes,)
        Node above each node, -1 above a root.
    first_node : Array of int64, shape (n_trees + 1,), or None
        First node of each tree, which the source returns beside the paths; None where it does not.
    """

    parent: Array
    first_node: Array | None = None

    @property
    def climbs(self) -> bool:
        """Whether each node stands behind the one above it, so that every way up ends."""
        above = self.parent.data
        return (
            above.ndim == 1
            and above.dtype.kind == "i"
            and bool(np.all((above >= -1) & (above < np.arange(len(above)))))
        )


@dataclass(frozen=True)
class Output:
    """What one method of the model returns.

    Parameters
    ----------
    node : Node
        The values.
    classes : Array, tuple of Array, or None
        Labels that the node's int32 codes stand for, a tuple: of each column; the host decodes them after the program.
    vector : bool
        The method returns (n_rows,) rather than (n_rows, 1).
    dtype : str or None
        Dtype of the source's answer where it differs from the node's.
    sparse : bool or None
        The source returns a scipy sparse matrix; None: where the rows are one.
    layout : {"csr", "csc", "given", "kept"}
        How its entries lie: "given" is csc where the rows are, else csr; "kept" is as those of the rows.
    arrays : bool
        It is a sparse array, not a matrix, where the rows are one.
    parts : tuple of int
        Widths of blocks of columns: the method returns a list of them.
    dtypes : tuple of str
        Dtypes of the parts, an empty one the node's own: the method returns a tuple of them, such as distances and indexes.
    staged : bool
        The method returns an iterator over the parts, one for each stage of the ensemble.
    shape : tuple of int or None
        Shape of a row's answer where it has more than one dimension.
    blocks : tuple of Output
        Answers of several transformers side by side: a frame keeps the dtype of each, where an array has their common one.
    paths : Paths or None
        The method returns the nodes on the way to the leaves, which the node names as paths does, as a CSR matrix of ones.
    """

    node: Node
    classes: Array | tuple[Array, ...] | None = None
    vector: bool = False
    dtype: str | None = None
    sparse: bool | None = False
    parts: tuple[int, ...] = ()
    dtypes: tuple[str, ...] = ()
    staged: bool = False
    shape: tuple[int, ...] | None = None
    paths: Paths | None = None
    blocks: tuple[Output, ...] = ()
    layout: str = "csr"
    arrays: bool = False

    @property
    def leaves(self) -> tuple[Output, ...]:
        """The blocks, and the blocks of these; the output itself where it has none."""
        return tuple(leaf for block in self.blocks for leaf in block.leaves) or (self,)

    def mapped(self, nodes: Mapping[Node, Node]) -> Output:
        """Return the same output of other nodes."""
        return replace(
            self, node=nodes[self.node], blocks=tuple(block.mapped(nodes) for block in self.blocks)
        )

    def after(self, before: Output) -> Output:
        """Return the same output of a step that reads another's: its form follows the rows' as far as both do."""
        if before.sparse is False or self.sparse is False:
            return self
        layout = self.layout if self.layout in ("csr", "csc") else before.layout
        if self.layout == "given" and before.layout == "kept":
            layout = "given"
        return replace(self, layout=layout, arrays=self.arrays and before.arrays)

    def of_form(self, *, sparse: bool) -> Output:
        """Return the output of rows that come as a sparse matrix, or that do not."""
        return replace(self, sparse=sparse) if self.sparse is None else self

    @property
    def is_tensor(self) -> bool:
        """Whether it is one tensor, as exports and torch modules hold it; else only ``Model`` returns it."""
        return not (self.staged or self.paths or self.dtypes)

    @property
    def n_codes(self) -> int:
        """Number of label tables, each of one column; 0 where the values are the answer."""
        return (
            0
            if self.classes is None
            else 1
            if isinstance(self.classes, Array)
            else len(self.classes)
        )
