"""What one seed finds: a pipeline, converted and asked with one kind of rows after another."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from hunt.array_rows import array_rows
from hunt.differences import Standard
from hunt.draw_pipelines import Fitted, draw_fitted
from hunt.findings import Finding, Log
from hunt.frame_rows import frame_rows
from hunt.judge import Question, Verdict, judge, where
from hunt.members import members
from hunt.rounding_noise import is_exact
from sources import methods

import hbconv
from hbconv.errors import HbconvError
from hbconv.names import INVERSE

__all__ = ["Convert", "hunt_seed"]

OFTEN = {
    "plain", "float32", "thresholds float64", "thresholds float32", "hard", "hard float64",
    "hard finite", "nan", "nan numbers", "negative zeros", "column by column", "strided",
    "misaligned", "one row", "no rows", "many", "csr", "again", "reversed columns",
    "category unseen", "category nan", "text emoji", "text upper", "text long",
}  # fmt: skip
"""Rows that every pipeline is asked with."""
SHARE = 0.12
"""Share of the pipelines that are asked with any other kind of rows."""

ASKED = (
    "predict", "predict_proba", "decision_function", "transform", "apply", "score_samples",
    "predict_log_proba", "raw_scores", "inverse_transform",
)  # fmt: skip
ASKED_SELDOM = {"predict_log_proba": ("plain",), "inverse_transform": ("plain", "float32")}
"""Methods that only some rows are asked of."""

LONGEST_DETAIL = 400

Convert = Callable[[Any, str], Any]


def hunt_seed(
    seed: int,
    backend: str,
    log: Log,
    convert: Convert = hbconv.convert,
    drawing: str = "pipelines",
) -> None:
    """Draw the pipeline of a seed, convert it, ask both, and log what is found."""
    counts: Counter[str] = Counter()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        log.asks("source", "", "fit")
        fitted = draw_fitted(seed, counts, drawing)
        if fitted is not None:
            _Hunt(seed, backend, fitted, log, counts).run(convert)
    log.ends(counts)


@dataclass(frozen=True)
class _Hunt:
    """A fitted pipeline on a backend, and where to tell of it."""

    seed: int
    backend: str
    fitted: Fitted
    log: Log
    counts: Counter[str]

    def run(self, convert: Convert) -> None:
        """Convert the pipeline, and ask both sides all questions."""
        self.counts["pipelines"] += 1
        self.log.draws(self._described())
        self.log.asks("hbconv", "", "convert")
        try:
            converted = convert(self.fitted.model, self.backend)
        except HbconvError as error:
            self._find(Verdict("REFUSES", type(error).__name__, f"{error}"), "", "convert")
        except Exception as error:
            self._find(Verdict("UNNAMED", type(error).__name__, where(error)), "", "convert")
        else:
            self._ask(converted)

    def _ask(self, converted: Any) -> None:
        standard = _standard(self.fitted, self.backend)
        for question in _questions(self.fitted, converted, standard):
            asked = question.rows_name, question.method
            self._find(
                judge(question, lambda side, asked=asked: self.log.asks(side, *asked)), *asked
            )

    def _find(self, verdict: Verdict, rows: str, method: str) -> None:
        """Count a verdict, and tell of it where it is a finding."""
        self.counts[verdict.kind] += 1
        if verdict.kind.isupper():
            excerpt = verdict.detail[:LONGEST_DETAIL]
            found = verdict.what, rows, method, excerpt, self._described()
            self.log.finds(Finding(verdict.kind, self.seed, self.backend, *found))

    def _described(self) -> str:
        return " ".join(repr(self.fitted.model).split())[:LONGEST_DETAIL]


def _standard(fitted: Fitted, backend: str) -> Standard:
    names = {type(member).__name__ for member in members(fitted.model)}
    narrow = getattr(fitted.rows, "dtype", None) == np.float32
    return Standard(
        backend,
        only_trees=fitted.family == "trees",
        exact=is_exact(fitted.model),
        narrow=narrow or any(name.startswith("XGB") for name in names),
    )


def _questions(fitted: Fitted, converted: Any, standard: Standard) -> Iterator[Question]:
    """Yield each method that both sides have, of each kind of rows."""
    own = (*methods(fitted.model), INVERSE)
    asked = [method for method in ASKED if method in own and hasattr(converted, method)]
    for name, rows in _rows(fitted):
        for method in asked:
            given = rows
            if name not in ASKED_SELDOM.get(method, (name,)):
                continue
            if method == INVERSE:
                given = _transformed(fitted.model, rows)
            if given is not None:
                yield Question(fitted.model, converted, method, given, name, standard)


def _transformed(model: Any, rows: Any) -> Any:
    """Return what ``inverse_transform`` takes; None where the source refuses the rows."""
    with suppress(Exception):
        return model.transform(rows)
    return None


def _rows(fitted: Fitted) -> Iterator[tuple[str, Any]]:
    """Yield the usual rows, and a share of the others."""
    if isinstance(fitted.rows, np.ndarray):
        drawn = array_rows(fitted.dice, fitted.rows, fitted.model)
    else:
        drawn = frame_rows(fitted.dice, fitted.rows)
    if fitted.as_objects:
        drawn = ((name, _objects(rows)) for name, rows in drawn)
    return ((name, rows) for name, rows in drawn if name in OFTEN or fitted.dice.chance(SHARE))


def _objects(rows: Any) -> Any:
    return rows.to_numpy(dtype=object) if isinstance(rows, pd.DataFrame) else rows
