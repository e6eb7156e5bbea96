"""The ``golden`` fixture: text compared with a file that is read in review."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

EXPECTED = Path(__file__).parent / "expected"
CODE = (
    "hbconv/backends",
    "hbconv/tensor",
    "hbconv/cost_model/price_record.py",
    "hbconv/trees",
    "strategies",
    "tests/golden",
    "tests/support/forests.py",
)
"""The rooms that machine code is made by; compiling it takes half a minute a processor."""


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Return a function that compares a text with the file named as the test, or writes it with
    ``--update-golden``.
    """
    path = (
        EXPECTED
        / f"{re.sub(r'[^a-z0-9]+', '_', request.node.name.removeprefix('test_')).strip('_')}.txt"
    )

    def check(text: str) -> None:
        if request.config.getoption("--update-golden"):
            path.write_text(text + "\n")
        elif not path.exists():
            pytest.fail(
                f"There is no golden file {path.name}. Write it with: pytest tests/golden --update-golden, and read it."
            )
        else:
            assert text + "\n" == path.read_text(), (
                "If the change is meant: pytest tests/golden --update-golden, and read the diff."
            )

    return check
