"""Run Python in a process that may fork."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

__all__ = ["run_fresh"]

SYSTEM = Path(__file__).parents[1] / "system"


def run_fresh(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a process without threads, with the rooms of `tests/system` on its path.

    A test's own process has threads of libraries, which a forked child does not have: where the
    child asks for one, it waits forever.
    """
    paths = os.pathsep.join([str(SYSTEM), *filter(None, sys.path)])
    return subprocess.run(
        [sys.executable, "-W", "ignore", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
        check=False,
    )
