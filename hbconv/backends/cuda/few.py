"""Tables of kernel ``few``: nodes of four words, over the values themselves."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hbconv.backends.cuda.bits import out_buffer
from hbconv.backends.cuda.plan import CudaKernel, Grid, Launch, LaunchPlan, PlannedKernels
from hbconv.backends.cuda.tree_order import NAMES, Nodes, TreeOrder
from hbconv.trees.forest import Forest

__all__ = ["make_few"]

CHUNK = 4096
"""Trees whose terms are in shared memory at once."""
MAX_THREADS = 512
# Flags are above the 30 bits of a feature.
MISSING_RIGHT = 1 << 30
CATEGORY = 1 << 31


def make_few(forest: Forest, trees: TreeOrder, nodes: Nodes, dtype: str) -> PlannedKernels:
    """Return the kernel for values of a dtype."""
    tables = {
        **trees.tables(),
        "nodes": _words(forest, nodes, dtype),
        "roots": nodes.first[:-1].astype(np.int32),
        "decisions": _decisions(forest),
        "values": trees.values,
    }
    threads = min(MAX_THREADS, -(-forest.n_trees // 32) * 32)
    launch = Launch(
        CudaKernel("few", (("INPUT", NAMES[dtype]), *trees.constants)),
        (
            *("x", "n", forest.n_features, forest.n_trees, trees.outputs, "of_output"),
            *("nodes", "roots", "decisions", "values", "start", "out"),
        ),
        Grid(1),
        threads,
        0 if trees.apart else min(CHUNK, forest.n_trees) * trees.values.dtype.itemsize,
    )
    out = (("out", out_buffer(forest, trees)),)
    return PlannedKernels(LaunchPlan((launch,), out, tuple(tables)), tables)


def _decisions(forest: Forest) -> npt.NDArray[np.uint8]:
    """Return what each category decides; one byte where there is none."""
    entries = forest.tables.goes_left.data if forest.tables else np.zeros(1, bool)
    return entries.astype(np.uint8)


def _words(forest: Forest, nodes: Nodes, dtype: str) -> npt.NDArray[np.uint32]:
    inner = nodes.is_test
    test = nodes.child[inner]
    thresholds = forest.less_equal_thresholds(dtype)[test]
    # int64 first: ~leaf is negative, and keeps its low 32 bits as uint32.
    words = np.zeros((len(inner), 4), np.int64)
    parts = thresholds.view(np.uint32).reshape(len(test), -1)
    words[inner, : parts.shape[1]] = parts
    to_right = np.where(forest.default_left.data[test], 0, MISSING_RIGHT)
    words[inner, 2] = forest.feature.data[test] | to_right
    words[inner, 3] = nodes.left[inner]
    words[~inner, 3] = nodes.child[~inner]
    _add_categories(forest, words, np.flatnonzero(inner), test)
    return words.astype(np.uint32)


def _add_categories(
    forest: Forest,
    words: npt.NDArray[np.int64],
    place: npt.NDArray[np.int64],
    test: npt.NDArray[np.int64],
) -> None:
    """Write where the decisions of categorical tests begin, and the last category of each."""
    if not forest.tables:
        return
    listed = forest.on_category[test]
    table = forest.tables.of_test.data[test[listed]]
    place = place[listed]
    words[place, 0] = forest.tables.start.data[table]
    words[place, 1] = forest.tables.last[table]
    words[place, 2] = forest.feature.data[test[listed]].astype(np.int64) | CATEGORY
