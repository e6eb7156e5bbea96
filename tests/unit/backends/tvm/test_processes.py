"""Processes that answer a few rows end well; ``make processes`` runs 500.

Writes outside memory often show only at exit.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROCESSES = Path(__file__).parents[4] / "tests" / "system" / "processes.py"


@pytest.mark.skipif(sys.platform == "win32", reason="processes are forked")
def test_processes_do_not_die():
    command = [sys.executable, str(PROCESSES), "--count", "4", "--fresh", "1"]
    done = subprocess.run(
        command, env={**os.environ, "HBCONV_GUARD": ""}, capture_output=True, text=True, check=False
    )
    assert done.stdout.endswith("4 processes, 0 of them died\n"), done.stdout + done.stderr
