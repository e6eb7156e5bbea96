"""What one method of the model returns: the values of a node, and the form they take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hbconv.array import Array
from hbconv.containers.forms import (
    MATRIX,
    AdjacencyLists,
    AsRows,
    Blocks,
    CategoryColumns,
    Cube,
    Form,
    LabelColumns,
    Labels,
    MatrixTuple,
    Paths,
    RowItems,
    Sparse,
    Stages,
    Vector,
)
from hbconv.containers.node import Node
from hbconv.containers.nodes import TreeContributions

__all__ = ["Output"]

_OF_SEVERAL = AdjacencyLists | MatrixTuple | Paths | Stages
"""Forms of several arrays, which no tensor holds."""


@dataclass(frozen=True)
class Output:
    """What one method of the model returns.

    Parameters
    ----------
    node : Node
        The values.
    form : Form
        Shape and kind of the answer that they make up.
    dtype : str or None
        Dtype of the source's answer where it differs from the node's.
    on_demand : bool
        Whether it takes so long that files hold it only where they are asked for it by name.
    of_no_rows : Array or None
        The source's answer to no rows, where it has another shape than rows have.
    """

    node: Node
    form: Form = MATRIX
    dtype: str | None = None
    on_demand: bool = False
    of_no_rows: Array | None = None

    @property
    def misfit(self) -> str | None:
        """Why the node's values cannot take the form; None where they can."""
        return self.form.misfit(self.node.type)

    @property
    def blocks(self) -> tuple[tuple[Node, str | None], ...]:
        """Node and dtype of each block; of the output itself where it has none."""
        form = self.for_rows(sparse=False).form
        return form.parts if isinstance(form, Blocks) else ((self.node, self.dtype),)

    def mapped(self, nodes: Mapping[Node, Node]) -> Output:
        """Return the same output of other nodes."""
        return replace(self, node=nodes[self.node], form=self.form.mapped(nodes))

    def of(self, node: Node) -> Output:
        """Return the same output of another node, without the blocks of this one."""
        return replace(self, node=node, form=self.form.whole)

    def after(self, before: Output) -> Output:
        """Return the same output of a step that reads another's answer."""
        mine = self.form.when_sparse
        theirs = before.form.when_sparse
        if mine is None or theirs is None:
            return self
        form = mine.after(theirs)
        changed = replace(self.form, sparse=form) if isinstance(self.form, AsRows) else form
        return replace(self, form=changed)

    def for_rows(self, *, sparse: bool) -> Output:
        """Return the output of rows that come as a sparse matrix, or that do not."""
        if not isinstance(self.form, AsRows):
            return self
        return replace(self, form=self.form.sparse if sparse else self.form.dense)

    @property
    def returns_sparse(self) -> bool | None:
        """Whether the source returns a sparse matrix; None: where the rows are one."""
        return None if isinstance(self.form, AsRows) else isinstance(self.form, Sparse)

    @property
    def is_vector(self) -> bool:
        """Whether it is one array of shape (n_rows,)."""
        return isinstance(self.form, Vector) or (isinstance(self.form, Labels) and self.form.vector)

    @property
    def n_explained(self) -> int:
        """Number of features that an explanation is of."""
        if isinstance(self.form, Cube):
            return self.form.shape[-1] - 1
        # The outputs of LightGBM stand side by side in one matrix.
        if isinstance(self.node, TreeContributions):
            return self.node.covered.n_features
        return self.node.type.width - 1

    @property
    def is_tensor(self) -> bool:
        """Whether exports and torch modules can hold it; else only ``Model`` returns it."""
        return not isinstance(self.form, _OF_SEVERAL | CategoryColumns | RowItems)

    @property
    def widths(self) -> tuple[int, ...]:
        """Widths of the arrays that it is cut into; () for one array."""
        return self.form.widths(self.node.type.width)

    @property
    def classes(self) -> Array | tuple[Array, ...] | None:
        """Labels that the node's codes stand for, a tuple: of each column; None for numbers."""
        form = self.form.each if isinstance(self.form, Stages) else self.form
        if isinstance(form, LabelColumns):
            return form.tables
        return form.classes if isinstance(form, Labels) else None
