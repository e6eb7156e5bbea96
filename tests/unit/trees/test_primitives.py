"""The primitives of trees are in the table before any backend copies it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from hbconv.tensor import PRIMITIVES, OpKind

IN_A_BACKEND = """
import importlib
backend = importlib.import_module("hbconv.backends.{}").BACKEND
print(*sorted(name for name in {} if name in backend.emits))
"""
TREES = sorted(
    name for name, p in PRIMITIVES.items() if p.kind in {OpKind.TREES, OpKind.CONTRIBUTIONS}
)


@pytest.mark.parametrize("backend", ["reference", "tvm"])
def test_a_backend_that_is_imported_first_emits_them(backend):
    script = IN_A_BACKEND.format(backend, TREES)
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.split() == TREES


def test_importing_any_file_of_the_room_defines_them():
    script = "import hbconv.trees.forest, hbconv.tensor as t; print(*t.PRIMITIVES)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert set(TREES) <= set(run.stdout.split())
