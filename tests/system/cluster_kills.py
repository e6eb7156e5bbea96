"""Kill workers, then the command, of ``hbconv score --on`` at random moments, on each engine.

    python tests/system/cluster_kills.py --count 5 --engines dask,ray,spark

Each engine starts two workers of its own on this machine; those of Spark are executors in processes
of their own. A run loses as many workers as an engine takes for bad luck, and ends by itself. Another
one is killed itself, and ``--resume`` goes on while its workers may still be at work. Every row must
have the source's answer, once.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from sklearn.linear_model import LogisticRegression

import hbconv

ENGINES = {
    "dask": ("dask", "multiprocessing.spawn"),
    "ray": ("ray:local", "ray::call"),
    "spark": ("spark:local-cluster[2,1,1024]", "CoarseGrainedExecutorBackend"),
}
"""Of each engine, what ``--on`` takes, and what is in the command of a worker's process."""
MOST_KILLED = 3
"""Workers of a run that are killed: each engine makes a call four times at most."""
FILES = 60
ROWS = 12_000
PATIENCE = 400
"""Seconds after which a run hangs."""


def kill_both(engine, seed=0, files=FILES):
    """Lose workers of a run in the working folder, then a run itself.

    Returns
    -------
    tuple of int
        Workers that were killed, and files that the killed run had done.
    """
    model, table = make_files(files)
    moments = random.Random(seed)
    killed = lose_workers(engine, moments)
    require_answers(model, table, files)
    shutil.rmtree("out")
    done = lose_command(engine, moments, files)
    require_answers(model, table, files)
    return killed, done


def make_files(files):
    """Write a model, and files of rows with ids."""
    table = pd.DataFrame(
        np.random.default_rng(0).normal(size=(files * ROWS, 2)), columns=["a", "b"]
    )
    model = LogisticRegression().fit(table[:100], np.where(table.a > table.b, "yes", "no")[:100])
    hbconv.convert(model, backend="reference").save("m.hbc")
    shutil.rmtree("in", ignore_errors=True)
    Path("in").mkdir()
    for number in range(files):
        rows = table.iloc[ROWS * number : ROWS * (number + 1)]
        rows.assign(id=rows.index).to_parquet(f"in/{number:03}.parquet", index=False)
    return model, table


def lose_workers(engine, moments):
    """Kill workers of a run until as many are lost as may be, and let it end."""
    on, pattern = ENGINES[engine]
    process = start(on)
    killed = 0
    wait_for_records(process, 1)
    while process.poll() is None and killed < MOST_KILLED:
        time.sleep(0.2 + 2 * moments.random())
        workers = [pid for pid, command in below(process.pid) if pattern in command]
        if workers and process.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(moments.choice(workers), signal.SIGKILL)
                killed += 1
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, said[-2000:]
    assert killed, "the run ended before a worker was lost"
    return killed


def lose_command(engine, moments, files):
    """Kill a run, and go on at once; its own processes end by themselves."""
    on, _ = ENGINES[engine]
    process = start(on)
    wait_for_records(process, 1 + moments.randrange(files // 3))
    left = [pid for pid, _ in below(process.pid)]
    done = len(records())
    process.kill()
    process.communicate()
    process = start(on, "--resume", "--json")
    told, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, said[-2000:]
    found = json.loads(told[told.index("{") :])
    assert found["files_done_before"] >= done > 0
    assert found["rows"] == files * ROWS
    until = time.monotonic() + 90
    while alive := [pid for pid in left if is_alive(pid)]:
        assert time.monotonic() < until, f"processes {alive} outlive their run"
        time.sleep(0.2)
    return done


def start(on, *flags):
    """Begin a run of small batches, which take long enough to be interrupted."""
    command = [sys.executable, "-m", "hbconv", "score", "m.hbc", "in", "-o", "out/", "--quiet"]
    command += ["--keep", "id", "--batch-rows", "40", "--on", on, *flags]
    path = os.pathsep.join(sys.path)
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": path, "SPARK_LOCAL_IP": "127.0.0.1"},
    )


def wait_for_records(process, count):
    """Wait until a run has done some files."""
    until = time.monotonic() + PATIENCE
    while len(records()) < count:
        assert process.poll() is None, process.communicate()[1][-2000:]
        assert time.monotonic() < until, "the run does not begin"
        time.sleep(0.05)


def records():
    """Return the files that are recorded as done, while the run is at work."""
    return list(Path("out/_hbconv/done").glob("*.json"))


def require_answers(model, table, files):
    """Require the source's answers to all rows, each once, and nothing half-written."""
    found = pq.read_table("out").to_pandas().sort_values("id", ignore_index=True)
    assert found.id.tolist() == list(range(files * ROWS))
    assert (found.predict.to_numpy() == model.predict(table)).all()
    assert not list(Path("out").rglob(".hbconv-*")), "half a file is left"


def below(root):
    """Return the processes that a process started, and theirs, with their commands; on Linux."""
    parents = {}
    commands = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parents[int(entry.name)] = int(
                (entry / "stat").read_text().rpartition(")")[2].split()[1]
            )
            commands[int(entry.name)] = (entry / "cmdline").read_bytes().decode(errors="replace")
    found = []
    ranks = [root]
    while ranks:
        ranks = [pid for pid, parent in parents.items() if parent in ranks]
        found += [(pid, commands.get(pid, "")) for pid in ranks]
    return found


def is_alive(pid):
    """Say whether a process runs; one that has ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def main():
    """Run some rounds of each engine, in a temporary folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--engines", default=",".join(ENGINES))
    options = parser.parse_args()
    for engine in options.engines.split(","):
        for turn in range(options.count):
            with tempfile.TemporaryDirectory() as folder:
                os.chdir(folder)
                killed, done = kill_both(engine, options.seed + turn)
                os.chdir("/")
            print(f"{engine}: {killed} workers were killed; then the run, {done} files done.")
        print(f"{options.count} rounds of {engine}; nothing was lost.", flush=True)


if __name__ == "__main__":
    main()
