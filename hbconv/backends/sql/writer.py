"""Write values as columns of stages: common table expressions, each of which reads the one before.

A value of shape (n_rows, *shape) is a numpy array of ``shape`` that holds a ``Cell`` for each of a
row's entries: what SQL computes it by. A cell that is read more than once, or grows deep, is stored
as a column of the next stage.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hbconv.errors import BackendError

if TYPE_CHECKING:
    from hbconv.backends.sql.dialects.base import Dialect

__all__ = ["MOST_BYTES", "Cell", "Cells", "Operation", "SelectWriter", "fill", "too_long"]

Cells = npt.NDArray[Any]
"""An array of cells, or of what is made of each."""

MOST_BYTES = 1_000_000
"""Text of a query that is written: DuckDB plans a megabyte in 2 seconds."""
MOST_DEPTH = 6
"""Expressions within one another, each of up to two CASE: SQLite's parser takes 15 in a THEN."""
MOST_TERMS = 40
"""Terms of one sum: DuckDB plans a sum of 400 in 5 seconds, and shorter ones at once."""

ANY, NUMBER, FINITE, MODEST = 0, 1, 2, 3
"""What is known of a cell: nothing; that it is not NaN; that it is finite; that it is zero or of a
size from ``1 / MODEST_SIZE`` to ``MODEST_SIZE``, so that a product of two is no infinity, and zero
only if one is."""
MODEST_SIZE = 2.0**63
"""Of any int64. Its square is a float32."""


@dataclass(frozen=True, eq=False, slots=True)
class Cell:
    """What computes one entry of a row.

    Parameters
    ----------
    text : str
        The expression.
    reads : frozenset of str
        Columns of stages that it reads.
    stage : int
        The first stage where all of these exist.
    depth : int
        Expressions within it; 0 for a name or a constant.
    known : int
        ``ANY``, ``NUMBER``, ``FINITE`` or ``MODEST``.
    value : number or bool, optional
        Of a constant.
    tested : str
        Of a test for NaN: the text of what is tested.
    double : Cell, optional
        The float64 that it is when rounded to float32.
    """

    text: str
    reads: frozenset[str] = frozenset()
    stage: int = 0
    depth: int = 0
    known: int = ANY
    value: Any = None
    tested: str = ""
    double: Cell | None = None


@dataclass(frozen=True)
class Operation:
    """What an emitter is told of an operation.

    Parameters
    ----------
    primitive : str
    dtype : str
    shape : tuple of int
        Of a row's result.
    sources : tuple of str
        Dtypes of the operands.
    attributes : mapping
    """

    primitive: str
    dtype: str
    shape: tuple[int, ...]
    sources: tuple[str, ...]
    attributes: Mapping[str, Any]


