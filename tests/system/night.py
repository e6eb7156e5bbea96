"""Run all long batteries one after another, each within its time limit: ``make night``.

    python tests/system/night.py [--only NAME ...] [--scale 1] [--seed 20261127] [--output FOLDER]

A battery that fails, or is killed after its limit, does not end the night. Each one writes NAME.log
into ``build/night``; night.json and night.md there say after each what became of all so far.
``--scale`` multiplies limits and counts: 0.12 makes a night of two hours.
"""

from __future__ import annotations

import argparse
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path

from night_runner import ROOT, Battery, Night, run_night

MATRIX = "tests/conformance/matrix"
DRAWN = ("tests/conformance/trees", "tests/conformance/breadth", "tests/conformance/optimizer")
ALONE = (
    f"{MATRIX}/test_matrix.py",
    f"{MATRIX}/test_exports.py",
    f"{MATRIX}/test_emulated_device.py",
    *DRAWN,
    "tests/conformance/foreign",
    "tests/golden",
)
"""What batteries of their own run."""
VECTORS = (16, 32, 64)
GUARDS = ("pages-behind", "pages-before")
ROOMS = "PYTHONPATH=tests:tests/system:tests/support:tests/conformance:strategies:datasets"
MEMCHECK = "HBCONV_MACHINE=x86-64-v3/64 HBCONV_GUARD= PYTHONPATH=tests/support"
VALGRIND = (
    "valgrind -q --error-exitcode=1 --undef-value-errors=no"
    " --suppressions=tests/system/memcheck.supp"
)
ENGINES = "hbconv/engines tests/unit/engines tests/unit/test_mlflow.py tests/docs/test_examples.py"

