"""Kernels touch nothing outside their arguments: run ``edges.py`` between protected pages."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hbconv.backends.tvm.binary.guards import BEFORE, BEHIND

EDGES = Path(__file__).with_name("edges.py")
TEXT_EDGES = Path(__file__).with_name("text_edges.py")
WIDTHS = ("1", "7", "16", "33")
"""Widths of matrices; ``make memory`` takes all up to 70."""


@pytest.mark.skipif(sys.platform == "win32", reason="such pages are made by mprotect")
@pytest.mark.parametrize("guard", [BEHIND, BEFORE])
@pytest.mark.parametrize("dtypes", [("float32", "int32"), ("float64", "int64")], ids="-".join)
@pytest.mark.share("traced")
def test_nothing_is_touched_beyond_inputs_and_outputs(vector, guard, dtypes):
    run_guarded(guard, EDGES, *dtypes, *WIDTHS)


@pytest.mark.skipif(sys.platform == "win32", reason="such pages are made by mprotect")
@pytest.mark.parametrize("guard", [BEHIND, BEFORE])
@pytest.mark.share("traced")
def test_nothing_is_touched_beyond_texts(vector, guard):
    run_guarded(guard, TEXT_EDGES)


def run_guarded(guard, *command):
    """Run a file between protected pages."""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", *map(str, command)],
        env={**os.environ, "HBCONV_GUARD": guard},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
