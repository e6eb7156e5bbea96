"""Write the columns of bytes that splits compare: of thresholds, of sets, and of classes."""

from __future__ import annotations

from hbconv.backends.tvm.tir.kernel import Kernel
from hbconv.backends.tvm.tir.memory import Place
from hbconv.backends.tvm.tir.row_blocks import Block
from hbconv.backends.tvm.trees.bins.emit import write_bins
from hbconv.backends.tvm.trees.bins.tables import Bins
from hbconv.backends.tvm.trees.byte_columns import ByteColumns
from hbconv.backends.tvm.trees.categories.emit import write_classes, write_decisions

__all__ = ["write_split_columns"]


def write_split_columns(
    k: Kernel, columns: ByteColumns, block: Block, x: Place, bins: Bins
) -> None:
    """Write the bytes of a block: of thresholds, then of sets, then of the classes they read."""
    write_bins(k, columns, block, x, bins)
    if bins.sets.groups:
        first = len(bins.first)
        write_classes(k, columns, block, x, bins.sets, first + bins.sets.count)
        write_decisions(k, columns, block, bins.sets, first)
