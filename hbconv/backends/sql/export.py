"""Write the exported query: a table's columns in, answers under the names of the methods out."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hbconv.backends.interface import (
    answer_dtype,
    labels,
    lower_with_checks,
    require_texts,
)
from hbconv.backends.sql import BACKEND
from hbconv.backends.sql.artifact import write_program
from hbconv.backends.sql.dialects import find_dialect
from hbconv.backends.sql.elementwise import convert, in_float32
from hbconv.backends.sql.shapes import any_of
from hbconv.backends.sql.writer import (
    FINITE,
    MOST_BYTES,
    MOST_TERMS,
    Cell,
    Cells,
    SelectWriter,
    fill,
    too_long,
)
from hbconv.containers import Codes, FindCode, Vocabulary, missing_of
from hbconv.errors import BackendError, shown
from hbconv.lower import CodesFeed, Feed, Lowered, columns_read
from hbconv.tensor.types import FLOATS

if TYPE_CHECKING:
    from hbconv.backends.sql.dialects.base import Dialect
    from hbconv.containers import Graph, Output
    from hbconv.target import Target

__all__ = ["Query"]

LONG_BYTES = 200_000
"""Text from which on a warning says what planning takes: 0.2 seconds in DuckDB."""


@dataclass(frozen=True)
class Query:
    """What a query is asked, of which table, for which database.

    Parameters
    ----------
    dialect : str
        Name of the database.
    table : str
        Name of the table that holds the rows, perhaps after its schema's and a point.
    keys : tuple of str
        Columns of the table that are passed through.
    names : mapping of str to sequence of str
        What the columns of each answer are about.
    dtypes : sequence of str
        Of the columns of a sample: bools count as int64.
    """

    dialect: str
    table: str
    keys: tuple[str, ...]
    names: Mapping[str, Sequence[str]]
    dtypes: Sequence[str]

    def write(self, graph: Graph, target: Target) -> str:
        """Write the answers of a planned graph's outputs as one SELECT.

        Rows that the source refuses are answered by NULL.

        Raises
        ------
        OptionError
            There is no such dialect.
        BackendError
            The dialect cannot hold the model, its names or its text.
        """
        dialect = find_dialect(self.dialect)
        lowered = lower_with_checks(graph, target)
        _require_columns(lowered, graph, dialect)
        _require_exact_categories(graph)
        parts = split_name(self.table)
        kept = [dialect.quote(key) for key in self.keys]
        w = SelectWriter(dialect, ".".join(map(dialect.quote, parts)), kept, [*self.keys, *parts])
        answers = self._answers(w, graph, lowered, target)
        _require_distinct([*self.keys, *answers], dialect)
        query = w.select(answers)
        _judge_size(len(query.encode()))
        return query + "\n"

    def _answers(
        self, w: SelectWriter, graph: Graph, lowered: Lowered, target: Target
    ) -> dict[str, Cell]:
        """Write the program, and return the columns of each answer by their names."""
        inputs = {feed.name: _read(w, feed, graph, self.dtypes) for feed in _feeds(lowered)}
        values = write_program(w, BACKEND.prepare(lowered.program, target), inputs)
        checks = [cells for name, cells in values.items() if name not in graph.outputs]
        strange = _find_texts(w, lowered, graph)
        refused = w.store(any_of(w, [*strange, *(cell for cells in checks for cell in cells.flat)]))
        answers: dict[str, Cell] = {}
        for method, output in graph.outputs.items():
            dtype = lowered.program.types.outputs[method].dtype
            cells = _decode(w, output, values[method], dtype)
            vector = [method] if output.is_vector else None
            found = vector or _names(method, self.names[method], len(cells), w.dialect)
            answers |= {n: _unless(w, refused, c) for n, c in zip(found, cells, strict=True)}
        return answers


def _judge_size(size: int) -> None:
    """Refuse a text of more bytes than a database should be given, and warn of a long one."""
    if size > MOST_BYTES:
        raise too_long()
    if size > LONG_BYTES:
        warnings.warn(
            f"The query has {size:,} bytes, which a database plans for a second or more at "
            "each call. Prepare it once, or score with hbconv's function in the engine.",
            UserWarning,
            stacklevel=5,
        )


def _feeds(lowered: Lowered) -> list[Feed | CodesFeed]:
    return [feed for feed in lowered.feeds if isinstance(feed, Feed | CodesFeed)]


def _read(w: SelectWriter, feed: Feed | CodesFeed, graph: Graph, dtypes: Sequence[str]) -> Cells:
    """Store the columns of a feed as numbers without NULL, or as the codes of their texts."""
    names = [w.dialect.quote(column.name) for column in graph.schema.columns]
    if isinstance(feed, CodesFeed):
        cells = [_code(w, names[leaf.column], leaf, feed.leaves) for leaf in feed.leaves]
        return fill(cells, (len(cells),))
    cells = []
    for column in feed.columns:
        is_bool = dtypes[column] == "int64" and "bools" in w.dialect.forms
        text = w.dialect.apply("bools" if is_bool else "numbers", names[column])
        cell = w.store(Cell(text, depth=1))
        # Rounding here is that of the source's rows, whatever the type of the table's column.
        cells.append(w.store(in_float32(w, cell)) if feed.dtype == "float32" else cell)
    return fill(cells, (len(cells),))


def _find_texts(w: SelectWriter, lowered: Lowered, graph: Graph) -> list[Cell]:
    """Store when a column of numbers holds something else, where the database lets it."""
    read = {column for feed in lowered.feeds if isinstance(feed, Feed) for column in feed.columns}
    names = [w.dialect.quote(graph.schema.columns[column].name) for column in sorted(read)]
    asked = names if w.dialect.forms["no number"] else []
    tests = [w.dialect.apply("no number", name) for name in asked]
    parts = [tests[start : start + MOST_TERMS] for start in range(0, len(tests), MOST_TERMS)]
    # In a WHEN, SQLite skips what need not be asked; a bare AND took 3 times as long. A test is
    # 14 ns a row; `max` of all columns, or a flag in a stage before, took longer (8 columns).
    texts = [f"CASE WHEN {' OR '.join(part)} THEN TRUE ELSE FALSE END" for part in parts]
    return [w.store(Cell(text, depth=1, known=FINITE)) for text in texts]


def _code(w: SelectWriter, name: str, leaf: Codes, leaves: Iterable[Codes]) -> Cell:
    """Return the code of a text column; NULL is the missing value that the source knows there."""
    vocabulary = require_texts(leaf.vocabulary, leaf.schema.columns[leaf.column].name)
    beside = [other.vocabulary for other in leaves if other.column == leaf.column]
    way = missing_of(v for v in beside if isinstance(v, Vocabulary))
    of_null = getattr(vocabulary, way)
    texts, codes = vocabulary.texts
    whens = "".join(
        f" WHEN {w.dialect.text(text)} THEN {code}"
        for text, code in zip(texts, codes.tolist(), strict=True)
    )
    read = w.dialect.apply("texts", name)
    found = f"CASE {read}{whens} ELSE -1 END" if whens else "-1"
    if of_null != -1:
        found = f"CASE WHEN {name} IS NULL THEN {of_null} ELSE {found} END"
    return w.store(Cell(found, depth=1, known=FINITE))


def _unless(w: SelectWriter, refused: Cell, cell: Cell) -> Cell:
    if refused.value is False:
        return cell
    cell = w.shallow(cell)
    return w.cell(f"CASE WHEN {refused.text} THEN NULL ELSE {cell.text} END", refused, cell)


def _decode(w: SelectWriter, output: Output, cells: Cells, dtype: str) -> list[Cell]:
    """Return labels for codes, and numbers in the dtype of the source's answer."""
    if output.classes is None:
        wanted = answer_dtype(output, dtype)
        is_known = wanted in w.dialect.types
        return [convert(w, cell, dtype, wanted) if is_known else cell for cell in cells.flat]
    tables = output.classes if isinstance(output.classes, tuple) else (output.classes,)
    found = []
    for cell, table in zip(w.store_all(cells).flat, tables, strict=True):
        known = labels(table.data)
        kind = {"U": "string", "b": "bool", "f": "float64"}.get(known.dtype.kind, "int64")
        found.append(w.cell(w.dialect.pick(cell.text, known.tolist(), kind), cell))
    return found


