"""Leave out each rule of the optimizer, and print what the pipelines would cost by prediction.

    python benchmarks/rules.py [--pipelines 01 PCA ...] [--backends tvm torch onnx]
        [--folder DIR] [--json FILE]

Nothing is timed, so the table is the same on a busy machine and takes a minute or two: it says what
the cost model believes of each rule. ``ablation.py`` times the same pipelines.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from bench_page import line, lines_of
from results import save
from variants import Variant, every_rule, fitted_before, predicted_seconds

from hbconv_datasets.pipelines import PIPELINES, STRESS, PipelineCase

BACKENDS = ("tvm", "torch", "onnx")
NONE = "no rule"
SAME = 1e-3
"""Share by which predictions differ that count as equal."""

Ratios = dict[str, dict[str, list[tuple[float, str]]]]
"""Costs without a rule over those with all, and the pipeline: by rule and backend."""


def main() -> None:
    """Predict each pipeline on each backend, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pipelines", nargs="+", default=[""], help="starts of their names")
    parser.add_argument("--backends", nargs="+", choices=BACKENDS, default=list(BACKENDS))
    parser.add_argument("--fit-rows", type=int, default=4_000)
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--folder", type=Path, help="keep fitted models here")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    cases = [c for c in (*PIPELINES, *STRESS) if c.name.startswith(tuple(chosen.pipelines))]
    figures = [figure for case in cases for figure in predicted(case, chosen)]
    save(figures, chosen)
    print(*table(ratios(figures), chosen.backends), sep="\n")


def predicted(case: PipelineCase, chosen: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield what a pipeline costs with all rules, without each, and without any."""
    fitted = fitted_before(case, chosen.folder, chosen.fit_rows, chosen.trees)
    x = fitted.rows(2)
    for backend in chosen.backends:
        variant = Variant.of(fitted, backend)
        left_out = {name: (name,) for name in every_rule()} | {NONE: every_rule()}
        whole = predicted_seconds(variant, x, ())
        facts = {"pipeline": case.name, "backend": backend, "seconds": whole}
        for name, rules in left_out.items():
            yield facts | {"without": name, "ratio": predicted_seconds(variant, x, rules) / whole}


def ratios(figures: Sequence[Mapping[str, Any]]) -> Ratios:
    """Put what a rule changes together."""
    found: Ratios = {}
    for figure in figures:
        by_backend = found.setdefault(figure["without"], {})
        if abs(figure["ratio"] - 1) > SAME:
            changed = (figure["ratio"], figure["pipeline"])
            by_backend.setdefault(figure["backend"], []).append(changed)
    return found


def table(found: Ratios, backends: Sequence[str]) -> Iterator[str]:
    """Yield a line for each rule: pipelines it changes, and the mean and most by each backend."""
    yield from lines_of("without", *(f"{backend}: changed, mean, most" for backend in backends))
    for rule in sorted(found, key=lambda rule: -sum(map(len, found[rule].values()))):
        if found[rule]:
            yield line(rule, *(_cell(found[rule].get(backend, [])) for backend in backends))


def _cell(changed: Sequence[tuple[float, str]]) -> str:
    if not changed:
        return "-"
    most, pipeline = max(changed)
    mean = geometric_mean(ratio for ratio, _ in changed)
    return f"{len(changed)}, {mean:.2f}x, {most:.2f}x ({pipeline.split()[0]})"


if __name__ == "__main__":
    main()
