"""Tree ensembles: which kernel runs which strategy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hbconv.backends.tvm import select, tree_lanes, walk
from hbconv.backends.tvm.kernel import Kernel
from hbconv.backends.tvm.memory import Place
from hbconv.forest import Forest

__all__ = ["EMITTERS"]

KERNELS = {"select": select, "tree_traversal": walk, "perfect_tree_traversal": walk}


def _kernel(k: Kernel, strategy: str) -> Any:
    """Choose: a tile of few rows has too few for lanes."""
    return tree_lanes if k.tile <= tree_lanes.ROWS else KERNELS[strategy]


def scores(k: Kernel, out: Place, x: Place, forest: Forest, strategy: str) -> None:
    """Emit ``tree_scores``."""
    _kernel(k, strategy).scores(k, out, x, forest)


def leaves(k: Kernel, out: Place, x: Place, forest: Forest, strategy: str) -> None:
    """Emit ``tree_leaves``."""
    _kernel(k, strategy).leaves(k, out, x, forest)


EMITTERS: dict[str, Callable[..., None]] = {"tree_scores": scores, "tree_leaves": leaves}
