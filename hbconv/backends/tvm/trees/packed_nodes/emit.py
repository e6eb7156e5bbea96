"""Emit a step of a traversal over packed nodes."""

from __future__ import annotations

from typing import Any

from tvm import tirx

from hbconv.backends.tvm.tir.kernel import Kernel
from hbconv.backends.tvm.tir.memory import Place
from hbconv.backends.tvm.trees.packed_nodes.tables import PackedNodes

__all__ = ["UNSIGNED", "node_word", "step"]

UNSIGNED = {"int32": "uint32", "int64": "uint64"}


def step(k: Kernel, at: Any, nodes: Place, keys: Place, packed: PackedNodes, first_key: Any) -> Any:
    """Go on to a child; a leaf stays. Returns 0 where it stood on a leaf."""
    unsigned = UNSIGNED[packed.word]
    position = k.bind(at.get())
    threshold, fields = (k.bind(node_word(k, nodes, packed, position, i)) for i in range(2))
    column = k.bind(tirx.Cast("int64", fields & tirx.IntImm(unsigned, (1 << packed.shift) - 1)))
    key = tirx.reinterpret(unsigned, k.load(keys, (0,), column + first_key))
    far = k.bind(tirx.Cast("int64", tirx.shift_right(fields, tirx.IntImm(unsigned, packed.shift))))
    at.set(position + far + tirx.Cast("int64", key > threshold))
    return far


def node_word(k: Kernel, nodes: Place, packed: PackedNodes, position: Any, which: int) -> Any:
    """Read one of the two words of a node, as unsigned."""
    return tirx.reinterpret(UNSIGNED[packed.word], k.entry(nodes, position * 2 + which))
