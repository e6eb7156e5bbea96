"""Damaged files are answered or refused by name, and the runner sees what it is to see."""

from __future__ import annotations

import sys

import pytest
from fresh import run_fresh
from fuzz.subjects import SUBJECTS

COUNT = 8
"""Files of a format (for long: ``make fuzz``)."""

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="the children's memory and time are limited as Linux does it"
)


@pytest.mark.share("light")
@pytest.mark.parametrize("name", SUBJECTS)
def test_damaged_files_end_by_name(name):
    ran = run_fresh("-m", "fuzz", "--count", str(COUNT), "--format", name)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"{name}: {COUNT} files:" in ran.stdout


POISONED = """
import ctypes
from fuzz.runner import Subject, fuzz
from hbconv.errors import StoreError

def attempt(path, rng):
    what = int(path.read_bytes()) % 7
    if what == 1:
        ctypes.string_at(0)
    if what == 2:
        while True:
            pass
    if what == 3:
        raise KeyError("nameless")
    if what == 4:
        raise StoreError("refused")
    if what == 5:
        bytearray(8 << 30)
    if what == 6:
        raise SystemExit(0)

files = lambda folder: [(folder / f"{n}").write_text(f"{n}") for n in range(7)]
subject = Subject("poisoned", files, lambda data, rng: data, attempt)
print(fuzz(subject, range(60), seconds=1))
"""


def test_the_runner_sees_deaths_hangs_and_errors_without_a_name():
    """Each of seven files is drawn by some of 60 cases; those after a death are tried too."""
    out = run_fresh("-c", POISONED).stdout
    for what in (
        "60 files:",
        "SIGSEGV",
        "out of time",
        "KeyError: 'nameless'",
        "StoreError",
        "MemoryError",
        "SystemExit",
        "answered",
    ):
        assert what in out


CRASHES = """
import pathlib, sys, tempfile
from fuzz.files import FILES
from fuzz.runner import damaged
from hbconv.cli.sources import load_source

subject = next(s for s in FILES if s.name == "cbm")
with tempfile.TemporaryDirectory() as folder:
    corpus, file = pathlib.Path(folder, "corpus"), pathlib.Path(folder, "m.cbm")
    corpus.mkdir()
    subject.corpus(corpus)
    files = [f.read_bytes() for f in sorted(corpus.iterdir())[:3]]
    file.write_bytes(damaged(subject, files, 700016)[0])
    load_source(file)
"""


def test_a_file_that_catboost_crashes_over_is_refused():
    ran = run_fresh("-c", CRASHES)
    assert ran.returncode == 1, ran
    assert "ConversionError: m.cbm is damaged" in ran.stderr
