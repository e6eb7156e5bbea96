"""Time a program under every schedule, and compare the chosen one with the best.

    taskset -c 0 python benchmarks/schedules.py [--models trees-31 ...] [--rows 20000] [--json FILE]

Schedules differ in the rows of a tile and of a block. Those of trees also differ in the kernel
(bit planes or bytes) and in the trees that are evaluated together. All schedules of a model are
timed by turns on its compiled program alone, without the checks of ``predict``. Figures are
medians.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from models import Fit, Subject, lightgbm, xgboost
from results import save
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from timing import interleaved, spread

import hbconv
from hbconv.backends.tvm.binary.artifact import TvmArtifact
from hbconv.backends.tvm.compile import compile_program
from hbconv.backends.tvm.machine.machine import Machine
from hbconv.backends.tvm.machine.schedule import Schedule
from hbconv.backends.tvm.tir.subroutines import make_subroutine
from hbconv.backends.tvm.trees import choose
from hbconv.backends.tvm.trees.bitwise.emit import Bitwise
from hbconv.backends.tvm.trees.bitwise.masks import PLANE_ROWS
from hbconv.backends.tvm.trees.bytewise.emit import Bytewise
from hbconv.target import Target
from hbconv.tensor import TensorProgram
from hbconv_datasets import generated

TILES = (64, 128, 256, 512, 1024, 2048, 4096)
BLOCKS = (64, 128, 256, 512)
FORMS = {"planes": Bitwise, "bytes": Bytewise}
GROUPS = (4, 8, 16, 32)
"""Trees evaluated together."""
FITS: dict[str, tuple[str, Fit]] = {
    "trees-8": ("LightGBM, 500 trees of 8 leaves", lightgbm(500, 8, 3)),
    "trees-31": ("LightGBM, 500 trees of 31 leaves", lightgbm(500, 31)),
    "trees-d8": ("LightGBM, 500 trees of depth 8", lightgbm(500, 200, 8)),
    "trees-few": ("LightGBM, 40 trees of 31 leaves", lightgbm(40, 31)),
    "xgboost-d8": ("XGBoost, 100 trees of depth 8", xgboost(100, 8)),
    "logistic": (
        "scaler and logistic regression",
        lambda X, y: make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y),
    ),
    "mlp": (
        "two hidden layers of 64",
        lambda X, y: MLPClassifier((64, 64), early_stopping=True, n_iter_no_change=2).fit(X, y),
    ),
}


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", choices=FITS, default=list(FITS))
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=0.3, help="time each schedule for so long")
    parser.add_argument("--folder", type=Path, help="keep fitted models here")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    chosen = parser.parse_args()
    save([figure for name in chosen.models for figure in run(name, chosen)], chosen)


def run(name: str, chosen: argparse.Namespace) -> list[dict[str, Any]]:
    """Time one model by tiles and blocks, then with the chosen tile by kernels and groups."""
    about, fit = FITS[name]
    with TemporaryDirectory() as temporary:
        fitted = Subject(name, about, partial(generated.make, "higgs", 10_000), fit).fitted(
            chosen.folder or Path(temporary)
        )
    model = hbconv.convert(fitted.model, backend="tvm")
    machine = Machine.host()
    program = model.programs.prepared((fitted.method,), model.dtypes)
    own = Schedule.construct(program, machine)
    (matrix,) = program.inputs
    rows = fitted.rows(chosen.rows).astype(matrix.type.dtype)
    trees = bool({"tree_scores", "tree_leaves"} & set(program.primitives))
    print(f"\n{name}: {about}; ns a row, {chosen.rows:,} rows; {own.tile} x {own.block} is chosen")
    found = []
    for cuts in (heights(own, trees), *([forms(own)] if trees else [])):
        artifacts = {cut: compiled(program, cut, machine, model.target) for cut in cuts}
        times = interleaved(
            {str(cut): artifact.run for cut, artifact in artifacts.items()},
            {matrix.name: rows},
            chosen.seconds,
        )
        figures = [
            cut.facts
            | {"model": name, "rows": chosen.rows, "chosen": not i}
            | spread(times[str(cut)])
            for i, cut in enumerate(artifacts)
        ]
        print_figures(figures)
        found += figures
    return found


@dataclass(frozen=True)
class Cut:
    """A schedule, and for trees a kernel and how many are evaluated together.

    Without ``form``, both are those that hbconv chooses.
    """

    schedule: Schedule
    form: str = ""
    group: int = 0

    @property
    def facts(self) -> dict[str, Any]:
        """What tells it from others."""
        return {
            "tile": self.schedule.tile,
            "block": self.schedule.block,
            "form": self.form,
            "group": self.group,
        }


def heights(own: Schedule, trees: bool) -> list[Cut]:
    """List the chosen schedule, then other tiles, and for trees other blocks."""
    blocks = BLOCKS if trees else (own.block,)
    cut = (Schedule(tile, min(tile, block), own.lanes) for tile, block in product(TILES, blocks))
    return list(dict.fromkeys(map(Cut, (own, *cut))))


def forms(own: Schedule) -> list[Cut]:
    """List the chosen schedule, then kernels and groups; bytes for several blocks."""
    planes = [Cut(own, "planes", group) for group in GROUPS if own.block == PLANE_ROWS]
    return [
        Cut(own),
        *planes,
        *(
            Cut(Schedule(max(own.tile, block), block, own.lanes), "bytes", group)
            for block, group in product(BLOCKS, GROUPS)
        ),
    ]


def compiled(program: TensorProgram, cut: Cut, machine: Machine, target: Target) -> TvmArtifact:
    """Compile a program under a schedule; avoid caches whose keys do not hold the kernel."""
    if not cut.form:
        return compile_program(program, cut.schedule, machine, target)
    make_subroutine.cache_clear()
    kernel = FORMS[cut.form](cut.group)
    with (
        patch.object(choose, "find_kernel", lambda _: kernel),
        patch.dict(os.environ, {"HBCONV_CACHE": ""}),
    ):
        return compile_program(program, cut.schedule, machine, target)


def print_figures(figures: Sequence[dict[str, Any]]) -> None:
    """Print medians, the best last, and the ratio of the chosen one to the best."""
    order = sorted(figures, key=lambda figure: -figure["median"])
    for f in order:
        form = f"{f['form']}, {f['group']} trees together" if f["form"] else "as chosen"
        ns_a_row = f["median"] / f["rows"] * 1e9
        mark = "  *" if f["chosen"] else ""
        print(f"  {f['tile']:>5} x {f['block']:<4} {form:<28} {ns_a_row:>9,.1f}{mark}")
    print(
        f"  {figures[0]['median'] / order[-1]['median']:.2f} times the best is what is chosen (*)",
        flush=True,
    )


if __name__ == "__main__":
    main()
