"""Arrays that record: what a function sees in place of the rows.

A matrix has one column for each of the rows' columns, and a vector is one column. Views share what
they view, as those of numpy do, so that writes are seen through them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import CastLike, Concat, Node, Select
from hbconv.parse.tracing.functions import (
    NumberConstant,
    Operand,
    apply_ufunc,
    choose,
    constant_of,
    convert,
    node_of,
    raise_to,
    widen,
)
from hbconv.parse.tracing.trace import ALONE, RowCount, current_trace, refuse

__all__ = [
    "FORMULAS",
    "FUNCTIONS",
    "ColumnMemory",
    "Traced",
    "TracedMatrix",
    "TracedVector",
    "Transposed",
    "call_function",
    "holds_traced",
    "join",
    "operand_of",
]

_WAYS = "Compute it when fitting, or convert the rest of the pipeline: hbconv.convert(pipe[k:])."


def is_all(key: object) -> bool:
    """Tell whether an index takes all rows."""
    return key is Ellipsis or (isinstance(key, slice) and key == slice(None))


N_ROWS = RowCount()


def holds_traced(value: Any) -> bool:
    """Tell whether a value is one that records, or holds one."""
    if isinstance(value, dict):
        return holds_traced(list(value.values()))
    if isinstance(value, list | tuple):
        return any(map(holds_traced, value))
    return isinstance(value, Traced | RowCount)


FUNCTIONS: dict[str, Callable[..., Any]] = {}
"""Functions of numpy over whole arrays by name, which ``array_functions`` adds."""

FORMULAS: dict[np.ufunc, Callable[..., Any]] = {}
"""Universal functions that are formulas of others, which ``formulas`` adds."""

REDUCTIONS: dict[np.ufunc, str] = {
    np.add: "sum",
    np.multiply: "prod",
    np.maximum: "max",
    np.minimum: "min",
    np.logical_or: "any",
    np.logical_and: "all",
}
"""Universal functions whose ``reduce`` is one of these."""


def _arrays_in(value: Any) -> Any:
    """Return series and frames in a value as arrays."""
    if isinstance(value, dict):
        return {key: _arrays_in(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_arrays_in, value))
    return value.to_numpy() if getattr(value, "leads", False) else value


def call_function(name: str, args: Sequence[Any], keywords: dict[str, Any]) -> Any:
    """Call the double of a function of numpy, to which series and frames are arrays.

    Raises
    ------
    FunctionRefusal
        It has none, or not with these arguments.
    """
    led = next((x for x in args[:1] if getattr(x, "leads", False)), None)
    if led is not None and name in ("clip", "round", "around"):
        # These call the method of what they are given.
        return getattr(led, name.removeprefix("a") if name == "around" else name)(
            *args[1:], **keywords
        )
    args, keywords = _arrays_in(list(args)), _arrays_in(dict(keywords))
    function = FUNCTIONS.get(name)
    if function is None:
        refuse(
            f"calls numpy.{name}, which hbconv does not follow",
            "Write it by arithmetic, np.where and np.select of columns.",
        )
    try:
        bound = inspect.signature(function).bind(*args, **keywords)
    except TypeError as error:
        refuse(f"calls numpy.{name} with arguments that hbconv does not follow ({error})")
    return function(*bound.args, **bound.kwargs)


class ColumnMemory:
    """Columns that arrays share: writing makes another node of them."""

    def __init__(self, node: Node, *, is_argument: bool = False) -> None:
        self.node = node
        self.is_argument = is_argument

    def write(self, places: Sequence[int], values: Node) -> None:
        """Put columns at places, in the dtype that the others have."""
        if self.is_argument:
            refuse(
                "writes into its argument, which changes the rows of the caller",
                "Begin with X = X.copy().",
            )
        current_trace().writes.append((values, self.node))
        if values.type.dtype.startswith("float") and not self.node.type.dtype.startswith("float"):
            refuse("writes floats into an array of ints", "Begin with X = X.astype(float).")
        new = CastLike(values, self.node)
        width = self.node.type.width
        if list(places) == list(range(width)):
            self.node = new
            return
        beside = Concat((self.node, new))
        order = np.arange(width, dtype=np.int32)
        order[list(places)] = width + np.arange(len(places))
        self.node = Select(beside, Array(order))


class Traced:
    """Base of values that record.

    Whatever would need their values refuses.
    """

    __array_priority__ = 1000

    def _needs_values(self, *_: object, **__: object) -> NoReturn:
        refuse(
            "needs the values of the rows while it runs",
            "A model keeps no branches and loops over rows: write np.where, np.select or "
            "arithmetic of whole columns.",
        )

    __array__ = __len__ = __iter__ = __float__ = __int__ = __index__ = _needs_values
    __bool__ = __contains__ = __complex__ = __str__ = __format__ = _needs_values
    __hash__ = _needs_values
    __reduce_ex__ = _needs_values

    def __repr__(self) -> str:
        return f"<columns in {type(self).__name__}>"

    def __getattr__(self, name: str) -> Any:
        # As the real one, which a function may ask for an attribute that it lacks.
        if name.startswith("__") or not hasattr(np.ndarray, name):
            raise AttributeError(f"'numpy.ndarray' object has no attribute {name!r}")
        return refuse(f"calls ndarray.{name}, which hbconv does not follow", _WAYS)


def operand_of(value: Any) -> Any:
    """Return a node or a constant of what stands beside an array."""
    if isinstance(value, _Rows):
        return value.node
    if isinstance(value, Traced):
        return refuse("mixes transposed rows with others", ALONE)
    if isinstance(value, list | tuple):
        value = np.asarray(value) if not any(isinstance(v, Traced) for v in value) else value
    if isinstance(value, list | tuple):
        return refuse("computes with a list of columns", "Join them: np.column_stack([a, b]).")
    if isinstance(value, np.ndarray) and value.ndim == 2 and len(value) == 1:
        value = value[0]
    return constant_of(value)


class _Rows(Traced):
    """Rows of some places of a memory."""

    ndim: int

    def __init__(self, memory: ColumnMemory | Node, places: Sequence[int] | None = None) -> None:
        self._memory = ColumnMemory(memory) if isinstance(memory, Node) else memory
        self._places = places

    @property
    def node(self) -> Node:
        """The columns as they are now."""
        whole = self._memory.node
        if self._places is None:
            return whole
        return Select(whole, Array(np.array(self._places, np.int32)))

    @property
    def _positions(self) -> list[int]:
        return list(range(self._memory.node.type.width) if self._places is None else self._places)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the rows."""
        return np.dtype(self._memory.node.type.dtype)

    @property
    def size(self) -> RowCount:
        """Number of entries, which the number of rows decides."""
        return N_ROWS

    def like(self, node: Node) -> Any:
        """Return other columns in the same form."""
        return type(self)(node)

    def write(self, values: Node) -> None:
        """Write all columns."""
        self._memory.write(self._positions, widen(values, len(self._positions)))

    def copy(self, order: str = "C") -> Any:  # noqa: ARG002
        """Return the same columns in a memory of their own."""
        return self.like(self.node)

    __copy__ = copy

    def __deepcopy__(self, memo: object) -> Any:
        return self.copy()

    def astype(self, dtype: npt.DTypeLike, *, copy: bool = True) -> Any:  # noqa: ARG002
        """Convert."""
        return self.like(convert(self.node, dtype))

    def fill(self, value: Any) -> None:
        """Write one number everywhere."""
        self[:] = value

    def clip(self, min: Any = None, max: Any = None) -> Any:  # noqa: A002
        """Bound the numbers."""
        return np.clip(self, min, max)

    def round(self, decimals: int = 0) -> Any:
        """Round."""
        return np.round(self, decimals)

    def __round__(self, decimals: int = 0) -> Any:
        return np.round(self, decimals)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._assign(key, value)

    def _assign(self, key: Any, value: Any) -> None:
        raise NotImplementedError

    def _assign_where(self, mask: Operand, value: Any) -> None:
        if isinstance(value, Traced) or np.ndim(value):
            refuse("writes columns where a mask holds", "Use np.where(mask, new, old).")
        constant = constant_of(value)
        if isinstance(mask, NumberConstant) or mask.type.dtype != "bool":
            refuse("takes rows by numbers", ALONE)
        self._memory.write(self._positions, choose(mask, constant, self.node))

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **keywords: Any
    ) -> Any:
        leader = next((x for x in inputs if getattr(x, "leads", False)), None)
        if leader is not None and not getattr(self, "leads", False):
            return leader.__array_ufunc__(ufunc, method, *inputs, out=out, **keywords)
        if method == "reduce" and ufunc in REDUCTIONS:
            return call_function(REDUCTIONS[ufunc], inputs, keywords)
        if method != "__call__":
            refuse(f"calls numpy.{ufunc.__name__}.{method}", _WAYS)
        mask = keywords.pop("where", True) if out is not None else True
        if keywords:
            named = ", ".join(sorted(keywords))
            refuse(f"calls numpy.{ufunc.__name__} with {named}", "Leave these arguments out.")
        result = _compute(ufunc, inputs)
        if out is None:
            return result
        (target,) = out
        if not isinstance(target, _Rows):
            refuse("writes rows into a constant array", "Leave out= out.")
        kept = result.node if mask is True else choose(operand_of(mask), result.node, target.node)
        target.write(kept)
        return target

    def __array_function__(
        self,
        function: Any,
        types: Any,
        args: Any,
        keywords: Any,
    ) -> Any:
        return call_function(function.__name__, args, keywords)


