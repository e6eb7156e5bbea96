"""What a backend is: the primitives that it emits, its artifacts, and its reports of kernels."""

from __future__ import annotations

import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

import hbconv.trees  # noqa: F401 - the tables of backends name the primitives that it defines
from hbconv.errors import BackendError, MissingPackageError
from hbconv.target import Target
from hbconv.tensor import ProgramTypes, TensorProgram, verify_program

if TYPE_CHECKING:
    from hbconv.cost_model import Work
    from hbconv.tensor.decompositions import Rule
    from hbconv.trees.forest import Forest
    from hbconv.trees.strategy import Refusal

__all__ = [
    "SEARCHES_REFUSED",
    "Artifact",
    "Backend",
    "DeviceReport",
    "KernelReport",
    "LaunchReport",
    "contiguous",
]

Arrays = Mapping[str, npt.NDArray[Any]]

MAX_DEPTH = 8
"""Times that a program is rewritten, so that its primitives are those of the backend."""


@dataclass(frozen=True)
class Bound:
    """A program with buffers for its inputs and outputs, which calls use again and again.

    One thread at a time may use it.

    Parameters
    ----------
    inputs : mapping of str to ndarray
        The caller writes the rows to be computed here.
    outputs : mapping of str to ndarray
        The caller reads the results here.
    run : callable
        ``run(record(rows))`` computes the first rows.
    record : callable
        Makes the argument of ``run``, which may be used again and again.
    """

    inputs: Arrays
    outputs: Arrays
    run: Callable[[Any], object]
    record: Callable[[int], Any]


class Artifact(ABC):
    """A compiled program, ready to run."""

    @abstractmethod
    def run(self, inputs: Arrays) -> dict[str, npt.NDArray[Any]]:
        """Compute the outputs, in the program's order, for inputs of any length.

        Their memory may have any order: that of a table may be by columns.
        """

    takes_columns: bool = False
    """Whether inputs may be ``ColumnArrays``, which it reads where they lie."""
    sizes: tuple[int, ...] = ()
    """Numbers of rows that are worth binding for, ascending; empty if none is.

    A call takes the first size that holds its rows.
    """

    def for_rows(self, rows: int) -> Artifact:  # noqa: ARG002
        """Return what runs this number of rows: the artifact itself, unless it has variants."""
        return self

    def compile_for(self, rows: int) -> None:  # noqa: B027
        """Compile what the first call of this number of rows would compile."""

    def bind(self, rows: int) -> Bound | None:  # noqa: ARG002
        """Bind to buffers for up to this number of rows; return None if that saves no time."""
        return None

    def files(self) -> dict[str, bytes]:
        """Return the files to store with a saved model; none if compiling again is as good."""
        return {}


SEARCHES_REFUSED: Mapping[str, str] = dict.fromkeys(
    ("heap_search", "tree_search"), "it decides among equal entries, row by row"
)
"""What backends refuse that run whole batches operator after operator."""


@dataclass(frozen=True)
class KernelReport:
    """Sizes of the kernel that a backend makes of a whole program.

    Parameters
    ----------
    machine : str
        Level of the processor that it is for.
    kernels : int
        Kernels that a call runs, one after another.
    tile, block, lanes : int
        Rows in scratch memory at once; rows that a group of trees works on at a time; rows of one
        vector operation.
    bytes_read, bytes_written : int
        Bytes per row of the input columns in use, and of the outputs.
    table_bytes : int
        Bytes of constants. A tile reads these at most: a walk skips splits that no row reaches.
    scratch_bytes : int
        Bytes of the values of one tile.
    trees : tuple of str
        The kernel of each tree operator, and the form in which its splits read a row.
    """

    machine: str
    kernels: int
    tile: int
    block: int
    lanes: int
    bytes_read: int
    bytes_written: int
    table_bytes: int
    scratch_bytes: int
    trees: tuple[str, ...] = ()

    def __str__(self) -> str:
        kernels = "1 kernel" if self.kernels == 1 else f"{self.kernels} kernels"
        sizes = f"tiles of {self.tile:,} rows, blocks of {self.block:,}, vectors of {self.lanes}"
        moved = f"{self.bytes_read:,} bytes of a row read, {self.bytes_written:,} written"
        tables = f"{self.table_bytes:,} bytes of tables for each tile"
        per_row = f"{self.table_bytes / self.tile:,.0f} a row"
        lines = [
            f"{kernels} for {self.machine}: {sizes}",
            f"{moved}; no other memory grows with the rows",
            f"{tables}, {per_row}; {self.scratch_bytes:,} bytes of scratch in all",
        ]
        return "\n".join([*lines, *self.trees])


