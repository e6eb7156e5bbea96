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
    backends = chosen.backend or available_backends()
    if len(backends) > 1 or os.environ.get("OMP_NUM_THREADS") != "1":
        return max(_apart(backend, chosen, len(backends)) for backend in backends)
    return _here(backends[0], chosen)


def _apart(backend: str, chosen: argparse.Namespace, count: int) -> int:
    """Hunt on one backend in a process whose libraries start no threads: its forks would wait
    for them forever.
    """
    options = ["--backend", backend, "--count", str(chosen.count), "--first", str(chosen.first)]
    options += ["--draw", chosen.draw]
    if chosen.report is not None:
        options += ["--report", str(chosen.report)]
    if chosen.limit is not None:
        options += ["--limit", str(chosen.limit / count)]
    return subprocess.run(
        [sys.executable, "-m", "hunt", *options],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        check=False,
    ).returncode


def _here(backend: str, chosen: argparse.Namespace) -> int:
    """Hunt in children of this process."""
    limit = float("inf") if chosen.limit is None else 60 * chosen.limit
    deadline = time.monotonic() + limit
    seeds = range(chosen.first, chosen.first + chosen.count)
    report = chosen.report or Path(os.devnull)
    with (
        tempfile.TemporaryDirectory(prefix="hbconv-cache-") as cache,
        report.open("a", buffering=1, encoding="utf-8") as lines,
    ):
        os.environ.setdefault("HBCONV_CACHE", cache)
        preload(backend)
        note = partial(_write, lines)
        hunted = hunt(seeds, backend, deadline=deadline, note=note, drawing=chosen.draw)
    print(hunted, flush=True)
    return int(any(finding.fails for finding in hunted.findings))


def _write(lines: TextIO, finding: Finding) -> None:
    lines.write(json.dumps(asdict(finding)) + "\n")


raise SystemExit(main())
