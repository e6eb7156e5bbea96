"""Every estimator of scikit-learn with every constructor parameter changed: right on every
backend, or refused by name.

An ordinary run changes one parameter at a time, and a few at once, on the reference; torch takes a
fixed share, and each of the other backends a small one. ``--battery 100 --whole`` changes many
at once, on all backends. Trees have a sweep of their own (tests/conformance/trees).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from itertools import chain

import pytest
from breadth.subjects import classes, subject
from breadth.sweep import QUICK, TALLY, Change, changes, check, combinations, is_parsed, public
from breadth.values import parameters, values
from fitted import available_backends
from trees import test_ensembles_sweep, test_sklearn_sweep

from hbconv.cli.support import support_data
from hbconv.parse import parser_names

FULL = 100
"""From so many drawn models on, ``--battery`` means all changes on all backends."""

SLOW = ("torchscript", "onnx", "tvm")
SHARE = 60
"""One in so many changes runs on one of the slow backends in an ordinary run."""
SHARE_OF_TORCH = 8
"""One in so many changes runs on torch in an ordinary run."""

SWEPT = {
    cls.__name__ for module in (test_sklearn_sweep, test_ensembles_sweep) for cls in module.SWEEP
}
"""Estimators that tests/conformance/trees sweeps: an ordinary run changes their target and form
of rows only.
"""

ONE_VALUE = {("HistGradientBoostingClassifier", "loss")}
"""Parameters that have one documented value."""

NEVER_FITTED = {
    ("Pipeline", "transform_input"),
    ("CountVectorizer", "input"),
    ("TfidfVectorizer", "input"),
}
"""Parameters of which the source fits no other value here: they need metadata routing, or files."""

NAMES = sorted(name.rpartition(".")[2] for name in parser_names() if name.startswith("sklearn."))
"""Estimators with a parser; the list of all takes seconds, since it imports all of scikit-learn."""


def test_every_estimator_is_swept():
    parsed = sorted(name for name in classes() if is_parsed(subject(name).estimator))
    assert parsed == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_no_parameter_is_left_out(name):
    start = subject(name).estimator
    assert [
        p for p in parameters(start) if not values(start, p) and (name, p) not in ONE_VALUE
    ] == []


@pytest.mark.filterwarnings(
    "ignore"
)  # of deprecated classes; and a model repeats what its source warns of
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.share("sweep")
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
    assert all(TALLY[name].refused.values()), "a refusal does not say what to do"
    if name not in SWEPT or drawn >= FULL:
        single = {change.what for change in changes(name) if change.parameters}
        recorded = set(support_data()[public(name)]["refused"]) - set(
            TALLY[name].unfitted
        )  # a processor may fail to fit what another fits
        assert set(TALLY[name].refused) & single == recorded, (
            "hbconv refuses other values: run with --update-support"
        )
    if name not in SWEPT:
        never = {
            p
            for p in parameters(subject(name).estimator)
            if p not in TALLY[name].fitted and (name, p) not in ONE_VALUE | NEVER_FITTED
        }
        assert not never, {
            what: error
            for what, error in TALLY[name].unfitted.items()
            if what.startswith(tuple(never))
        }


def _chosen(name: str, drawn: int) -> Iterator[Change]:
    if name in SWEPT and drawn < FULL:
        return (change for change in changes(name) if not change.parameters)
    return chain(changes(name), combinations(name, drawn // (25 if drawn >= FULL else 4)))


def _backends(change: Change, drawn: int) -> list[str]:
    """The reference, and in turn one of the others."""
    if drawn >= FULL:
        return available_backends()
    number = zlib.crc32(str(change).encode())
    if number % SHARE == 0:
        return [*QUICK, SLOW[number // SHARE % len(SLOW)]]
    return list(QUICK) if number % SHARE_OF_TORCH == 0 else ["reference"]
