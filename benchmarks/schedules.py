"""Time a program cut in every way: how far what ``Schedule.construct`` chooses is from the best height of tiles and blocks.

    taskset -c 0 python benchmarks/schedules.py [--models trees-31 ...] [--rows 20000] [--json FILE]

All schedules of a model are timed by turns on its compiled program alone, so without the checks of ``predict``. Figures are medians.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from comparing import save
from models import Fit, Fitted, Subject, lightgbm
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from timing import interleaved, spread

import hbconv
from hbconv.backends.tvm.compiler import compile_program
from hbconv.backends.tvm.machine import Machine
from hbconv.backends.tvm.schedule import Schedule
from hbconv.tensor import TensorProgram
from hbconv_datasets import generated

TILES = (64, 128, 256, 512, 1024, 2048, 4096)
BLOCKS = (64, 128, 256, 512)
FITS: dict[str, tuple[str, Fit]] = {
    "trees-8": ("LightGBM, 500 trees of 8 leaves", lightgbm(500, 8, 3)),
    "trees-31": ("LightGBM, 500 trees of 31 leaves", lightgbm(500, 31)),
    "trees-d8": ("LightGBM, 100 trees of depth 8", lightgbm(100, 200, 8)),
    "logistic": ("scaler and logistic regression", lambda X, y: make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)),
    "mlp": ("two hidden layers of 64", lambda X, y: MLPClassifier((64, 64), early_stopping=True, n_iter_no_change=2).fit(X, y)),
}


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=FITS, default=list(FITS))
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=0.3, help="time each schedule for so long")
    parser.add_argument("--folder", type=Path, help="keep fitted models here")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    chosen = parser.parse_args()
    save([figure for name in chosen.models for figure in run(name, chosen)], chosen)


def run(name: str, chosen: argparse.Namespace) -> list[dict[str, Any]]:
    """Time every schedule of one model."""
    about, fit = FITS[name]
    with TemporaryDirectory() as temporary:
        fitted = Subject(name, about, partial(generated.make, "higgs", 10_000), fit).fitted(chosen.folder or Path(temporary))
    times = time_schedules(fitted, chosen.rows, chosen.seconds)
    facts = {"model": name, "rows": chosen.rows}
    figures = [facts | {"tile": s.tile, "block": s.block, "chosen": not i} | spread(t) for i, (s, t) in enumerate(times.items())]
    print(f"\n{name}: {about}; ns a row by tile and block, {chosen.rows:,} rows")
    print_table(figures)
    return figures


def time_schedules(fitted: Fitted, rows: int, seconds: float) -> dict[Schedule, list[float]]:
    """Time calls of the compiled program by turns; the schedule that hbconv chooses comes first."""
    model, machine = hbconv.convert(fitted.model, backend="tvm"), Machine.host()
    program = model.programs.prepared((fitted.method,), model.dtypes)
    artifacts = {s: compile_program(program, s, machine, model.target) for s in schedules(program, machine)}
    inputs = {program.inputs[0].name: fitted.rows(rows)}
    times = interleaved({str(s): artifact.run for s, artifact in artifacts.items()}, inputs, seconds)
    return {s: times[str(s)] for s in artifacts}


def schedules(program: TensorProgram, machine: Machine) -> list[Schedule]:
    """List what is chosen, then all else that differs: programs without trees are not cut into blocks."""
    chosen = Schedule.construct(program, machine)
    blocks = BLOCKS if {"tree_scores", "tree_leaves"} & set(program.primitives) else (chosen.block,)
    cut = (Schedule(tile, min(tile, block), chosen.lanes) for tile, block in product(TILES, blocks))
    return list(dict.fromkeys((chosen, *cut)))


def print_table(figures: Sequence[dict[str, Any]]) -> None:
    """Print medians with tiles as lines and blocks as columns, then how many times the best what is chosen takes."""
    nanoseconds = {(f["tile"], f["block"]): f["median"] / f["rows"] * 1e9 for f in figures}
    tiles, blocks = (sorted({pair[axis] for pair in nanoseconds}) for axis in (0, 1))
    print("  tile" + "".join(f"{block:>10}" for block in blocks))
    for tile in tiles:
        cells = (nanoseconds.get((tile, block)) for block in blocks)
        print(f"{tile:>6}" + "".join("-".rjust(10) if cell is None else f"{cell:>10,.1f}" for cell in cells))
    chosen, best = next((f["tile"], f["block"]) for f in figures if f["chosen"]), min(nanoseconds, key=nanoseconds.__getitem__)
    ratio = nanoseconds[chosen] / nanoseconds[best]
    print(f"  chosen {chosen[0]} x {chosen[1]}: {ratio:.2f} times the best, {best[0]} x {best[1]}", flush=True)


if __name__ == "__main__":
    main()