BATTERIES = (
    Battery(
        "whole",
        90,
        "every test with all its cases, but for the batteries below",
        ("{pytest} -n 2 --dist worksteal --whole " + " ".join(f"--ignore={p}" for p in ALONE),),
    ),
    Battery(
        "matrix",
        75,
        "every estimator and setting, in both dtypes, on every backend",
        (f"{{pytest}} -n 2 --dist worksteal --whole {MATRIX}/test_matrix.py",),
    ),
    Battery(
        "exports",
        75,
        "every case of the matrix, exported and run by its bare runtime",
        (f"{{pytest}} -n 2 --dist worksteal --whole {MATRIX}/test_exports.py",),
    ),
    Battery(
        "emulate",
        15,
        "every case of the matrix on an emulated CUDA device",
        (f"{{pytest}} -n 2 --dist worksteal --whole {MATRIX}/test_emulated_device.py",),
    ),
    Battery(
        "battery",
        150,
        "models of trees drawn at random, every parameter of scikit-learn",
        ("{pytest} -n 2 --dist worksteal --whole --battery {count} " + " ".join(DRAWN),),
        count=200,
    ),
    Battery(
        "memory",
        120,
        "kernels between pages that may not be touched",
        (
            *(
                f"env HBCONV_GUARD={guard} HBCONV_MACHINE=/{vector} {{python}}"
                f" tests/unit/backends/tvm/edges.py {{numbers}}"
                for vector in VECTORS
                for guard in GUARDS
            ),
            *(
                f"env HBCONV_GUARD={guard} {{pytest}} -n 2 --whole tests/unit/backends"
                for guard in GUARDS
            ),
            *(
                f"env HBCONV_GUARD=pages-behind HBCONV_MACHINE=/{vector} {{pytest}} -n 2 --whole"
                " tests/conformance/trees tests/properties"
                for vector in VECTORS
            ),
        ),
        count=70,
    ),
    Battery(
        "processes",
        60,
        "processes that convert, answer and end; none may die",
        ("{python} tests/system/processes.py --count {count} --seed {seed}",),
        count=500,
        cases=r"^(\d+) processes, ",
        findings=r"^.+ bytes: ended with -?\d+$",
    ),
    Battery(
        "kills",
        30,
        "runs of hbconv score, killed at random moments; nothing may be lost",
        (
            "{python} tests/system/kills.py --count {count} --seed {seed}",
            "{python} tests/system/kills.py --count {count} --seed {seed} --devices cpu,cpu",
        ),
        count=200,
        cases=r"(\d+) runs were killed",
    ),
    Battery(
        "cluster_kills",
        60,
        "runs of hbconv score on Dask, Ray and Spark, which lose workers, then the command",
        ("{python} tests/system/cluster_kills.py --count {count} --seed {seed}",),
        count=5,
        cases=r"(\d+) rounds of",
        needs=("ray", "pyspark", "java"),
    ),
    Battery(
        "attack_files",
        60,
        "files with a hostile value in a field; none may crash, hang or cost more than its size",
        (f"env {ROOMS} {{python}} -m attack_files --count {{count}} --first {{first}}",),
        count=30_000,
        cases=r"^attack_files: ([\d,]+) cases in ",
        findings=r"^case \d+: .+$",
    ),
    Battery(
        "attack_server",
        20,
        "hostile requests, while models are swapped and workers killed; no worker may stall",
        (
            f"env {ROOMS} {{python}} tests/system/attack_server.py --count {{count}} --first {{first}}",
        ),
        count=2_000,
        cases=r"^attack_server: ([\d,]+) cases in ",
        findings=r"^case \d+: .+$",
    ),
    Battery(
        "attack_score",
        20,
        "tables cut off or spliced, and runs of hbconv score killed; no row may be lost",
        (
            f"env {ROOMS} {{python}} tests/system/attack_score.py --count {{count}} --first {{first}}",
        ),
        count=2_000,
        cases=r"^attack_score: ([\d,]+) cases in ",
        findings=r"^case \d+: .+$",
    ),
    Battery(
        "soak",
        15,
        "requests while models are swapped and workers killed",
        (f"env {ROOMS} {{python}} tests/system/soak.py --minutes {{count}}",),
        count=10,
        cases=r"'right': (\d+)",
    ),
    Battery(
        "fuzz",
        75,
        "damaged files of every format; none may crash or hang",
        (f"env {ROOMS} {{python}} -m fuzz --count {{count}} --first {{first}}",),
        count=30_000,
        cases=r"^\S+: ([\d,]+) files: ",
        findings=r"^case \d+: .+$",
    ),
    Battery(
        "hunt",
        120,
        "pipelines and chains of columns drawn at random, on every backend",
        tuple(
            f"env {ROOMS} {{python}} -m hunt --count {{count}} --first {{first}}"
            f" --draw {drawing} --limit {{minutes}} --report {{report}}"
            for drawing in ("pipelines", "chains")
        ),
        count=500,
        cases=r"^reference: ([\d,]+) seeds in ",  # each is hunted on every backend
        findings=r"^  \d+ x (.+)$",
    ),
    Battery(
        "foreign",
        150,
        "scikit-learn's own tests, with every answer asked of hbconv too",
        ("{pytest} -n 2 --dist worksteal --whole --foreign {share} tests/conformance/foreign",),
    ),
    Battery(
        "engines",
        20,
        "scoring on Ray, Spark and other engines, and the examples of the pages",
        (f"{{pytest}} --whole {ENGINES}",),
        needs=("ray", "pyspark", "java"),
    ),
    Battery(
        "memcheck",
        5,
        "calls of a few rows under valgrind",
        (
            f"env {MEMCHECK} {{python}} tests/system/memcheck.py",
            f"env {MEMCHECK} PYTHONMALLOC=malloc {VALGRIND} {{python}} tests/system/memcheck.py",
        ),
        needs=("valgrind",),
    ),
    Battery(
        "golden",
        10,
        "printed stages, each of which must equal a text file",
        ("{pytest} -n 2 --whole tests/golden",),
    ),
)


def main() -> int:
    """Run the batteries that are asked for, and return 1 where one failed."""
    names = [battery.name for battery in BATTERIES]
    today = int(f"{datetime.now(UTC):%Y%m%d}")
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="NAME")
    parser.add_argument("--scale", type=float, default=1.0, help="of limits and counts")
    parser.add_argument("--seed", type=int, default=today, help="default: today's date")
    parser.add_argument("--output", type=Path, default=ROOT / "build/night")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    night = Night(options.seed, options.scale, options.output.resolve())
    return run_night([one for one in BATTERIES if one.name in options.only], night)


if __name__ == "__main__":
    sys.exit(main())
