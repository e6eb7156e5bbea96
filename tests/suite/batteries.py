"""Batteries: models drawn at random, as many as ``--battery`` says, and the figures they gave."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from suite.shares import seed


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--battery`` and ``--battery-report``."""
    parser.addoption(
        "--battery",
        type=int,
        default=2,
        help="models to draw for each battery of tests/conformance/trees and tests/conformance/breadth (full run: 200)",
    )
    parser.addoption(
        "--battery-report", help="file to write the figures of the batteries to, as JSON"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register how tests draw: the same each time, unless ``--seed`` is given.

    The batteries draw no smaller models after a failure, which take long to fit.
    """
    drawn = seed(config)
    if drawn:
        config.option.hypothesis_seed = drawn
    settings.register_profile("suite", derandomize=not drawn, database=None)
    settings.load_profile("suite")
    settings.register_profile(
        "battery",
        max_examples=config.getoption("--battery"),
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write what the batteries measured, where ``--battery-report`` names a file."""
    path = session.config.getoption("--battery-report")
    if path:
        Path(path).write_text(json.dumps(_figures(), indent=2, default=sorted) + "\n")


def _figures() -> dict[str, object]:
    """Figures of the batteries that ran: trees by library and backend, all of scikit-learn by
    estimator.
    """
    trees, breadth = (
        getattr(sys.modules.get(name), "TALLY", None) for name in ("trees.battery", "breadth.sweep")
    )
    by_library = (
        {" on ".join(key): asdict(figures) for key, figures in sorted(trees.figures.items())}
        if trees
        else {}
    )
    return by_library | {name: asdict(figures) for name, figures in sorted((breadth or {}).items())}