def _names(method: str, suffixes: Sequence[str], width: int, dialect: Dialect) -> list[str]:
    """Return the names of an answer's columns; numbers where the database cannot hold names."""
    named = [f"{method}_{suffix}" for suffix in suffixes]
    are_held = all(map(dialect.can_name, named))
    fits = are_held and all(len(n.encode()) <= dialect.most_name_bytes for n in named)
    if fits and len({dialect.fold(name) for name in named}) == width == len(named):
        return named
    return [f"{method}_{i}" for i in range(width)]


def split_name(table: str) -> list[str]:
    """Return the parts of a table's name; a point between double quotes is part of a name.

    Examples
    --------
    >>> split_name("shop.people"), split_name('shop."people.2026"'), split_name('"a""b"')
    (['shop', 'people'], ['shop', 'people.2026'], ['a"b'])
    """
    parts = re.findall(r"""(?:^|\.)("(?:[^"]|"")+"(?=\.|$)|[^.]*)""", table)
    return [p[1:-1].replace('""', '"') if re.fullmatch('".+"', p, re.DOTALL) else p for p in parts]


def _require_columns(lowered: Lowered, graph: Graph, dialect: Dialect) -> None:
    """Refuse columns that the database cannot tell apart."""
    names = graph.schema.names
    read = {names[column] for feed in _feeds(lowered) for column in columns_read(feed)}
    clashing = _find_equal(names, dialect)
    if read.intersection(clashing):
        raise BackendError(
            f"{dialect.name} takes {shown(clashing)} for one column. Rename them and fit again."
        )


def _require_exact_categories(graph: Graph) -> None:
    """Refuse whole numbers that are other categories than their neighbours, where float64 has one.

    A query reads numbers as float64.
    """
    for node in graph.nodes():
        if not isinstance(node, FindCode) or node.x.type.dtype not in FLOATS:
            continue
        for values in node.values:
            large = [v for v in values.data.tolist() if isinstance(v, int) and abs(v) >= 2**53]
            if large:
                raise BackendError(
                    f"The model knows the category {large[0]}, and a query reads numbers as "
                    "float64, which takes its neighbours for it. Make the column text before "
                    "fitting."
                )


def _find_equal(names: Sequence[str], dialect: Dialect) -> list[str]:
    """Return the names that the database takes for others among them."""
    folded = Counter(map(dialect.fold, names))
    return sorted({name for name in names if folded[dialect.fold(name)] > 1})


def _require_distinct(names: list[str], dialect: Dialect) -> None:
    clashing = _find_equal(names, dialect)
    if clashing:
        raise BackendError(
            f"A query names each column once, and {shown(clashing)} are keys and answers, or keys "
            "twice. Rename the keys in the table."
        )
    long = [name for name in names if len(name.encode()) > dialect.most_name_bytes]
    if long:
        raise BackendError(
            f"{dialect.name} cuts names off after {dialect.most_name_bytes} bytes, and "
            f"{shown(long[0])} is longer. Rename the column."
        )
