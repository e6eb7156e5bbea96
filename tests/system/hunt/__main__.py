"""Hunt for long: ``python -m hunt --count 1000 --backend torch onnx``; a seed that found something
finds it again alone: ``--first 59 --count 1``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TextIO

from fitted import available_backends
from hunt.draw_pipelines import DRAWINGS
from hunt.findings import Finding
from hunt.runner import hunt, preload


def main() -> int:
    """Report what each backend did, and fail where anything wrong was found."""
    options = argparse.ArgumentParser(prog="hunt", description=__doc__)
    options.add_argument("--count", type=int, default=100, help="seeds on each backend")
    options.add_argument("--first", type=int, default=0, metavar="SEED", help="the first seed")
    options.add_argument("--backend", nargs="+", choices=available_backends(), help="default: all")
    options.add_argument("--draw", choices=[*DRAWINGS], default="pipelines", help="what is drawn")
    options.add_argument("--report", type=Path, help="file to add the findings to, as JSON lines")
    options.add_argument(
        "--limit", type=float, metavar="MINUTES", help="draw no seed after so long, over all"
    )
    chosen = options.parse_args()
    if os.environ.get("OMP_NUM_THREADS") != "1":
        return _apart()
    return _here(chosen)


def _apart() -> int:
    """Hunt in a process whose libraries start no threads: its forks would wait for them forever."""
    return subprocess.run(
        [sys.executable, "-m", "hunt", *sys.argv[1:]],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        check=False,
    ).returncode


def _here(chosen: argparse.Namespace) -> int:
    """Hunt in children of this process."""
    backends = chosen.backend or available_backends()
    limit = float("inf") if chosen.limit is None else 60 * chosen.limit
    deadline = time.monotonic() + limit
    seeds = range(chosen.first, chosen.first + chosen.count)
    report = chosen.report or Path(os.devnull)
    with (
        tempfile.TemporaryDirectory(prefix="hbconv-cache-") as cache,
        report.open("a", buffering=1, encoding="utf-8") as lines,
    ):
        os.environ.setdefault("HBCONV_CACHE", cache)
        for backend in backends:
            preload(backend)
        note = partial(_write, lines)
        hunted = hunt(seeds, backends, deadline=deadline, note=note, drawing=chosen.draw)
    print(hunted, flush=True)
    return int(hunted.fails)


def _write(lines: TextIO, finding: Finding) -> None:
    lines.write(json.dumps(asdict(finding)) + "\n")


raise SystemExit(main())
