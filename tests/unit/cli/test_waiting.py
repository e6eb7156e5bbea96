"""Work that takes long is told of: seconds on a terminal, rare lines in a log."""

import io
import threading

import pytest

from hbconv.cli import waiting as module
from hbconv.cli.waiting import waiting


class Told(io.StringIO):
    """Standard error that lets a test wait for its first text."""

    def __init__(self, *, terminal):
        super().__init__()
        self.terminal = terminal
        self.heard = threading.Event()

    def isatty(self):
        return self.terminal

    def write(self, text):
        super().write(text)
        self.heard.set()


@pytest.mark.parametrize(
    ("terminal", "first", "last"),
    [(True, "\rConverting m.txt ... 0 s", "\r\x1b[K"), (False, "Converting m.txt: 0 s so far", "")],
)
def test_what_takes_long_is_told_of(monkeypatch, terminal, first, last):
    told = Told(terminal=terminal)
    monkeypatch.setattr("sys.stderr", told)
    monkeypatch.setattr(module, "FIRST_SECONDS", 0.01)
    monkeypatch.setattr(module, "LOG_SECONDS", 0.01)
    with waiting("Converting m.txt"):
        assert told.heard.wait(60)
    assert told.getvalue().startswith(first)
    assert told.getvalue().endswith(last)


@pytest.mark.parametrize("quiet", [True, False])
def test_what_is_quick_is_not(monkeypatch, quiet):
    told = Told(terminal=True)
    monkeypatch.setattr("sys.stderr", told)
    # An hour, so that a machine that stands still for a second changes nothing.
    monkeypatch.setattr(module, "FIRST_SECONDS", 0.0 if quiet else 3600.0)
    with waiting("Converting m.txt", quiet=quiet):
        pass
    assert told.getvalue() == ""


def test_an_error_ends_it(monkeypatch):
    monkeypatch.setattr("sys.stderr", Told(terminal=True))
    before = threading.active_count()
    with pytest.raises(ValueError, match="no"), waiting("Converting m.txt"):
        raise ValueError("no")
    assert threading.active_count() == before
