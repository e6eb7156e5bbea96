"""Fuzz for long: ``python -m fuzz --count 100000 --format hbc``; ``--case 17`` tries one case
again, in this process.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile

from fuzz.runner import attempt_again, fuzz
from fuzz.subjects import SUBJECTS


def main() -> int:
    """Report how the files of each format ended, and fail where anything was found."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--count", type=int, default=1000, help="files, over all formats")
    options.add_argument("--first", type=int, default=0, help="number of the first case")
    options.add_argument("--format", choices=SUBJECTS, action="append", help="default: all")
    options.add_argument("--case", type=int, help="try this case alone, with its traceback")
    chosen = options.parse_args()
    names = chosen.format or list(SUBJECTS)
    if len(names) > 1 or os.environ.get("OMP_NUM_THREADS") != "1":
        return max(_apart(name, chosen, chosen.count // len(names)) for name in names)
    if chosen.case is not None:
        attempt_again(SUBJECTS[names[0]], chosen.case)
        return 0
    with tempfile.TemporaryDirectory(prefix="hbconv-cache-") as cache:
        os.environ["HBCONV_CACHE"] = cache
        report = fuzz(SUBJECTS[names[0]], range(chosen.first, chosen.first + chosen.count))
    print(f"{names[0]}: {report}", flush=True)
    return min(len(report.findings), 1)


def _apart(name: str, chosen: argparse.Namespace, count: int) -> int:
    """Fuzz one format in a process whose libraries start no threads: its forks would wait for
    them forever.
    """
    case = [] if chosen.case is None else ["--case", str(chosen.case)]
    options = ["--format", name, "--count", str(count), "--first", str(chosen.first), *case]
    return subprocess.run(
        [sys.executable, "-m", "fuzz", *options],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        check=False,
    ).returncode


raise SystemExit(main())
