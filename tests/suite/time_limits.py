"""What took longest, a limit for each test, and one for the whole run.

A test fails by name if it takes more than a minute of the processor, its child processes included.
The processor's time is asked, since a busy machine stretches all other. A run of all cases has no
such limit: there a test may draw hundreds of models.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Generator
from math import inf
from pathlib import Path
from random import Random

import pytest
from suite.kept_cache import keep_text, kept_folder
from suite.shares import is_whole, seed

__all__ = ["known_seconds"]

PROCESSOR_SECONDS = 60.0
"""Seconds that one test may take of the processor, in all its processes and threads."""
FILES_SHOWN = 12
TESTS_SHOWN = 8
LEFT = "left by the limit of"

_started = time.monotonic()
_before: dict[str, float] = {}


def known_seconds() -> dict[str, float]:
    """Return what each test file took in the last run of all its tests."""
    return {file: seconds for file, (_, seconds) in _kept().items()}


def _kept() -> dict[str, tuple[int, float]]:
    try:
        return dict(json.loads(_kept_file().read_text("utf-8")))
    except (OSError, ValueError):
        return {}


def _kept_file() -> Path:
    return kept_folder() / "seconds.json"


class Times:
    """Seconds of files and tests, as the reports of all processes tell them."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.files: Counter[str] = Counter()
        self.tests: Counter[str] = Counter()
        self.processor: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add a phase of a test."""
        self.files[report.nodeid.partition("::")[0]] += report.duration
        self.tests[report.nodeid] += report.duration
        self.processor[report.nodeid] = getattr(report, "processor", 0.0)

    def keep(self) -> None:
        """Keep the seconds of files of which as many tests ran as ever before."""
        cases = Counter(test.partition("::")[0] for test in self.tests)
        known = _kept()
        for file, seconds in self.files.items():
            if cases[file] >= known.get(file, (0, 0.0))[0]:
                known[file] = (cases[file], round(seconds, 2))
        keep_text(_kept_file(), json.dumps(known))

    def too_long(self) -> list[str]:
        """Name the tests that took more than is allowed."""
        long = {test: s for test, s in self.processor.items() if s > self.limit}
        return [f"{test}: {seconds:.0f} s of the processor" for test, seconds in long.items()]

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Keep the times, and fail where a test took too long."""
        self.keep()
        if self.too_long() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print what took longest, and what took too long."""
        total = sum(self.files.values())
        if total < 1:
            return
        terminalreporter.section(f"what took longest of {total:.0f} s")
        for file, seconds in self.files.most_common(FILES_SHOWN):
            terminalreporter.write_line(f"{seconds:7.1f} s {seconds / total:5.1%}  {file}")
        for test, seconds in self.tests.most_common(TESTS_SHOWN):
            terminalreporter.write_line(f"{seconds:7.1f} s         {test}")
        for line in self.too_long():
            terminalreporter.write_line(f"FAILED {line}; {self.limit:.0f} s are allowed")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--limit``."""
    parser.addoption(
        "--limit",
        type=float,
        metavar="SECONDS",
        help="skip the tests that have not begun after so long",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Listen to reports where they come together."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Times(inf if is_whole(config) else PROCESSOR_SECONDS))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin elsewhere for each seed, so that a limit does not leave the same tests each time."""
    drawn = seed(config)
    if config.getoption("--limit") and drawn and items:
        first = Random(drawn).randrange(len(items))
        items[:] = [*items[first:], *items[:first]]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Note the processor's time; skip what begins too late."""
    _before[item.nodeid] = _processor_seconds()
    limit = item.config.getoption("--limit")
    if limit and time.monotonic() - _started > limit:
        pytest.skip(f"{LEFT} {limit:g} s")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Say in the report what the test took so far."""
    report = yield
    report.processor = _processor_seconds() - _before.get(item.nodeid, 0.0)
    if report.when == "teardown":
        _before.pop(item.nodeid, None)
    return report


def _processor_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
