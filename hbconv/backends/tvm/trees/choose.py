"""Tree ensembles: the kernels there are, and the one that runs."""

from __future__ import annotations

from collections.abc import Callable

from hbconv.backends.tvm.tir.kernel import Kernel
from hbconv.backends.tvm.tir.memory import InTable, Place
from hbconv.backends.tvm.tir.subroutines import make_subroutine
from hbconv.backends.tvm.trees.bitwise.emit import Bitwise
from hbconv.backends.tvm.trees.bytewise.emit import Bytewise
from hbconv.backends.tvm.trees.oblivious.emit import Oblivious
from hbconv.backends.tvm.trees.single_row.emit import SingleRow
from hbconv.backends.tvm.trees.tree_kernel import TreeKernel, TreeTask
from hbconv.backends.tvm.trees.walk.emit import CategoryWalk, Walk
from hbconv.tensor import TensorType
from hbconv.trees.forest import Forest

__all__ = ["EMITTERS", "KERNELS", "find_kernel"]

# CategoryWalk fits any forest, so it is last; SingleRow only fits short tiles, so it may be first.
KERNELS: tuple[TreeKernel, ...] = (
    SingleRow(),
    Oblivious(),
    Bitwise(),
    Bytewise(),
    Walk(),
    CategoryWalk(),
)
"""The first that fits runs."""


def find_kernel(task: TreeTask) -> TreeKernel:
    """Ask the kernels, in their order."""
    return next(kernel for kernel in KERNELS if kernel.fits(task))


def scores(k: Kernel, out: Place, x: Place, forest: Forest, strategy: str) -> None:
    """Emit ``tree_scores``: sums in the source's order."""
    _emit(k, out, x, TreeTask(forest, x.dtype, strategy, k.schedule, k.machine, added=True))


def leaves(k: Kernel, out: Place, x: Place, forest: Forest, strategy: str) -> None:
    """Emit ``tree_leaves``: the number of the leaf that a row reaches in each tree."""
    _emit(k, out, x, TreeTask(forest, x.dtype, strategy, k.schedule, k.machine, added=False))


def _emit(k: Kernel, out: Place, x: Place, task: TreeTask) -> None:
    """Emit a subroutine, which all methods of a model share: they differ in what they do with it.

    A call takes longer than it saves where a tile has few rows, and cannot pass a constant.
    """
    # For few rows a call would cost 2 % of the trees' time.
    if isinstance(x, InTable) or task.schedule.few_rows:
        _find_leaves(k, out, x, task)
        return
    types = (TensorType(out.dtype, out.shape), TensorType(x.dtype, x.shape))
    k.call(make_subroutine(_find_leaves, k.schedule, k.machine, types, task), out, x)


def _find_leaves(k: Kernel, out: Place, x: Place, task: TreeTask) -> None:
    kernel = find_kernel(task)
    trees = kernel.trees(task)
    form = kernel.form.adding if task.added else kernel.form.writing
    with form(k, out, task.forest, trees) as hand_over:
        kernel.find_leaves(k, x, kernel.tables(task, trees), hand_over)


EMITTERS: dict[str, Callable[..., None]] = {"tree_scores": scores, "tree_leaves": leaves}
