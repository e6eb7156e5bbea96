"""Options of the test suite."""

import pytest
from hypothesis import HealthCheck, Phase, settings


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--update-golden``, ``--battery`` and ``--battery-report``."""
    parser.addoption("--update-golden", action="store_true", help="write the golden files instead of comparing with them")
    parser.addoption("--battery", type=int, default=8, help="models to draw for each battery of tests/trees (full run: 200)")
    parser.addoption("--battery-report", help="file to write the figures of the batteries to, as JSON")


def pytest_configure(config: pytest.Config) -> None:
    """Register how the batteries draw models: the same ones each time, and no smaller ones after a failure, which take long to fit."""
    settings.register_profile(
        "battery",
        max_examples=config.getoption("--battery"),
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
