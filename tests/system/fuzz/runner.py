"""Try many damaged files in children of this process, and report each that kills, hangs or ends in
an error without a name.

A case is a subject and a number: the same file comes of them each time, so that a report can be
tried again.
"""

from __future__ import annotations

import gc
import os
import resource
import signal
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from hbconv.errors import HbconvError

__all__ = ["Report", "Subject", "attempt_again", "damaged", "fuzz"]

SECONDS = 30
"""Processor time of one case."""
BYTES = 3 << 30
"""Memory that a child may take beyond what it begins with."""
DEEP = 50_000
"""Frames that writing a damaged file may take: documents are nested more deeply than any reader
goes.
"""


@dataclass(frozen=True)
class Subject:
    """A format to be damaged.

    Parameters
    ----------
    name : str
    corpus : function of a folder
        Writes some whole files into it, the same each time.
    mutate : function of a file's bytes and a generator
        Gives a damaged file.
    attempt : function of a path and a generator
        Reads and uses a file. What it raises beyond ``HbconvError`` is a finding.
    """

    name: str
    corpus: Callable[[Path], None]
    mutate: Callable[[bytes, np.random.Generator], bytes]
    attempt: Callable[[Path, np.random.Generator], None]


@dataclass
class Report:
    """How many cases ended how, and what was found: a line for each finding, which names the
    case.
    """

    outcomes: Counter[str] = field(default_factory=Counter)
    findings: dict[int, str] = field(default_factory=dict)

    def __str__(self) -> str:
        counts = ", ".join(f"{count:,} {outcome}" for outcome, count in self.outcomes.most_common())
        return "\n".join(
            [
                f"{self.outcomes.total():,} files: {counts or 'none'}",
                *(f"case {case}: {what}" for case, what in self.findings.items()),
            ]
        )


def fuzz(
    subject: Subject, cases: Iterable[int], seconds: int = SECONDS, n_bytes: int = BYTES
) -> Report:
    """Try cases one after another in a child; whenever it ends before them, go on in another."""
    report, waiting = Report(), list(cases)
    with tempfile.TemporaryDirectory() as folder:
        corpus, log = Path(folder, "corpus"), Path(folder, "log")
        corpus.mkdir()
        _in_child(lambda: subject.corpus(corpus))
        files = [path.read_bytes() for path in sorted(corpus.iterdir())]
        while waiting:
            log.write_text("")
            status = _child(
                lambda left=waiting: _try_all(
                    subject, files, left, Path(folder), log, seconds, n_bytes
                )
            )
            done = _read(log, report)
            waiting = waiting[done:]
            if status and waiting:
                _note(report, waiting.pop(0), f"killed: {_signal_name(status)}")
    return report


def _read(log: Path, report: Report) -> int:
    """Take over what a child wrote of its cases; return how many."""
    lines = [line.split("\t", 2) for line in log.read_text().splitlines()]
    for case, outcome, what in lines:
        report.outcomes[outcome] += 1
        if what:
            report.findings[int(case)] = what
    return len(lines)


def _note(report: Report, case: int, what: str) -> None:
    report.outcomes[what] += 1
    report.findings[case] = what


def _try_all(
    subject: Subject,
    files: list[bytes],
    cases: list[int],
    folder: Path,
    log: Path,
    seconds: int,
    n_bytes: int,
) -> None:
    """Try cases in this process. Its time runs out by a signal that ends it."""
    warnings.simplefilter("ignore")
    limit = _data_bytes() + n_bytes
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    path = folder / "file"
    with log.open("a", buffering=1, errors="backslashreplace") as out:
        for case in cases:
            signal.setitimer(signal.ITIMER_PROF, seconds)
            outcome, what = _try(subject, files, case, path)
            out.write(f"{case}\t{outcome}\t{what}\n")


def attempt_again(subject: Subject, case: int) -> None:
    """Make the file of one case, and attempt it in this process, so that its traceback shows."""
    with tempfile.TemporaryDirectory() as folder:
        corpus, path = Path(folder, "corpus"), Path(folder, "file")
        corpus.mkdir()
        subject.corpus(corpus)
        data, rng = damaged(subject, [file.read_bytes() for file in sorted(corpus.iterdir())], case)
        path.write_bytes(data)
        subject.attempt(path, rng)


def damaged(subject: Subject, files: list[bytes], case: int) -> tuple[bytes, np.random.Generator]:
    """Return the file of a case, and the generator that goes on with it."""
    rng, usual = np.random.default_rng(case), sys.getrecursionlimit()
    sys.setrecursionlimit(DEEP)
    try:
        return subject.mutate(files[rng.integers(len(files))], rng), rng
    finally:
        sys.setrecursionlimit(usual)


def _try(subject: Subject, files: list[bytes], case: int, path: Path) -> tuple[str, str]:
    try:
        data, rng = _damaged_in_free_memory(subject, files, case)
        path.write_bytes(data)
        subject.attempt(path, rng)
    except HbconvError as error:
        if isinstance(error.__cause__, MemoryError):
            return "unnamed", f"MemoryError: {error} ({len(data):,} bytes)"
        return type(error).__name__, ""
    except BaseException as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        message = " ".join(f"{error}".split())[:200]
        return (
            "unnamed",
            f"{type(error).__name__}: {message} ({Path(frame.filename).name}:{frame.lineno})",
        )
    return "answered", ""


def _damaged_in_free_memory(
    subject: Subject, files: list[bytes], case: int
) -> tuple[bytes, np.random.Generator]:
    """Damage a file; once more where that fails, as what the case before left may fill memory."""
    try:
        return damaged(subject, files, case)
    except BaseException:
        gc.collect()
        return damaged(subject, files, case)


def _data_bytes() -> int:
    """Bytes of private memory that this process has."""
    with suppress(OSError):
        found = [
            line.split()[1]
            for line in Path("/proc/self/status").read_text().splitlines()
            if line.startswith("VmData")
        ]
        return int(found[0]) << 10
    return 0


def _in_child(work: Callable[[], None]) -> None:
    """Do work whose threads must not be there when this process forks."""
    if status := _child(work):
        raise RuntimeError(f"The corpus could not be made: {_signal_name(status)}")


def _child(work: Callable[[], None]) -> int:
    """Run a function in a forked child, and return its wait status."""
    sys.stdout.flush()
    process = os.fork()
    if process == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitpid(process, 0)[1]


def _signal_name(status: int) -> str:
    if not os.WIFSIGNALED(status):
        return f"exit {os.waitstatus_to_exitcode(status)}"
    number = os.WTERMSIG(status)
    return "out of time" if number == signal.SIGPROF else signal.Signals(number).name
