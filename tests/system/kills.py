"""Kill runs of ``hbconv score`` at random moments; each goes on with what the last one left.

No file that was recorded as done may be written again, and the answers are the source's.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
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

FILES = 40


def kill_runs(kills, seed=0, devices=None):
    """Kill some runs in the working folder, then let one end, and look at what it wrote.

    With devices, such as ``cpu,cpu``, each run has a process for each, which must end with it.

    Returns
    -------
    int
        How many jobs were begun: one that ended before it was killed is begun anew.
    """
    table = pd.DataFrame(np.random.default_rng(seed).normal(size=(60, 3)), columns=list("abc"))
    model = LogisticRegression().fit(table, np.where(table.a > 0, "yes", "no"))
    hbconv.convert(model, backend="reference").save("m.hbc")
    Path("in").mkdir()
    for number in range(FILES):
        table.iloc[number:].to_parquet(f"in/{number}.parquet", index=False)
    command = [sys.executable, "-m", "hbconv", "score", "m.hbc", "in", "-o", "out/", "--resume"]
    command += ["--devices", devices] if devices else []
    moments = random.Random(seed)
    jobs, done = 1, {}
    for killed in range(1, kills + 1):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and len(records()) <= len(done):
            time.sleep(0.002)
        time.sleep(moments.random() * 0.05)
        process.kill()
        process.wait()
        now = records()
        assert {name: now.get(name) for name in done} == done, "a finished file was lost"
        done = now
        print(f"\r{killed} killed", end="", file=sys.stderr, flush=True)
        if len(done) == FILES:
            require_answers(table, model)
            shutil.rmtree("out")
            jobs, done = jobs + 1, {}
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    require_no_process(Path.cwd())
    manifest = json.loads(Path("out/_hbconv/manifest.json").read_text(encoding="utf-8"))
    assert len(manifest["shards"]) == FILES
    assert not [path for path in Path().rglob(".*") if path.is_file()], "half a file is left"
    require_answers(table, model)
    return jobs


def require_no_process(folder):
    """Require that no process works in a folder any more, but for this one; on Linux."""
    until = time.monotonic() + 30
    while left := [pid for pid in working_in(folder) if pid != os.getpid()]:
        assert time.monotonic() < until, f"processes {left} outlive their runs"
        time.sleep(0.1)


def working_in(folder):
    """Yield the ids of processes whose working folder is this one."""
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (entry / "cwd").readlink() == folder:
                yield int(entry.name)


def require_answers(table, model):
    """Require the source's answers in each file."""
    for number in range(FILES):
        found = pq.read_table(f"out/{number}.parquet")["predict"].to_pylist()
        assert found == model.predict(table.iloc[number:]).tolist()


def records():
    """Return the inode of each file of answers that is recorded as done."""
    names = [path.name.removesuffix(".json") for path in Path("out/_hbconv/done").glob("*.json")]
    manifest = Path("out/_hbconv/manifest.json")
    if manifest.exists():
        shards = json.loads(manifest.read_text(encoding="utf-8"))["shards"]
        names += [shard["output"] for shard in shards]
    return {name: Path("out", name).stat().st_ino for name in names}


def main():
    """Run some kills in a temporary folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--devices", help="devices of each run, such as cpu,cpu")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        jobs = kill_runs(options.count, options.seed, options.devices)
        os.chdir("/")
    print(f"{options.count} runs were killed over {jobs} jobs of {FILES} files; nothing was lost.")


if __name__ == "__main__":
    main()
