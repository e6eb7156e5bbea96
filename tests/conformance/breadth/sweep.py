"""The sweep: an estimator with one parameter changed, fitted, converted, and compared with the
source on rows made to hurt.

It is right on every backend asked for, or refused by name. What the source itself refuses to fit
is counted, and left out.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
from breadth.made import NEEDED
from breadth.subjects import Subject, subject
from breadth.values import parameters, values
from matrix.case import Case, fitted
from matrix.compare import ask, compare
from matrix.estimators import CaseName, first_names
from sources import compared, methods

import hbconv
from hbconv.backends import EXPORTS
from hbconv.errors import BackendError, InputError, UnsupportedError
from hbconv.model import Model
from hbconv.parse.registry import find_parser
from hbconv.runtime.inputs.read import read_table
from hbconv.runtime.outputs.answers import answer, whole

__all__ = [
    "QUICK",
    "TALLY",
    "Change",
    "answers",
    "changes",
    "check",
    "combinations",
    "is_parsed",
    "public",
    "refusal",
]

ROWS = 40
QUICK = ("reference", "torch")
"""Backends that compile at once."""


@dataclass(frozen=True)
class Change:
    """A subject, and what was changed in it."""

    name: str
    what: str
    subject: Subject = field(compare=False)
    parameters: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.name}({self.what})"


@dataclass
class Figures:
    """What the sweep has seen of one estimator; differences are shares of what is allowed."""

    models: int = 0
    rows: int = 0
    unfitted: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    fitted: set[str] = field(default_factory=set)
    largest: dict[str, float] = field(default_factory=dict)


TALLY: defaultdict[str, Figures] = defaultdict(Figures)


def is_parsed(estimator: Any) -> bool:
    """Whether hbconv has a parser for it."""
    try:
        find_parser(estimator)
    except UnsupportedError:
        return False
    return True


def changes(name: str) -> Iterator[Change]:
    """The subject as it is, and with each parameter, its target and its form of rows changed in
    turn.
    """
    start = subject(name)
    yield Change(name, "", start)
    for parameter in parameters(start.estimator):
        for value in values(start.estimator, parameter):
            yield Change(
                name,
                f"{parameter}={_show(value)}",
                _with(start, NEEDED.get((name, parameter), {}) | {parameter: value}),
                (parameter,),
            )
    for parameter in ("y", "form"):
        for other in start.variations(parameter):
            yield Change(name, f"{parameter}: {getattr(other, parameter)}", other)


def combinations(name: str, count: int) -> Iterator[Change]:
    """The subject with several parameters changed at once."""
    start = subject(name)
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    for _ in range(count):
        chosen = {
            p: found[rng.integers(len(found))]
            for p in parameters(start.estimator)
            if (found := values(start.estimator, p)) and rng.random() < 0.3
        }
        others = [start, *start.variations("y"), *start.variations("form")]
        shown = ", ".join(f"{p}={_show(v)}" for p, v in chosen.items())
        base = others[rng.integers(len(others))]
        yield Change(
            name, f"{shown}, y: {base.y}, form: {base.form}", _with(base, chosen), tuple(chosen)
        )


def _show(value: Any) -> str:
    own = getattr(value, "__module__", "") == "breadth.made" and callable(value)
    text = "a function" if own else getattr(value, "__name__", None) or repr(value)
    return " ".join(text.split())[:60]


def _with(start: Subject, chosen: dict[str, Any]) -> Subject:
    """Set parameters, and the target or the kind of data where these are named; data follow a
    kernel or distances computed before.
    """
    data = {
        name: chosen[name]
        for name in ("y", "kind")
        if name in chosen and name not in parameters(start.estimator)
    }
    settings = {name: value for name, value in chosen.items() if name not in data}
    before = [p for p, v in settings.items() if isinstance(v, str) and v == "precomputed"]
    if before:
        data["kind"] = "distances" if before[0] == "metric" else "kernel"
    return replace(
        start,
        estimator=type(start.estimator)(**start.estimator.get_params(deep=False) | settings),
        **data,
    )


def check(change: Change, backends: Sequence[str]) -> None:
    """Fit, convert and compare; note what the source or hbconv refuses."""
    figures = TALLY[change.name]
    try:
        estimator = change.subject.fitted()
    except Exception as error:  # whatever the source says of parameters that do not fit together
        figures.unfitted[change.what] = f"{type(error).__name__}: {error}"
        return
    figures.fitted |= set(change.parameters)
    first = _first(change.name)
    case = Case(
        change.name,
        change.what,
        lambda: estimator,
        first.kind,
        change.subject.data.rows,
        first.ask,
        _methods(change.name, estimator),
    )
    right = [_is_right(case, backend, change.subject, figures) for backend in backends]
    figures.models += any(right)


def refusal(change: Change) -> str | None:
    """Say why hbconv refuses a change, or what to do; nothing where it converts it, None where
    the source does not fit it.
    """
    try:
        estimator = change.subject.fitted()
    except Exception:  # as in check
        return None
    try:
        hbconv.convert(estimator, backend="reference")
    except UnsupportedError as error:
        return error.hint
    return ""


def _is_right(case: Case, backend: str, subject: Subject, figures: Figures) -> bool:
    """Compare on one backend; False where hbconv refuses the change by name."""
    try:
        model = hbconv.convert(fitted(case), backend=backend)
    except UnsupportedError as error:
        figures.refused[case.setting] = error.hint
        return False
    except BackendError as error:
        figures.refused[f"{case.setting} on {backend}"] = str(error)
        return False
    _has_methods_that_answer(case, model, subject)
    for dtype in ("float64", "float32"):
        for known in {subject.data.known is not None, False}:
            _compare(case, model, subject.rows(ROWS, dtype, known=known), figures)
    return True


@cache
def _firsts() -> dict[str, CaseName]:
    return {first.estimator.rpartition(".")[2]: first for first in first_names()}


def public(name: str) -> str:
    """Dotted name, as the parser is registered."""
    return _firsts()[name].estimator


def _first(name: str) -> Case:
    """The first case of an estimator in the matrix, which knows its tolerance and the methods
    that no two calls of the source answer alike.
    """
    return _firsts()[name].made()


def _methods(name: str, estimator: Any) -> tuple[str, ...]:
    """Methods to compare: those that the matrix names for the estimator, or those that the
    source has.
    """
    return tuple(m for m in _first(name).methods if hasattr(estimator, m)) or methods(estimator)


def _has_methods_that_answer(case: Case, model: Model, subject: Subject) -> None:
    """No method more than the source has; none less, but for those that the model refuses by
    name, and those that the source has and refuses whatever the rows.
    """
    assert set(compared(model)) <= set(case.names), (
        f"{sorted(set(compared(model)) - set(case.names))} are no methods of the source"
    )
    missing = [
        m
        for m in case.names
        if m not in model.methods
        and m not in model.parsed.refused
        and not _refusal(case, m, subject.rows(ROWS, "float64", known=True))
    ]
    assert not missing, f"no method {missing}, which the source answers"


def _compare(case: Case, model: Model, x: Any, figures: Figures) -> None:
    """Compare all methods that the source answers; rows that it refuses, the model refuses too."""
    refused = {method: error for method in case.names if (error := _refusal(case, method, x))}
    if model.methods[0] in refused:
        for method in compared(model):
            try:
                getattr(model, method)(x)
            except InputError:
                continue
            raise AssertionError(
                f"{case} on {model.backend}: {method} answers what the source refuses: {refused[model.methods[0]]!r}"
            )
        return
    for method, got in answers(model, x).items():
        if method not in refused:
            share = compare(case, method, x, got)
            figures.largest[model.backend] = max(figures.largest.get(model.backend, 0.0), share)
    figures.rows += len(x)


def _refusal(case: Case, method: str, x: Any) -> Exception | None:
    try:
        ask(case, method, x)
    except Exception as error:  # scikit-learn refuses rows by many exceptions
        return error
    return None


def answers(model: Model, x: Any) -> dict[str, Any]:
    """Answer with all methods; backends that compile slowly compile those that are tensors as
    one program.
    """
    together = (
        model.parsed.tensors
        if model.backend not in (*QUICK, *EXPORTS) and isinstance(x, np.ndarray) and x.ndim == 2
        else ()
    )
    found = {}
    if together:
        table = read_table(x, model.reads)
        part = table.part(slice(0, table.rows))
        values = model.programs.program(together, table.dtypes).checked(part)
        found = {
            method: whole(
                model.parsed.outputs[method], answer(model.parsed.outputs[method], values[method])
            )
            for method in together
        }
    return {
        method: found[method] if method in found else getattr(model, method)(x)
        for method in compared(model)
    }
