"""Recording: every method of a subject, asked by each kind of rows, three times in a row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from replay.describe import describe_call
from replay.kinds import FAULTS, KINDS
from replay.subjects import Subject, find_subject
from sources import compared

import hbconv

__all__ = ["record"]

ROWS = (0, 1, 7, 1000)
SPOILED = (1, 7)
TIMES = 3
"""Later calls are answered in ways that the first one prepares."""
BINDINGS = ((None, None), (1, None), (7, None), (1, "float32"))
"""Numbers of rows and dtypes that calls are bound for."""
LITTLE_MEMORY = 16 << 10
"""Bytes that hold tens of rows."""
FRAMES = ("pandas", "polars", "default")
"""Outputs that are set, one after another, where a model can set them."""

Call = Callable[[Any], Any]


def record(name: str) -> dict[str, Any]:
    """Return what a subject answers, by case."""
    return dict(_record(find_subject(name)))


def _record(subject: Subject) -> Iterator[tuple[str, Any]]:
    model = subject.convert()
    methods = compared(model)
    rows = dict(_rows(subject))
    for method in methods:
        for kind, x in rows.items():
            yield f"{subject.name} | {method} | {kind}", _thrice(getattr(model, method), x)
        yield from _bound(subject, model, method, rows)
    yield from _compiled(subject, methods, rows)
    yield from _in_parts(subject, methods, rows)
    if hasattr(model, "set_output"):
        for library in FRAMES:
            model.set_output(transform=library)
            for kind, x in rows.items():
                case = f"{subject.name} | transform to {library} | {kind}"
                yield case, _thrice(model.transform, x)
    if hasattr(model, "run"):
        yield from _session(subject, model)


def _thrice(call: Call, x: Any) -> list[Any]:
    return [describe_call(call, x) for _ in range(TIMES)]


def _rows(subject: Subject) -> Iterator[tuple[str, Any]]:
    """Yield rows of every kind that can hold them, and those that are spoiled."""
    for count in ROWS:
        yield from _kinds(str(count), partial(subject.rows, count))
    for fault, spoil in FAULTS.items():
        for count in SPOILED:
            yield from _kinds(f"{count} with {fault}", lambda s=spoil, n=count: s(subject.rows(n)))


def _kinds(rows: str, make: Callable[[], Any]) -> Iterator[tuple[str, Any]]:
    for kind, convert in KINDS.items():
        try:
            yield f"{rows} of {kind}", convert(make())
        except Exception:  # The kind cannot hold such rows, whoever answers them.
            continue


def _bound(
    subject: Subject, model: hbconv.Model, method: str, rows: dict[str, Any]
) -> Iterator[tuple[str, Any]]:
    """Yield the answers of calls that are bound for any number of rows, for one, and for seven."""
    for count, dtype in BINDINGS:
        case = f"{subject.name} | {method} bound for {count} of {dtype}"
        try:
            call = model.bind(method, count, dtype)
        except hbconv.HbconvError as error:
            yield case, [type(error).__qualname__, str(error)]
            continue
        for kind, x in rows.items():
            if count is None or kind.startswith(("1 ", "7 of")):
                yield f"{case} | {kind}", _thrice(call, x)


def _in_parts(
    subject: Subject, methods: tuple[str, ...], rows: dict[str, Any]
) -> Iterator[tuple[str, Any]]:
    """Yield the answers of a model whose memory holds few rows at once."""
    try:
        model = subject.convert(memory=LITTLE_MEMORY)
    except hbconv.HbconvError as error:
        yield f"{subject.name} | in parts", [type(error).__qualname__, str(error)]
        return
    for method in methods:
        for kind, x in rows.items():
            if kind.startswith("1000 "):
                yield (
                    f"{subject.name} | {method} in parts | {kind}",
                    _thrice(getattr(model, method), x),
                )


def _compiled(
    subject: Subject, methods: tuple[str, ...], rows: dict[str, Any]
) -> Iterator[tuple[str, Any]]:
    """Yield the answers of a model that was compiled for rows of float64, and compiles no more."""
    sample = rows.get("7 of float64", rows.get("7 of frame"))
    model = subject.convert(on_new_dtypes="refuse")
    try:
        model.compile(sample)
    except hbconv.HbconvError as error:
        yield f"{subject.name} | compiled", [type(error).__qualname__, str(error)]
        return
    for method in methods[:1]:
        for kind, x in rows.items():
            yield f"{subject.name} | {method} compiled | {kind}", _thrice(getattr(model, method), x)


def _session(subject: Subject, model: hbconv.Model) -> Iterator[tuple[str, Any]]:
    """Yield what a session answers, of all outputs and of each alone."""
    session = model.parsed.traits.session
    assert session is not None
    for count in ROWS:
        x = np.asarray(subject.rows(count))
        feeds = {port.name: x[:, list(port.columns)] for port in session.inputs}
        for names in (None, *([port.name] for port in session.outputs)):
            call = partial(model.run, names)
            yield f"{subject.name} | session {names} | {count}", _thrice(call, feeds)
