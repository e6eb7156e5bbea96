"""The sweep: an estimator with one parameter changed, fitted, converted, and compared with the source on rows made to hurt.

It is right on every backend asked for, or refused by name. What the source itself refuses to fit is counted, and left out.
"""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
from breadth.subjects import Subject, subject
from breadth.values import parameters, values
from matrix.case import Case, as_dtype
from matrix.compare import ask, compare
from matrix.estimators import first_settings
from sources import methods

import hbconv
from hbconv.errors import BackendError, InputError, UnsupportedError
from hbconv.model import Model
from hbconv.parse.registry import find_parser
from hbconv.runtime.answers import answer
from hbconv.runtime.inputs import read_table

__all__ = ["TALLY", "Change", "changes", "check", "combinations", "is_parsed"]

ROWS = 40
OTHERS = ("torchscript", "onnx", "tvm")
"""Backends that compile slowly: each takes its share of the changes, unless all are asked for."""

DELEGATED = {"precomputed": {"kernel": "kernel", "affinity": "kernel"}}


@dataclass(frozen=True)
class Change:
    """A subject, and what was changed in it."""

    name: str
    what: str
    subject: Subject = field(compare=False)

    def __str__(self) -> str:
        return f"{self.name}({self.what})"


@dataclass
class Figures:
    """What the sweep has seen of one estimator."""

    models: int = 0
    rows: int = 0
    unfitted: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
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
    """The subject as it is, and with each parameter, its target and its form of rows changed in turn."""
    start = subject(name)
    yield Change(name, "", start)
    for parameter in parameters(start.estimator):
        for value in values(start.estimator, parameter):
            yield Change(name, f"{parameter}={_show(value)}", _with(start, {parameter: value}))
    for parameter in ("y", "form"):
        for other in start.variations(parameter):
            yield Change(name, f"{parameter}: {getattr(other, parameter)}", other)


def combinations(name: str, count: int) -> Iterator[Change]:
    """The subject with several parameters changed at once."""
    start, rng = subject(name), np.random.default_rng(zlib.crc32(name.encode()))
    for _ in range(count):
        chosen = {p: found[rng.integers(len(found))] for p in parameters(start.estimator) if (found := values(start.estimator, p)) and rng.random() < 0.3}
        others = [start, *start.variations("y"), *start.variations("form")]
        shown = ", ".join(f"{p}={_show(v)}" for p, v in chosen.items())
        base = others[rng.integers(len(others))]
        yield Change(name, f"{shown}, y: {base.y}, form: {base.form}", _with(base, chosen))


def _show(value: Any) -> str:
    text = getattr(value, "__name__", None) or repr(value)
    return " ".join(text.split())[:60]


def _with(start: Subject, chosen: dict[str, Any]) -> Subject:
    """Set parameters; data follow a kernel or distances computed before."""
    estimator = type(start.estimator)(**start.estimator.get_params(deep=False) | chosen)
    before = [p for p, v in chosen.items() if isinstance(v, str) and v == "precomputed"]
    kind = start.kind if not before else "kernel" if before[0] in ("kernel", "affinity") else "distances"
    return replace(start, estimator=estimator, kind=kind)


def check(change: Change, backends: Sequence[str]) -> None:
    """Fit, convert and compare; count what the source or hbconv refuses."""
    figures = TALLY[change.name]
    try:
        estimator = change.subject.fitted()
    except Exception as error:  # noqa: BLE001 - whatever the source says to parameters that do not fit together
        figures.unfitted[f"{change.what}: {type(error).__name__}"] += 1
        return
    case = _case(change, estimator)
    for backend in backends:
        try:
            model = hbconv.convert(estimator, backend=backend)
        except (UnsupportedError, BackendError) as error:
            figures.refused[f"{change.what} on {backend}: {error}"] += 1
            assert _is_named(error, change), f"{change}: {error}"
            continue
        assert set(model.methods) == set(case.names), f"{change}: {sorted(set(model.methods) ^ set(case.names))}"
        for dtype in ("float64", "float32"):
            for make in filter(None, (change.subject.data.known, change.subject.data.rows)):
                _compare(case, model, _rows(make, dtype), figures)
    figures.models += 1


def _is_named(error: Exception, change: Change) -> bool:
    """A refusal says what is refused, and what to do."""
    return bool(getattr(error, "hint", str(error)))


def _rows(make: Any, dtype: str) -> Any:
    x = make(ROWS)
    return as_dtype(x, dtype) if hasattr(x, "dtype") else x


def _case(change: Change, estimator: Any) -> Case:
    return Case(change.name, change.what, lambda: estimator, _kind(change.name), change.subject.data.rows)


@cache
def _kinds() -> dict[str, str]:
    return {case.estimator.rpartition(".")[2]: case.kind for case in first_settings()}


def _kind(name: str) -> str:
    return _kinds().get(name, "linear")


def _compare(case: Case, model: Model, x: Any, figures: Figures) -> None:
    """Compare all methods that the source answers; rows that it refuses, the model refuses too."""
    refused = {method: error for method in case.names if (error := _refusal(case, method, x))}
    if case.names[0] in refused:
        for method in case.names:
            try:
                getattr(model, method)(x)
            except InputError:
                continue
            raise AssertionError(f"{case} on {model.backend}: {method} answers what the source refuses: {refused[case.names[0]]!r}")
        return
    for method, got in _answers(model, x).items():
        if method not in refused:
            share = compare(case, method, x, got)
            figures.largest[model.backend] = max(figures.largest.get(model.backend, 0.0), share)
    figures.rows += len(x)


def _refusal(case: Case, method: str, x: Any) -> Exception | None:
    try:
        ask(case, method, x)
    except Exception as error:  # noqa: BLE001 - scikit-learn refuses rows by many exceptions
        return error
    return None


def _answers(model: Model, x: Any) -> dict[str, Any]:
    """Answer with all methods: those that are tensors as one program, compiled once."""
    table = read_table(x, model.reads)
    part = table.part(slice(0, table.rows))
    model.programs.checker(table.dtypes)(part)
    values = model.programs.program(model.parsed.tensors, table.dtypes).run(part)
    tensors = {method: answer(model.parsed.outputs[method], values[method]) for method in model.parsed.tensors}
    return tensors | {method: getattr(model, method)(x) for method in model.methods if method not in tensors}
