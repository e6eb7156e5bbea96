"""Run one part, and write each result as a line the moment it is known.

python -m benchmarks.gpu.child PART FILE --models FOLDER [--rehearse] [--known NAMES]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from benchmarks.gpu.place import Cuda, Place, Rehearsal
from benchmarks.gpu.record import Row

__all__ = ["results"]


def results(part: str, place: Place, models: Path) -> Iterator[Row]:
    """Yield what a part finds."""
    rows: Iterator[Row] = import_module(f"benchmarks.gpu.parts.{part}").run(place, models)
    return rows


def main() -> None:
    """Run the part."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("part")
    options.add_argument("file", type=Path)
    options.add_argument("--models", type=Path, required=True)
    options.add_argument("--rehearse", action="store_true")
    options.add_argument("--known", nargs="*", default=[], help="what is not asked again")
    chosen = options.parse_args()
    known = frozenset(chosen.known)
    place = Rehearsal(known) if chosen.rehearse else Cuda(known)
    with chosen.file.open("a", encoding="utf-8") as lines:
        for row in results(chosen.part, place, chosen.models):
            print(json.dumps(row, default=str), file=lines, flush=True)


if __name__ == "__main__":
    main()
