"""Run batteries of commands within time limits, and tell what became of them; ``night.py`` has
the batteries.

Each command is a process group of its own, which is killed as a whole: after the command's time,
and, for what it left behind, after its end.
"""

from __future__ import annotations

import math
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TextIO
from xml.etree import ElementTree as ET

from night_report import Counts, Facts, Outcome, find_commit, markdown, write_report

ROOT = Path(__file__).parents[2]
GRACE_SECONDS = 300.0
"""How long a battery may run on after its limit, to end what it has begun."""
TRACE_SECONDS = 10.0
"""What a command that is killed gets to write where it stood."""
LOOK_SECONDS = 0.05
CASES = 2**31
"""Numbers of cases begin anew behind this one: some libraries take seeds of 32 bits."""
LEFT = "left by the limit of"
"""How pytest's ``--limit`` begins the reason of a test that it skips."""
TOO_LONG = r"^FAILED (.+: \d+ s of the processor); "
"""What pytest prints of a test that passes, but takes too long."""


@dataclass(frozen=True)
class Battery:
    """Commands that ask one thing, within one time limit.

    Parameters
    ----------
    name : str
    minutes : float
        Limit of all commands together. One that ends early leaves its time to those behind it.
    asks : str
    commands : tuple of str
        Lines of words as in a shell. ``Night.fill`` puts in ``{python}``, ``{pytest}`` and others.
    count : int
        What ``{count}`` stands for at scale 1.
    cases : str
        Pattern of the numbers of cases in a log. Where it is empty, each command is a case, but
        for those that write a JUnit file.
    findings : str
        Pattern of the lines of a log that tell a failure.
    needs : tuple of str
        Programs or modules without which the battery is not run.
    """

    name: str
    minutes: float
    asks: str
    commands: tuple[str, ...]
    count: int = 1
    cases: str = ""
    findings: str = ""
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Night:
    """What holds for all batteries: seed, scale, the folder of logs and figures, and grace."""

    seed: int
    scale: float
    folder: Path
    grace_seconds: float = GRACE_SECONDS

    def fill(self, battery: Battery, number: int, seconds: float) -> list[str]:
        """Return the words of a command that has some seconds.

        ``{first}`` is such that the cases of a night are not those of the next one.
        """
        python = shlex.quote(sys.executable)
        count = self.count(battery)
        junit = shlex.quote(str(self.report(battery, number, "xml")))
        limits = f"--limit {math.ceil(seconds)} --seed {self.seed}"
        line = battery.commands[number].format(
            python=f"{python} -X faulthandler",
            pytest=f"{python} -m pytest {limits} --junitxml {junit}",
            junit=junit,
            report=shlex.quote(str(self.report(battery, number, "jsonl"))),
            count=count,
            numbers=" ".join(map(str, self.draw(battery))),
            seed=self.seed,
            first=self.seed * count % CASES,
            share=max(round(1 / self.scale), 1),
            minutes=f"{seconds / 60:.2f}",
        )
        return shlex.split(line)

    def log(self, battery: Battery) -> Path:
        """Return where the battery's commands write."""
        return self.folder / f"{battery.name}.log"

    def report(self, battery: Battery, number: int, suffix: str) -> Path:
        """Return where a command writes what became of its tests, or what it found."""
        return self.folder / f"{battery.name}-{number + 1}.{suffix}"

    def count(self, battery: Battery) -> int:
        """Return how many cases a command of a battery is asked for."""
        return max(math.ceil(battery.count * self.scale), 1)

    def draw(self, battery: Battery) -> list[int]:
        """Return the numbers up to the battery's count; at a smaller scale, some of them."""
        numbers = range(1, battery.count + 1)
        asked = min(self.count(battery), battery.count)
        return sorted(random.Random(self.seed).sample(numbers, asked))


@dataclass(frozen=True)
class Ended:
    """How a command ended: its status, None where it was killed, and what it wrote."""

    status: int | None
    peak_bytes: int
    log: str


def run_night(batteries: Sequence[Battery], night: Night) -> int:
    """Run batteries, tell what became of them, and return 1 where one failed."""
    night.folder.mkdir(parents=True, exist_ok=True)
    began = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    facts = Facts(began, night.seed, night.scale, find_commit())
    outcomes: list[Outcome] = []
    for battery in batteries:
        print(f"{datetime.now(UTC):%H:%M} {battery.name}: {battery.asks}", flush=True)
        outcomes.append(run_battery(battery, night))
        write_report(night.folder, outcomes, facts)
    print("", markdown(outcomes, facts), sep="\n", flush=True)
    return int(any(outcome.failures for outcome in outcomes))


def run_battery(battery: Battery, night: Night) -> Outcome:
    """Run the commands of a battery; each gets an equal share of the time that is left.

    A command for which no time is left is not begun, and its cases count as left.
    """
    log = night.log(battery)
    shown = log.relative_to(ROOT) if log.is_relative_to(ROOT) else log
    outcome = Outcome(battery.name, battery.asks, str(shown))
    outcome.not_run = find_missing(battery)
    if outcome.not_run:
        return outcome
    log.write_text("")
    began = time.monotonic()
    ends = began + battery.minutes * 60 * night.scale
    for number in range(len(battery.commands)):
        seconds = (ends - time.monotonic()) / (len(battery.commands) - number)
        if seconds > 0:
            ask(battery, number, night, seconds, outcome)
        else:
            outcome.left += night.count(battery) if battery.cases else 1
    outcome.seconds = round(time.monotonic() - began, 1)
    return outcome


