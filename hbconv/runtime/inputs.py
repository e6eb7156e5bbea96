"""What the user gives becomes a Table, and a Table feeds a program."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.containers import Graph, Schema, topological
from hbconv.containers.columns import Codes, Columns, Entries, Hashes
from hbconv.containers.extractors import Extractor
from hbconv.containers.find_code import FindCode
from hbconv.containers.only_numbers import OnlyNumbers
from hbconv.errors import InputError
from hbconv.lower import DENSE, AnyFeed, CodesFeed, EntriesFeed, Feed, Padding
from hbconv.runtime.arrays import dtype_name, numeric, require_numbers
from hbconv.runtime.entries import EntryRows, groups
from hbconv.runtime.extract import extract
from hbconv.runtime.hashes import encode_hashed
from hbconv.runtime.items import read_items
from hbconv.runtime.matrices import as_numbers, contiguous, read_matrix, written_out
from hbconv.runtime.tables import Data, Frame, find_columns, read_frame, read_sequence
from hbconv.runtime.text import Categories, Text, encode

__all__ = ["Reads", "Table", "count_columns", "read_table"]


@dataclass(frozen=True)
class Reads:
    """Which columns of the schema a model reads, as numbers and as text, which of them only for the place of a value among known ones, and which as entries."""

    schema: Schema
    numbers: frozenset[int]
    text: frozenset[int]
    owner: str = "The model"
    categories: frozenset[int] = frozenset()
    sparse: bool = True
    entries: tuple[tuple[int, Extractor], ...] = ()
    objects: frozenset[int] = frozenset()
    """Columns whose objects must all be numbers."""

    @staticmethod
    def of(graph: Graph) -> Reads:
        """Collect the columns that the outputs and checks of a graph read."""
        nodes = topological(graph.roots)
        text = frozenset(n.column for n in nodes if isinstance(n, Codes | Entries))
        entries = tuple((n.column, n.extractor) for n in nodes if isinstance(n, Entries))
        numbers = frozenset(i for n in nodes if isinstance(n, Columns) for i in n.columns)
        coded = frozenset(i for n in nodes if isinstance(n, FindCode) and isinstance(n.x, Columns) for i in n.x.columns)
        behind = topological(tuple(n for n in nodes if isinstance(n, OnlyNumbers)))
        objects = frozenset(i for n in behind if isinstance(n, Columns) for i in n.columns)
        return Reads(graph.schema, numbers - text, text, graph.traits.estimator or "The model", text | coded, graph.sparse, entries, objects)

    @property
    def needed(self) -> frozenset[int]:
        """All columns that are read."""
        return self.numbers | self.text

    def where(self, column: int) -> str:
        """Return what a column is called in messages."""
        return f"Column {self.schema.names[column]!r}" if self.schema.named else f"Column {column}"


@dataclass(frozen=True)
class Table:
    """Rows as the model reads them: one matrix, or its columns apart.

    Parameters
    ----------
    reads : Reads
        The columns.
    rows : int
        Number of rows.
    dtypes : tuple of str
        Dtype of each column of the schema; ``"string"`` for text and for what is not read.
    matrix : ndarray of shape (rows, width), scipy sparse matrix, or None
        All columns in one.
    columns : mapping
        Else the columns that are read, by position in the schema.
    entries : mapping
        Columns read as sparse rows, by position and extractor; under the key None the matrix itself, where it is sparse and stays so.
    padding : Padding
        How programs take the sparse rows.
    """

    reads: Reads
    rows: int
    dtypes: tuple[str, ...]
    matrix: Any = None
    columns: Mapping[int, Data] = field(default_factory=dict)
    entries: Mapping[tuple[int, Extractor] | None, EntryRows] = field(default_factory=dict)
    padding: Padding = DENSE
    _fed: dict[Feed | CodesFeed, npt.NDArray[Any]] = field(default_factory=dict, repr=False)
    _padded: dict[EntriesFeed, tuple[npt.NDArray[np.int32], npt.NDArray[Any]]] = field(default_factory=dict, repr=False)

    def part(self, rows: slice) -> Table:
        """Return some of the rows, written out where they are sparse and not entries; the table itself for all of them."""
        sparse = hasattr(self.matrix, "toarray")
        if rows == slice(0, self.rows) and not sparse:
            return self
        matrix = None if self.matrix is None else written_out(self.matrix[rows], self.reads.schema) if sparse else self.matrix[rows]
        return replace(self.chosen(rows), rows=rows.stop - rows.start, matrix=matrix)

    def groups(self, *, sparse: bool) -> list[tuple[npt.NDArray[np.integer[Any]] | None, Table]]:
        """Return groups of rows with about as many entries each, and which rows they are; the table itself where it has no entries.

        Parameters
        ----------
        sparse : bool
            The program takes a sparse matrix by its entries.
        """
        entries: dict[tuple[int, Extractor] | None, EntryRows] = {
            (i, made): EntryRows(*extract(self.column(i), made, self.reads.where(i)), made.width) for i, made in self.reads.entries
        }
        if sparse:
            entries[None] = EntryRows.of_matrix(self.matrix)
        if not entries:
            return [(None, self)]
        table = replace(self, matrix=None, entries=entries) if sparse else replace(self, entries=entries)
        made = list(groups(np.max([rows.sizes for rows in entries.values()], axis=0)))
        if len(made) == 1:
            return [(None, replace(table, padding=Padding(made[0][1], sparse)))]
        return [(rows, replace(table.chosen(rows), rows=len(rows), padding=Padding(size, sparse))) for rows, size in made]

    def chosen(self, rows: slice | npt.NDArray[np.integer[Any]]) -> Table:
        """Return some rows of the columns and entries."""
        columns = {i: c.part(rows) if isinstance(c, Text | Categories) else c[rows] for i, c in self.columns.items()}
        return replace(self, columns=columns, entries={key: made.part(rows) for key, made in self.entries.items()}, _fed={}, _padded={})

    def column(self, position: int) -> Data:
        """Return one column of the schema."""
        return self.columns[position] if self.matrix is None else self.matrix[:, position]

    def inputs(self, feeds: Iterable[AnyFeed]) -> dict[str, npt.NDArray[Any]]:
        """Return the inputs of a program by name."""
        found: dict[str, npt.NDArray[Any]] = {}
        for feed in feeds:
            found |= zip(feed.names, self.padded(feed), strict=True) if isinstance(feed, EntriesFeed) else ((feed.name, self.feed(feed)),)
        return found

    def feed(self, feed: Feed | CodesFeed) -> npt.NDArray[Any]:
        """Return a program input, C-contiguous; without a copy where a matrix already is. Made once for each feed."""
        if feed not in self._fed:
            self._fed[feed] = self._codes(feed) if isinstance(feed, CodesFeed) else self._numbers(feed)
        return self._fed[feed]

    def padded(self, feed: EntriesFeed) -> tuple[npt.NDArray[np.int32], npt.NDArray[Any]]:
        """Return tokens and weights of sparse rows. Made once for each feed."""
        if feed not in self._padded:
            key = None if feed.leaf is None else (feed.leaf.column, feed.leaf.extractor)
            self._padded[feed] = self.entries[key].padded(feed.size)
        return self._padded[feed]

    def _numbers(self, feed: Feed) -> npt.NDArray[Any]:
        if self.matrix is not None:
            whole = feed.columns == tuple(range(self.matrix.shape[1]))
            return contiguous(self.matrix if whole else self.matrix[:, list(feed.columns)])
        out = np.empty((self.rows, len(feed.columns)), feed.dtype)
        for place, position in enumerate(feed.columns):
            out[:, place] = self.columns[position]
        return out

    def _codes(self, feed: CodesFeed) -> npt.NDArray[np.int32]:
        out = np.empty((self.rows, len(feed.leaves)), np.int32)
        for place, leaf in enumerate(feed.leaves):
            out[:, place] = _encoded(self.column(leaf.column), leaf, self.reads.where(leaf.column))
        return out


def count_columns(x: Any) -> int | None:
    """Return the number of columns of any table or two-dimensional array; None for a sequence of anything else."""
    frame = read_frame(x)
    if frame is not None:
        return len(frame.names)
    try:
        shape = np.shape(x)
    except ValueError:  # Of sequences that differ in length.
        return None
    return shape[1] if len(shape) == 2 else None


def read_table(x: Any, reads: Reads) -> Table:
    """Read any table or array.

    Parameters
    ----------
    x : array, table or list of lists
        numpy array, list of lists, pandas or polars DataFrame, Arrow Table or RecordBatch, dict of columns, structured array,
        torch tensor, scipy sparse matrix. Of shape (rows, columns); no rows are allowed.
    reads : Reads
        The columns the model reads.

    Raises
    ------
    InputError
        Whatever does not fit: width, names, dimensions, dtypes, text where numbers are read.
    """
    read = read_items if reads.schema.conventions.items else read_sequence if reads.schema.conventions.sequence else read_frame
    frame = read(x)
    if frame is not None:
        return _read_frame(frame, reads)
    if reads.schema.conventions.tables_only:
        raise InputError(f"{reads.owner} was fitted on columns of categories. Give a table (such as a DataFrame) that holds their values, not an array.")
    if hasattr(x, "tocsr") and not reads.sparse:
        raise InputError(f"A step of {reads.owner} takes for missing what a sparse matrix leaves out, and others for zero. Give X.toarray().")
    matrix = read_matrix(x)
    _require_width(matrix.shape[1], reads)
    if reads.schema.named:
        _warn(f"X does not have valid feature names, but {reads.owner} was fitted with feature names")
    if matrix.dtype.kind in "OU" and (reads.text or matrix.dtype.kind == "O"):
        return _read_columns(Frame((), len(matrix), lambda i: matrix[:, i]), range(matrix.shape[1]), reads)
    return _whole(reads, as_numbers(matrix, reads.schema))


def _encoded(data: Data, leaf: Codes, where: str) -> npt.NDArray[np.int32]:
    return encode_hashed(data, leaf.vocabulary, where) if isinstance(leaf.vocabulary, Hashes) else encode(data, leaf.vocabulary, where)


def _read_frame(frame: Frame, reads: Reads) -> Table:
    place = _places(frame, reads)
    listed = frozenset(i for i in reads.needed if frame.is_category(place[i])) if frame.is_category else reads.categories
    if reads.schema.conventions.no_categories:
        _require_numbers(listed, reads)
    if reads.schema.conventions.tables_only:
        _require_categories(listed, reads)
    if frame.matrix is None or reads.text or len(place) < len(reads.schema.columns):
        return _read_columns(frame, place, reads)
    order = [place[i] for i in range(len(place))]
    values = numeric(frame.matrix, "X")
    return _whole(reads, values if order == list(range(values.shape[1])) else values[:, order])


def _require_numbers(listed: frozenset[int], reads: Reads) -> None:
    for i in sorted(listed):
        raise InputError(f"{reads.where(i)} has dtype category; {reads.owner} was fitted on numbers, and would read the codes. Give numbers.")


def _require_categories(listed: frozenset[int], reads: Reads) -> None:
    """Refuse columns of categories other than those that the model was fitted on, and numbers for these: the source would read codes."""
    for i in sorted(listed - reads.categories):
        fitted = ", ".join(repr(reads.schema.names[j]) for j in sorted(reads.categories))
        raise InputError(f"{reads.where(i)} has dtype category; {reads.owner} was fitted on categories in {fitted} alone.")
    for i in sorted(reads.categories & reads.numbers - listed):
        raise InputError(f"{reads.where(i)} holds plain numbers; {reads.owner} was fitted on categories. Give it dtype category, as in fitting.")


def _whole(reads: Reads, values: Any) -> Table:
    return Table(reads, values.shape[0], (dtype_name(values.dtype),) * values.shape[1], values)


def _read_columns(frame: Frame, place: Mapping[int, int] | Sequence[int], reads: Reads) -> Table:
    given = {i: frame.read(place[i]) for i in sorted(reads.needed)}
    arrays = {i: _array(given[i]) for i in reads.numbers}
    for i in reads.objects & reads.numbers:
        require_numbers(arrays[i], reads.where(i))
    columns = given | {i: numeric(array, reads.where(i)) for i, array in arrays.items()}
    dtypes = {i: _small_or_own(arrays[i], columns[i]) for i in reads.numbers}
    if "float32" not in dtypes.values():
        dtypes = {i: "int64" if dtype == "int16" else dtype for i, dtype in dtypes.items()}
    return Table(reads, frame.rows, tuple(dtypes.get(i, "string") for i in range(len(reads.schema.columns))), columns=columns)


def _small_or_own(given: npt.NDArray[Any], numbers: Any) -> str:
    """Return a column's dtype; int16 for bools and ints of up to 16 bits, which leave a float32 beside them float32."""
    small = given.dtype.kind in "bui" and given.dtype.itemsize <= 2
    return "int16" if small else dtype_name(numbers.dtype)