class SelectWriter:
    """Writes one SELECT.

    Parameters
    ----------
    dialect : Dialect
    table : str
        What the first stage reads, quoted.
    kept : sequence of str
        Columns of the table that are passed through, quoted.
    taken : iterable of str
        Names that no stage and no column of one may have.
    """

    def __init__(
        self, dialect: Dialect, table: str, kept: Sequence[str] = (), taken: Iterable[str] = ()
    ) -> None:
        self.dialect = dialect
        self.table = table
        self.kept = tuple(kept)
        self._stages: list[dict[str, Cell]] = [{}]
        self._stage_of: dict[str, int] = {}
        self._stored: dict[tuple[int, str], Cell] = {}
        self._bytes = 0
        names = {name.lower() for name in taken}
        self._prefix = "v"
        while any(name.startswith(self._prefix) for name in names):
            self._prefix += "v"

    def cell(self, text: str, *parts: Cell, known: int = ANY, tested: str = "") -> Cell:
        """Return an expression of other cells, whose texts are in its own."""
        self.count(len(text) - sum(len(part.text) for part in parts))
        return Cell(
            text,
            frozenset().union(*(part.reads for part in parts)),
            max((part.stage for part in parts), default=0),
            1 + max((part.depth for part in parts), default=0),
            known,
            tested=tested,
        )

    def count(self, more: int) -> None:
        """Count what is written, and raise BackendError where it is too long for any database."""
        self._bytes += max(more, 0)
        if self._bytes > 4 * MOST_BYTES:
            raise too_long()

    def constant(self, value: Any, dtype: str) -> Cell:
        """Return a number of a dtype."""
        return Cell(self.dialect.literal(value, dtype), known=_known_of(abs(value)), value=value)

    def array(self, values: npt.NDArray[Any]) -> Cells:
        """Return a constant array."""
        if values.size > MOST_BYTES:
            raise too_long()
        dtype = values.dtype.name
        return fill([self.constant(v, dtype) for v in values.ravel().tolist()], values.shape)

    def store(self, cell: Cell) -> Cell:
        """Return a name for the cell: a column of the next stage, unless it has one."""
        if cell.depth == 0:
            return cell
        known = self._stored.get((cell.stage, cell.text))
        if known is None:
            stage = cell.stage + 1
            while len(self._stages) <= stage:
                self._stages.append({})
            name = f"{self._prefix}{len(self._stage_of)}"
            self._stages[stage][name] = cell
            self._stage_of[name] = stage
            self.count(2 * len(name))
            known = Cell(name, frozenset([name]), stage, 0, cell.known, None, "", cell.double)
            self._stored[cell.stage, cell.text] = known
        return known

    def shallow(self, cell: Cell) -> Cell:
        """Return the cell, or a name for it where what reads it would become too deep."""
        return self.store(cell) if cell.depth >= MOST_DEPTH else cell

    def store_all(self, cells: Cells) -> Cells:
        """Return names for cells that are read more than once."""
        return fill([self.store(cell) for cell in cells.flat], cells.shape)

    def join(
        self, symbol: str, cells: Iterable[Cell], known: int = ANY, terms: int = MOST_TERMS
    ) -> Cell:
        """Fold cells from the first to the last by an operator, so many terms in each stage."""
        first, *rest = [self.shallow(cell) for cell in cells]
        for start in range(0, len(rest), terms):
            # Stages run in turn, so the order of the terms is that of one long sum.
            first = self.store(first) if start else first
            parts = [first, *rest[start : start + terms]]
            text = symbol.join(part.text for part in parts)
            first = self.cell(f"({text})", *parts, known=known)
        return first

    def select(self, answers: dict[str, Cell]) -> str:
        """Return the whole query, which answers the cells under these names, after what is kept."""
        last = max((cell.stage for cell in answers.values()), default=0)
        read: list[set[str]] = [set() for _ in range(last + 1)]
        read[last] = set().union(*(cell.reads for cell in answers.values()))
        for stage in range(last, 0, -1):
            for name in read[stage]:
                is_new = self._stage_of[name] == stage
                read[stage - 1] |= self._stages[stage][name].reads if is_new else {name}
        source, parts = self.table, []
        for stage in range(1, last + 1):
            columns = [*self.kept]
            for name in sorted(read[stage], key=lambda name: int(name.lstrip("v"))):
                is_new = self._stage_of[name] == stage
                columns.append(f"{self._stages[stage][name].text} AS {name}" if is_new else name)
            self._require_columns(len(columns))
            # A stage of no columns would be no SELECT.
            listed = ", ".join(columns or ["1 AS one"])
            name = f"{self._prefix}_{stage}"
            parts.append(f"{name} AS ({_select(listed, source)}{self.dialect.fence})")
            source = name
        quoted = [f"{cell.text} AS {self.dialect.quote(name)}" for name, cell in answers.items()]
        self._require_columns(len(quoted) + len(self.kept))
        stages = "WITH " + ",\n".join(parts) + "\n" if parts else ""
        return stages + _select(", ".join([*self.kept, *quoted]), source)

    def _require_columns(self, count: int) -> None:
        if count > self.dialect.most_columns:
            raise BackendError(
                f"A SELECT of {self.dialect.name} has {self.dialect.most_columns:,} columns at "
                f"most, and the model needs {count:,} at once. Score with hbconv.engines."
            )


def _known_of(size: float) -> int:
    if size == 0 or 1 / MODEST_SIZE <= size <= MODEST_SIZE:
        return MODEST
    if np.isfinite(size):
        return FINITE
    return ANY if np.isnan(size) else NUMBER


def _select(columns: str, source: str) -> str:
    # Names are quoted and values are literals of the dialect: this module's purpose.
    return f"SELECT {columns} FROM {source}"  # noqa: S608


def fill(values: Sequence[Any], shape: tuple[int, ...]) -> Cells:
    """Return an array of objects of a shape."""
    out = np.empty(len(values), object)
    out[:] = values
    return out.reshape(shape)


def too_long() -> BackendError:
    """Return the error of a model whose text no database should be given."""
    return BackendError(
        f"The model as SQL is longer than {MOST_BYTES:,} bytes, which databases plan for seconds "
        "or refuse. Score with hbconv's function in the engine (hbconv.engines), or fit fewer or "
        "smaller trees."
    )
