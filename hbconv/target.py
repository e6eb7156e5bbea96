"""Target: what to compile for. A frozen value that is passed down and never changed."""

from dataclasses import dataclass, replace
from typing import Any, Literal

__all__ = ["Precision", "Target"]

Precision = Literal["exact", "fast"]

_CACHE = 32 << 20
"""Bytes of temporaries that one core works on fastest.

Fewer make more calls of operators. More are mapped again at each call, as glibc keeps no larger
block of memory.
"""
_LEAST_ROWS = 64
"""Fewer rows make calls that cost more time than they save."""


@dataclass(frozen=True)
class Target:
    """What a model is compiled for.

    Parameters
    ----------
    backend : str
        Name of a backend: ``"reference"``, ``"torch"``, ``"torchscript"``, ``"onnx"`` or ``"tvm"``.
    device : str
        ``"cpu"`` or ``"cuda"``, ``"cuda:1"``...
    precision : {"exact", "fast"}
        ``"exact"`` computes in the dtypes of the source model; ``"fast"`` in float32,
        but for sums of weights that cancel.
    strategy : str or None
        Forces one tree strategy by name; None lets the cost model choose.
    tree_ops : {"native", "core"}
        ONNX only: trees as the TreeEnsemble operator, or as core tensor operators.
    rows : int
        Number of rows in a typical call, for the cost model.
    memory : int
        Bytes that the temporaries and tables of one call may take.
    threads : int
        Threads one call may use.
    without : tuple of str
        Names of rules of the optimizer that are left out.
    native : bool
        torch on the CPU only: the kernel of backend ``"tvm"`` computes, where TVM is installed or
        the model was saved compiled. False takes plain operators of torch.
    machines : tuple of str
        Machines whose kernels a saved file holds, by their levels: ``"x86-64-v3"``. Empty means
        that which compiles.
    """

    backend: str = "reference"
    device: str = "cpu"
    precision: Precision = "exact"
    strategy: str | None = None
    tree_ops: Literal["native", "core"] = "native"
    rows: int = 10_000
    memory: int = 2 << 30
    threads: int = 1
    without: tuple[str, ...] = ()
    native: bool = True
    machines: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Name the processor once: torch numbers it, ``"cpu:0"``."""
        kind, _, number = str(self.device).partition(":")
        if kind == "cpu" and number.isdigit():
            object.__setattr__(self, "device", kind)

    def rows_at_once(self, bytes_per_row: int) -> int:
        """Return how many rows keep their temporaries in the cache, or in half the GPU memory."""
        room = _CACHE * self.threads if self.device == "cpu" else self.memory // 2
        return max(_LEAST_ROWS, room // max(bytes_per_row, 1))

    def replace(self, **changes: Any) -> "Target":
        """Return a copy with the given fields changed."""
        return replace(self, **changes)
