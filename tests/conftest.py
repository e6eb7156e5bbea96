"""Options of the test suite."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--update-golden``."""
    parser.addoption("--update-golden", action="store_true", help="write the golden files instead of comparing with them")