def ask(battery: Battery, number: int, night: Night, seconds: float, outcome: Outcome) -> None:
    """Run a command, and add what it tells to the outcome of its battery."""
    for suffix in ("xml", "jsonl"):
        night.report(battery, number, suffix).unlink(missing_ok=True)
    words = night.fill(battery, number, seconds)
    ended = run_command(words, night.log(battery), seconds + night.grace_seconds)
    outcome.add(judge(battery, number, night, ended), ended.peak_bytes)


def find_missing(battery: Battery) -> str:
    """Say which programs and modules a battery needs, but this machine lacks."""
    missing = [need for need in battery.needs if not (shutil.which(need) or find_spec(need))]
    verb = "is" if len(missing) == 1 else "are"
    return f"{', '.join(missing)} {verb} missing" if missing else ""


def run_command(words: list[str], log: Path, seconds: float) -> Ended:
    """Run a command; add its words and what it writes to a log."""
    with log.open("a+", encoding="utf-8", errors="replace") as out:
        print("$", shlex.join(words), file=out, flush=True)
        start = out.tell()
        status, peak_bytes = run_group(words, out, seconds)
        out.seek(start)
        return Ended(status, peak_bytes, out.read())


def run_group(words: list[str], out: TextIO, seconds: float) -> tuple[int | None, int]:
    """Run a command; kill it and all that it started after some seconds, or behind its end.

    Return its status, None where it was killed, and the bytes of its largest process.
    """
    process = subprocess.Popen(
        words, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=out, process_group=0
    )
    try:
        timely = ends_within(process.pid, seconds)
        if not timely:
            os.killpg(process.pid, signal.SIGABRT)  # Python's faulthandler tells where it is
            ends_within(process.pid, TRACE_SECONDS)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode if timely else None, usage.ru_maxrss << 10


def ends_within(process: int, seconds: float) -> bool:
    """Wait for a child to end, and leave it to be waited for: its group keeps its number."""
    until = time.monotonic() + seconds
    while os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if time.monotonic() > until:
            return False
        time.sleep(LOOK_SECONDS)
    return True


def judge(battery: Battery, number: int, night: Night, ended: Ended) -> Counts:
    """Return what a command told, with what its end says too."""
    line = battery.commands[number]
    if "{pytest}" in line or "{junit}" in line:
        counts = read_junit(night.report(battery, number, "xml"))
        counts.failures += re.findall(TOO_LONG, ended.log, re.MULTILINE)
    elif battery.cases:
        counts = read_log(ended.log, battery, night.count(battery))
    else:
        counts = Counts(passed=int(ended.status == 0))
    found = complain(ended, counts, night)
    counts.failures += [found] if found else []
    if len(battery.commands) > 1:
        counts.failures = [f"command {number + 1}: {failure}" for failure in counts.failures]
    return counts


def complain(ended: Ended, counts: Counts, night: Night) -> str:
    """Say what is wrong with a command's end, where its failures do not explain it."""
    if ended.status is None:
        return f"killed {night.grace_seconds:g} s after its limit; the log says where it stood"
    lines = [line for line in ended.log.splitlines() if line.strip()]
    last = lines[-1] if lines else "it wrote nothing"
    if ended.status not in (0, 1) or (ended.status and not counts.failures):
        return f"ended with status {ended.status}: {last}"
    return "" if counts.told else f"wrote no report: {last}"


def read_junit(path: Path) -> Counts:
    """Count the tests of a JUnit file."""
    counts = Counts(told=False)
    with suppress(OSError, ET.ParseError):
        suite = ET.parse(path)
        counts.told = True
        for case in suite.iter("testcase"):
            count_test(case, counts)
    return counts


def count_test(case: ET.Element, counts: Counts) -> None:
    """Count a test. One that fails and cannot be taken down is told twice."""
    name = f"{case.get('classname')}::{case.get('name')}"
    parts = {part.tag: part.get("message", "") for part in case}
    if parts.keys() & {"failure", "error"}:
        counts.failures += [name] if name not in counts.failures else []
    elif parts.get("skipped", "").startswith(LEFT):
        counts.left += 1
    elif "skipped" in parts:
        counts.skipped += 1
    else:
        counts.passed += 1


def read_log(log: str, battery: Battery, asked: int) -> Counts:
    """Count the cases of a log, and take its findings."""
    numbers = re.findall(battery.cases, log, re.MULTILINE)
    cases = sum(int(number.replace(",", "")) for number in numbers)
    failures = re.findall(battery.findings, log, re.MULTILINE) if battery.findings else []
    return Counts(
        told=bool(numbers),
        passed=max(cases - len(failures), 0),
        left=max(asked - cases, 0) if numbers else 0,
        failures=failures,
    )
