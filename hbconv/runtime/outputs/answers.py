"""From a program's values to the answers of the estimator: shapes, dtypes, labels, sparsity.

Answers of ``radius_neighbors``: lists of neighbours, of another length for each row.

Answers of ``inverse_transform`` that are no numbers: categories, and the names of columns.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    AdjacencyLists,
    CategoryColumns,
    Cube,
    FlatRow,
    Form,
    LabelColumns,
    Labels,
    Matrix,
    MatrixList,
    MatrixTuple,
    NameArrays,
    NamedValues,
    NameTuples,
    Output,
    Paths,
    RowItems,
    Sparse,
    Stages,
    Vector,
)
from hbconv.runtime.batching import answer_chunks
from hbconv.runtime.outputs.tensors import cast, concatenate, look_up, on_host, stack

__all__ = [
    "answer",
    "decoder",
    "in_form",
    "in_order",
    "join",
    "join_chunks",
    "part_decoder",
    "row_decoder",
    "whole",
]


def answer(output: Output, values: Any) -> Any:
    """Return values of some rows, an array or a scipy CSR matrix, in the source's form.

    ``whole`` ends the answer, once all of its rows are joined.

    Tensors become tensors, but for labels that are text, and sparse matrices.

    Examples
    --------
    >>> from hbconv.array import Array
    >>> from hbconv.containers import Columns, Schema
    >>> output = Output(Columns.of(Schema.matrix(1)), Labels(Array(["no", "yes"])))
    >>> answer(output, np.array([[1], [0]], np.int32)).tolist()
    ['yes', 'no']
    """
    if isinstance(output.form, NameArrays | NameTuples | NamedValues):
        return name_rows(output.form, values)
    if hasattr(values, "tocsr"):
        return values if output.dtype is None else values.astype(output.dtype, copy=False)
    form = output.form
    if isinstance(form, Paths):
        return _paths(form, on_host(values))
    if isinstance(form, AdjacencyLists):
        return list_adjacent(form, on_host(values))
    if isinstance(form, MatrixList):
        return [cast(part, output.dtype) for part in _cut(output, values)]
    if isinstance(form, MatrixTuple):
        parts = zip(_cut(output, values), form.parts, strict=True)
        return tuple(cast(part, dtype or output.dtype) for part, (_, dtype) in parts)
    if isinstance(form, Stages):
        return iter([_array(form.each, output.dtype, part) for part in _cut(output, values)])
    return _array(form, output.dtype, values)


def decoder(output: Output) -> Callable[[npt.NDArray[Any]], Any]:
    """Return what gives the whole answer of a copy of values, specialised for the output."""
    output = output.for_rows(sparse=False)
    form = output.form
    dtype = output.dtype
    if isinstance(form, Labels):
        return lambda values: _array(form, dtype, values)
    if isinstance(form, Vector):
        return lambda values: values[:, 0].astype(dtype or values.dtype)
    if isinstance(form, Matrix):
        # Always a copy: the next call writes over the values.
        return np.ndarray.copy if dtype is None else lambda values: values.astype(dtype)
    return lambda values: whole(output, answer(output, values.copy()))


def part_decoder(output: Output) -> Callable[[Any], Any]:
    """Return ``answer`` for some of the rows, of arrays or tensors, specialised for the output."""
    if type(output.form) in (Labels, Vector, Matrix):
        return partial(_array, output.form, output.dtype)
    return partial(answer, output)


def row_decoder(output: Output) -> Callable[[npt.NDArray[Any]], Any]:
    """Return what ``decoder`` does, for the values of one row.

    An answer that is one number takes a copy: slices, casts and look-ups take several times as
    long as that.
    """
    form = output.for_rows(sparse=False).form
    if isinstance(form, Labels) and form.vector:
        # One array for each class, made beforehand: a call copies one of them.
        labels = list(cast(form.classes.data, output.dtype)[:, np.newaxis])
        return lambda values: labels[values.item()].copy()
    if isinstance(form, Vector) and output.dtype is None:
        # ``flatten`` copies, and is one call in C.
        return np.ndarray.flatten
    return decoder(output)


def join(parts: Sequence[Any]) -> Any:
    """Return the answers of consecutive rows as one."""
    first = parts[0]
    if len(parts) == 1:
        return first
    if isinstance(first, np.ndarray):
        return np.concatenate(parts)
    if hasattr(first, "detach"):
        return concatenate(parts)
    if isinstance(first, list):
        return [join(blocks) for blocks in zip(*parts, strict=True)]
    if isinstance(first, Iterator):
        return iter([join(blocks) for blocks in zip(*parts, strict=True)])
    if isinstance(first, tuple):
        return _join_tuples(parts)
    from scipy.sparse import vstack

    return vstack(parts, format="csr")


def join_chunks(rows: int, size: int, answer_chunk: Callable[[slice], Any]) -> Any:
    """Answer rows chunk by chunk, and return the answers as one."""
    return join(answer_chunks(rows, size, answer_chunk))


def in_order(answers: Any, rows: npt.NDArray[np.integer[Any]]) -> Any:
    """Return joined answers in the order of the rows they are for."""
    if isinstance(answers, list | tuple | Iterator):
        blocks = [in_order(block, rows) for block in answers]
        return iter(blocks) if isinstance(answers, Iterator) else type(answers)(blocks)
    # ``rows`` is a permutation, whose order of sorting is its inverse.
    return answers[np.argsort(rows)]


def whole(output: Output, outputs: Any, x: Any = None) -> Any:
    """Return the answers of all parts of the rows, joined, as the source answers the whole.

    That is a list of items, one row that is flat, the source's own shape for no rows, or a sparse
    matrix as the source makes it of rows x.

    Examples
    --------
    >>> from hbconv.containers import Columns, Schema
    >>> output = Output(Columns.of(Schema.matrix(3)), FlatRow())
    >>> whole(output, np.zeros((1, 3))).shape, whole(output, np.zeros((2, 3))).shape
    ((3,), (2, 3))
    """
    if hasattr(outputs, "tocsr"):
        return in_form(outputs, output, x)
    if isinstance(output.form, RowItems):
        return outputs.tolist()
    if isinstance(output.form, FlatRow) and len(outputs) == 1:
        return outputs.reshape(-1)
    if output.of_no_rows is None or len(outputs):
        return outputs
    empty = output.of_no_rows.data
    return cast(outputs, empty.dtype).reshape(empty.shape)


def in_form(outputs: Any, output: Output, x: Any) -> Any:
    """Return a sparse answer in the class and layout that the source model returns for x."""
    import scipy.sparse

    sparse_rows = x if scipy.sparse.issparse(x) else None
    form = output.form.when_sparse or Sparse()
    layout = _layout(form.layout, sparse_rows)
    is_array = (
        isinstance(sparse_rows, scipy.sparse.sparray)
        if form.arrays and sparse_rows is not None
        else _prefers_arrays()
    )
    if outputs.format == layout and isinstance(outputs, scipy.sparse.sparray) == is_array:
        return outputs
    return getattr(scipy.sparse, f"{layout}_{'array' if is_array else 'matrix'}")(outputs)


def _layout(layout: str, sparse_rows: Any) -> str:
    if layout in ("csr", "csc") or sparse_rows is None:
        return layout if layout == "csc" else "csr"
    return str(sparse_rows.format) if layout == "kept" or sparse_rows.format == "csc" else "csr"


def _prefers_arrays() -> bool:
    """Whether scikit-learn is configured to return sparse arrays; asked where it is loaded."""
    sklearn = sys.modules.get("sklearn")
    return sklearn is not None and sklearn.get_config().get("sparse_interface") == "sparray"


def _join_tuples(parts: Sequence[tuple[Any, Any]]) -> tuple[Any, ...]:
    """Join the blocks at each position of a tuple.

    The first nodes of the trees, beside decision paths, are the same for all rows.
    """
    if hasattr(parts[0][0], "toarray"):
        return join([matrix for matrix, _ in parts]), parts[0][1]
    return tuple(join(blocks) for blocks in zip(*parts, strict=True))


def _cut(output: Output, values: Any) -> list[Any]:
    return [values[:, end - width : end] for width, end in _ends(output.widths)]


def _ends(widths: tuple[int, ...]) -> Iterable[tuple[int, int]]:
    return zip(widths, accumulate(widths), strict=True)


def _array(form: Form, dtype: str | None, values: Any) -> Any:
    """Return values in the form of one array, tensor or sparse matrix."""
    if isinstance(form, Labels):
        codes = values[:, 0] if form.vector else values
        return cast(look_up(form.classes, codes), dtype)
    if isinstance(form, LabelColumns):
        return cast(_label_columns(form.tables, values), dtype)
    if isinstance(form, CategoryColumns):
        return look_up_categories(form.tables, on_host(values))
    if isinstance(form, Vector):
        return cast(values[:, 0], dtype)
    values = cast(values, dtype)
    if isinstance(form, Cube):
        return values.reshape(len(values), *form.shape)
    if isinstance(form, Sparse) and importlib.util.find_spec("scipy") is not None:
        return _sparse(on_host(values))
    return values


def _label_columns(tables: tuple[Array, ...], codes: Any) -> Any:
    columns = [look_up(labels, codes[:, column]) for column, labels in enumerate(tables)]
    return stack(columns)


def _sparse(values: npt.NDArray[Any]) -> Any:
    from scipy.sparse import csr_matrix

    return csr_matrix(values)


def _paths(paths: Paths, leaves: npt.NDArray[Any]) -> Any:
    """Return the nodes on the paths from roots to leaves, as a CSR matrix of ones.

    A row holds the nodes of one tree after another, root first.

    Its indexes have the source's dtype: int64 for a single tree.
    """
    from scipy.sparse import csr_matrix

    # The -1 at the end is the parent of index -1.
    parent, climb = np.append(paths.parent.data, -1), [leaves.ravel()]
    # All leaves climb at once; a root's parent is -1, and stays so.
    while np.any(climb[-1] >= 0):
        climb.append(parent[climb[-1]])
    nodes = np.stack(climb[::-1], axis=1)
    met = nodes >= 0
    ends = np.cumsum(met.sum(axis=1).reshape(leaves.shape).sum(axis=1))
    matrix = csr_matrix(
        (np.ones(met.sum(), np.int64), nodes[met], np.append(0, ends)),
        shape=(len(leaves), len(paths.parent)),
    )
    if paths.first_node is not None:
        return matrix, paths.first_node.data.copy()
    # scipy chooses int32 where it can, and a single tree of scikit-learn gives int64.
    matrix.indices, matrix.indptr = matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)
    return matrix


Lists = npt.NDArray[np.object_]


def list_adjacent(form: AdjacencyLists, values: npt.NDArray[Any]) -> tuple[Lists, Lists]:
    """Return the values of each row that are not below 0, and the positions of their columns.

    Examples
    --------
    >>> from hbconv.array import Array
    >>> form = AdjacencyLists(Array([2, 0, 1]))
    >>> distances, positions = list_adjacent(form, np.array([[0.5, -1.0, 2.0], [-1.0, 3.0, -1.0]]))
    >>> [row.tolist() for row in distances], [row.tolist() for row in positions]
    ([[2.0, 0.5], [3.0]], [[2, 0], [1]])
    """
    order = form.order.data
    listed = values[:, order]
    adjacent = listed >= 0
    ends = np.cumsum(adjacent.sum(axis=1))
    positions = np.broadcast_to(order, adjacent.shape)[adjacent]
    return _split(listed[adjacent], ends), _split(positions, ends)


def _split(values: npt.NDArray[Any], ends: npt.NDArray[np.int64]) -> Lists:
    """Cut values into an array for each row."""
    lists = np.empty(len(ends), dtype=object)
    for row, part in enumerate(np.split(values, ends)[:-1]):
        lists[row] = part
    return lists


def look_up_categories(tables: tuple[Array, ...], codes: npt.NDArray[np.int32]) -> npt.NDArray[Any]:
    """Return the category of each code, and None, in an array of objects, for codes beyond.

    Examples
    --------
    >>> tables = Array(["a", "b"]), Array(["x", "y"])
    >>> look_up_categories(tables, np.array([[0, 1]], np.int32)).tolist()
    [['a', 'y']]
    >>> look_up_categories(tables, np.array([[0, 2]], np.int32)).tolist()
    [['a', None]]
    """
    sizes = np.array([len(table) for table in tables])
    is_category = codes < sizes
    columns = [
        table.data[np.where(is_category[:, j], codes[:, j], 0)] for j, table in enumerate(tables)
    ]
    values = np.stack(columns, axis=1)
    if is_category.all():
        return values
    objects = values.astype(object)
    objects[~is_category] = None
    return objects


def name_rows(form: NameArrays | NameTuples | NamedValues, values: Any) -> npt.NDArray[np.object_]:
    """Return an item for each row, made of the names of its columns that are not 0.

    They stand in an array of shape (n_rows,), so that parts can be joined.

    Examples
    --------
    >>> name_rows(NamedValues(("a", "b")), np.array([[0.0, 2.0]])).tolist()
    [{'b': np.float64(2.0)}]
    """
    # ``np.array`` of items would make a matrix of those of one length.
    items = np.empty(values.shape[0], dtype=object)
    for row in range(len(items)):
        items[row] = _item(form, *_nonzeros(values, row))
    return items


def _item(
    form: NameArrays | NameTuples | NamedValues, columns: npt.NDArray[Any], held: npt.NDArray[Any]
) -> Any:
    if isinstance(form, NamedValues):
        return dict(zip((form.names[j] for j in columns), held, strict=True))
    if isinstance(form, NameArrays):
        return np.array([form.names[j] for j in columns.tolist()], form.dtype)
    return tuple(form.names.data[columns])


def _nonzeros(values: Any, row: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[Any]]:
    """Return the columns of a row that are not 0, in order, and their values."""
    if not hasattr(values, "tocsr"):
        held = on_host(values[row])
        columns = np.flatnonzero(held)
        return columns, held[columns]
    part = slice(values.indptr[row], values.indptr[row + 1])
    order = np.argsort(values.indices[part], kind="stable")
    columns, held = values.indices[part][order], values.data[part][order]
    return columns[held != 0], held[held != 0]
