"""What one seed finds: a pipeline, converted and asked with one kind of rows after another.

A pipeline is fitted, parsed and asked once, and its answers are compared on each backend.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
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

__all__ = ["Convert", "Drawn", "draw", "hunt_on"]

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


@dataclass(frozen=True)
class Drawn:
    """A fitted pipeline that is converted and asked.

    Parameters
    ----------
    seed : int
    fitted : Fitted
    converted : Model
        For the first backend; others take it as what it was made of.
    questions : list of Question
        The source has answered them.
    """

    seed: int
    fitted: Fitted
    converted: Any
    questions: list[Question]


def draw(
    seed: int,
    backend: str,
    log: Log,
    convert: Convert = hbconv.convert,
    drawing: str = "pipelines",
) -> Drawn | None:
    """Draw the pipeline of a seed, convert it, and have the source answer all questions.

    None where no pipeline can be fitted, or it is not converted; the log has the counts.
    """
    counts: Counter[str] = Counter()
    with _silence():
        log.asks("source", "", "fit")
        fitted = draw_fitted(seed, counts, drawing)
        converted = None
        if fitted is not None:
            counts["pipelines"] += 1
            notes = _Notes(seed, backend, fitted, log, counts)
            converted = notes.convert(convert, fitted.model)
        log.ends(counts)
        if fitted is None or converted is None:
            return None
        questions = list(_questions(fitted, converted))
        for question in questions:
            log.asks("source", question.rows_name, question.method)
            _ = question.wanted
    return Drawn(seed, fitted, converted, questions)


def hunt_on(drawn: Drawn, backend: str, log: Log, convert: Convert | None = None) -> None:
    """Ask a backend all questions, and log what is found; ``convert`` where it is not the first."""
    notes = _Notes(drawn.seed, backend, drawn.fitted, log)
    converted = drawn.converted
    with _silence():
        if convert is not None:
            converted = notes.convert(convert, converted)
        if converted is not None:
            notes.ask(converted, drawn.questions)
    log.ends(notes.counts)


@contextmanager
def _silence() -> Iterator[None]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


@dataclass(frozen=True)
class _Notes:
    """Who is asked about a fitted pipeline, and where to tell of it."""

    seed: int
    backend: str
    fitted: Fitted
    log: Log
    counts: Counter[str] = field(default_factory=Counter)

    def convert(self, convert: Convert, model: Any) -> Any:
        """Convert an estimator, or what another backend has of it; None where that fails."""
        self.log.draws(self._described())
        self.log.asks("hbconv", "", "convert")
        try:
            return convert(model, self.backend)
        except HbconvError as error:
            refuses = Verdict("REFUSES", type(error).__name__, f"{error}")
            self._find(refuses if self._source_answers() else Verdict("both refuse"), "", "convert")
        except Exception as error:
            self._find(Verdict("UNNAMED", type(error).__name__, where(error)), "", "convert")
        return None

    def _source_answers(self) -> bool:
        """Whether the source answers its own rows by any method: some are fitted that never do."""
        model, rows = self.fitted.model, self.fitted.rows
        self.log.asks("source", "fitted", "")
        asked = (Question(model, method, rows, "") for method in ASKED if hasattr(model, method))
        return any(question.wanted.error is None for question in asked)

    def ask(self, converted: Any, questions: list[Question]) -> None:
        """Ask all questions, and judge the answers."""
        self.log.draws(self._described())
        standard = _standard(self.fitted, self.backend)
        for question in questions:
            asked = question.rows_name, question.method
            tell = partial(self._tell, asked)
            self._find(judge(question, converted, standard, tell), *asked)

    def _tell(self, asked: tuple[str, str], side: str) -> None:
        self.log.asks(side, *asked)

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


def _questions(fitted: Fitted, converted: Any) -> Iterator[Question]:
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
                yield Question(fitted.model, method, given, name)


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
