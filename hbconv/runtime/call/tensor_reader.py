"""Tensor reader: rows in tensors of torch, or in arrays of a CUDA device, that stay where they are.

The host settles what their dtype and width say, as it does for an empty matrix. It asks the device
one bool a call: whether a row is flagged by the program, or beyond the guard's bound. Only then are
rows copied to the host, and for checks that the guard leaves there. So are codes whose labels are
text.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hbconv.backends import find_backend
from hbconv.containers import Graph
from hbconv.lower import FLAGGED, Feed
from hbconv.runtime.inputs.arrays import reads_rows
from hbconv.runtime.inputs.places import unnamed_rows, warn
from hbconv.runtime.inputs.read import read_table
from hbconv.runtime.inputs.table import Reads, Table
from hbconv.runtime.outputs.answers import join_chunks, part_decoder, whole
from hbconv.runtime.outputs.tensors import as_tensors, from_array, on_host, typed
from hbconv.runtime.program import Program
from hbconv.runtime.programs import Programs

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["TensorReader", "as_given", "is_tensor", "read_tensor"]

ON_CUDA = (2, 13)
"""Kinds of devices of the DLPack protocol: memory of CUDA, and memory that it manages."""
DTYPES = ("float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint8", "bool")
"""Dtypes that torch and numpy both have, and convert alike."""


def is_tensor(x: Any) -> bool:
    """Whether rows are a tensor of torch, or an array on a CUDA device."""
    kind = type(x)
    if hasattr(kind, "detach"):
        return kind.__module__.partition(".")[0] == "torch" or _is_torch(x)
    return hasattr(kind, "__dlpack_device__") and int(x.__dlpack_device__()[0]) in ON_CUDA


def _is_torch(x: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


@reads_rows
def read_tensor(x: Any) -> Tensor:
    """Return rows for which ``is_tensor`` holds as a tensor over the same memory."""
    import torch

    if isinstance(x, torch.Tensor):
        return x.detach()
    tensor: Tensor = torch.utils.dlpack.from_dlpack(x)
    return tensor


def as_given(answer: Any, x: Any) -> Any:
    """Return the tensors of an answer as arrays of the library of x, if it says how.

    The array API and ``from_dlpack`` of its package say so. Else they stay tensors.
    """
    if _is_torch(x):
        return answer
    if isinstance(answer, list | tuple):
        return type(answer)(as_given(part, x) for part in answer)
    if not _is_torch(answer):
        return answer
    package = sys.modules.get(type(x).__module__.partition(".")[0])
    library: Any = x.__array_namespace__() if hasattr(x, "__array_namespace__") else package
    return library.from_dlpack(answer) if hasattr(library, "from_dlpack") else answer


@dataclass(frozen=True)
class _TensorTable(Table):
    """Rows whose matrix is a tensor."""

    def beyond(self, columns: Any, bound: int) -> int | None:
        """Return the first of some columns of ints that holds one beyond a bound."""
        for position in sorted(columns):
            column = self.matrix[:, position]
            if bool(((column < -bound) | (column > bound)).any()):
                return int(position)
        return None


@dataclass(frozen=True)
class _Route:
    """How rows of one dtype and width are answered. To find out takes 30 us, so it is kept."""

    table: Table
    """Rows like them, as the program reads them."""
    dtype: Any
    """That rows are read in."""
    program: Program
    inputs: tuple[tuple[str, Tensor | None, Any], ...]
    """Name of each input, its columns on the device (None: all), and its dtype."""
    needs_host: bool
    looks_at_rows: bool
    flags_rows: bool

    def on_host(self, matrix: Tensor) -> Table:
        """Return a copy of some rows, for checks."""
        return replace(self.table, rows=len(matrix), matrix=on_host(matrix))


class TensorReader:
    """A method for tensors.

    Parameters
    ----------
    graph : Graph
        As parsed.
    programs : Programs
    reads : Reads
    method : str
    """

    def __init__(self, graph: Graph, programs: Programs, reads: Reads, method: str) -> None:
        self._graph = graph
        self._programs = programs
        self._reads = reads
        self._method = method
        self._output = graph.outputs[method].for_rows(sparse=False)
        self._decode = part_decoder(self._output)
        self._warning = unnamed_rows(reads) if reads.schema.named else ""
        is_read = reads.schema.conventions.takes_matrices and not (reads.text or reads.entries)
        self._takes_matrices = is_read and not self._output.returns_sparse
        self._routes: dict[Any, _Route] = {}
        self._constants: dict[Any, Tensor] = {}

    def __call__(self, x: Tensor) -> Any:
        """Answer by tensors on the device of x, or return None where the host must read the rows.

        It must for other devices than the program's, dtypes that numpy does not have, subclasses
        of tensors, and texts.
        """
        if not (self._takes_matrices and _is_plain(x)):
            return None
        route = self._routes.get((x.dtype, x.shape[1], x.device))
        if route is not None and self._warning:
            warn(self._warning)
        route = route or self._find_route(x)
        if route is None:
            return None
        matrix = typed(x, route.dtype)
        rows, most = x.shape[0], route.program.chunk

        def answer_chunk(part: slice) -> Any:
            return self._decode(self._values(route, matrix if rows <= most else matrix[part]))

        return as_tensors(whole(self._output, join_chunks(rows, most, answer_chunk)), x)

    def _find_route(self, x: Tensor) -> _Route | None:
        """Choose the program for rows; None where it does not read them where they lie.

        The route is that of all such rows if no value has a say in it.
        """
        target = self._programs.target
        is_here = x.device.type == target.device.partition(":")[0]
        if not is_here or not find_backend(target.backend).takes_tensors(target):
            return None
        if _dtype_of(x) not in DTYPES:
            return None
        method = (self._method,)
        rows = self._table(x)
        table = self._programs.converted(method, rows)
        program = self._programs.program(method, table.dtypes, table.padding)
        inputs = tuple(self._input(feed, x) for feed in program.host.feeds)
        guard = program.guard
        places = (guard.needs_host, guard.looks_at_rows, guard.flags_rows)
        like = replace(table, matrix=None)
        route = _Route(like, table.matrix.dtype, program, inputs, *places)
        choice = self._programs.choices.remembered(method, rows.dtypes, rows.padding)
        # Ints that must be small are looked at in each call, so their route is not kept.
        if choice is not None and not choice.small:
            self._routes[x.dtype, x.shape[1], x.device] = route
        return route

    def _table(self, x: Tensor) -> _TensorTable:
        """Return the rows in the dtype that an empty matrix like them would be read in."""
        empty = np.empty((0, x.shape[1]), _dtype_of(x))
        like = read_table(empty, self._reads)
        dtype = from_array(like.matrix, "cpu").dtype
        return _TensorTable(self._reads, len(x), like.dtypes, x.to(dtype), padding=like.padding)

    def _input(self, feed: Any, x: Tensor) -> tuple[str, Tensor | None, Any]:
        """Return the name of an input, its columns of rows like x, and its dtype."""
        import torch

        reads_all = feed.columns == tuple(range(x.shape[1]))
        columns = None if reads_all else self._constant(feed.columns, x.device)
        return feed.name, columns, getattr(torch, feed.dtype)

    def _values(self, route: _Route, matrix: Tensor) -> Tensor:
        """Compute the values of some rows, and let the host see those that a check may refuse."""
        program = route.program
        if route.needs_host or (route.looks_at_rows and not self._are_ordinary(program, matrix)):
            program.check(route.on_host(matrix))
        inputs = {name: _cut(matrix, columns, dtype) for name, columns, dtype in route.inputs}
        artifact: Any = program.artifact.for_rows(matrix.shape[0])
        values: dict[str, Tensor] = artifact.compute(inputs)
        if route.flags_rows and self._are_flagged(values):
            program.check.flagged(route.on_host(matrix))
        return values[self._method]

    def _are_flagged(self, values: Mapping[str, Tensor]) -> bool:
        """Ask the device whether a check may refuse any row."""
        # The one bool that the host waits for.
        return bool(values[FLAGGED].any())

    def _are_ordinary(self, program: Program, matrix: Tensor) -> bool:
        """Ask the device whether all values are within the guard's bound, and no NaN refused."""
        import torch

        guard = program.guard
        odd = []
        for feed in program.check.feeds:
            assert isinstance(feed, Feed)  # noqa: S101  (rows are dense)
            _, columns, dtype = self._input(feed, matrix)
            values = _cut(matrix, columns, dtype)
            within = values.abs() <= guard.bound
            may_miss = tuple(column not in guard.without_nan for column in feed.columns)
            if any(may_miss):
                within |= values.isnan() & self._constant(may_miss, values.device)
            odd.append(~within.all())
        # All answers in one bool: each waits for the device.
        return not odd or not bool(torch.stack(odd).any())

    def _constant(self, values: tuple[Any, ...], device: Any) -> Tensor:
        """Return numbers as a tensor, copied to a device once."""
        key = (values, device)
        if key not in self._constants:
            self._constants[key] = from_array(np.array(values), device)
        return self._constants[key]


def _cut(matrix: Tensor, columns: Tensor | None, dtype: Any) -> Tensor:
    """Return some columns of a matrix as a program reads them."""
    rows = matrix if columns is None else matrix.index_select(1, columns)
    values: Tensor = typed(rows, dtype).contiguous()
    return values


def _is_plain(x: Tensor) -> bool:
    """Whether a tensor is a matrix that is read as an array of numpy is."""
    import torch

    strided = type(x) is torch.Tensor and not x.is_nested and x.layout == torch.strided
    return strided and x.dim() == 2


def _dtype_of(x: Tensor) -> str:
    return str(x.dtype).removeprefix("torch.")
