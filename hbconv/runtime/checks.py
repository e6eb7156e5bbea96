"""Checks: evaluate what the row guard leaves to the host.

Nearly all checks ask whether a value is infinite or NaN. One look at the input settles them for
ordinary rows. Only rows beyond the guard's bound, with NaN where it matters, or flagged by the
program have the checks themselves evaluated, step by step as the source does.

Magnitudes: whether all numbers of an array are small, by as few passes as possible.

Passes run on the thread of the call. A library for linear algebra takes more threads for long
vectors, and these keep a core busy for a while after they are done.

Name the rows that a check refuses, and what they hold.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import cached_property, partial
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt

from hbconv.containers import (
    Cast,
    CastLike,
    Check,
    Codes,
    Columns,
    Compare,
    Entries,
    FindCode,
    Graph,
    IsMissing,
    IsNonFinite,
    IsOutside,
    Node,
    Recode,
    Schema,
    topological,
)
from hbconv.containers.guard import Guard
from hbconv.errors import InputError, shown
from hbconv.lower import DENSE, AnyFeed, EntriesFeed, Feed, Lowered, Padding, lower_nodes
from hbconv.runtime.batching import rows_per_chunk, run_in_chunks
from hbconv.runtime.inputs.table import Table
from hbconv.runtime.text.categories import Categories, Text
from hbconv.target import Target

__all__ = ["DOT_ENTRIES", "Checker", "are_within", "long_dot"]


class Checker:
    """The checks of a program, ready to be evaluated.

    Parameters
    ----------
    schema : Schema
        The columns, of the dtypes at hand.
    guard : Guard
        Where the checks are answered.
    padding : Padding
        How sparse rows come.
    """

    def __init__(self, schema: Schema, guard: Guard, padding: Padding = DENSE) -> None:
        graph = Graph(schema, {})
        self.guard = guard
        self.all = _Conditions(graph, guard.checks, padding)
        self.host = _Conditions(graph, guard.host, padding)
        by_host = guard.warned_by_host
        inside = tuple(warning for warning in guard.warnings if warning not in by_host)
        self.warnings = _Conditions(graph, by_host, padding)
        self.flagged_warnings = _Conditions(graph, inside, padding)

    @cached_property
    def feeds(self) -> list[Feed | EntriesFeed]:
        """The floats that the checks read, if the guard bounds them."""
        feeds = [f for f in self.all.lowered.feeds if f.dtype.startswith("float")]
        return [f for f in feeds if _may_be_large(f) and self.guard.bound]

    def __call__(self, table: Table) -> None:
        """Ask what the program does not: raise InputError, or warn, as the source model does.

        The message is that of the first check that a row violates.
        """
        (self.host if self._is_settled(table) else self.all).require(table)
        self.warnings.warn(table)

    def flagged(self, table: Table) -> None:
        """Ask all checks, and what the program tells of warnings: it flagged some row."""
        self.all.require(table)
        self.flagged_warnings.warn(table)

    def _is_settled(self, table: Table) -> bool:
        """Whether the settled checks hold: the program answers them, or the input is ordinary."""
        return not self.guard.looks_at_rows or self._is_ordinary(table)

    def _is_ordinary(self, table: Table) -> bool:
        bound = self.guard.bound
        without_nan = self.guard.without_nan
        # Magnitudes of odd rows overflow, which is what the scan looks for.
        with np.errstate(all="ignore"):
            for feed in (f for f in self.feeds if isinstance(f, Feed)):
                for columns, x in table.lying(feed):
                    strict = [i for i, column in enumerate(columns) if column in without_nan]
                    if not are_within(x, bound, strict):
                        return False
            return all(
                are_within(table.padded(feed)[1], bound, list(range(feed.size)))
                for feed in self.feeds
                if isinstance(feed, EntriesFeed)
            )


def _may_be_large(feed: AnyFeed) -> TypeGuard[Feed | EntriesFeed]:
    """Whether a feed holds any number: not codes, and not numbers of terms in texts."""
    if isinstance(feed, EntriesFeed):
        return feed.leaf is None or not feed.leaf.extractor.sums_ones
    return isinstance(feed, Feed)


class _Conditions:
    """Some conditions as one program, written when it is first evaluated."""

    def __init__(self, graph: Graph, checks: tuple[Check, ...], padding: Padding) -> None:
        self._graph = graph
        self._padding = padding
        self.checks = {f"check{i}": check for i, check in enumerate(checks)}
        self._nodes = {name: check.node for name, check in self.checks.items()}

    @cached_property
    def lowered(self) -> Lowered:
        """The program."""
        nodes = self._nodes
        if any(isinstance(node, FindCode) for node in topological(tuple(nodes.values()))):
            from hbconv.optimize.late_rewrites import join_conditions

            nodes = join_conditions(self._graph, nodes)
        return lower_nodes(self._graph, nodes, padding=self._padding)

    def require(self, table: Table) -> None:
        """Raise InputError with the message of the first that holds."""
        for name, holds in self._found(table):
            check = self.checks[name]
            # Where all rows are at fault, the message says so, and no row is the one.
            rows = "" if check.every else name_rows(self._graph, self._nodes[name], table, holds)
            raise InputError(f"{check.message} {rows}".rstrip())

    def warn(self, table: Table) -> None:
        """Warn with the message of each that holds."""
        for name, holds in self._found(table):
            columns = str(np.flatnonzero(holds.any(axis=0)).tolist())
            message = self.checks[name].message.replace("{columns}", columns)
            warnings.warn(message, UserWarning, stacklevel=3)

    def _found(self, table: Table) -> Iterator[tuple[str, npt.NDArray[np.bool_]]]:
        """Yield the name of each condition that holds for the rows, and where it does."""
        if not self.checks:
            return
        from hbconv.backends.reference import evaluate

        inputs = table.inputs(self.lowered.feeds)
        program = self.lowered.program
        values = run_in_chunks(
            partial(evaluate, program), inputs, rows_per_chunk(program, Target())
        )
        for name, check in self.checks.items():
            holds = values[name]
            # Some sources refuse only where every value is at fault.
            if holds.any() and (holds.all() or not check.every):
                yield name, holds


DOT_ENTRIES = 8192
"""Entries of a dot product that OpenBLAS computes on one thread; it takes more above 10,000."""


def long_dot(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> float:
    """Return the dot product of all entries of two arrays of one shape, on this thread.

    Examples
    --------
    >>> long_dot(np.array([[1.0, 2.0], [3.0, 0.0]]), np.ones((2, 2)))
    6.0
    """
    # In blocks that OpenBLAS leaves on the thread of the call.
    pairs = zip(_blocks(a.reshape(-1)), _blocks(b.reshape(-1)), strict=True)
    return sum((float(np.vdot(x, y)) for x, y in pairs), 0.0)


def are_within(x: npt.NDArray[np.floating], bound: float, strict: list[int]) -> bool:
    """Whether all values are within a bound, or NaN in columns that are not strict.

    A small sum of squares says so for most rows. It is asked block by block, up to the first block
    that it leaves open.

    Parameters
    ----------
    x : ndarray of shape (n_rows, n_columns)
    bound : float
    strict : list of int
        Columns that must not hold NaN.

    Examples
    --------
    >>> x = np.array([[1.0, np.nan], [-2.0, 3.0]])
    >>> are_within(x, 3.0, [0]), are_within(x, 3.0, [1]), are_within(x, 2.0, [])
    (True, False, False)
    """
    # In the order of memory: rows of a table's columns took twice as long to copy as to scan.
    flat = x.T.reshape(-1) if x.flags.f_contiguous else x.reshape(-1)
    # Each value is within the bound if the sum of all squares is within its square; NaN is not.
    square = bound * bound
    if all(np.vdot(block, block) <= square for block in _blocks(flat)):  # vdot does not warn
        return True
    if len(strict) == x.shape[1]:  # these pass NaN on, and no comparison holds for it
        return bool(-bound <= flat.min() and flat.max() <= bound)
    # ``fmin`` and ``fmax`` pass over NaN, which is allowed in columns that are not strict.
    low = np.fmin.reduce(flat, initial=0.0)
    high = np.fmax.reduce(flat, initial=0.0)
    return bool(-bound <= low and high <= bound and not np.isnan(x[:, strict]).any())


def _blocks(flat: npt.NDArray[Any]) -> Iterator[npt.NDArray[Any]]:
    return (flat[i : i + DOT_ENTRIES] for i in range(0, flat.size, DOT_ENTRIES))


_EACH = Cast | CastLike | Compare | IsMissing | IsNonFinite | IsOutside
"""Containers that look at each column alone."""

_LISTED = 3
"""Largest number of further values that a message lists."""
_LOOKED_AT = 1000
"""Refused rows in which further values are looked for."""


def name_rows(graph: Graph, node: Node, table: Table, holds: npt.NDArray[np.bool_]) -> str:
    """Return a sentence about the first of the rows that a condition holds for, and its value.

    The row's number is left out where there is one row alone: in a file or a request it has
    another. Its column is named where one column of the input decides.

    Parameters
    ----------
    graph : Graph
        Of the condition, in the dtypes of the table.
    node : Node
        The condition.
    table : Table
    holds : ndarray of bool, shape (n_rows, width)
        Where it holds, for one row or more.
    """
    # The first row that holds: argmax finds the first True.
    row = int(np.argmax(holds.any(axis=1)))
    is_sparse = None in table.entries or hasattr(table.matrix, "tocsr")
    held = "" if is_sparse else _held(graph, node, table, holds, row)
    if table.rows == 1 and table.at is None:
        return f"The row holds {held}." if held else ""
    number = row if table.at is None else table.at[row]
    return f"Row {number} holds {held}." if held else f"Row {number} is the first."


def _held(graph: Graph, node: Node, table: Table, holds: npt.NDArray[np.bool_], row: int) -> str:
    """Return the value for which a row is refused, and its column; "" where it is not told."""
    only = {column for leaf in _leaves(node) for column in leaf.columns}
    if len(only) == 1:
        first, *others = _values(table.column(*only), np.flatnonzero(holds.any(axis=1)))
        further = f"; others hold {', '.join(others)}" if others else ""
        return f"{first}{_where(table, *only)}{further}"
    looked_at = _looked_at(node)
    if looked_at is node or looked_at.type.dtype == "string" or table.entries:
        return ""
    values = _computed(graph, looked_at, table.part(slice(row, row + 1)))
    place = _place(node, values, holds[row])
    if place is None:
        return ""
    where = _where(table, looked_at.columns[place]) if isinstance(looked_at, Columns) else ""
    return f"{shown(values[place].item())}{where}"


def _leaves(node: Node) -> list[Columns | Codes | Entries]:
    return [n for n in topological((node,)) if isinstance(n, Columns | Codes | Entries)]


def _where(table: Table, column: int) -> str:
    schema = table.reads.schema
    if schema.conventions.sequence:
        return ""
    return f" in column {(schema.names[column] if schema.named else column)!r}"


def _looked_at(node: Node) -> Node:
    """Return what a condition on each column looks at; of codes, the values that have them."""
    while isinstance(node, _EACH):
        node = node.inputs[0]
    coded: Node = node.inputs[0] if isinstance(node, Recode) else node
    return coded.x if isinstance(coded, FindCode) else node


def _computed(graph: Graph, node: Node, row: Table) -> npt.NDArray[Any]:
    """Return the values of a node for one row."""
    from hbconv.backends.reference import evaluate

    lowered = lower_nodes(graph, {"held": node})
    values: npt.NDArray[Any] = evaluate(lowered.program, row.inputs(lowered.feeds))["held"][0]
    return values


def _place(node: Node, values: npt.NDArray[Any], holds: npt.NDArray[np.bool_]) -> int | None:
    """Return the place of the value that a condition refuses; None where it is not told."""
    if isinstance(node, IsNonFinite):  # one answer for all columns
        holds = np.isinf(values) if node.allow_nan else ~np.isfinite(values)
    if holds.shape != values.shape or not holds.any():
        return None
    return int(np.argmax(holds))


def _values(held: Any, rows: npt.NDArray[np.integer[Any]]) -> list[str]:
    """Return the first values that the rows hold in a column, each once."""
    texts: dict[str, None] = {}
    for row in rows[:_LOOKED_AT].tolist():
        texts.setdefault(shown(_value(held, row)))
        if len(texts) > _LISTED:
            break
    return list(texts)


def _value(held: Any, row: int) -> object:
    if isinstance(held, Categories | Text):
        return held.part(slice(row, row + 1)).objects()[0]
    value = getattr(held, "values", held)[row]  # dates in a time zone have theirs in UTC
    return value.item() if isinstance(value, np.generic) else value