def _places(frame: Frame, reads: Reads) -> dict[int, int]:
    """Find the columns by name where the model was fitted on names, else by position."""
    texts = [isinstance(name, str) for name in frame.names]
    if any(texts) and not all(texts):
        raise InputError("Column names mix text and other types. Make them all text: X.columns = X.columns.astype(str).")
    if reads.schema.named and all(texts):
        names = [name.replace(" ", "_") for name in frame.names] if reads.schema.conventions.underscored else frame.names
        return find_columns(names, reads.schema.names, reads.needed)
    _require_width(len(frame.names), reads)
    if reads.schema.named:
        _warn(f"X does not have valid feature names, but {reads.owner} was fitted with feature names")
    elif all(texts) and frame.names:
        _warn(f"X has feature names, but {reads.owner} was fitted without feature names")
    return {i: i for i in range(len(frame.names))}


def _array(data: Data) -> npt.NDArray[Any]:
    return data.objects() if isinstance(data, Text | Categories) else data


def _require_width(width: int, reads: Reads) -> None:
    expected = len(reads.schema.columns)
    if width != expected:
        raise InputError(f"X has {width} columns, but {reads.owner} expects {expected}.")


def _warn(message: str) -> None:
    warnings.warn(message, UserWarning, stacklevel=2)
