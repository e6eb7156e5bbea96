"""The command line of the check."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.gpu import environment, page
from benchmarks.gpu.parts import PARTS, PREDICTED, Part
from benchmarks.gpu.processes import ROOT, find_paths
from benchmarks.gpu.record import Record, State
from benchmarks.gpu.runner import run_child, run_parts
from benchmarks.gpu.shown import last_lines, lines_of

BUDGET = 480.0
TERMINATED = 143
MODELS = ROOT / "build" / "gpu" / "models"
CACHE = ROOT / "build" / "gpu" / "cache"


def main() -> int:
    """Do what is asked for; 1, where a part did not end well."""
    chosen = options().parse_args()
    if chosen.environment:
        print(environment.describe())
        return 0
    if chosen.prepare:
        prepare(chosen.prepare)
        return 0
    return check(chosen)


def check(chosen: argparse.Namespace) -> int:
    """Run parts, and keep and show what they find."""
    os.environ.setdefault("HBCONV_CACHE", str(CACHE))
    record = Record.read(chosen.json)
    parts = chosen.parts or PARTS
    if PREDICTED in parts:
        record.set(PREDICTED.name, state=State.LEFT, rows=[])  # kernels change, and it is cheap
    if set(parts) & set(PARTS):
        record.facts |= facts()
        if not chosen.rehearse and record.facts["device"].startswith("missing"):
            print(environment.describe())
            return 1

    def tell(name: str, line: str) -> None:
        print(*lines_of(name, record), line, sep="\n", flush=True)

    words = ["--models", str(chosen.models), *["--rehearse"] * chosen.rehearse]
    run_parts(parts, record, chosen.budget, run_child(words), tell)
    print(last_lines(parts, record), flush=True)
    if chosen.write:
        page.write(chosen.write, record)
    return int(any(record.state(part.name) != State.DONE for part in parts))


def options() -> argparse.ArgumentParser:
    """Return the arguments."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--json", type=Path, help="results, of an earlier call too")
    parser.add_argument("--parts", type=find_parts, help="parts to run, separated by commas")
    parser.add_argument("--budget", type=float, default=BUDGET, help="seconds of all parts")
    parser.add_argument("--models", type=Path, default=MODELS, help="folder of prepared models")
    parser.add_argument("--write", type=Path, help="page whose tables to replace")
    parser.add_argument("--environment", action="store_true", help="say what is there")
    parser.add_argument("--prepare", type=Path, metavar="FOLDER", help="fit the models, and end")
    parser.add_argument("--rehearse", action="store_true", help="without a device: tiny sizes")
    return parser


def find_parts(names: str) -> list[Part]:
    """Return parts by their names.

    >>> [part.name for part in find_parts("calls,memory")]
    ['calls', 'memory']
    """
    known = {part.name: part for part in (*PARTS, PREDICTED)}
    asked = names.split(",")
    unknown = [name for name in asked if name not in known]
    if unknown:
        raise argparse.ArgumentTypeError(
            f"no part {', '.join(unknown)}; there are {', '.join(known)}"
        )
    return [known[name] for name in asked]


def facts() -> dict[str, object]:
    """Return where and when the run is, and of which commit."""
    found = environment.facts()
    date = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    return {"device": found["device"], "environment": found, "commit": find_commit(), "date": date}


def find_commit() -> str:
    """Return the commit of the source tree; nothing, where there is no git or no history."""
    git = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    with suppress(OSError):
        return subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
    return ""


def prepare(folder: Path) -> None:
    """Fit all models that are not kept yet."""
    from benchmarks.gpu.fitted import MODELS as NAMES
    from benchmarks.gpu.fitted import find
    from benchmarks.gpu.place import Cuda

    for name in NAMES:
        path = find(name, folder, Cuda()).path
        print(f"{path.name}: {path.stat().st_size:,} bytes", flush=True)


if __name__ == "__main__":
    sys.path[:0] = find_paths()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))  # so that parts are killed too
    sys.exit(main())