def _compute(ufunc: np.ufunc, inputs: Sequence[Any]) -> Any:
    """Apply a universal function to arrays and constants."""
    if ufunc is np.matmul:
        return call_function("matmul", inputs, {})
    if ufunc in FORMULAS:
        return FORMULAS[ufunc](*inputs)
    forms = {type(x) for x in inputs if isinstance(x, _Rows)}
    if len(forms) > 1:
        refuse(
            "combines a column of shape (n,) with a table of shape (n, k)",
            "Keep the axis: x[:, [0]] or x[:, None].",
        )
    (form,) = forms
    if form is TracedVector and any(np.ndim(x) for x in inputs if not isinstance(x, Traced)):
        refuse("combines rows with an array of one number for each", ALONE)
    return form(apply_ufunc(ufunc, [operand_of(x) for x in inputs]))


def _operators(name: str, ufunc: np.ufunc) -> dict[str, Any]:
    """Return the methods of a binary operator."""

    def forward(self: Any, other: Any) -> Any:
        return self.__array_ufunc__(ufunc, "__call__", self, other)

    def backward(self: Any, other: Any) -> Any:
        return self.__array_ufunc__(ufunc, "__call__", other, self)

    def in_place(self: Any, other: Any) -> Any:
        return self.__array_ufunc__(ufunc, "__call__", self, other, out=(self,))

    return {f"__{name}__": forward, f"__r{name}__": backward, f"__i{name}__": in_place}


