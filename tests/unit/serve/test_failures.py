"""The log tells each kind of line a few times, and then how many were left out."""

from __future__ import annotations

import logging

from hbconv.serve import failures
from hbconv.serve.failures import MOST_LINES, LogRate


def record(line, *args):
    return logging.LogRecord("hbconv", logging.ERROR, "a.py", line, "it fails: %s", args, None)


def test_lines_of_a_kind_are_few(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(failures.time, "monotonic", lambda: now[0])
    rate = LogRate()
    assert [rate.filter(record(1, i)) for i in range(MOST_LINES + 5)].count(True) == MOST_LINES
    assert rate.filter(record(2, "another"))
    now[0] += failures.PERIOD_SECONDS
    first, second = record(1, "again"), record(1, "again")
    assert rate.filter(first)
    assert rate.filter(second)
    assert first.getMessage() == "it fails: again (5 more like it are left out)"
    assert second.getMessage() == "it fails: again"
