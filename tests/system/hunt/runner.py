"""Hunt seed after seed, each in a child of this process that it may kill: with limits of time and
memory, so that a crash, a hang or a flood is a finding too.

A seed is drawn, and its source asked, in one child; that one has a child of its own for each
backend, which finds the fitted pipeline and the source's answers in its memory. Where the source
began threads, as polars does, such a child would wait for them for ever: each backend then draws
the seed anew.
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
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

from hunt.findings import Finding, Log
from hunt.seed import Convert, Drawn, draw, hunt_on

import hbconv
from hbconv.backends import find_backend

__all__ = ["Hunt", "Hunted", "Limits", "hunt", "preload"]


EVENTS = {
    "draws": ("pipeline",),
    "asks": ("side", "rows", "method"),
    "breaks": ("side", "detail"),
    "ends": ("counts",),
    "stands_alone": ("has_threads",),
}
"""What each event tells."""

COMPILED = ("tvm", "torch")
"""Backends that TVM compiles for on a CPU."""
WHOLE_EFFORT = 10
"""LLVM optimizes the code of one seed in so many. It takes three quarters of a seed's time on tvm, and
what hbconv says in TIR is asked as hard without it."""

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

    @property
    def fails(self) -> bool:
        """Whether anything found is a fault."""
        return any(finding.fails for finding in self.findings)

    def __str__(self) -> str:
        counts = ", ".join(f"{count:,} {kind}" for kind, count in self.counts.most_common())
        groups = defaultdict(list)
        for finding in filter(lambda finding: finding.fails, self.findings):
            groups[finding.kind, finding.seed, finding.what].append(finding)
        faults = [f"  {len(group)} x {group[0]}" for group in groups.values()]
        head = f"{self.backend}: {self.seeds:,} seeds in {self.seconds:.0f} s: {counts or 'none'}"
        return "\n".join([head, *faults])


@dataclass
class Hunt:
    """What a hunt has seen so far on each backend, and the seconds of the sources' own part."""

    backends: tuple[Hunted, ...]
    source_seconds: float = 0.0

    @property
    def fails(self) -> bool:
        """Whether anything found is a fault."""
        return any(hunted.fails for hunted in self.backends)

    def __str__(self) -> str:
        sources = f"The sources were fitted, parsed and asked in {self.source_seconds:.0f} s"
        return "\n".join([sources, *map(str, self.backends)])


def hunt(
    seeds: Iterable[int],
    backends: Sequence[str],
    *,
    deadline: float = float("inf"),
    limits: Limits = Limits(),
    convert: Convert = hbconv.convert,
    note: Callable[[Finding], None] = lambda finding: None,
    drawing: str = "pipelines",
) -> Hunt:
    """Hunt seeds until ``time.monotonic()`` passes a deadline; tell of each finding at once.

    Seconds are of the processor.
    """
    hunts = Hunt(tuple(map(Hunted, backends)))
    work = partial(_hunt_seed, backends=backends, limits=limits, convert=convert, drawing=drawing)
    for seed in seeds:
        if time.monotonic() > deadline:
            break
        begin = _children_seconds()
        told, death = _in_child(limits, partial(work, seed))
        hunts.source_seconds += _children_seconds() - begin
        for hunted in hunts.backends:
            found = _settle(hunted, seed, told, death)
            own = told.backends.get(hunted.backend)
            if told.has_threads:
                alone = partial(_hunt_alone, seed, hunted.backend, convert, drawing)
                own = _ask_child(limits, alone)
            if own is not None:
                hunts.source_seconds -= 0.0 if told.has_threads else own.seconds
                hunted.seconds += own.seconds
                found += _settle(hunted, seed, own.told, own.death)
            hunted.seeds += 1
            hunted.findings += found
            for finding in found:
                note(finding)
    return hunts


def preload(backend: str) -> None:
    """Import what a backend needs, once for all children."""
    if backend in COMPILED and find_spec("tvm"):
        from hbconv.backends.tvm.import_tvm import import_tvm

        import_tvm()
    for package in find_backend(backend).needs:
        importlib.import_module(package)
    home = importlib.import_module(f"hbconv.backends.{backend}")
    for module in pkgutil.walk_packages(getattr(home, "__path__", ()), f"{home.__name__}."):
        with suppress(ImportError):
            importlib.import_module(module.name)