_OPERATORS = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "truediv": np.true_divide,
    "floordiv": np.floor_divide,
    "mod": np.remainder,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "matmul": np.matmul,
}
_COMPARISONS = {
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
}
_UNARY = {"neg": np.negative, "pos": np.positive, "abs": np.absolute, "invert": np.invert}

for _name, _ufunc in _OPERATORS.items():
    for _method, _function in _operators(_name, _ufunc).items():
        setattr(_Rows, _method, _function)
for _name, _ufunc in _COMPARISONS.items():
    setattr(_Rows, f"__{_name}__", _operators(_name, _ufunc)[f"__{_name}__"])
for _name, _ufunc in _UNARY.items():
    setattr(
        _Rows,
        f"__{_name}__",
        lambda self, ufunc=_ufunc: self.__array_ufunc__(ufunc, "__call__", self),
    )


def _power(self: Any, exponent: Any) -> Any:
    return self.like(raise_to(self.node, operand_of(exponent)))


def _power_in_place(self: Any, exponent: Any) -> Any:
    self.write(_power(self, exponent).node)
    return self


def _power_of(self: Any, base: Any) -> Any:
    return self.like(raise_to(operand_of(base), self.node))


for _name, _function in {"pow": _power, "ipow": _power_in_place, "rpow": _power_of}.items():
    setattr(_Rows, f"__{_name}__", _function)


