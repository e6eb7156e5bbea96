"""Rows as a model reads them: columns, the inputs of programs, and groups of similar rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from types import UnionType
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt

from hbconv.array import ColumnArrays
from hbconv.containers import (
    AreBools,
    AreNarrow,
    AreNullable,
    Codes,
    Columns,
    Entries,
    FindCode,
    Graph,
    Hashed,
    IsNonFinite,
    Missing,
    Node,
    NoTexts,
    OnlyNumbers,
    Schema,
    Vocabulary,
    missing_of,
    topological,
)
from hbconv.containers.extractors import Extractor
from hbconv.containers.moved_columns import find_columns_read, find_origin
from hbconv.containers.vocabulary import DateCodes, DatePart, DateReading
from hbconv.lower import DENSE, AnyFeed, CodesFeed, EntriesFeed, Feed, Padding
from hbconv.runtime.inputs.arrays import reads_rows, write_dense
from hbconv.runtime.inputs.arrow_columns import Data
from hbconv.runtime.inputs.dates import Zoned, read_parts
from hbconv.runtime.text.categories import Categories, Text, encode
from hbconv.runtime.text.sparse_rows import EntryRows, groups
from hbconv.runtime.text.text_hash import encode_hashed
from hbconv.runtime.text.vectorize import extract

__all__ = ["Groups", "Reads", "Table"]


@dataclass(frozen=True)
class Reads:
    """Columns of the schema that a model reads, by the way it reads them.

    Parameters
    ----------
    schema : Schema
    numbers, text : frozenset of int
        Columns read as numbers, and as text.
    owner : str
        What messages call the model.
    categories : frozenset of int
        Columns of which only the position of a value among known ones counts.
    sparse : bool
        Rows may come as a sparse matrix.
    entries : tuple of (int, Extractor)
        Columns read as sparse rows.
    """

    schema: Schema
    numbers: frozenset[int]
    text: frozenset[int]
    owner: str = "The model"
    categories: frozenset[int] = frozenset()
    reads_sparse: bool = True
    entries: tuple[tuple[int, Extractor], ...] = ()
    objects: frozenset[int] = frozenset()
    """Columns whose objects must all be numbers: the source model tells "1" and None from 1."""
    textless: frozenset[int] = frozenset()
    """Columns whose objects must be no texts: the source model reads "1_0" in its own way."""
    bools: tuple[tuple[frozenset[int], str], ...] = ()
    """Columns that must not all be bools, and the message of the source model's refusal."""
    why_dense: str = ""
    by_form: bool = False
    """What is computed depends on whether rows come as a sparse matrix."""
    graph: Graph | None = field(default=None, repr=False, compare=False)
    """What reads them."""
    moved: frozenset[int] = frozenset()
    """Columns that are left out after all: they only have a part in the dtype of an array."""
    narrow: tuple[tuple[frozenset[int], tuple[str, ...], str], ...] = ()
    """Columns whose common dtype may be none of some: bools, or other ints than int64; and why."""
    nullable: tuple[tuple[frozenset[int], str], ...] = ()
    """Columns in which nullable numbers of pandas are refused, and why."""

    @staticmethod
    def of(graph: Graph) -> Reads:
        """Collect the columns that the outputs and checks of a graph read."""
        nodes = topological(graph.roots)
        text = frozenset(n.column for n in nodes if isinstance(n, Codes | Entries))
        entries = tuple((n.column, n.extractor) for n in nodes if isinstance(n, Entries))
        numbers = find_columns_read(graph.roots)
        moved = frozenset(i for n in nodes if isinstance(n, Columns) for i in n.columns)
        coded = frozenset(
            i
            for n in nodes
            if isinstance(n, FindCode) and isinstance(n.x, Columns)
            for i in n.x.columns
        )
        return Reads(
            graph.schema,
            numbers - text,
            text,
            graph.traits.estimator or "The model",
            text | coded,
            graph.accepts_sparse,
            entries,
            _columns_behind([n for n in nodes if not _takes_none(n)], OnlyNumbers | FindCode),
            _columns_behind(nodes, NoTexts),
            tuple(
                (columns, message)
                for columns, message, x in _columns_of_checks(graph, AreBools)
                if _only_moves(x)
            ),
            graph.why_dense,
            graph.depends_on_form,
            graph,
            moved - numbers - text,
            tuple(
                (_columns_behind([check.node], AreNarrow), check.node.dtypes, check.message)
                for check in graph.checks
                if isinstance(check.node, AreNarrow)
            ),
            tuple((c, message) for c, message, _ in _columns_of_checks(graph, AreNullable)),
        )

    @property
    def without_na(self) -> Mapping[int, str]:
        """Columns, read or not, in which ``pandas.NA`` is refused, and why."""
        return self.graph.without_na if self.graph else {}

    @property
    def needed(self) -> frozenset[int]:
        """All columns that are read."""
        return self.numbers | self.text

    @property
    def asked(self) -> tuple[int, ...]:
        """Columns that callers are asked for: those that are read, or all where none is."""
        return tuple(sorted(self.needed)) or tuple(range(len(self.schema.columns)))

    @property
    def typed(self) -> frozenset[int]:
        """Columns whose dtype counts: those that are read as numbers, and those only moved."""
        return self.numbers | self.moved

    @property
    def usual_dtypes(self) -> tuple[str, ...]:
        """Dtypes of usual rows: what a table only passes on is text, which nothing encodes."""
        columns = self.schema.columns
        passed = self.moved if self.schema.named else frozenset()
        return tuple("string" if i in passed else c.dtype for i, c in enumerate(columns))

    @cached_property
    def missing(self) -> Mapping[int, Missing]:
        """What a null stands for in each column that is read."""
        vocabularies_of: dict[int, list[Vocabulary]] = {i: [] for i in self.needed}
        for node in topological(self.graph.roots) if self.graph else ():
            if isinstance(node, Codes) and isinstance(node.vocabulary, Vocabulary):
                vocabularies_of[node.column].append(node.vocabulary)
        return {i: missing_of(vocabularies) for i, vocabularies in vocabularies_of.items()}

    @cached_property
    def strangers(self) -> Mapping[int, float]:
        """A number that is unknown, for each column whose objects the source looks up alone."""
        values_of: dict[int, set[float]] = {}
        computed: set[int] = set()
        for node in topological(self.graph.roots) if self.graph else ():
            for x in (x for x in node.inputs if isinstance(x, Columns)):
                if isinstance(node, FindCode) and node.among_objects:
                    for i, values in zip(x.columns, node.values, strict=True):
                        values_of.setdefault(i, set()).update(values.data.tolist())
                elif not isinstance(node, IsNonFinite):
                    computed.update(x.columns)
        return {
            i: next(float(k) for k in count() if k not in values)
            for i, values in values_of.items()
            if i not in computed
        }

    def where(self, column: int) -> str:
        """Return what a column is called in messages."""
        return f"Column {self.schema.names[column]!r}" if self.schema.named else f"Column {column}"


