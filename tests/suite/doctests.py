"""Doctests are looked for where a file has an example: a file without one is not imported."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

PROMPT = b">>> "


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(
    file_path: Path,
) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Leave out the doctests of a file that has none."""
    collectors = yield
    found = [c for c in collectors if type(c).__name__ == "DoctestModule"]
    if not found or PROMPT in file_path.read_bytes():
        return collectors
    return [c for c in collectors if c not in found]