class TracedVector(_Rows):
    """An array of shape (n_rows,)."""

    ndim = 1

    @property
    def shape(self) -> tuple[RowCount]:
        """Its shape."""
        return (N_ROWS,)

    @property
    def T(self) -> TracedVector:  # noqa: N802
        """Itself."""
        return self

    def __getitem__(self, key: Any) -> Any:
        if is_all(key):
            return TracedVector(self._memory, self._positions)
        if key is None or (isinstance(key, tuple) and len(key) == 2 and key[1] is None):
            first = key[0] if isinstance(key, tuple) else None
            if first is not None and is_all(first):
                return TracedMatrix(self._memory, self._positions)
        return _take_rows()

    def _assign(self, key: Any, value: Any) -> None:
        if isinstance(key, TracedVector):
            self._assign_where(key.node, value)
        elif is_all(key):
            self.write(_values_in(self, value))
        else:
            _take_rows()

    def reshape(self, *shape: Any) -> Any:
        """Return the same numbers as a vector or as a column."""
        shape = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape
        counts = isinstance(shape[0], RowCount) or shape[0] == -1
        if counts and len(shape) == 2 and shape[1] == 1:
            return TracedMatrix(self._memory, self._positions)
        if counts and len(shape) == 1:
            return TracedVector(self._memory, self._positions)
        return refuse("mixes rows by reshape", ALONE)

    def ravel(self) -> Any:
        """Return itself."""
        return TracedVector(self._memory, self._positions)

    def flatten(self) -> Any:
        """Return a copy."""
        return self.copy()

    squeeze = ravel


class TracedMatrix(_Rows):
    """An array of shape (n_rows, width)."""

    ndim = 2

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self._positions)

    @property
    def shape(self) -> tuple[RowCount, int]:
        """Its shape."""
        return N_ROWS, self.width

    @property
    def T(self) -> Transposed:  # noqa: N802
        """Its columns, one after another."""
        return Transposed(self)

    def column(self, place: int) -> TracedVector:
        """Return a view of one column."""
        return TracedVector(self._memory, [self._positions[place]])

    def __getitem__(self, key: Any) -> Any:
        if is_all(key):
            return TracedMatrix(self._memory, self._positions)
        if not isinstance(key, tuple) or len(key) != 2 or not is_all(key[0]):
            return _take_rows()
        places = _places(key[1], self.width)
        if isinstance(places, int):
            return self.column(places)
        chosen = [self._positions[place] for place in places]
        view = TracedMatrix(self._memory, chosen)
        # Slices are views of the same memory, and lists of places make a copy.
        return view if isinstance(key[1], slice) else view.copy()

    def _assign(self, key: Any, value: Any) -> None:
        if isinstance(key, TracedMatrix):
            self._assign_where(key.node, value)
        elif isinstance(key, TracedVector):
            self._assign_where(widen(key.node, self.width), value)
        elif is_all(key):
            self.write(_values_in(self, value))
        elif isinstance(key, tuple) and len(key) == 2 and isinstance(key[0], TracedVector):
            self._assign_columns(key[1])._assign_where(key[0].node, value)
        elif isinstance(key, tuple) and len(key) == 2 and is_all(key[0]):
            target = self._assign_columns(key[1])
            target.write(_values_in(target, value))
        else:
            _take_rows()

    def _assign_columns(self, key: Any) -> _Rows:
        """Return a view of the columns that an index assigns to."""
        places = _places(key, self.width)
        if isinstance(places, int):
            return self.column(places)
        return TracedMatrix(self._memory, [self._positions[place] for place in places])

    def reshape(self, *shape: Any) -> Any:
        """Return the same rows, or a single column as a vector."""
        shape = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape
        # One of the two may be -1: the other then says what it is.
        first_counts = isinstance(shape[0], RowCount) or (
            isinstance(shape[0], int) and shape[0] == -1 and shape[-1] == self.width
        )
        if len(shape) == 2 and first_counts and shape[1] in (-1, self.width):
            return TracedMatrix(self._memory, self._positions)
        if len(shape) == 1 and self.width == 1:
            return self.column(0)
        return refuse("mixes rows by reshape", ALONE)

    def ravel(self) -> Any:
        """Return a single column as a vector."""
        return self.column(0) if self.width == 1 else refuse("mixes rows by ravel", ALONE)

    def flatten(self) -> Any:
        """Return a copy of a single column as a vector."""
        return self.ravel().copy()

    squeeze = ravel

    def dot(self, weights: Any) -> Any:
        """Multiply by a constant matrix."""
        return call_function("matmul", (self, weights), {})


