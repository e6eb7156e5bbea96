"""Every estimator of scikit-learn with every constructor parameter changed: right on every backend, or refused by name.

An ordinary run changes one parameter at a time, and a few at once, on the reference and torch; each of the other backends takes a
small fixed share. ``--battery 100`` and more changes many at once, on all backends. Trees have a sweep of their own (tests/trees).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from itertools import chain

import pytest
from breadth.subjects import classes, subject
from breadth.sweep import TALLY, Change, changes, check, combinations, is_parsed
from breadth.values import parameters, values
from fitted import available_backends
from trees import test_ensembles_sweep, test_sklearn_sweep

FULL = 100
"""From so many drawn models on, ``--battery`` means all changes on all backends."""

QUICK, SLOW = ("reference", "torch"), ("torchscript", "onnx", "tvm")
SHARE = 60
"""One in so many changes runs on one of the slow backends in an ordinary run."""

SWEPT = {cls.__name__ for module in (test_sklearn_sweep, test_ensembles_sweep) for cls in module.SWEEP}
"""Estimators that tests/trees sweeps: an ordinary run changes their target and form of rows only."""

ONE_VALUE = {("HistGradientBoostingClassifier", "loss")}
"""Parameters that have one documented value."""

NEVER_FITTED = {("Pipeline", "transform_input")}
"""Parameters of which the source fits no other value: this one needs metadata routing."""

NAMES = tuple(name for name in classes() if is_parsed(subject(name).estimator))


@pytest.mark.parametrize("name", NAMES)
def test_no_parameter_is_left_out(name):
    start = subject(name).estimator
    assert [p for p in parameters(start) if not values(start, p) and (name, p) not in ONE_VALUE] == []


@pytest.mark.parametrize("name", NAMES)
def test_right_or_refused_by_name(name, request):
    drawn = request.config.getoption("--battery")
    wrong = {}
    for change in _chosen(name, drawn):
        try:
            check(change, _backends(change, drawn))
        except Exception as error:  # one message for all changes of an estimator
            wrong[str(change)] = f"{type(error).__name__}: {error}"
    assert not wrong, "\n".join(f"{change}: {error}" for change, error in wrong.items())
    assert TALLY[name].models, "no change is right"
    if name not in SWEPT:
        assert {p for p in parameters(subject(name).estimator) if p not in TALLY[name].fitted and (name, p) not in ONE_VALUE | NEVER_FITTED} == set()


def _chosen(name: str, drawn: int) -> Iterator[Change]:
    if name in SWEPT and drawn < FULL:
        return (change for change in changes(name) if not change.parameters)
    return chain(changes(name), combinations(name, drawn if drawn >= FULL else drawn // 4))


def _backends(change: Change, drawn: int) -> list[str]:
    """Those that compile at once, and in turn one of the others."""
    if drawn >= FULL:
        return available_backends()
    number = zlib.crc32(str(change).encode())
    return [*QUICK, SLOW[number // SHARE % len(SLOW)]] if number % SHARE == 0 else list(QUICK)
