"""Fuzz for long: ``python -m fuzz --count 100000 --format hbc``; ``--case 17`` tries one case again, in this process."""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

from fuzz.estimators import ESTIMATORS
from fuzz.files import FILES
from fuzz.hbc import HBC
from fuzz.runner import damaged, fuzz

SUBJECTS = {subject.name: subject for subject in (HBC, *FILES, ESTIMATORS)}


def main() -> int:
    """Report how the files of each format ended, and fail where anything was found."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--count", type=int, default=1000, help="files, over all formats")
    options.add_argument("--first", type=int, default=0, help="number of the first case")
    options.add_argument("--format", choices=SUBJECTS, action="append", help="default: all")
    options.add_argument("--case", type=int, help="try this case alone, with its traceback")
    chosen = options.parse_args()
    names = chosen.format or list(SUBJECTS)
    if chosen.case is not None:
        return _again(names[0], chosen.case)
    found = 0
    with tempfile.TemporaryDirectory(prefix="hbconv-cache-") as cache:
        os.environ["HBCONV_CACHE"] = cache
        for name in names:
            report = fuzz(SUBJECTS[name], range(chosen.first, chosen.first + chosen.count // len(names)))
            print(f"{name}: {report}", flush=True)
            found += len(report.findings)
    return min(found, 1)


def _again(name: str, case: int) -> int:
    subject = SUBJECTS[name]
    with tempfile.TemporaryDirectory() as folder:
        corpus, path = Path(folder, "corpus"), Path(folder, "file")
        corpus.mkdir()
        subject.corpus(corpus)
        data, rng = damaged(subject, [file.read_bytes() for file in sorted(corpus.iterdir())], case)
        path.write_bytes(data)
        subject.attempt(path, rng)
    return 0


raise SystemExit(main())
