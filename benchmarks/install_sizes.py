"""Measure how much room hbconv takes where it is installed, with each set of extras.

Each set is installed to a folder of its own by pip, with the versions of ``constraints.txt``.

    python benchmarks/install_sizes.py              # every set
    python benchmarks/install_sizes.py light tvm
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
EXTRAS = (
    *("tvm", "onnx", "serve", "score", "tvm,serve", "tvm,sklearn", "sklearn", "lightgbm"),
    *("xgboost", "catboost", "torch", "torch,tvm", "all"),
)
SETS = {"light": "", **{extras: f"[{extras}]" for extras in EXTRAS}}


def main() -> None:
    """Print a line of Markdown for each set."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="*", help=f"of {', '.join(SETS)}; all by default")
    print("| installed | packages | MB |\n| --- | --- | --- |")
    for name in parser.parse_args().sets or SETS:
        packages, size = installed(SETS[name])
        print(f"| `hbconv{SETS[name]}` | {packages} | {size / 1e6:,.0f} |", flush=True)


def installed(extras: str) -> tuple[int, int]:
    """Install into an empty folder; return the number of packages, and the bytes of all files."""
    with TemporaryDirectory() as folder:
        pip = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-compile",
            "--target",
            folder,
        ]
        constraints = ["-c", str(ROOT / "constraints.txt")]
        subprocess.run([*pip, *constraints, f"{ROOT}{extras}"], check=True)
        files = [path for path in Path(folder).rglob("*") if path.is_file()]
        return len(list(Path(folder).glob("*.dist-info"))), sum(f.stat().st_size for f in files)


if __name__ == "__main__":
    main()
