"""The pytest plugin: options, outcomes by test, failures, the summary and the file of outcomes."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hbconv.testing.judge import Judge
from hbconv.testing.outcomes import Outcome, Outcomes
from hbconv.testing.watch import Call, watching


def add_options(parser: pytest.Parser) -> None:
    """Add the options of the group hbconv."""
    group = parser.getgroup("hbconv", "ask every prediction of hbconv too")
    group.addoption(
        "--hbconv-backend",
        action="append",
        metavar="NAME",
        help="backend to ask (default: reference); may be given several times",
    )
    group.addoption(
        "--hbconv-report-only",
        action="store_true",
        help="let no test fail: only count",
    )
    group.addoption("--hbconv-report", metavar="FILE", help="write outcomes as JSON lines")
    group.addoption(
        "--hbconv-limit",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="time for one conversion and its answer (default: %(default)s)",
    )


class Plugin:
    """What one process of a run keeps: outcomes of the test at hand, and all that were reported."""

    def __init__(self, config: pytest.Config) -> None:
        backends = config.getoption("--hbconv-backend") or ["reference"]
        self._judge = Judge(backends, config.getoption("--hbconv-limit"))
        self._only_reports = config.getoption("--hbconv-report-only")
        self._path = config.getoption("--hbconv-report")
        self._is_worker = hasattr(config, "workerinput")
        self._test = ""
        self._outcomes: list[Outcome] = []
        self._defects: list[Outcome] = []
        self._report = Outcomes()
        self._watching = ExitStack()
        self._watching.enter_context(watching(self._ask))

    def _ask(self, call: Call) -> None:
        outcomes = [replace(o, test=self._test) for o in self._judge.outcomes(call)]
        self._outcomes += outcomes
        self._defects += [o for o in outcomes if o.fails and not self._only_reports]

    def pytest_unconfigure(self) -> None:
        """Leave the classes as they were."""
        self._watching.close()

    # In the process that runs tests.

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Know the test that calls."""
        self._test = nodeid

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Generator[None, object, object]:
        """Fail a test that passed with wrong answers, or whose fixtures got some."""
        result = yield
        self._raise()
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self) -> Generator[None, object, object]:
        """Fail a test whose fixtures got wrong answers as they ended; add to one that failed."""
        result = yield
        self._raise()
        return result

    def _raise(self) -> None:
        defects = self._defects
        self._defects = []
        if defects:
            lines = "\n".join(map(str, defects))
            pytest.fail(f"hbconv answers otherwise:\n{lines}", pytrace=False)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, Any, Any]:
        """Send the outcomes with the test's report, which travels between processes."""
        report = yield
        report.hbconv = [o.to_dict() for o in self._outcomes]
        self._outcomes = []
        return report

    # In the process that reports.

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Gather what came, from this process or from one of xdist's."""
        if self._is_worker:
            return
        outcomes = [Outcome(**fields) for fields in getattr(report, "hbconv", ())]
        self._report.add(outcomes)
        if self._path and outcomes:
            with Path(self._path).open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(o.to_dict()) + "\n" for o in outcomes)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the counts."""
        terminalreporter.section("hbconv")
        for line in self._report.lines():
            terminalreporter.write_line(line)