class Backend(ABC):
    """A backend compiles a TensorProgram to an Artifact.

    Attributes
    ----------
    name : str
        Its name, that of its module.
    needs : tuple of str
        Packages that it imports.
    extra : str
        The hbconv extra that installs them.
    instead : str
        What to do where it refuses a primitive.
    runs_stored : bool
        What it stored runs where these packages are missing, and names the machines that run it.
    stored_with : tuple of str
        Packages by whose version alone what it stored can be read.
    emits : mapping or frozenset
        Primitives that it emits: a table of functions, or names.
    rewrites : mapping of str to function
        Primitives written as others in a way of its own, because that is faster there:
        ``function(builder, *operands, **attributes)``.
    refuses : mapping of str to str
        Primitives that it cannot run, each with the reason. A primitive in none of the three tables
        is written by its shared decomposition; one that has none fails a test.
    devices : tuple of str
        Kinds of devices that it runs on.
    finds_devices : tuple of str
        What counts its CUDA devices, and what to install where there is none.
    tiled : bool
        It holds the values of a few rows at a time. So it takes batches of any length, and values
        that are not outputs need no memory for all rows.
    plans_by_rows : bool
        Its strategies differ by the number of rows so much that calls of few rows may have a
        program of their own.
    """

    name: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ()
    extra: ClassVar[str] = ""
    instead: ClassVar[str] = "Use another backend, such as backend='torch'."
    runs_stored: ClassVar[bool] = False
    stored_with: ClassVar[tuple[str, ...]] = ()
    emits: ClassVar[Mapping[str, Any] | frozenset[str]]
    rewrites: ClassVar[Mapping[str, Rule]] = {}
    refuses: ClassVar[Mapping[str, str]] = {}
    devices: ClassVar[tuple[str, ...]] = ("cpu",)
    finds_devices: ClassVar[tuple[str, str]] = ("torch", "torch with CUDA")
    tiled: ClassVar[bool] = False
    plans_by_rows: ClassVar[bool] = False

    def native_trees(self, target: Target) -> frozenset[str]:  # noqa: ARG002
        """Return the strategies that it runs by kernels of its own, not as plain primitives."""
        return frozenset()

    def refuse_trees(self, strategy: str, forest: Forest, target: Target) -> Refusal | None:  # noqa: ARG002
        """Return why a native strategy may not be used for a forest, or None."""
        return None

    def tree_work(
        self,
        strategy: str,
        forest: Forest,
        dtype: str,  # noqa: ARG002
        target: Target,  # noqa: ARG002
        *,
        added: bool = True,  # noqa: ARG002
    ) -> Work:
        """Count what a native strategy does with rows of a dtype, as its prices expect it.

        The values of the leaves are added, or their numbers are wanted.
        """
        from hbconv.trees.strategy import find_strategy

        return find_strategy(strategy).work(forest)

    def remarks(self, forest: Forest, target: Target) -> tuple[str, ...]:  # noqa: ARG002
        """List the parts of a forest that its own kernel does not run, with the reason."""
        return ()

    @abstractmethod
    def emit(self, program: TensorProgram, target: Target) -> Artifact:
        """Compile a program whose primitives this backend emits."""

    def cuda_devices(self) -> int:
        """Count the CUDA devices that it can use.

        Raises
        ------
        BackendError
            They cannot be counted, and why.
        """
        return 0

    def takes_tensors(self, target: Target) -> bool:  # noqa: ARG002
        """Whether its artifacts ``compute`` tensors of torch on their device."""
        return False

    def report(self, program: TensorProgram, target: Target) -> KernelReport | DeviceReport:  # noqa: ARG002
        """Report the sizes of the kernel of a prepared program.

        Raises
        ------
        BackendError
            The backend makes no kernel: it runs operator after operator.
        """
        raise BackendError(
            f"Backend {self.name!r} runs operator after operator, "
            "so there is no kernel to report on. Use backend='tvm'."
        )

    def runs(self, files: Mapping[str, bytes]) -> bool:  # noqa: ARG002
        """Whether this machine runs what is stored."""
        return True

    def load(
        self,
        files: Mapping[str, bytes],  # noqa: ARG002
        types: ProgramTypes,  # noqa: ARG002
        target: Target,  # noqa: ARG002
    ) -> Artifact | None:
        """Rebuild an artifact from its stored files; None where they cannot be run here."""
        return None

    def compile(self, program: TensorProgram, target: Target) -> Artifact:
        """Prepare and emit."""
        return self.emit(self.prepare(program, target), target)

    def prepare(self, program: TensorProgram, target: Target) -> TensorProgram:
        """Rewrite the program into primitives that this backend emits.

        Raises
        ------
        BackendError
            A primitive is refused, or in no table yet.
        """
        program = self._rewritten(program, target)
        for primitive in self._missing(program):
            reason = self.refuses.get(primitive, "hbconv has not written it yet")
            raise BackendError(
                f"Backend {self.name!r} cannot run {primitive!r}: {reason}. {self.instead}"
            )
        # A rule that writes a wrong type is found here, not by an error of a compiler.
        return verify_program(program)

    def status(self, program: TensorProgram, target: Target) -> str:
        """Return how it runs a program.

        ``native``; ``lowered``, if some primitives are written as others first; ``cannot`` with the
        reason; or ``not yet`` with the primitive.
        """
        rewritten = self._rewritten(program, target)
        for primitive in self._missing(rewritten):
            return (
                f"cannot: {self.refuses[primitive]}"
                if primitive in self.refuses
                else f"not yet: {primitive}"
            )
        return "native" if program.primitives <= rewritten.primitives else "lowered"

    def _rewritten(self, program: TensorProgram, target: Target) -> TensorProgram:
        from hbconv.tensor.decompositions import rewrite_program
        from hbconv.trees.strategy import lower_trees

        program = lower_trees(program, self.native_trees(target))
        # Rules write each other's primitives 5 deep; a backend's own might do so in a circle.
        for _ in range(MAX_DEPTH):
            if not program.primitives & self.rules.keys():
                break
            program = rewrite_program(program, self.rules)
        return program

    @cached_property
    def rules(self) -> Mapping[str, Rule]:
        """The rules of the primitives that it writes as others: its own, else those of all."""
        from hbconv.tensor.decompositions import DECOMPOSITIONS
        from hbconv.trees import contributions

        shared = {**DECOMPOSITIONS, **contributions.DECOMPOSITIONS}
        done = {*self.emits, *self.refuses}
        return {n: rule for n, rule in shared.items() if n not in done} | dict(self.rewrites)

    def _missing(self, program: TensorProgram) -> list[str]:
        return sorted(program.primitives - set(self.emits))

    def require_packages(self) -> None:
        """Raise MissingPackageError unless the packages it needs are installed."""
        missing = [p for p in self.needs if importlib.util.find_spec(p) is None]
        if missing:
            raise MissingPackageError(
                f"Backend {self.name!r} needs {', '.join(missing)}. "
                f"Install with: pip install 'hbconv[{self.extra}]'"
            )


