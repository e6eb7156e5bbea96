"""Tree ensembles: which kernel runs which strategy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hbconv.backends.tvm.tir.kernel import Kernel
from hbconv.backends.tvm.tir.memory import InTable, Place
from hbconv.backends.tvm.tir.subroutines import make_subroutine
from hbconv.backends.tvm.trees import oblivious, select
from hbconv.backends.tvm.trees.single_row import emit as tree_lanes
from hbconv.backends.tvm.trees.walk import emit as packed_walk
from hbconv.backends.tvm.trees.walk import with_categories as walk
from hbconv.forest import Forest
from hbconv.tensor import TensorType

__all__ = ["EMITTERS", "find_kernel"]


def find_kernel(tile: int, forest: Forest, strategy: str) -> Any:
    """Choose a module: a tile of few rows has too few for lanes, and a walk looks a test's table up as it reaches it."""
    if tile <= tree_lanes.ROWS:
        return tree_lanes
    if oblivious.level_tests(forest) is not None:
        return oblivious
    if strategy == "select":
        return select
    return walk if forest.tables else packed_walk


def scores(k: Kernel, out: Place, x: Place, forest: Forest, strategy: str) -> None:
    """Emit ``tree_scores``."""
    _call(k, find_kernel(k.tile, forest, strategy).scores, out, x, forest)


def leaves(k: Kernel, out: Place, x: Place, forest: Forest, strategy: str) -> None:
    """Emit ``tree_leaves``."""
    _call(k, find_kernel(k.tile, forest, strategy).leaves, out, x, forest)


def _call(k: Kernel, emit: Callable[..., None], out: Place, x: Place, forest: Forest) -> None:
    """Have methods of a model share one part: they differ in what they do with its scores. Calls of a few rows would notice."""
    if isinstance(x, InTable) or k.tile <= tree_lanes.ROWS:
        emit(k, out, x, forest)
        return
    types = (TensorType(out.dtype, out.shape), TensorType(x.dtype, x.shape))
    k.call(make_subroutine(emit, k.schedule, k.machine, types, forest), out, x)


EMITTERS: dict[str, Callable[..., None]] = {"tree_scores": scores, "tree_leaves": leaves}
