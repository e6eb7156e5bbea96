"""Options of the test suite, and the figures of the batteries."""

import json
import os
import sys
import zlib
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, Phase, settings

collect_ignore = ["support/make_spark_models.py"]
"""It needs Spark, and is run by hand."""

CACHE = pytest.StashKey[TemporaryDirectory]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--update-golden``, ``--update-support``, ``--whole``, ``--foreign``, ``--battery`` and
    ``--battery-report``.
    """
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write the golden files instead of comparing with them",
    )
    parser.addoption(
        "--update-support",
        action="store_true",
        help="ask anew what each backend supports; write hbconv/support.json and docs/support.md",
    )
    parser.addoption(
        "--whole",
        action="store_true",
        help="run every case of the tests that are marked to run a share of theirs",
    )
    parser.addoption(
        "--foreign",
        type=float,
        default=0.005,
        help="share of scikit-learn's own tests to run with every answer asked of hbconv (full run: 1)",
    )
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
    """Give the run a cache of its own, which its processes share, guard what kernels write, and
    register how the batteries draw models.

    The batteries draw the same models each time, and no smaller ones after a failure, which take
    long to fit.
    """
    if not hasattr(config, "workerinput"):
        config.stash[CACHE] = TemporaryDirectory(prefix="hbconv-cache-")
        os.environ["HBCONV_CACHE"] = config.stash[CACHE].name
        os.environ.setdefault("HBCONV_GUARD", "canaries")
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # threads of two processes meet here
    settings.register_profile(
        "battery",
        max_examples=config.getoption("--battery"),
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


@pytest.hookimpl(trylast=True)  # after -k and -m
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of each test that is marked ``share(n)``, keep one case in n, by a hash of its name.

    At least one case is kept. ``--whole`` keeps all of them.
    """
    if config.getoption("--whole"):
        return
    cases: defaultdict[tuple[str, int], list[pytest.Item]] = defaultdict(list)
    for item in items:
        mark = item.get_closest_marker("share")
        if mark:
            cases[item.nodeid.partition("[")[0], mark.args[0]].append(item)
    left = {item for (_, n), group in cases.items() for item in _beyond_share(group, n)}
    config.hook.pytest_deselected(items=list(left))
    items[:] = [item for item in items if item not in left]


def _beyond_share(items: list[pytest.Item], n: int) -> list[pytest.Item]:
    drawn = [zlib.crc32(item.nodeid.encode()) for item in items]
    chosen = [item for item, number in zip(items, drawn, strict=True) if number % n == 0]
    chosen = chosen or [items[drawn[0] // n % len(items)]]
    return [item for item in items if item not in chosen]


def pytest_unconfigure(config: pytest.Config) -> None:
    """Delete the run's cache."""
    if CACHE in config.stash:
        config.stash[CACHE].cleanup()


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
