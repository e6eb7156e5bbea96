"""Load servers of one model by turns: ``hbconv serve`` beside Triton, MLServer, KServe and BentoML.

    python benchmarks/serving.py                              hbconv serve alone
    python benchmarks/serving.py --environments ENVS          and each peer that is installed there

``serving_peers.py`` says how the environments are made. Requests are JSON over kept connections.
Full load is wrk's: each client asks as soon as it is answered. Servers take turns, so that all see
the same machine, and their answers are compared with the model's first. Each server has the core
``--server-core``, the driver ``--client-core``.

Processor time is that of all processes of a server, and tells more than requests a second where
others work on the machine too. At half of the load, each server gets half of the requests a second
that it answered to 16 clients, by ``open_load.py``: at times that are drawn, whether or not those
before are answered. wrk could pause between requests, but its timer ticks each millisecond.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from serving_peers import SERVERS_BY_NAME, Running, start

import hbconv

TURNS = 3
LOADS = ((1, 1, 3), (16, 1, 3), (16, 100, 3), (16, 10_000, 10))
"""Clients, rows of each request, and seconds of a turn."""
COLUMNS = 28
HALF_SECONDS = 6
SCRIPT = """wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
local file = io.open("{body}")
wrk.body = file:read("*all")
"""


@dataclass(frozen=True)
class Load:
    """What is asked: rows by each of some clients, or so many requests a second.

    Parameters
    ----------
    rows : array
    seconds : float
        Of a turn.
    clients : int
        That ask as soon as they are answered.
    rate : float
        Requests a second, whether answered or not. 0 for those that the clients make.
    """

    rows: np.ndarray
    seconds: float
    clients: int = 0
    rate: float = 0.0


@dataclass(frozen=True)
class Figures:
    """What a turn gave: requests a second, times in milliseconds, processor time in microseconds.

    Parameters
    ----------
    busy : float
        Share of its core that the driver worked. At half of the load it spins for more than it
        must.
    late : float
        99 of 100 requests were sent within so long after their time, at half of the load.
    """

    per_second: float
    half: float
    most: float
    processor: float
    busy: float
    late: float = 0.0


def saved_model(folder: Path) -> tuple[Path, hbconv.Model]:
    """Fit a forest, and save it compiled."""
    from lightgbm import LGBMClassifier

    rng = np.random.default_rng(0)
    rows = rng.normal(size=(20_000, COLUMNS))
    labels = rows[:, 0] * rows[:, 1] + rows[:, 2] > 0
    source = LGBMClassifier(n_estimators=100, num_leaves=31, n_jobs=1, verbose=-1)
    model = hbconv.convert(source.fit(rows, labels * 1))
    model.compile(rows[:1])
    model.save(folder / "m.hbc")
    return folder / "m.hbc", model


def measure(server: Running, load: Load, core: str | None) -> Figures:
    """Ask a server for some seconds."""
    with tempfile.TemporaryDirectory() as folder:
        body = Path(folder, "body.json")
        body.write_bytes(server.body(load.rows))
        pinned = ["taskset", "-c", core] if core else []
        command = _open(server, load, body) if load.rate else _closed(server, load, body)
        before, driver = processor_seconds(server.process.pid), _driver_seconds()
        told = subprocess.run(
            [*pinned, *map(str, command)], stdout=subprocess.PIPE, text=True, check=True
        ).stdout
    if "Non-2xx" in told:
        sys.exit(f"{server.name} refused requests: {told}")
    spent = processor_seconds(server.process.pid) - before
    busy = (_driver_seconds() - driver) / load.seconds
    if load.rate:
        waits = json.loads(told)
        requests = waits.pop("per_second")
        return Figures(
            requests, processor=spent / requests / load.seconds * 1e6, busy=busy, **waits
        )
    requests = max(int(re.search(r"(\d+) requests in", told)[1]), 1)
    return Figures(
        float(re.search(r"Requests/sec:\s*([\d.]+)", told)[1]),
        _milliseconds(told, 50),
        _milliseconds(told, 99),
        spent / requests * 1e6,
        busy,
    )


def _closed(server: Running, load: Load, body: Path) -> list[object]:
    """Return the command of clients that wait for their answers."""
    script = body.with_name("post.lua")
    script.write_text(SCRIPT.format(body=body))
    wrk = ["wrk", "-t1", f"-c{load.clients}", f"-d{load.seconds}s", "-s", script]
    return [*wrk, "--timeout", "60", "--latency", server.url]


def _open(server: Running, load: Load, body: Path) -> list[object]:
    """Return the command of clients that come by themselves."""
    driver = Path(__file__).with_name("open_load.py")
    return [sys.executable, driver, server.url, body, load.rate, "--seconds", load.seconds]


def _milliseconds(told: str, share: int) -> float:
    value, unit = re.search(rf"\n\s*{share}%\s*([\d.]+)(us|ms|s|m)\b", told).groups()
    return float(value) * {"us": 0.001, "ms": 1.0, "s": 1000.0, "m": 60_000.0}[unit]


def _driver_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def processor_seconds(process: int) -> float:
    """Return the processor time of a process and of all below it that live."""
    spent = 0.0
    for task in Path(f"/proc/{process}/task").glob("*"):
        spent += int((task / "schedstat").read_text().split()[0]) / 1e9
        for child in (task / "children").read_text().split():
            spent += processor_seconds(int(child))
    return spent


def compare(servers: list[Running], model: hbconv.Model, core: str | None) -> list[object]:
    """Print and return the figures of each load; medians of some turns."""
    measured: list[object] = []
    rng = np.random.default_rng(0)
    full = dict.fromkeys(servers, 0.0)
    for clients, count, seconds in LOADS:
        rows = rng.normal(size=(count, COLUMNS)).round(3)
        for server in servers:
            if not np.array_equal(server.labels(rows), model.predict(rows)):
                sys.exit(f"{server.name} answers otherwise than the model")
        loads = dict.fromkeys(servers, Load(rows, seconds, clients=clients))
        found = by_turns(loads, core)
        measured += told(f"{clients} clients, {count} rows", found)
        if (clients, count) == (16, 1):
            full = {server: found[server][0].per_second for server in servers}
    rows = rng.normal(size=(1, COLUMNS)).round(3)
    loads = {one: Load(rows, HALF_SECONDS, rate=full[one] / 2) for one in servers}
    return measured + told("half of the load of 16, 1 row", by_turns(loads, core))


def by_turns(loads: dict[Running, Load], core: str | None) -> dict[Running, list[Figures]]:
    """Return the figures of each server, the median turn first."""
    found: dict[Running, list[Figures]] = {server: [] for server in loads}
    for _ in range(TURNS):
        for server, load in loads.items():
            found[server].append(measure(server, load, core))
    for turns in found.values():
        turns.sort(key=lambda turn: turn.per_second)
        turns.insert(0, turns.pop(len(turns) // 2))
    return found


def told(what: str, found: dict[Running, list[Figures]]) -> list[object]:
    """Print the figures of a load, and return them."""
    print(f"\n{what}\n{'':10}requests/s (of all turns)   p50 ms   p99 ms  server us  driver busy")
    for server, turns in found.items():
        speeds = [turn.per_second for turn in turns]
        one = turns[0]
        most = statistics.median(turn.most for turn in turns)
        print(
            f"{server.name:10}{one.per_second:10,.0f} ({min(speeds):,.0f}-{max(speeds):,.0f})"
            f"{one.half:10.2f}{most:9.2f}{one.processor:11.0f}{one.busy:9.2f}",
            flush=True,
        )
    return [[what, server.name, [asdict(turn) for turn in found[server]]] for server in found]


def main() -> None:
    """Run what the arguments ask for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--environments", type=Path, default=Path("/nowhere"), metavar="ENVS")
    parser.add_argument("--servers", nargs="+", default=[*SERVERS_BY_NAME], metavar="NAME")
    parser.add_argument("--server-core", help="core of the servers")
    parser.add_argument("--client-core", help="core of the driver")
    parser.add_argument("--json", type=Path, help="file for the figures")
    options = parser.parse_args()
    here = [n for n in options.servers if n == "hbconv" or (options.environments / n).is_dir()]
    print("left out, for they are not installed:", sorted({*options.servers} - {*here}))
    servers: list[Running] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file, model = saved_model(folder)
        try:
            for one in here:
                where = (options.environments, folder, options.server_core)
                servers += [start(one, file, COLUMNS, *where)]
            figures = compare(servers, model, options.client_core)
        finally:
            for server in servers:
                server.stop()
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
