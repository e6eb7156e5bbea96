"""Move columns or change their dtype."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers.interval import LARGEST, Interval, Trend, union
from hbconv.containers.node import Node, container
from hbconv.containers.nodes.column_wise import ColumnWise, PerColumn, Select
from hbconv.containers.schema import Type, common_dtype
from hbconv.tensor.builder import SparseRows

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["Beside", "ByForm", "Cast", "CastLike", "Concat", "ConstantRows", "Spread", "Together"]


@container
class Spread(Node):
    """Put the columns of x at places of a wider row, whose other columns are 0.

    Parameters
    ----------
    places : Array of int32, shape (x's width,)
        Column of each, all different.
    width : int
    """

    x: Node
    places: Array
    width: int

    @property
    def detail(self) -> str:
        return f"into {self.width} columns"

    @property
    def _sources(self) -> npt.NDArray[np.int32]:
        """Column of x that each column holds; x's width for 0."""
        n_inputs = len(self.places)
        sources = np.full(self.width, n_inputs, np.int32)
        sources[self.places.data] = np.arange(n_inputs)
        return sources

    def infer(self) -> Type:
        return Type(self.width, self.x.type.dtype)

    def check(self) -> str | None:
        places = self.places.data
        fits = (
            places.shape == (self.x.type.width,)
            and self.places.are_places(self.width)
            and len(np.unique(places)) == len(places)
        )
        return None if fits else "spreads columns over places that do not exist"

    def interval(self, *inputs: Interval) -> Interval:
        return inputs[0]

    def lower(self, b: Builder, *inputs: Value) -> Value:
        (x,) = inputs
        # One column of zeros follows x, and every column that x does not fill reads it.
        zero = b.op("expand", x, b.constant(np.zeros(1), x.dtype))
        return b.take(b.concat([x, zero]), self._sources)

    def lower_sparse(self, b: Builder, *inputs: SparseRows) -> SparseRows:  # type: ignore[override]
        (rows,) = inputs
        places = rows.at_tokens(b, self.places.data, self.width, "int32")
        return SparseRows(places, rows.weights, self.width)


@container
class Concat(Node):
    """The columns of all inputs side by side, in numpy's common dtype."""

    xs: tuple[Node, ...]

    trends: ClassVar[Trend] = Trend.RISES

    @property
    def detail(self) -> str:
        return f"width {self.type.width}"

    def narrowed(self, columns: Array) -> Node | None:
        """Cut the columns into runs of one input each; inputs that no column needs vanish.

        Where the columns come back to an input, each input keeps what they need of it, once, and
        they are selected from that. Cutting it again each time would make a node for each column of
        inputs that are woven together, as the stages of two classes are.
        """
        ends = np.cumsum([x.type.width for x in self.xs])
        owners = np.searchsorted(ends, columns.data, side="right")
        cuts = np.flatnonzero(np.diff(owners)) + 1
        runs = [run for run in np.split(np.arange(len(columns)), cuts) if len(run)]
        # More runs than inputs: some input comes twice, and would be cut again each time.
        if len(runs) > len({int(owners[run[0]]) for run in runs}):
            return self._select_woven(columns)
        parts = tuple(self._part(int(owners[run[0]]), columns.data[run]) for run in runs)
        narrow = parts[0] if len(parts) == 1 else Concat(parts)
        return narrow if narrow.type.dtype == self.type.dtype else Cast(narrow, self.type.dtype)

    def _select_woven(self, columns: Array) -> Node | None:
        """Select from the columns that are needed, in the order that they have here."""
        needed, places = np.unique(columns.data, return_inverse=True)
        if len(needed) == self.type.width:
            return None
        kept = self.narrowed(Array(needed))
        return kept and Select(kept, Array.of(places, np.int32))

    def _part(self, owner: int, columns: npt.NDArray[np.int32]) -> Node:
        first = sum(x.type.width for x in self.xs[:owner])
        return Select(self.xs[owner], Array(columns - first))

    @cached_property
    def _common(self) -> tuple[str, bool]:
        return common_dtype((x.type.dtype, x.weak_int) for x in self.xs)

    @cached_property
    def weak_int(self) -> bool:
        return self._common[1]

    def reads(self) -> tuple[npt.NDArray[np.int32], ...]:
        ends = np.cumsum([x.type.width for x in self.xs])
        places = np.arange(self.type.width, dtype=np.int32)
        firsts = ends - [x.type.width for x in self.xs]
        return tuple(
            np.where((places >= first) & (places < end), places - first, -1).astype(np.int32)
            for first, end in zip(firsts, ends, strict=True)
        )

    def infer(self) -> Type:
        return Type(sum(x.type.width for x in self.xs), self._common[0])

    def interval(self, *inputs: Interval) -> Interval:
        return union(*inputs)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        return b.concat([b.cast(x, self.type.dtype) for x in inputs])

    def lower_sparse(self, b: Builder, *inputs: Value | SparseRows) -> SparseRows:
        """Put the entries side by side; the token of an entry is its column in the result.

        A dense input has an entry for each of its columns.
        """
        weights = [
            b.cast(part.weights if isinstance(part, SparseRows) else part, self.type.dtype)
            for part in inputs
        ]
        starts = np.cumsum([0, *(x.type.width for x in self.xs)])[:-1]
        tokens = [
            self._tokens(b, part, int(start)) for part, start in zip(inputs, starts, strict=True)
        ]
        return SparseRows(b.concat(tokens), b.concat(weights), self.type.width)

    def _tokens(self, b: Builder, part: Value | SparseRows, start: int) -> Value:
        if not isinstance(part, SparseRows):
            return b.op(
                "expand", part, b.constant(np.arange(start, start + part.shape[0], dtype=np.int32))
            )
        # Padding names the width of its own part, and must name that of the whole.
        none = b.op("eq", part.tokens, b.constant(part.width, "int32"))
        return b.where(
            none, b.constant(self.type.width, "int32"), part.tokens + b.constant(start, "int32")
        )


@container
class Together(ColumnWise):
    """x, computed at once: no selection passes, since others take the rest of its columns."""

    x: Node

    narrowed = Node.narrowed

    trends: ClassVar[Trend] = Trend.RISES

    @cached_property
    def weak_int(self) -> bool:
        return self.x.weak_int

    def interval(self, *inputs: Interval) -> Interval:
        return inputs[0]

    def lower(self, b: Builder, *inputs: Value) -> Value:  # noqa: ARG002
        return inputs[0]


@container
class Beside(Concat):
    """Put the columns of a table side by side, each in its own dtype.

    A selection from it takes each column in the dtype of its part.
    """


@container
class Cast(ColumnWise):
    """Convert x to a dtype; float32 may overflow.

    The dtype ``"float"`` keeps floats and converts everything else to ``others``.
    """

    x: Node
    dtype: str
    others: str = "float64"

    @property
    def detail(self) -> str:
        return self.dtype if self.others == "float64" else f"{self.dtype}, others {self.others}"

    def trend(self, column: int) -> Trend:  # noqa: ARG002
        return _trend_of_cast(self.x.type.dtype, self.type.dtype)

    def origin(
        self,
        column: int,  # noqa: ARG002
        values: npt.NDArray[np.float64],
    ) -> npt.NDArray[np.float64]:
        """Return the last float64 that becomes a float32; other casts keep values."""
        if (self.x.type.dtype, self.type.dtype) != ("float64", "float32"):
            return values
        return _last_rounded_to(values.astype(np.float32))

    def infer(self) -> Type:
        keeps = self.dtype == "float" and self.x.type.dtype.startswith("float")
        return Type(
            self.x.type.width,
            self.x.type.dtype if keeps else self.others if self.dtype == "float" else self.dtype,
        )

    def interval(self, *inputs: Interval) -> Interval | None:
        return inputs[0] if self.type.dtype in LARGEST else None

    def lower(self, b: Builder, *inputs: Value) -> Value:
        return b.cast(inputs[0], self.type.dtype)

    def lower_sparse(self, b: Builder, *inputs: SparseRows) -> SparseRows:  # type: ignore[override]
        (rows,) = inputs
        return rows.with_weights(b.cast(rows.weights, self.type.dtype))


@container
class ConstantRows(ColumnWise):
    """The same values in every row; x only gives the number of rows."""

    x: Node
    values: PerColumn

    reads_numbers: ClassVar[bool] = True

    always_finite: ClassVar[bool] = True
    trends: ClassVar[Trend] = Trend.FLAT

    def reads(self) -> tuple[npt.NDArray[np.int32], ...]:
        return (np.full(len(self.values), -1, np.int32),)

    def infer(self) -> Type:
        return Type(len(self.values), self.values.dtype)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        return b.op("expand", inputs[0], b.constant(self.values))


def _last_rounded_to(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Return the largest float64 that rounds to each float32: halfway to the next, or just below.

    Examples
    --------
    >>> one = np.ones(1, np.float32)
    >>> last = _last_rounded_to(one)
    >>> last.astype(np.float32) == one, np.nextafter(last, 2).astype(np.float32) > one
    (array([ True]), array([ True]))
    """
    after = np.nextafter(values, np.float32(np.inf)).astype(np.float64)
    # What is from 2**128 on is infinite, so the next one of the largest float32 would be that.
    after = np.where(after == np.inf, 2.0**128, after)
    halfway = np.where(values == -np.inf, -(2.0**128), values.astype(np.float64)) / 2 + after / 2
    rounds_up = halfway.astype(np.float32) > values
    return np.where(rounds_up, np.nextafter(halfway, -np.inf), halfway)


def _trend_of_cast(before: str, after: str) -> Trend:
    """Rise unless values wrap, are cut off, or become truth."""
    # Floats become floats in order, up to infinity; ints wrap around, and a bool knows two values.
    rises = after.startswith("float") or before in ("bool", after)
    return Trend.RISES if rises else Trend.UNKNOWN


@container
class CastLike(ColumnWise):
    """Convert x to the dtype of ``like``, as numpy does on assignment into such an array."""

    x: Node
    like: Node

    def narrowed(self, columns: Array) -> Node:
        # Only the dtype of ``like`` is read, so its columns stay.
        return CastLike(Select(self.x, columns), self.like)

    def reads(self) -> tuple[npt.NDArray[np.int32], ...]:
        places = np.arange(self.type.width, dtype=np.int32)
        return places, np.full_like(places, -1)

    def trend(self, column: int) -> Trend:  # noqa: ARG002
        return _trend_of_cast(self.x.type.dtype, self.type.dtype)

    def infer(self) -> Type:
        return Type(self.x.type.width, self.like.type.dtype)

    def interval(self, *inputs: Interval) -> Interval | None:
        return inputs[0] if self.type.dtype in LARGEST else None

    def lower(self, b: Builder, *inputs: Value) -> Value:
        return b.cast(inputs[0], self.type.dtype)


@container
class ByForm(ColumnWise):
    """One value for rows of an array or a table, another for those of a sparse matrix.

    ``Graph.for_rows`` puts one of them in its place before anything is computed.
    """

    dense: Node
    sparse: Node

    def lower(self, b: Builder, *inputs: Value) -> Value:  # noqa: ARG002
        return inputs[0]
