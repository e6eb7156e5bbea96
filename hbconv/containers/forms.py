"""The forms of an answer: arrays, lists and tuples of them, sparse matrices, and items of rows."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, Self

import numpy as np

from hbconv.array import Array
from hbconv.containers.extractors import Name
from hbconv.containers.node import Node
from hbconv.containers.schema import Type

__all__ = [
    "MATRIX",
    "VECTOR",
    "AdjacencyLists",
    "AsRows",
    "Blocks",
    "CategoryColumns",
    "Cube",
    "FlatRow",
    "Form",
    "LabelColumns",
    "Labels",
    "Layout",
    "Matrix",
    "MatrixList",
    "MatrixTuple",
    "NameArrays",
    "NameTuples",
    "NamedValues",
    "Paths",
    "RowItems",
    "Sparse",
    "Stages",
    "Vector",
    "sparse_form",
]

Layout = Literal["csr", "csc", "given", "kept"]


class Form:
    """Base of the forms that an answer takes."""

    def misfit(self, values: Type) -> str | None:  # noqa: ARG002
        """Say why values of this type cannot take the form; None where they can."""
        return None

    def mapped(self, nodes: Mapping[Node, Node]) -> Self:  # noqa: ARG002
        """Return the same form over other nodes."""
        return self

    @property
    def whole(self) -> Form:
        """The form without the blocks that make it up."""
        return self

    @property
    def when_sparse(self) -> Sparse | None:
        """The form of the answer where it is a sparse matrix; None where it never is."""
        return None

    def widths(self, width: int) -> tuple[int, ...]:  # noqa: ARG002
        """Return the widths of the arrays that values of a width are cut into; () for one array."""
        return ()


@dataclass(frozen=True)
class Matrix(Form):
    """An array of shape (n_rows, width)."""


@dataclass(frozen=True)
class Vector(Form):
    """An array of shape (n_rows,)."""

    def misfit(self, values: Type) -> str | None:
        return None if values.width == 1 else f"is a vector of width {values.width}"


@dataclass(frozen=True)
class FlatRow(Form):
    """An array of shape (n_rows, width); where there is a single row, of shape (width,)."""


@dataclass(frozen=True)
class Labels(Form):
    """Class labels: the node computes their int32 codes, and the host looks them up.

    Parameters
    ----------
    classes : Array, shape (n_classes,)
        Label of each code.
    vector : bool
        The answer has shape (n_rows,) rather than (n_rows, width).
    """

    classes: Array
    vector: bool = True

    def misfit(self, values: Type) -> str | None:
        if self.vector and values.width != 1:
            return f"is a vector of width {values.width}"
        return _misfit_of_codes(values, (self.classes,))


@dataclass(frozen=True)
class LabelColumns(Form):
    """Class labels of several targets, shape (n_rows, n_targets).

    Parameters
    ----------
    tables : tuple of Array
        Label of each code, for each target.
    """

    tables: tuple[Array, ...]

    def misfit(self, values: Type) -> str | None:
        if len(self.tables) != values.width:
            return "has labels for other columns"
        return _misfit_of_codes(values, self.tables)


@dataclass(frozen=True)
class CategoryColumns(Form):
    """Categories of several columns, shape (n_rows, n_columns); the node computes their codes.

    A code beyond a table stands for None, which makes the array one of objects.

    Parameters
    ----------
    tables : tuple of Array
        Categories of each column, all of the dtype of the answer.
    """

    tables: tuple[Array, ...]

    def misfit(self, values: Type) -> str | None:
        if len(self.tables) != values.width or any(len(table) == 0 for table in self.tables):
            return "has categories for other columns"
        if len({table.dtype for table in self.tables}) > 1:
            return "has categories of several dtypes"
        return _misfit_of_codes(values, self.tables)


@dataclass(frozen=True)
class Cube(Form):
    """An array of shape (n_rows, *shape)."""

    shape: tuple[int, ...]

    def misfit(self, values: Type) -> str | None:
        # Two negative sizes would multiply to a width that fits.
        fits = math.prod(self.shape) == values.width and min(self.shape, default=0) >= 0
        return None if fits else f"has shape {self.shape}"


@dataclass(frozen=True)
class MatrixList(Form):
    """A list of matrices, as the probabilities of several targets.

    Parameters
    ----------
    parts : tuple of int
        Width of each.
    """

    parts: tuple[int, ...]

    def misfit(self, values: Type) -> str | None:
        return _misfit_of_parts(self.parts, values)

    def widths(self, width: int) -> tuple[int, ...]:  # noqa: ARG002
        return self.parts


@dataclass(frozen=True)
class MatrixTuple(Form):
    """A tuple of matrices, as distances and indexes.

    Parameters
    ----------
    parts : tuple of (int, str)
        Width and dtype of each; an empty dtype is the node's own.
    """

    parts: tuple[tuple[int, str], ...]

    def misfit(self, values: Type) -> str | None:
        return _misfit_of_parts(self.widths(values.width), values)

    def widths(self, width: int) -> tuple[int, ...]:  # noqa: ARG002
        return tuple(width for width, _ in self.parts)


@dataclass(frozen=True)
class Stages(Form):
    """An iterator over the answers after each stage of the ensemble.

    Parameters
    ----------
    count : int
        Number of stages, whose columns are side by side.
    each : Matrix, Vector or Labels
        Form of the answer after one stage.
    """

    count: int
    each: Matrix | Vector | Labels = Matrix()

    def misfit(self, values: Type) -> str | None:
        if self.count < 1 or values.width % self.count:
            return f"has {self.count} parts of width {values.width}"
        return self.each.misfit(Type(values.width // self.count, values.dtype))

    def widths(self, width: int) -> tuple[int, ...]:
        return (width // self.count,) * self.count


@dataclass(frozen=True)
class Paths(Form):
    """The tree nodes that a row passes, as a CSR matrix of ones with a column for each node.

    The node's values are the leaves, in the source's numbering over all trees.

    Parameters
    ----------
    parent : Array of int32, shape (n_nodes,)
        Node above each node, -1 above a root.
    first_node : Array of int64, shape (n_trees + 1,), or None
        First node of each tree, which the source returns with the paths.
        None where it does not.
    """

    parent: Array
    first_node: Array | None = None

    def misfit(self, values: Type) -> str | None:  # noqa: ARG002
        """Require each node to follow the one above it, so that every way up ends."""
        above = self.parent.data
        # A node above itself would make the way to the
        # root endless, in a file that anybody may write.
        climbs = (
            above.ndim == 1
            and above.dtype.kind == "i"
            and bool(np.all((above >= -1) & (above < np.arange(len(above)))))
        )
        return None if climbs else "has paths that have no end"


@dataclass(frozen=True)
class Blocks(Form):
    """An array of the answers of several transformers, side by side.

    A data frame keeps the dtype of each, where an array has their common one.

    Parameters
    ----------
    parts : tuple of (Node, str or None)
        Values of each, and the dtype of its answer where it differs from the node's.
    """

    parts: tuple[tuple[Node, str | None], ...]

    def misfit(self, values: Type) -> str | None:
        width = sum(node.type.width for node, _ in self.parts)
        return None if width == values.width else "has blocks of other widths"

    def mapped(self, nodes: Mapping[Node, Node]) -> Blocks:
        return Blocks(tuple((nodes[node], dtype) for node, dtype in self.parts))

    @property
    def whole(self) -> Matrix:
        return MATRIX


@dataclass(frozen=True)
class Sparse(Form):
    """A scipy sparse matrix.

    Parameters
    ----------
    layout : {"csr", "csc", "given", "kept"}
        "given" is csc where the rows are, else csr; "kept" is the layout of the rows.
    arrays : bool
        It is a sparse array, not a matrix, where the rows are one.
    """

    layout: Layout = "csr"
    arrays: bool = False

    @property
    def when_sparse(self) -> Sparse:
        return self

    def after(self, before: Sparse) -> Sparse:
        """Return the form for rows that another step returns: it follows theirs if both do."""
        layout = self.layout if self.layout in ("csr", "csc") else before.layout
        if self.layout == "given" and before.layout == "kept":
            # A step before that keeps the layout of its
            # rows hands on theirs, which this one follows.
            layout = "given"
        return Sparse(layout, self.arrays and before.arrays)


@dataclass(frozen=True)
class AsRows(Form):
    """A sparse matrix for rows that come as one, else an array.

    Parameters
    ----------
    sparse : Sparse
        Form for the rows of a sparse matrix.
    dense : Matrix or Blocks
        Form for all others.
    """

    sparse: Sparse = Sparse()
    dense: Matrix | Blocks = Matrix()

    def misfit(self, values: Type) -> str | None:
        return self.dense.misfit(values)

    def mapped(self, nodes: Mapping[Node, Node]) -> AsRows:
        return replace(self, dense=self.dense.mapped(nodes))

    @property
    def whole(self) -> AsRows:
        return replace(self, dense=MATRIX)

    @property
    def when_sparse(self) -> Sparse:
        return self.sparse


MATRIX = Matrix()
VECTOR = Vector()


def sparse_form(
    sparse: bool | None,
    layout: Layout = "csr",
    *,
    arrays: bool = False,
    dense: Matrix | Blocks = MATRIX,
) -> Form:
    """Return the form of an answer that is sparse, dense, or (None) what the rows are.

    Examples
    --------
    >>> sparse_form(True), sparse_form(False)
    (Sparse(layout='csr', arrays=False), Matrix())
    """
    if sparse is None:
        return AsRows(Sparse(layout, arrays), dense)
    return Sparse(layout, arrays) if sparse else dense


def _misfit_of_codes(values: Type, tables: tuple[Array, ...]) -> str | None:
    if values.dtype != "int32":
        return f"has codes of dtype {values.dtype}"
    if any(len(labels.shape) != 1 for labels in tables):
        return "has labels of another shape"
    return None


def _misfit_of_parts(parts: tuple[int, ...], values: Type) -> str | None:
    # A negative part could make the sum fit; an output without parts does not fit.
    fits = sum(parts) == values.width and min(parts, default=-1) >= 0
    return None if fits else f"has parts {parts} of width {values.width}"


@dataclass(frozen=True)
class RowItems(Form):
    """Base of a list with an item for each row, made of the names of its columns that are not 0.

    Parameters
    ----------
    names : Array or tuple of Name
        Name of each column.
    """

    names: Array | tuple[Name, ...]

    def misfit(self, values: Type) -> str | None:
        names = self.names
        shape = names.shape if isinstance(names, Array) else (len(names),)
        return None if shape == (values.width,) else f"has names of shape {shape}"


@dataclass(frozen=True)
class NameArrays(RowItems):
    """A list of an array of texts for each row: the names of the columns that are not 0.

    Parameters
    ----------
    names : tuple of Name
        Texts, those of the vocabulary itself, which is not copied.
    dtype : str
        Of the arrays, for example ``"<U12"``.
    """

    names: tuple[Name, ...]
    dtype: str

    def misfit(self, values: Type) -> str | None:
        misfit = super().misfit(values)
        # Any other dtype would make arrays of something else than texts.
        is_text = re.fullmatch(r"<U\d{1,9}", self.dtype) is not None
        return misfit if is_text else "names columns by what is no text"


@dataclass(frozen=True)
class NameTuples(RowItems):
    """A list of a tuple for each row: the names of the columns that are not 0."""

    names: Array


@dataclass(frozen=True)
class NamedValues(RowItems):
    """A list of a dict for each row: the values that are not 0, by the names of their columns."""

    names: tuple[Name, ...]


@dataclass(frozen=True)
class AdjacencyLists(Form):
    """A tuple of two arrays of an array for each row, about its values that are not below 0.

    The first holds these values, the second the positions of their columns.

    Parameters
    ----------
    order : Array of int64, shape (width,)
        The columns in the order in which they are listed.
    """

    order: Array

    def misfit(self, values: Type) -> str | None:
        order = self.order.data
        fits = order.dtype == np.int64 and np.array_equal(np.sort(order), np.arange(values.width))
        return None if fits else f"lists other columns than the {values.width} there are"
