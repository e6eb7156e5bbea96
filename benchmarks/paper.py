"""Measure what the Hummingbird paper (OSDI'20) measured, on drawn data of the same shapes.

    taskset -c 0 python benchmarks/paper.py [--parts figure9 figure10 ...] [--full] [--json FILE]
        [--plot FILE.svg]

Tables 7, 8 and 10 are of trees, 11 and 12 of operators. Figure 8 is of strategies, Figures 9 and
10 are of the optimizer. Each figure stands beside the published ratio, which is of other machines
and versions: compare ratios, not times. By default models and tables are smaller than the paper's.
``--full`` takes its sizes. What needs a GPU, or a network, is named and left out.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from paper_models import OPERATORS
from paper_plots import draw
from paper_trees import Figure, beside, figure, strategies, trees
from plots import metadata
from published import FIGURES, NOT_RUN, TABLE_11, TABLE_12
from sklearn.base import clone
from timing import least_processor_seconds, machine, versions
from variants import Variant, every_rule, time_variants

import hbconv
from hbconv_datasets import generated
from hbconv_datasets.pipelines import PipelineCase
from hbconv_datasets.pipelines.stress import PENALTIES, PERCENTILES, penalized, selected

ON = "rules on"
OFF = "rules off"
METHODS = ("predict_proba", "predict", "transform")
NOMAO_FIT_ROWS = 8_000


def operators(rows: int, seconds: float) -> Iterator[Figure]:
    """Measure single operators, for many rows and for one."""
    data = generated.numbers(20, classes=3, rows=rows + 150)
    for operator in OPERATORS:
        name = type(operator).__name__
        model = clone(operator).fit(data.X[:150], data.y[:150])
        method = next(m for m in METHODS if hasattr(model, m))
        calls = {"source": getattr(model, method)}
        for backend in ("torchscript", "tvm"):
            calls[backend] = getattr(hbconv.convert(model, backend=backend), method)
        many, one = data.X[150:], data.X[150:151]
        part = f"table 11, {rows:,} rows"
        yield from beside(part, name, calls, many, TABLE_11.get(name), seconds)
        yield from beside("table 12, one row", name, calls, one, TABLE_12.get(name), seconds)


def optimizer(
    part: str, cases: Sequence[PipelineCase], rows: int, seconds: float
) -> Iterator[Figure]:
    """Measure pipelines with all rules off over all rules on, and beside scikit-learn."""
    for case in cases:
        fitted = case.fitted(NOMAO_FIT_ROWS)
        X = fitted.rows(rows)
        source = partial(fitted.model.predict_proba, X)
        theirs = least_processor_seconds({"source": source}, seconds)["source"]
        for backend in ("tvm", "torch", "onnx"):
            variants = {
                ON: Variant.of(fitted, backend),
                OFF: Variant.of(fitted, backend, every_rule()),
            }
            times = time_variants(variants, X, seconds)
            for kind in ("predict", "kernel"):
                taken = times[ON][kind]
                gain = times[OFF][kind] / taken
                more = {"gain": gain, "times_source": theirs / taken}
                yield figure(f"{part}, {kind}", case.name, backend, taken, **more)


def parts(chosen: argparse.Namespace) -> dict[str, Callable[[], Iterator[Figure]]]:
    """Return what can be measured, by name."""
    count = 500 if chosen.full else 50
    fit_rows = 100_000 if chosen.full else 3_000
    rows = 1_000_000 if chosen.full else 50_000
    table = 34_465 if chosen.full else 20_000
    second = chosen.seconds
    return {
        "trees": lambda: trees(count, fit_rows, second),
        "operators": lambda: operators(rows, second),
        "figure8": lambda: strategies(100 if chosen.full else 30, second),
        "figure9": lambda: optimizer("figure 9", [*map(selected, PERCENTILES)], table, second),
        "figure10": lambda: optimizer("figure 10", [*map(penalized, PENALTIES)], table, second),
    }


def save(figures: Sequence[Figure], chosen: argparse.Namespace) -> None:
    """Write the figures and draw them, where asked."""
    if chosen.json:
        facts = {"machine": machine(), "versions": versions(), "options": vars(chosen)}
        text = json.dumps({**facts, "figures": figures}, indent=1, default=str)
        chosen.json.write_text(text + "\n", encoding="utf-8")
    if chosen.plot:
        draw(figures).savefig(chosen.plot, dpi=150, metadata=metadata(chosen.plot))


def main() -> None:
    """Run the benchmark."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = ("trees", "operators", "figure8", "figure9", "figure10")
    options.add_argument("--parts", nargs="+", choices=names, default=names, metavar="NAME")
    options.add_argument("--full", action="store_true", help="the sizes of the paper: hours")
    options.add_argument("--seconds", type=float, default=0.3, help="time spent on each figure")
    options.add_argument("--json", type=Path)
    options.add_argument("--plot", type=Path)
    chosen = options.parse_args()
    warnings.simplefilter("ignore")  # Models need not converge.
    figures = [found for name in chosen.parts for found in parts(chosen)[name]()]
    for about in ({f"published, {k}": v for k, v in FIGURES.items()}, NOT_RUN):
        print("\n".join(f"{name}: {text}" for name, text in about.items()))
    save(figures, chosen)


if __name__ == "__main__":
    main()
