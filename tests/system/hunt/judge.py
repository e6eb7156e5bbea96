"""One question asked of a source and of its converted model, and what becomes of it."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from hunt.departures import is_known
from hunt.differences import Standard, find_difference
from hunt.movement import is_within_movement
from sources import quietly

from hbconv.errors import HbconvError

__all__ = ["Answer", "Question", "Verdict", "judge", "where"]

Side = Callable[[str], None]
"""Is told who is asked: "source" or "hbconv"."""


@dataclass(frozen=True)
class Answer:
    """What one side gave: a value, or the error that it raised."""

    value: Any
    error: Exception | None


@dataclass(frozen=True)
class Question:
    """Rows, and the method that is to answer them.

    Parameters
    ----------
    source : estimator
    method : str
    rows : object
    rows_name : str
    """

    source: Any
    method: str
    rows: Any
    rows_name: str

    @cached_property
    def wanted(self) -> Answer:
        """The source's own answer, which it gives once for all backends."""
        return _try(lambda: quietly(self.source, self.method, self.rows))


@dataclass(frozen=True)
class Verdict:
    """How a question ended.

    Parameters
    ----------
    kind : str
        In capitals where it is a finding: WRONG, FORM, ANSWERS, UNNAMED, REFUSES.
    what, detail : str
    """

    kind: str
    what: str = ""
    detail: str = ""


def judge(
    question: Question, converted: Any, standard: Standard, tell: Side = lambda side: None
) -> Verdict:
    """Ask both sides, the source first, and compare."""
    tell("source")
    wanted = question.wanted
    tell("hbconv")
    got = _try(lambda: getattr(converted, question.method)(question.rows))
    tell("source")
    error, refusal = got.error, wanted.error
    if error is not None and not isinstance(error, HbconvError):
        also = f"; the source: {refusal!r}" if refusal is not None else ""
        return Verdict("UNNAMED", type(error).__name__, f"{where(error)}{also}")
    if error is not None and refusal is not None:
        return Verdict("both refuse")
    if error is not None:
        return _known_or("REFUSES", question, type(error).__name__, _said(error))
    if refusal is not None:
        return _known_or("ANSWERS", question, type(refusal).__name__, _said(refusal))
    return _compared(question, standard, got.value, wanted.value)


def _try(work: Callable[[], Any]) -> Answer:
    try:
        return Answer(work(), None)
    except Exception as error:
        return Answer(None, error)


def where(error: Exception) -> str:
    """Say what an error says, and the last lines of code that it came through."""
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    places = " ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames)
    return f"{_said(error)[:200]} ({places})"


def _said(error: Exception) -> str:
    return " ".join(str(error).split())


def _compared(question: Question, standard: Standard, got: Any, want: Any) -> Verdict:
    asked = question.method, question.rows
    difference = find_difference(standard, *asked, got, want)
    if difference is None:
        return Verdict("right")
    if difference.what == "form":
        return _known_or("FORM", question, "form", difference.detail)
    if difference.what != "shape" and is_within_movement(
        standard, question.source, *asked, got, want
    ):
        return Verdict("moves")
    return _known_or("WRONG", question, difference.what, difference.detail)


def _known_or(kind: str, question: Question, what: str, detail: str) -> Verdict:
    """Return a finding, or the count of a departure that the pages name."""
    if is_known(kind, question.rows_name, detail, question.source):
        return Verdict(f"known {kind.lower()}")
    return Verdict(kind, what, detail)
