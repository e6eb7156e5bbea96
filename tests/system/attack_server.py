"""Attack ``hbconv serve``: hostile requests, while models are swapped and workers killed.

    python tests/system/attack_server.py [--count 2000] [--first 0] [--body-mb 16]

Requests come from a grammar (``attack_bodies.py``), so ``--first 17 --count 1`` makes case 17 again.
Beside them honest clients of ``soak_client.py`` compare their answers with those of the source, and
a probe asks for health over a connection of its own, again and again.

- crashed: a worker ended that was not killed.
- unnamed: a status 500, or a traceback in the log.
- hung: no answer in 60 s, or a worker that stalled above 200 ms, as ``attack_probe.py`` measures it.
- above its memory: the worker grew by more than ``MOST_MEMORY`` tells, in resident bytes.
- wrong: an honest answer that is not the client's own, or that is lost.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import attack_probe
import grpc
from attack_bodies import Attack, attack
from soak import children, fitted, put, start
from soak_client import Client

ATTACKERS = 3
CLIENTS = 2
STALL_SECONDS = 0.2
ANSWER_SECONDS = 60.0
MULTIPLE, REST_MB = 16, 128
"""A worker grows by so many times --max-body-mb, and so many MB, at most."""
SERVICE = "/inference.GRPCInferenceService"


@dataclass
class Report:
    """What was found, with the number of its case."""

    tried: int = 0
    seconds: float = 0.0
    findings: list[tuple[str, str]] = field(default_factory=list)
    statuses: Counter[str] = field(default_factory=Counter)
    honest: Counter[str] = field(default_factory=Counter)
    worst_stall: float = 0.0
    most_growth: int = 0

    def found(self, kind: str, what: str) -> None:
        """Note a finding."""
        self.findings.append((kind, what))
        print(what, flush=True)

    def __str__(self) -> str:
        count = Counter(kind for kind, _ in self.findings)
        return (
            f"attack_server: {self.tried:,} cases in {self.seconds / 60:.1f} minutes: "
            f"{count['crashed']} crashed, {count['unnamed']} unnamed, {count['hung']} hung, "
            f"{count['memory']} above memory, {count['wrong']} wrong"
        )


@dataclass
class Campaign:
    """A running server, and what is known of its worker."""

    port: int
    grpc_port: int
    report: Report
    log: Path
    body_bytes: int
    worker: int = 0
    kills: int = 0
    running: dict[int, str] = field(default_factory=dict)
    ended: threading.Event = field(default_factory=threading.Event)

    def now(self) -> str:
        """Name the cases that run."""
        return (
            "; ".join(f"case {n}: {kind}" for n, kind in sorted(self.running.items())) or "no case"
        )


def models(folder: Path) -> list[object]:
    """Put models in a folder, two of which take turns as ``m``, and return the sources of these."""
    import pandas as pd
    from sklearn.compose import make_column_transformer
    from sklearn.feature_extraction import DictVectorizer
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    import hbconv

    sources = [fitted(seed) for seed in (0, 1)]
    for source, name in zip(sources, ("a.saved", "b.saved"), strict=True):
        hbconv.convert(source, "reference").save(folder / name)
    table = pd.DataFrame({"age": [30.0, 40, 50, 60], "city": ["Rome", "Oslo", "Rome", "Łódź"]})
    mixed = make_column_transformer((StandardScaler(), ["age"]), (OneHotEncoder(), ["city"]))
    items = [{"w": 1.0}, {"v": 2.0}, {"v": "x"}, {"w": 3.0}]
    others = {
        "mixed": (mixed, table),
        "texts": (CountVectorizer(), ["red green", "green blue", "aa bb", "blue"]),
        "items": (DictVectorizer(), items),
    }
    for name, (prepare, rows) in others.items():
        estimator = make_pipeline(prepare, LogisticRegression()).fit(rows, [0, 1, 0, 1])
        hbconv.convert(estimator, "reference").save(folder / f"{name}.hbc")
    put(folder / "a.saved", folder)
    return sources


@contextmanager
def served(folder: Path, body_mb: int, report: Report) -> Iterator[Campaign]:
    """Serve the folder by one worker, so that each probe asks the worker that is attacked."""
    limits = ("--max-body-mb", str(body_mb), "--max-answer-mb", str(body_mb))
    process, port = start(folder, "--grpc-port", "0", *limits)
    log = folder / "log"
    found = re.search(r"gRPC on \S*:(\d+)", log.read_text())
    assert found is not None
    campaign = Campaign(port, int(found[1]), report, log, body_mb << 20)
    watching = threading.Thread(target=_watch, args=(campaign, process.pid, body_mb))
    watching.start()
    probing = threading.Thread(target=_probe, args=(campaign,))
    probing.start()
    try:
        yield campaign
    finally:
        campaign.ended.set()
        watching.join()
        probing.join()
        process.send_signal(signal.SIGTERM)
        code = process.wait(60)
        if code:
            report.found("crashed", f"the server ended with {code}")


def _watch(campaign: Campaign, supervisor: int, body_mb: int) -> None:
    """Follow the worker, and what it grows by."""
    most = (MULTIPLE * body_mb + REST_MB) << 20
    began: dict[int, int] = {}
    told: set[int] = set()
    while not campaign.ended.wait(0.01):
        workers = [worker for one in children(supervisor) for worker in children(one)]
        campaign.worker = workers[0] if len(workers) == 1 else 0
        for worker in workers:
            size = _resident(worker)
            growth = size - began.setdefault(worker, size)
            campaign.report.most_growth = max(campaign.report.most_growth, growth)
            if growth > most and worker not in told:
                told.add(worker)
                campaign.report.found("memory", f"{campaign.now()}: grew by {growth >> 20} MB")


def _resident(process: int) -> int:
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf(
            "SC_PAGE_SIZE"
        )
    except (OSError, IndexError):
        return 0


def _probe(campaign: Campaign) -> None:
    """Keep a probe at the worker, and note what it tells while that worker serves alone."""
    while not campaign.ended.wait(0.01):
        worker = campaign.worker
        if not worker:
            continue
        command = [sys.executable, attack_probe.__file__, str(campaign.port), str(worker)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as probe:
            assert probe.stdout is not None
            for line in probe.stdout:
                if campaign.ended.is_set() or campaign.worker != worker:
                    break
                _note(campaign, float(line))
            probe.kill()


def _note(campaign: Campaign, stall: float) -> None:
    campaign.report.worst_stall = max(campaign.report.worst_stall, stall)
    if stall > STALL_SECONDS:
        campaign.report.found("hung", f"{campaign.now()}: a probe waited {stall:.2f} s")


def _attack(campaign: Campaign, numbers: Iterator[int]) -> None:
    """Try cases until there are no more."""
    for number in numbers:
        made = attack(number, campaign.body_bytes)
        campaign.running[number] = f"{made.kind}, {made.delivery}"
        kills = campaign.kills
        try:
            status = _grpc(campaign, made) if made.door == "grpc" else _http(campaign, made)
        except TimeoutError:
            status = "none"
            campaign.report.found("hung", f"case {number}: {made.kind}: no answer")
        if status in ("500", "INTERNAL", "UNKNOWN") or (
            status == "lost" and kills == campaign.kills
        ):
            campaign.report.found("unnamed", f"case {number}: {made.kind}: {status}")
        campaign.report.statuses[status] += 1
        campaign.report.tried += 1
        del campaign.running[number]


def _grpc(campaign: Campaign, made: Attack) -> str:
    options = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
    with grpc.insecure_channel(
        f"127.0.0.1:{campaign.grpc_port}", options, compression=grpc.Compression.Gzip
    ) as channel:
        try:
            channel.unary_unary(f"{SERVICE}/{made.path}")(made.body, timeout=ANSWER_SECONDS)
        except grpc.RpcError as error:
            return str(error.code().name)
    return "OK"


def _http(campaign: Campaign, made: Attack) -> str:
    """Ask over a connection of its own, in the manner of the case."""
    with suppress(ConnectionError), socket.create_connection(("127.0.0.1", campaign.port)) as link:
        link.settimeout(ANSWER_SECONDS)
        with suppress(ConnectionError):  # refused before all is sent
            _send(link, made)
        if made.delivery in ("cut off", "gone"):
            return made.delivery
        answer = http.client.HTTPResponse(link, method="POST")
        with suppress(http.client.HTTPException):
            answer.begin()
            answer.read()
            return str(answer.status)
    return "refused" if made.kind.startswith("head") else "lost"


def _send(link: socket.socket, made: Attack) -> None:
    is_chunked = made.delivery == "chunked"
    length = (
        ("Transfer-Encoding", "chunked") if is_chunked else ("Content-Length", str(len(made.body)))
    )
    headers = {"Host": "localhost", "Connection": "close", **made.headers, length[0]: length[1]}
    lines = [f"POST {made.path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    link.sendall("\r\n".join([*lines, "", ""]).encode())
    if made.delivery == "whole":
        link.sendall(made.body)
        return
    body = made.body[: len(made.body) // 2] if made.delivery == "cut off" else made.body
    step = max(len(body) // 20, 1)
    for place in range(0, len(body), step):
        part = body[place : place + step]
        link.sendall(b"%x\r\n%b\r\n" % (len(part), part) if is_chunked else part)
        time.sleep(0.01 if made.delivery == "slow" else 0)
    if is_chunked:
        link.sendall(b"0\r\n\r\n")


def run(numbers: range, body_mb: int, swap_seconds: float, kill_seconds: float) -> Report:
    """Try cases, and return what was found."""
    report = Report()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sources = models(folder)
        with served(folder, body_mb, report) as campaign:
            clients = [
                Client(campaign.port, sources, report.honest, seed) for seed in range(CLIENTS)
            ]
            shared = _shared(iter(numbers))
            attackers = [
                threading.Thread(target=_attack, args=(campaign, shared)) for _ in range(ATTACKERS)
            ]
            for thread in (*clients, *attackers):
                thread.start()
            _disturb(campaign, attackers, folder, swap_seconds, kill_seconds)
            for client in clients:
                client.ended.set()
                client.join()
        _judge(campaign)
    report.seconds = time.monotonic() - began
    return report


def _shared(numbers: Iterator[int]) -> Iterator[int]:
    """Let several threads take numbers."""
    lock = threading.Lock()
    while True:
        with lock:
            number = next(numbers, None)
        if number is None:
            return
        yield number


def _disturb(
    campaign: Campaign,
    attackers: list[threading.Thread],
    folder: Path,
    swap_seconds: float,
    kill_seconds: float,
) -> None:
    """Swap models and kill workers until all cases are tried."""
    swaps = itertools.count(1)
    swap = kill = time.monotonic()
    while any(one.is_alive() for one in attackers):
        time.sleep(0.1)
        if time.monotonic() > swap + swap_seconds:
            put(folder / ("a.saved", "b.saved")[next(swaps) % 2], folder)
            swap = time.monotonic()
        if time.monotonic() > kill + kill_seconds and campaign.worker:
            campaign.kills += 1
            with suppress(ProcessLookupError):
                os.kill(campaign.worker, signal.SIGKILL)
            kill = time.monotonic()


def _judge(campaign: Campaign) -> None:
    """Look at the log, and at what became of the honest requests."""
    report, log = campaign.report, campaign.log.read_text()
    died = log.count("is replaced") + log.count("is started again")
    if died > campaign.kills:
        report.found("crashed", f"{died} processes ended, and {campaign.kills} were killed")
    for trace in log.split("Traceback")[1:]:
        report.found("unnamed", f"a traceback in the log: {trace[:3000]}")
    for name in ("wrong", "lost"):
        if report.honest[name] > (campaign.kills * CLIENTS if name == "lost" else 0):
            report.found("wrong", f"{report.honest[name]} honest answers are {name}")


def main() -> int:
    """Attack a server, and return 1 where something was found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--body-mb", type=int, default=16)
    parser.add_argument("--swap-seconds", type=float, default=15.0)
    parser.add_argument("--kill-seconds", type=float, default=20.0)
    chosen = parser.parse_args()
    numbers = range(chosen.first, chosen.first + chosen.count)
    found = run(numbers, chosen.body_mb, chosen.swap_seconds, chosen.kill_seconds)
    print(f"answers: {dict(found.statuses.most_common())}; honest: {dict(found.honest)}")
    print(f"worst stall {found.worst_stall:.3f} s, most growth {found.most_growth >> 20} MB")
    print(found)
    return int(bool(found.findings))


if __name__ == "__main__":
    sys.exit(main())