class Transposed(Traced):
    """The columns of a matrix, to be taken one by one or transposed back."""

    ndim = 2

    def __init__(self, matrix: TracedMatrix) -> None:
        self.T = matrix

    @property
    def shape(self) -> tuple[int, RowCount]:
        """Its shape."""
        return self.T.width, N_ROWS

    def __iter__(self) -> Iterator[TracedVector]:  # type: ignore[override]
        return (self.T.column(place) for place in range(self.T.width))

    def __len__(self) -> int:  # type: ignore[override]
        return self.T.width

    def __getitem__(self, key: Any) -> Any:
        return (
            self.T[:, key]
            if isinstance(key, int | np.integer)
            else refuse("transposes rows and columns", ALONE)
        )

    __array_ufunc__ = __array_function__ = Traced._needs_values


def _take_rows() -> NoReturn:
    refuse(
        "takes some of the rows, or values by their position among rows",
        f"{ALONE} Take columns by x[:, j], and choose by np.where.",
    )


def _places(key: Any, width: int) -> int | list[int]:
    """Return the columns that an index takes."""
    if isinstance(key, Traced | RowCount):
        refuse("takes columns by the values of rows", "Use np.where or np.select.")
    taken = np.arange(width)[key]
    if np.ndim(taken) > 1:
        refuse("takes columns into three dimensions")
    return int(taken) if np.ndim(taken) == 0 else [int(place) for place in taken]


def _values_in(target: _Rows, value: Any) -> Node:
    """Return what is assigned to columns, as a node of their dtype."""
    width = len(target._positions)
    if isinstance(value, TracedVector) and isinstance(target, TracedMatrix):
        refuse("assigns a column of shape (n,) to a table", "Keep the axis: x[:, [0]].")
    if isinstance(value, TracedMatrix) and isinstance(target, TracedVector):
        refuse("assigns a table to a column of shape (n,)", "Take one column: table[:, 0].")
    operand = operand_of(value)
    if isinstance(operand, Node):
        return widen(operand, width)
    # Of a constant only the kind counts, since it is written in the dtype of its place.
    return widen(node_of(operand), width)


def join(parts: Sequence[Any]) -> TracedMatrix:
    """Put columns side by side, in numpy's common dtype."""
    nodes = []
    for part in parts:
        if not isinstance(part, _Rows):
            refuse("joins rows with a constant array", "Fill a column: np.full(len(X), value).")
        nodes.append(part.node)
    return TracedMatrix(Concat(tuple(nodes)) if len(nodes) > 1 else nodes[0])
