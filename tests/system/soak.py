"""A soak of ``hbconv serve``: clients ask all the time, while models are swapped and workers killed.

    python tests/system/soak.py [--minutes 10] [--swap-seconds 15] [--kill-seconds 10] [--json FILE]

Two forests take turns under one name, so that each swap changes the answers. Each answer must be
wholly that of one of them. A killed worker cuts the connections that it holds; a request that is
cut is asked once more, and is lost if that fails too. Memory is that of all processes, shared pages
by share, and must not grow from the first third of the run to the last one.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from soak_client import COLUMNS, Client

CLIENTS = 4
WORKERS = 2
MOST_GROWTH = 1.05
LOOK_SECONDS = 0.5
SECONDS_TO_START = 60.0


@dataclass
class Soak:
    """What became of the requests, and the memory of all processes in bytes."""

    counts: Counter[str] = field(default_factory=Counter)
    memory: list[int] = field(default_factory=list)

    @property
    def thirds(self) -> tuple[float, float]:
        """Memory at the beginning and at the end: medians of the first and of the last third."""
        third = max(len(self.memory) // 3, 1)
        return statistics.median(self.memory[:third]), statistics.median(self.memory[-third:])

    @property
    def faults(self) -> list[str]:
        """What must not be: answers that are wrong or lost, more cuts than kills explain, growth."""
        counts = self.counts
        first, last = self.thirds
        found = [f"{counts[name]} {name}" for name in ("wrong", "refused", "lost") if counts[name]]
        if counts["cut"] > counts["kills"] * CLIENTS:
            found.append(f"{counts['cut']} cut by {counts['kills']} kills")
        if last > first * MOST_GROWTH:
            found.append(f"memory grew from {first / 1e6:.1f} to {last / 1e6:.1f} MB")
        return found


def fitted(seed: int) -> Any:
    """Fit one of the two models."""
    from sklearn.ensemble import RandomForestClassifier

    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(500, COLUMNS))
    labels = rng.integers(0, 3, 500)
    return RandomForestClassifier(20, max_depth=6, random_state=seed).fit(rows, labels)


def start(folder: Path, *options: str) -> tuple[subprocess.Popen[bytes], int]:
    """Start a server of a folder, and return its process and port."""
    command = [sys.executable, "-m", "hbconv", "serve", str(folder), "--port", "0"]
    log = folder / "log"
    with log.open("w") as said:
        process = subprocess.Popen([*command, *options], stderr=said)
    until = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < until and process.poll() is None:
        found = re.search(r"Serving .* on http://[^:]*:(\d+)", log.read_text())
        if found:
            return process, int(found[1])
        time.sleep(0.1)
    process.kill()
    sys.exit(f"hbconv serve did not start: {log.read_text()}")


def soak(minutes: float, swap_seconds: float, kill_seconds: float) -> Soak:
    """Soak a server, and return what became of the requests."""
    import hbconv

    found = Soak()
    sources = [fitted(seed) for seed in (0, 1)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        models = [folder / "a.saved", folder / "b.saved"]
        for source, path in zip(sources, models, strict=True):
            hbconv.convert(source, sample=np.zeros((1, COLUMNS))).save(path)
        put(models[0], folder)
        process, port = start(folder, "--workers", str(WORKERS), "--trusted")
        clients = [Client(port, sources, found.counts, seed) for seed in range(CLIENTS)]
        for client in clients:
            client.start()
        try:
            _disturb(process.pid, models, found, minutes * 60, swap_seconds, kill_seconds)
            for client in clients:
                client.ended.set()
            for client in clients:
                client.join()
            process.send_signal(signal.SIGTERM)
            process.wait(60)
        finally:
            process.kill()  # and with it all that it started
    return found


def put(model: Path, folder: Path) -> None:
    """Put a model in the place of the one that is served."""
    new = folder / "m.new"
    new.write_bytes(model.read_bytes())
    new.replace(folder / "m.hbc")


def _disturb(
    supervisor: int,
    models: list[Path],
    soak: Soak,
    seconds: float,
    swap_seconds: float,
    kill_seconds: float,
) -> None:
    """Swap and kill, and look at the memory while one generation runs alone."""
    began = time.monotonic()
    swap, kill = began + swap_seconds, began + kill_seconds
    while time.monotonic() < began + seconds:
        time.sleep(LOOK_SECONDS)
        generations = children(supervisor)
        workers = [worker for one in generations for worker in children(one)]
        if len(generations) == 1 and len(workers) == WORKERS:
            soak.memory.append(sum(map(_bytes, [supervisor, *generations, *workers])))
        if time.monotonic() > swap:
            soak.counts["swaps"] += 1
            put(models[soak.counts["swaps"] % 2], models[0].parent)
            swap += swap_seconds
        if time.monotonic() > kill and workers:
            os.kill(random.choice(workers), signal.SIGKILL)
            soak.counts["kills"] += 1
            kill += kill_seconds


def children(parent: int) -> list[int]:
    """Return the processes that a process started."""
    found = Path(f"/proc/{parent}/task/{parent}/children")
    return [int(one) for one in found.read_text().split()] if found.exists() else []


def _bytes(process: int) -> int:
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))


def main() -> int:
    """Soak for some minutes, and return 1 where something was wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--swap-seconds", type=float, default=15.0)
    parser.add_argument("--kill-seconds", type=float, default=10.0)
    parser.add_argument("--json", type=Path, help="file for the figures")
    options = parser.parse_args()
    found = soak(options.minutes, options.swap_seconds, options.kill_seconds)
    first, last = found.thirds
    print(dict(found.counts))
    print(f"memory of all processes: {first / 1e6:.1f} MB in the first third, {last / 1e6:.1f} MB")
    print(f"in the last one, {max(found.memory) / 1e6:.1f} MB at most")
    if options.json:
        told = {"counts": found.counts, "memory": found.memory}
        options.json.write_text(json.dumps(told))
    print(*found.faults or ["nothing was wrong"], sep="\n")
    return int(bool(found.faults))


if __name__ == "__main__":
    sys.exit(main())
