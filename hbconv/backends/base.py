"""What a backend is: a table of the primitives it emits, those it wants rewritten, those it refuses and why."""

from __future__ import annotations

import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from hbconv.errors import BackendError, MissingPackageError
from hbconv.forest import Forest
from hbconv.strategy import Refusal, lower_trees
from hbconv.target import Target
from hbconv.tensor import TensorProgram, Value, verify_program
from hbconv.tensor.rewrite import rewrite_program

__all__ = ["Artifact", "Backend", "KernelReport", "contiguous"]

Arrays = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Bound:
    """A program with places for its input and outputs, used again at each call: for one thread at a time.

    Parameters
    ----------
    given : ndarray of shape (rows, columns)
        To be written, up to as many rows as will be computed.
    outputs : mapping of str to ndarray
        To be read.
    run : callable
        ``run(rows, address)`` computes the first rows.
    address : int
    kept : object
        The memory behind the address.
    """

    given: npt.NDArray[Any]
    outputs: Arrays
    run: Callable[[int, int], Any]
    address: int
    kept: object


class Artifact(ABC):
    """A compiled program, ready to run."""

    @abstractmethod
    def run(self, inputs: Arrays) -> dict[str, npt.NDArray[Any]]:
        """Compute the outputs, in the order of the program's, for C-contiguous inputs of any row count."""

    sizes: tuple[int, ...] = ()
    """Numbers of rows, ascending, that it is worth binding for: a call of fewer takes the first that holds it. None: of more rows, or none at all."""

    def bind(self, rows: int) -> Bound | None:  # noqa: ARG002
        """Give the only input and the outputs places of their own, for up to so many rows; None where that saves nothing."""
        return None

    def files(self) -> dict[str, bytes]:
        """Return what to store with a saved model; nothing when compiling again is as good."""
        return {}


@dataclass(frozen=True)
class KernelReport:
    """What the kernel that a backend makes of a whole program holds, reads and writes.

    Parameters
    ----------
    machine : str
        Level of the processor it is for.
    kernels : int
        Kernels that a call runs, one after the other.
    tile, block, lanes : int
        Rows held at once; rows that a group of trees works on at a time; rows of one vector operation.
    bytes_read, bytes_written : int
        Of a row: input columns that something reads, outputs.
    table_bytes : int
        Constants, which every tile reads: the most, since walks pass by the tests that no row of the tile comes to.
    scratch_bytes : int
        Values of one tile.
    trees : tuple of str
        Which kernel runs each tree operator, and in what form its tests read a row.
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
        lines = [
            f"{kernels} for {self.machine}: tiles of {self.tile:,} rows, blocks of {self.block:,}, vectors of {self.lanes}",
            f"{self.bytes_read:,} bytes of a row read, {self.bytes_written:,} written; no other memory grows with the rows",
            f"{self.table_bytes:,} bytes of tables for each tile, {self.table_bytes / self.tile:,.0f} a row; {self.scratch_bytes:,} bytes of scratch in all",
        ]
        return "\n".join([*lines, *self.trees])


class Backend(ABC):
    """A backend compiles a TensorProgram to an Artifact.

    Attributes
    ----------
    name : str
        Its name, that of its module.
    needs : tuple of str
        Packages it imports, and ``extra``: the hbconv extra that installs them.
    emits : mapping or frozenset
        Primitives it emits (as it likes: a table of functions, or names).
    rewrites : mapping of str to function
        Primitives written as others first: ``function(builder, *operands, **attributes)``.
    refuses : mapping of str to str
        Primitives it cannot do, each with the reason. A primitive in none of the three fails a test.
    tiled : bool
        It holds the values of a few rows at a time: no batch is too long for it, and what a program computes besides its answers costs no memory.
    """

    name: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ()
    extra: ClassVar[str] = ""
    emits: ClassVar[Mapping[str, Any] | frozenset[str]]
    rewrites: ClassVar[Mapping[str, Callable[..., Value]]] = {}
    refuses: ClassVar[Mapping[str, str]] = {}
    devices: ClassVar[tuple[str, ...]] = ("cpu",)
    tiled: ClassVar[bool] = False

    def native_trees(self, target: Target) -> frozenset[str]:  # noqa: ARG002
        """Strategies whose ``tree_scores`` and ``tree_leaves`` it runs itself, not as plain primitives."""
        return frozenset()

    def refuse_trees(self, strategy: str, forest: Forest, target: Target) -> Refusal | None:  # noqa: ARG002
        """Say why a native strategy may not be used for a forest, or None."""
        return None

    def remarks(self, forest: Forest, target: Target) -> tuple[str, ...]:  # noqa: ARG002
        """Say what of these trees it does otherwise than by its own kernel, and why."""
        return ()

    @abstractmethod
    def emit(self, program: TensorProgram, target: Target) -> Artifact:
        """Compile a program that holds only primitives this backend emits."""

    def report(self, program: TensorProgram, target: Target) -> KernelReport:  # noqa: ARG002
        """Count what the kernel of a prepared program holds, reads and writes.

        Raises
        ------
        BackendError
            It makes no kernel: it runs operator after operator.
        """
        raise BackendError(
            f"Backend {self.name!r} runs operator after operator, so there is no kernel to report on. Use backend='tvm'."
        )

    def load(self, files: Mapping[str, bytes], program: TensorProgram, target: Target) -> Artifact:  # noqa: ARG002
        """Rebuild an artifact from what it stored; by default, compile again."""
        return self.compile(program, target)

    def compile(self, program: TensorProgram, target: Target) -> Artifact:
        """Prepare and emit."""
        self.require_packages()
        return self.emit(self.prepare(program, target), target)

    def prepare(self, program: TensorProgram, target: Target) -> TensorProgram:
        """Rewrite the program into primitives this backend emits, or say why it cannot."""
        program = self._rewritten(program, target)
        for primitive in self._missing(program):
            reason = self.refuses.get(primitive, "hbconv has not written it yet")
            raise BackendError(
                f"Backend {self.name!r} cannot run {primitive!r}: {reason}. Use another backend, such as backend='torch'."
            )
        return verify_program(program)

    def status(self, program: TensorProgram, target: Target) -> str:
        """Say how it runs a program: ``native``, ``lowered`` (some primitives written as others first), ``cannot`` or ``not yet``, and why."""
        rewritten = self._rewritten(program, target)
        for primitive in self._missing(rewritten):
            return (
                f"cannot: {self.refuses[primitive]}"
                if primitive in self.refuses
                else f"not yet: {primitive}"
            )
        return "native" if program.primitives <= rewritten.primitives else "lowered"

    def _rewritten(self, program: TensorProgram, target: Target) -> TensorProgram:
        program = lower_trees(program, self.native_trees(target))
        for _ in range(8):
            if not program.primitives & self.rewrites.keys():
                break
            program = rewrite_program(program, self.rewrites)
        return program

    def _missing(self, program: TensorProgram) -> list[str]:
        return sorted(program.primitives - set(self.emits))

    def require_packages(self) -> None:
        """Raise MissingPackageError unless the packages it needs are installed."""
        missing = [p for p in self.needs if importlib.util.find_spec(p) is None]
        if missing:
            raise MissingPackageError(
                f"Backend {self.name!r} needs {', '.join(missing)}. Install with: pip install 'hbconv[{self.extra}]'"
            )


def contiguous(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return x itself if it is C-contiguous, aligned and writeable, else a copy (some runtimes demand all three)."""
    return np.require(x, requirements=["C", "A", "W"])
