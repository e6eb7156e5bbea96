"""Attack files field by field: ``python -m attack_files --count 30000``.

``--subject hbc_fields --case 17`` tries one case again, in this process.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter
from time import monotonic

from fuzz.runner import Report, attempt_again, fuzz

from attack_files.hbc_fields import HBC_FIELDS
from attack_files.text_keys import TEXT_KEYS

SUBJECTS = {subject.name: subject for subject in (HBC_FIELDS, *TEXT_KEYS)}
SHARES = {name: 4 if name == HBC_FIELDS.name else 2 for name in SUBJECTS} | {"treelite_keys": 0.5}
"""How many of the files are of each subject."""
SECONDS = 10
"""Processor time of one case."""
BYTES = 1 << 30
"""Memory that a case may take beyond what its process begins with."""
KINDS = ("crashed", "unnamed", "hung", "above memory", "wrong")


def main() -> int:
    """Report how the files ended, and fail where anything was found."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--count", type=int, default=3000, help="files, over all subjects")
    options.add_argument("--first", type=int, default=0, help="number of the first case")
    options.add_argument("--subject", choices=SUBJECTS, action="append", help="default: all")
    options.add_argument("--case", type=int, help="try this case alone, with its traceback")
    chosen = options.parse_args()
    if os.environ.get("OMP_NUM_THREADS") != "1":  # forks would wait for threads forever
        os.environ["OMP_NUM_THREADS"] = "1"
        return subprocess.run(
            [sys.executable, "-m", "attack_files", *sys.argv[1:]], check=False
        ).returncode
    names = chosen.subject or list(SUBJECTS)
    if chosen.case is not None:
        attempt_again(SUBJECTS[names[0]], chosen.case)
        return 0
    began, counts, tried = monotonic(), Counter[str](), 0
    whole = sum(SHARES[name] for name in names)
    with tempfile.TemporaryDirectory(prefix="hbconv-cache-") as cache:
        os.environ["HBCONV_CACHE"] = cache
        for name in names:
            count = round(chosen.count * SHARES[name] / whole)
            cases = range(chosen.first, chosen.first + count)
            report = fuzz(SUBJECTS[name], cases, SECONDS, BYTES)
            tried += report.outcomes.total()
            counts += Counter(map(kind_of, report.findings.values()))
            _tell(name, report)
    told = ", ".join(f"{counts[kind]:,} {kind}" for kind in KINDS)
    minutes = (monotonic() - began) / 60
    print(f"attack_files: {tried:,} cases in {minutes:.1f} minutes: {told}", flush=True)
    return min(counts.total(), 1)


def kind_of(finding: str) -> str:
    """Return the kind of a finding."""
    if finding.startswith("killed: out of time"):
        return "hung"
    if finding.startswith("killed:"):
        return "crashed"
    if finding.startswith(("MemoryError", "numpy._core._exceptions._ArrayMemoryError")):
        return "above memory"
    return "wrong" if finding.startswith("AssertionError") else "unnamed"


def _tell(name: str, report: Report) -> None:
    ended = ", ".join(f"{count:,} {outcome}" for outcome, count in report.outcomes.most_common())
    print(f"{name}: {ended}", flush=True)
    for case, what in report.findings.items():
        print(f"case {case}: {kind_of(what)}: {name}: {what}", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