def _columns_of_checks(
    graph: Graph, kind: type[AreBools | AreNullable]
) -> Iterator[tuple[frozenset[int], str, Node]]:
    """Yield the columns behind checks of a kind, their message and what they look at."""
    for check in graph.checks:
        if isinstance(check.node, kind):
            yield _columns_behind([check.node], kind), check.message, check.node.x


def _only_moves(x: Node) -> bool:
    return all(isinstance(find_origin(x, j)[0], Columns) for j in range(x.type.width))


def _takes_none(node: Node) -> bool:
    """Whether a step before the codes are found takes None for NaN, and fills it."""
    is_coded = isinstance(node, FindCode)
    return is_coded and any(type(before) is NoTexts for before in topological((node,)))


def _columns_behind(nodes: Sequence[Node], kinds: UnionType | type) -> frozenset[int]:
    """Return the columns that containers of some kinds are computed from."""
    behind = topological(tuple(n for n in nodes if isinstance(n, kinds)))
    return frozenset(i for n in behind if isinstance(n, Columns) for i in n.columns)


@dataclass(frozen=True)
class Block:
    """Several columns of the schema as one array of shape (n_rows, n_columns)."""

    columns: tuple[int, ...]
    values: npt.NDArray[Any]

    def part(self, rows: slice | npt.NDArray[np.integer[Any]]) -> Block:
        """Return some of the rows."""
        return Block(self.columns, self.values[rows])

    def of(self, columns: tuple[int, ...]) -> npt.NDArray[Any] | None:
        """Return some of the columns; None where it has not all of them."""
        # The whole block needs no copy.
        if columns == self.columns:
            return self.values
        place = {column: i for i, column in enumerate(self.columns)}
        return (
            self.values[:, [place[column] for column in columns]]
            if place.keys() >= set(columns)
            else None
        )


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
    blocks : tuple of Block
        And those that are read together.
    entries : mapping
        Columns read as sparse rows, by position and extractor. The key None stands for the matrix
        itself, if it is sparse and stays so.
    padding : Padding
        How programs take the sparse rows.
    at : ndarray of int, optional
        Numbers of the rows among those of a call; None where they are all.
    """

    reads: Reads
    rows: int
    dtypes: tuple[str, ...]
    matrix: Any = None
    columns: Mapping[int, Data] = field(default_factory=dict)
    blocks: tuple[Block, ...] = ()
    entries: Mapping[tuple[int, Extractor] | None, EntryRows] = field(default_factory=dict)
    padding: Padding = DENSE
    at: npt.NDArray[np.integer[Any]] | None = None
    # Inputs of programs, made once for each table; a table made from another one begins empty.
    _fed: dict[Feed | CodesFeed, npt.NDArray[Any]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _dates: dict[tuple[int, DateReading], dict[DatePart, npt.NDArray[np.int32]]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _padded: dict[EntriesFeed, tuple[npt.NDArray[np.int32], npt.NDArray[Any]]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @reads_rows
    def part(self, rows: slice) -> Table:
        """Return some of the rows, made dense if the matrix is sparse; the table itself for all."""
        sparse = hasattr(self.matrix, "toarray")
        whole = rows == slice(0, self.rows)
        if whole and not sparse:
            return self
        matrix = (
            None
            if self.matrix is None
            else write_dense(self.matrix[rows], self.reads.schema)
            if sparse
            else self.matrix[rows]
        )
        part = self if whole else self.chosen(rows)
        return replace(part, rows=rows.stop - rows.start, matrix=matrix)

    @reads_rows
    def groups(self, *, sparse: bool) -> Groups:
        """Return groups of rows with similar numbers of nonzeros, and which rows they are.

        A table without sparse rows is one group.

        Parameters
        ----------
        sparse : bool
            The program takes a sparse matrix by its entries.
        """
        entries: dict[tuple[int, Extractor] | None, EntryRows] = {
            (i, made): EntryRows(*extract(self._texts(i), made, self.reads.where(i)), made.width)
            for i, made in self.reads.entries
        }
        if sparse:
            entries[None] = EntryRows.of_matrix(self.matrix)
        if not entries:
            return [(None, self)]
        matrix = None if sparse else self.matrix
        sizes = [rows.sizes for rows in entries.values()]
        # A row is padded to the most entries that any of its columns has.
        made = list(groups(sizes[0] if len(sizes) == 1 else np.max(sizes, axis=0)))
        if len(made) == 1:
            padding = Padding(made[0][1], sparse)
            return [(None, replace(self, matrix=matrix, entries=entries, padding=padding))]
        table = replace(self, matrix=matrix, entries=entries)
        return [
            (rows, replace(table.chosen(rows), rows=len(rows), padding=Padding(size, sparse)))
            for rows, size in made
        ]

    def converted(self, dtypes: tuple[str, ...]) -> Table:
        """Return the same rows over columns of other dtypes, which hold their numbers."""
        if dtypes == self.dtypes:
            return self
        matrix = self.matrix
        if hasattr(matrix, "tocsr"):
            matrix = matrix.astype(dtypes[0], copy=False)
        return replace(self, dtypes=dtypes, matrix=matrix)

    def beyond(self, columns: Iterable[int], bound: int) -> int | None:
        """Return the first of some columns of ints that holds one beyond a bound."""
        if hasattr(self.matrix, "tocsr"):
            # Zeros that are not stored are within any bound.
            written = self.matrix.tocoo()
            outside = (written.data < -bound) | (written.data > bound)
            return min({*columns}.intersection(written.col[outside].tolist()), default=None)
        for position in columns:
            values = np.asarray(self.column(position))
            if len(values) and not (-bound <= values.min() and values.max() <= bound):
                return position
        return None

    def chosen(self, rows: slice | npt.NDArray[np.integer[Any]]) -> Table:
        """Return some rows of the columns, blocks and entries, with their numbers."""
        columns = {
            i: c.part(rows) if isinstance(c, Text | Categories | Zoned) else c[rows]
            for i, c in self.columns.items()
        }
        blocks, entries = (
            tuple(block.part(rows) for block in self.blocks),
            {key: entry_rows.part(rows) for key, entry_rows in self.entries.items()},
        )
        places = np.arange(*rows.indices(self.rows)) if isinstance(rows, slice) else rows
        at = places if self.at is None else self.at[places]
        return replace(self, columns=columns, blocks=blocks, entries=entries, at=at)

    def column(self, position: int) -> Data:
        """Return one column of the schema."""
        if position in self.columns:
            return self.columns[position]
        if position not in self.reads.needed and self.matrix is None:
            return np.zeros(self.rows)  # of a program that is fed all columns of an array
        block = next((block for block in self.blocks if position in block.columns), None)
        column: npt.NDArray[Any] = (
            self.matrix[:, position]
            if block is None
            else block.values[:, block.columns.index(position)]
        )
        return column

    def inputs(self, feeds: Iterable[AnyFeed]) -> dict[str, npt.NDArray[Any]]:
        """Return the inputs of a program by name."""
        arrays: dict[str, npt.NDArray[Any]] = {}
        for feed in feeds:
            arrays |= (
                zip(feed.names, self.padded(feed), strict=True)
                if isinstance(feed, EntriesFeed)
                else ((feed.name, self.feed(feed)),)
            )
        return arrays

    def inputs_apart(self, feeds: Sequence[AnyFeed]) -> dict[str, Any]:
        """Return the inputs of a program by name; columns that lie apart stay where they are."""
        apart = {f.name: self._apart(f) for f in feeds if self._lies_apart(f)}
        return {**self.inputs(f for f in feeds if f.name not in apart), **apart}

    @reads_rows
    def feed(self, feed: Feed | CodesFeed) -> npt.NDArray[Any]:
        """Return a program input, made once for each feed.

        A matrix of its dtype is not copied, and columns stay columns in memory.
        """
        if feed not in self._fed:
            self._fed[feed] = (
                self._codes(feed) if isinstance(feed, CodesFeed) else self._numbers(feed)
            )
        return self._fed[feed]

    def lying(self, feed: Feed) -> Iterable[tuple[Sequence[int], npt.NDArray[Any]]]:
        """Return the columns of a feed without a copy: their positions, and their values."""
        if self.matrix is not None or any(block.columns == feed.columns for block in self.blocks):
            return [(feed.columns, self.feed(feed))]
        return (([i], np.asarray(self.column(i), feed.dtype)[:, None]) for i in feed.columns)

    def _lies_apart(self, feed: AnyFeed) -> TypeGuard[Feed]:
        """Whether an input is no array yet, and no part of one."""
        if not isinstance(feed, Feed) or feed in self._fed or self.matrix is not None:
            return False
        return bool(feed.columns) and all(b.columns != feed.columns for b in self.blocks)

    @reads_rows
    def _apart(self, feed: Feed) -> ColumnArrays:
        columns = (np.asarray(self.column(i)) for i in feed.columns)
        return ColumnArrays(tuple(columns), np.dtype(feed.dtype))

    @reads_rows
    def padded(self, feed: EntriesFeed) -> tuple[npt.NDArray[np.int32], npt.NDArray[Any]]:
        """Return tokens and weights of sparse rows, made once for each feed."""
        if feed not in self._padded:
            key = None if feed.leaf is None else (feed.leaf.column, feed.leaf.extractor)
            self._padded[feed] = self.entries[key].padded(feed.size)
        return self._padded[feed]

    def _numbers(self, feed: Feed) -> npt.NDArray[Any]:
        if self.matrix is not None:
            whole = feed.columns == tuple(range(self.matrix.shape[1]))
            rows = self.matrix if whole else self.matrix[:, list(feed.columns)]
            return np.asarray(rows, feed.dtype)
        for values in (block.of(feed.columns) for block in self.blocks):
            if values is not None:
                return np.asarray(values, feed.dtype)
        # Columns stay columns in memory, so that each is written side by side.
        out = np.empty((self.rows, len(feed.columns)), feed.dtype, order="F")
        for place, position in enumerate(feed.columns):
            out[:, place] = self.column(position)
        return out

    def _codes(self, feed: CodesFeed) -> npt.NDArray[np.int32]:
        out = np.empty((self.rows, len(feed.leaves)), np.int32)
        for place, leaf in enumerate(feed.leaves):
            out[:, place] = self._encoded(leaf)
        return out

    def _encoded(self, leaf: Codes) -> npt.NDArray[np.int32]:
        where = self.reads.where(leaf.column)
        vocabulary = leaf.vocabulary
        if isinstance(vocabulary, DateCodes):
            key = (leaf.column, vocabulary.reading)
            if key not in self._dates:
                self._dates[key] = read_parts(self.column(leaf.column), vocabulary.reading, where)
            return self._dates[key][vocabulary.part]
        texts = self._texts(leaf.column)
        if isinstance(vocabulary, Hashed):
            return encode_hashed(texts, vocabulary, where)
        return encode(texts, vocabulary, where)

    def _texts(self, position: int) -> Text | Categories | npt.NDArray[Any]:
        column = self.column(position)
        return column.objects() if isinstance(column, Zoned) else column


Groups = list[tuple[npt.NDArray[np.integer[Any]] | None, Table]]
"""Rows that go together, each group with their places among all; None where they are all."""
