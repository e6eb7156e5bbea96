"""Hunt seed after seed, each in a child of this process that it may kill: with limits of time and
memory, so that a crash, a hang or a flood is a finding too.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import resource
import signal
import sys
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from hunt.findings import Finding, Log
from hunt.seed import Convert, hunt_seed

import hbconv
from hbconv.backends import find_backend

__all__ = ["Hunted", "Limits", "hunt", "preload"]


EVENTS = {
    "draws": ("pipeline",),
    "asks": ("side", "rows", "method"),
    "breaks": ("side", "detail"),
    "ends": ("counts",),
}
"""What each event tells."""

OUT_OF_TIME = {signal.SIGPROF: "out of time", signal.SIGALRM: "waits forever"}


@dataclass(frozen=True)
class Limits:
    """What a seed may take.

    Parameters
    ----------
    seconds : int
        Processor time.
    wall_seconds : int
        Time on the clock: who waits forever takes no processor time.
    memory_bytes : int
        Beyond what the child begins with.
    """

    seconds: int = 60
    wall_seconds: int = 600
    memory_bytes: int = 4 << 30


@dataclass
class Hunted:
    """What a hunt on one backend has seen so far."""

    backend: str
    seeds: int = 0
    seconds: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)

    def __str__(self) -> str:
        counts = ", ".join(f"{count:,} {kind}" for kind, count in self.counts.most_common())
        groups = defaultdict(list)
        for finding in filter(lambda finding: finding.fails, self.findings):
            groups[finding.kind, finding.seed, finding.what].append(finding)
        faults = [f"  {len(group)} x {group[0]}" for group in groups.values()]
        head = f"{self.backend}: {self.seeds:,} seeds in {self.seconds:.0f} s: {counts or 'none'}"
        return "\n".join([head, *faults])


def hunt(
    seeds: Iterable[int],
    backend: str,
    *,
    deadline: float = float("inf"),
    limits: Limits = Limits(),
    convert: Convert = hbconv.convert,
    note: Callable[[Finding], None] = lambda finding: None,
    drawing: str = "pipelines",
) -> Hunted:
    """Hunt seeds until ``time.monotonic()`` passes a deadline; tell of each finding at once."""
    hunted = Hunted(backend)
    begin = time.monotonic()
    for seed in seeds:
        if time.monotonic() > deadline:
            break
        for finding in _hunt_in_child(seed, backend, limits, hunted.counts, convert, drawing):
            hunted.findings.append(finding)
            note(finding)
        hunted.seeds += 1
        hunted.seconds = time.monotonic() - begin
    return hunted


def preload(backend: str) -> None:
    """Import what a backend needs, once for all children."""
    if backend == "tvm":
        from hbconv.backends.tvm.import_tvm import import_tvm

        import_tvm()
    for package in find_backend(backend).needs:
        importlib.import_module(package)
    home = importlib.import_module(f"hbconv.backends.{backend}")
    for module in pkgutil.walk_packages(getattr(home, "__path__", ()), f"{home.__name__}."):
        with suppress(ImportError):
            importlib.import_module(module.name)


def _hunt_in_child(
    seed: int, backend: str, limits: Limits, counts: Counter[str], convert: Convert, drawing: str
) -> list[Finding]:
    """Hunt one seed in a child; return what it found, and add what it counted."""
    told, death = _in_child(limits, lambda log: hunt_seed(seed, backend, log, convert, drawing))
    counts.update(told.counts)
    if not death:
        return told.findings
    counts[f"{told.side} {death}"] += 1
    if told.side == "source":
        return told.findings
    last = death, told.rows, told.method, told.detail, told.pipeline
    return [*told.findings, Finding("SIGNAL", seed, backend, *last)]


def _in_child(limits: Limits, work: Callable[[Log], None]) -> tuple[_Told, str]:
    """Work in a forked child; return what it told, and what it died of."""
    read, write = os.pipe()
    sys.stdout.flush()
    process = os.fork()
    if process == 0:
        os.close(read)
        _live(write, limits, work)
    os.close(write)
    with os.fdopen(read, encoding="utf-8") as stream:
        told = _told(stream)
    return told, _death(os.waitpid(process, 0)[1])


def _live(write: int, limits: Limits, work: Callable[[Log], None]) -> NoReturn:
    """Work within limits, without a word but to the log, and end this process."""
    code = 1
    with suppress(BaseException), os.fdopen(write, "w", encoding="utf-8") as stream:
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        _limit(limits)
        code = _try(work, Log(stream))
    os._exit(code)


def _try(work: Callable[[Log], None], log: Log) -> int:
    """Return 0 where work ends; whatever else it raises than was to be judged is told."""
    try:
        work(log)
    except BaseException:
        log.breaks(traceback.format_exc(limit=-3))
        return 1
    return 0


def _limit(limits: Limits) -> None:
    """Have a signal end this process when its time runs out, and errors when memory does."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, limits.seconds)
    signal.alarm(limits.wall_seconds)
    most = _data_bytes() + limits.memory_bytes
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _data_bytes() -> int:
    """Bytes of private memory that this process has."""
    pages = Path("/proc/self/statm").read_text().split()[5]
    return int(pages) * resource.getpagesize()


@dataclass
class _Told:
    """What a child told before it ended."""

    side: str = "source"
    rows: str = ""
    method: str = ""
    pipeline: str = ""
    detail: str = ""
    findings: list[Finding] = field(default_factory=list)
    counts: Mapping[str, int] = field(default_factory=dict)


def _told(stream: Iterable[str]) -> _Told:
    """Read events up to the end, or to the line at which a child died."""
    told = _Told()
    for line in stream:
        if not line.endswith("\n"):
            break
        event, value = json.loads(line)
        if event == "finds":
            told.findings.append(Finding(**value))
        else:
            for name, held in zip(EVENTS[event], value, strict=True):
                setattr(told, name, held)
    return told


def _death(status: int) -> str:
    """Return what ended a child before its end, or nothing."""
    if not os.WIFSIGNALED(status):
        code = os.waitstatus_to_exitcode(status)
        return f"exit {code}" if code else ""
    number = signal.Signals(os.WTERMSIG(status))
    return OUT_OF_TIME.get(number, number.name)