def contiguous(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return x itself if it is C-contiguous, aligned and writeable, else a copy.

    Some runtimes demand all three.
    """
    # Arrays of users may be read-only or unaligned views, such as columns of a record array.
    return np.require(x, requirements=["C", "A", "W"])


@dataclass(frozen=True)
class LaunchReport:
    """One kernel.

    Parameters
    ----------
    kernel : str
        Its name and constants.
    bytes_moved : float
        Bytes of a row that it reads and writes, without tables.
    registers, stack_bytes, shared_bytes : int
        Of a thread, of a thread, and of a block.
    clocks : float
        Predicted clocks a row and multiprocessor.
    limit : str
        What takes them; empty where a later kernel counts them.
    """

    kernel: str
    bytes_moved: float
    registers: int
    stack_bytes: int
    shared_bytes: int
    clocks: float
    limit: str

    def __str__(self) -> str:
        clocks = f"predicted {self.clocks:,.1f} clocks a row, limited by {self.limit}"
        return (
            f"  {self.kernel}: {self.bytes_moved:,.0f} bytes of a row moved; "
            f"{self.registers} registers and {self.stack_bytes:,} bytes of stack a thread, "
            f"{self.shared_bytes:,} bytes of shared memory a block; "
            f"{clocks if self.limit else 'clocks counted with the kernel after it'}"
        )


@dataclass(frozen=True)
class DeviceReport:
    """A program on a CUDA device, for batches.

    Parameters
    ----------
    device : str
        Architecture that it is compiled for.
    launches : tuple of LaunchReport
    bytes_read, bytes_written, bytes_between : float
        Bytes of a row: of the inputs, of the outputs, and of values between kernels.
    table_bytes : int
        Bytes of constants.
    """

    device: str
    launches: tuple[LaunchReport, ...]
    bytes_read: int
    bytes_written: int
    bytes_between: float
    table_bytes: int

    @property
    def clocks(self) -> float:
        """Predicted clocks a row and multiprocessor, of all launches."""
        return sum(launch.clocks for launch in self.launches)

    def __str__(self) -> str:
        count = len(self.launches)
        launches = "1 launch" if count == 1 else f"{count} launches"
        clocks = f"predicted {self.clocks:,.1f} clocks a row and multiprocessor; none was measured"
        read = f"{self.bytes_read:,} bytes of a row read, {self.bytes_written:,} written"
        rest = f"{self.bytes_between:,.0f} between launches; {self.table_bytes:,} bytes of tables"
        lines = [f"{launches} for {self.device}, {clocks}", f"{read}, {rest}"]
        return "\n".join([*lines, *map(str, self.launches)])