def _hunt_seed(
    seed: int,
    log: Log,
    *,
    backends: Sequence[str],
    limits: Limits,
    convert: Convert,
    drawing: str,
) -> None:
    """Draw a seed, ask its source, and hunt on each backend in a child."""
    drawn = draw(seed, backends[0], log, convert, drawing)
    if drawn is None:
        return
    # The children have their own limits, and their time is not this process's own.
    signal.alarm(0)
    if len(os.listdir("/proc/self/task")) > 1:
        log.stands_alone()
        return
    for backend in backends:
        others = None if backend == backends[0] else convert
        own = _ask_child(limits, partial(_hunt_on, drawn, backend, others))
        log.hunted(backend, own.seconds, asdict(own.told), own.death)


def _ask_child(limits: Limits, work: Callable[[Log], None]) -> _OfBackend:
    """Hunt on a backend in a child."""
    begin = _children_seconds()
    told, death = _in_child(limits, work)
    return _OfBackend(_children_seconds() - begin, told, death)


def _hunt_alone(seed: int, backend: str, convert: Convert, drawing: str, log: Log) -> None:
    """Draw a seed for one backend, and hunt on it in the same process."""
    drawn = draw(seed, backend, log, convert, drawing)
    if drawn is not None:
        _hunt_on(drawn, backend, None, log)


def _hunt_on(drawn: Drawn, backend: str, convert: Convert | None, log: Log) -> None:
    """Hunt on a backend; LLVM works for one seed in ten as it does for users."""
    if backend in COMPILED and drawn.seed % WHOLE_EFFORT:
        _compile_quickly()
    hunt_on(drawn, backend, log, convert)


def _compile_quickly() -> None:
    """Have LLVM write what TVM says without optimizing it, and keep that code apart."""
    from hbconv.backends.tvm.binary import code_generation

    code_generation.LLVM_LEVEL = 0
    os.environ["HBCONV_CACHE"] += "/quick"


def _children_seconds() -> float:
    """Seconds of the processor that children have taken, and theirs."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _settle(hunted: Hunted, seed: int, told: _Told, death: str) -> list[Finding]:
    """Count what a child told for a backend; return what it found, and of what it died."""
    hunted.counts.update(told.counts)
    found = [replace(finding, backend=hunted.backend) for finding in told.findings]
    if not death:
        return found
    hunted.counts[f"{told.side} {death}"] += 1
    if told.side == "source":
        return found
    last = death, told.rows, told.method, told.detail, told.pipeline
    return [*found, Finding("SIGNAL", seed, hunted.backend, *last)]


def _in_child(limits: Limits, work: Callable[[Log], None]) -> tuple[_Told, str]:
    """Work in a forked child; return what it told, and what it died of.

    Limits of memory are soft ones, so that a child's child may have its own.
    """
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
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (_data_bytes() + limits.memory_bytes, most))
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
    backends: dict[str, _OfBackend] = field(default_factory=dict)
    has_threads: bool = False


@dataclass(frozen=True)
class _OfBackend:
    """What a backend's child took, told and died of."""

    seconds: float
    told: _Told
    death: str


def _told(stream: Iterable[str]) -> _Told:
    """Read events up to the end, or to the line at which a child died."""
    told = _Told()
    for line in stream:
        if not line.endswith("\n"):
            break
        event, value = json.loads(line)
        if event == "finds":
            told.findings.append(Finding(**value))
        elif event == "hunted":
            backend, seconds, own, death = value
            told.backends[backend] = _OfBackend(seconds, _read_back(own), death)
        else:
            for name, held in zip(EVENTS[event], value, strict=True):
                setattr(told, name, held)
    return told


def _read_back(told: Mapping[str, Any]) -> _Told:
    findings = [Finding(**finding) for finding in told["findings"]]
    return _Told(**{**told, "findings": findings})


def _death(status: int) -> str:
    """Return what ended a child before its end, or nothing."""
    if not os.WIFSIGNALED(status):
        code = os.waitstatus_to_exitcode(status)
        return f"exit {code}" if code else ""
    number = signal.Signals(os.WTERMSIG(status))
    return OUT_OF_TIME.get(number, number.name)
