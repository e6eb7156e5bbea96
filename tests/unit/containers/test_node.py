"""Nodes: container classes become dataclasses when their first node is made."""

from __future__ import annotations

import copy
import dataclasses
from concurrent.futures import ThreadPoolExecutor

import pytest

from hbconv.containers import NODES, Node, container, node


def test_a_container_becomes_a_dataclass_with_its_first_node():
    """In whatever thread and way it is made, those it extends too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(node, "NODES", dict(NODES))

        @container
        class Base(Node):
            x: int = 1

        @container
        class Derived(Base):
            y: int = 2

        class Undecorated(Derived):
            pass

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda y: Undecorated(0, y), range(8)))
    assert [(made.x, made.y) for made in found] == [(0, y) for y in range(8)]
    assert [field.name for field in dataclasses.fields(Derived(5))] == ["step", "x", "y"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        found[0].x = 3
    assert copy.deepcopy(found[1]).y == 1
