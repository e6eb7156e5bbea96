"""Write what the batteries measured."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the figures, where ``--battery-report`` names a file."""
    path = session.config.getoption("--battery-report")
    if path:
        from trees.battery import TALLY

        Path(path).write_text(json.dumps({" on ".join(key): asdict(figures) for key, figures in sorted(TALLY.figures.items())}, indent=2) + "\n")
