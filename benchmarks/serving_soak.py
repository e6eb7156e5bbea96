"""A soak: clients ask all the time while models are swapped and workers are killed."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import httpx
import numpy as np

import hbconv

CLIENTS = 4
SWAP_SECONDS = 15.0
KILL_SECONDS = 10.0


def soak(
    model: hbconv.Model,
    seconds: float,
    start: Callable[[Path], tuple[subprocess.Popen[str], str]],
) -> int:
    """Print what became of the requests, and return 1 if an answer was wrong or lost.

    A killed worker may lose what it held: one request of each client at most.
    """
    counts: Counter[str] = Counter()
    memory: list[int] = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "m.hbc")
        model.save(file)
        process, url = start(Path(folder))
        threading.Thread(target=lambda: list(process.stderr or ()), daemon=True).start()
        ended = threading.Event()
        clients = [
            threading.Thread(target=_ask, args=(model, url, counts, ended, seed))
            for seed in range(CLIENTS)
        ]
        for client in clients:
            client.start()
        _disturb(process, file, seconds, counts, memory)
        ended.set()
        for client in clients:
            client.join()
        process.send_signal(signal.SIGTERM)
        process.wait()
    print(dict(counts))
    print(f"memory of all processes, MB, each {KILL_SECONDS:.0f} s: {memory}")
    allowed = counts["kills"] * CLIENTS
    return int(counts["wrong"] > 0 or counts["refused"] > 0 or counts["lost"] > allowed)


def _ask(
    model: hbconv.Model, url: str, counts: Counter[str], ended: threading.Event, seed: int
) -> None:
    """Ask until the end, over a connection that is kept, and compare each answer."""
    rows = np.random.default_rng(seed).normal(size=(1 + seed % 3, model.n_features_in_))
    expected = model.predict(rows).tolist()
    with httpx.Client(timeout=60) as client:
        while not ended.is_set():
            try:
                found = client.post(f"{url}/v1/models/m:predict", json=rows.tolist())
            except httpx.HTTPError:
                counts["lost"] += 1
                continue
            if found.status_code != 200:
                counts["refused"] += 1
                continue
            answers = [one["predict"] for one in found.json()["predictions"]]
            counts["right" if answers == expected else "wrong"] += 1


def _disturb(
    process: subprocess.Popen[str],
    file: Path,
    seconds: float,
    counts: Counter[str],
    memory: list[int],
) -> None:
    """Swap the model for an equal one, and kill a worker, again and again."""
    end = time.monotonic() + seconds
    swap, kill = time.monotonic() + SWAP_SECONDS, time.monotonic() + KILL_SECONDS
    while time.monotonic() < end:
        time.sleep(0.2)
        if time.monotonic() > swap:
            shutil.copy(file, file.with_suffix(".new"))
            file.with_suffix(".new").replace(file)
            counts["swaps"] += 1
            swap += SWAP_SECONDS
        if time.monotonic() > kill:
            memory.append(_kill(process.pid) >> 20)
            counts["kills"] += 1
            kill += KILL_SECONDS


def _kill(supervisor: int) -> int:
    """Kill a worker, and return the bytes that all processes held before, shared ones by share."""
    generations = _children(supervisor)
    workers = [worker for one in generations for worker in _children(one)]
    held = sum(map(_bytes, [supervisor, *generations, *workers]))
    if workers:
        os.kill(random.choice(workers), signal.SIGKILL)
    return held


def _children(parent: int) -> list[int]:
    found = Path(f"/proc/{parent}/task/{parent}/children")
    return [int(one) for one in found.read_text().split()] if found.exists() else []


def _bytes(process: int) -> int:
    told = Path(f"/proc/{process}/smaps_rollup")
    try:
        lines = told.read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))
