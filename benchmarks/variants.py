"""One fitted pipeline compiled with all rules, without some, and without any.

``ablation.py`` and ``paper.py`` share this.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from timing import least_processor_seconds

import hbconv
from hbconv.model import Model
from hbconv.pipeline import Planned
from hbconv.runtime.inputs.read import read_table
from hbconv_datasets.pipelines import Fitted, PipelineCase

__all__ = [
    "Variant",
    "effective_rules",
    "every_rule",
    "fitted_before",
    "predicted_seconds",
    "time_variants",
]


@dataclass(frozen=True)
class Variant:
    """A pipeline compiled without the rules of these names."""

    model: Model
    method: str

    @classmethod
    def of(cls, fitted: Fitted, backend: str, without: Sequence[str] = ()) -> Variant:
        """Convert the pipeline; an hbconv that knows no ``without`` can apply all rules."""
        options = {"without": tuple(without)} if without else {}
        return cls(hbconv.convert(fitted.model, backend=backend, **options), fitted.method)

    def kernel(self, X: Any) -> Callable[[], Any]:
        """Return a call of the compiled program alone, on inputs that the host has made.

        They are cut into the chunks of a user's call, which stay within its memory.
        """
        table = read_table(X, self.model.reads)
        program = self.model.programs.program((self.method,), table.dtypes, table.padding)
        feeds = (
            getattr(program, "host", None) or program.lowered
        ).feeds  # as it was called earlier
        size = program.chunk
        slices = [slice(start, start + size) for start in range(0, table.rows, size)]
        parts = [table.part(rows).inputs(feeds) for rows in slices]

        def call() -> None:
            for inputs in parts:
                program.artifact.run(inputs)

        return call

    def predict(self, X: Any) -> Callable[[], Any]:
        """Return the user's call."""
        return lambda: getattr(self.model, self.method)(X)


def every_rule() -> tuple[str, ...]:
    """Return the names of all rules."""
    from hbconv.optimize import rule_names

    return rule_names()


def effective_rules(variant: Variant, X: Any) -> tuple[str, ...]:
    """Return the rules whose absence changes the optimized graph of the method asked."""
    from hbconv.runtime.report.derivations import find_effective_rules

    model = variant.model
    planned = model.programs.planned(read_table(X, model.reads).dtypes)
    return find_effective_rules(planned, variant.method)


def predicted_seconds(variant: Variant, X: Any, without: Sequence[str]) -> float:
    """Return what all methods are predicted to cost together, without the rules of these names."""
    planned = variant.model.programs.planned(read_table(X, variant.model.reads).dtypes)
    target = planned.target.replace(without=tuple(without))
    return Planned(planned.parsed, planned.dtypes, target, planned.sparse).optimization.seconds


def time_variants(
    variants: Mapping[str, Variant], X: Any, seconds: float
) -> dict[str, dict[str, float]]:
    """Time the kernel and the user's call of each variant by turns: least seconds by variant."""
    kernels = {name: variant.kernel(X) for name, variant in variants.items()}
    predicts = {name: variant.predict(X) for name, variant in variants.items()}
    kernel = least_processor_seconds(kernels, seconds)
    predict = least_processor_seconds(predicts, seconds)
    return {name: {"kernel": kernel[name], "predict": predict[name]} for name in variants}


def fitted_before(case: PipelineCase, folder: Path | None, rows: int, trees: int) -> Fitted:
    """Fit a pipeline, or read what was fitted before, so that two commits time one model."""
    import joblib

    if folder is None:
        return case.fitted(rows, trees)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{case.name.replace('/', ' ')}, {rows} rows, {trees} trees.joblib"
    if not path.exists():
        joblib.dump(case.fitted(rows, trees).model, path)
    return Fitted(case, joblib.load(path))
