"""Shares: a test that is marked ``share(kind)`` runs one of its cases in so many.

Of a test without the mark that has a ``backend``, the cases on the reference run, and a share of
those on the other backends. ``SHARES`` says in how many, for an ordinary run, from what a case of the kind costs. ``--share N``
takes one case in N of every shared test, and ``--whole`` all. Cases are chosen by a hash of their
names, so the same ones run each time; ``--seed`` draws others, as the nightly run does each day.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from types import MappingProxyType

import pytest
from suite.models import case_of

__all__ = ["SHARES", "is_whole", "left_out", "seed"]

SHARES = MappingProxyType(
    {
        "light": 4,  # below 0.1 s a case
        "backend": 6,  # any test on another backend than the reference
        "case": 12,  # a model on a backend
        "vector": 16,  # a kernel for one width of vectors
        "sweep": 12,  # every parameter of an estimator
        "traced": 60,  # a module that torch traces, or a file that a runtime loads
        "emulated": 60,  # a model by generated CUDA code
        "linked": 160,  # a library that gcc compiles
        "captured": 400,  # a program that torch.export captures
    }
)
"""One case in so many runs, by what is asked of it."""
MODELS = 6
"""One model of the matrix in so many is fitted: the tests of a model share it."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--share``, ``--whole`` and ``--seed``."""
    parser.addoption("--share", type=int, metavar="N", help="run one case in N of each shared test")
    parser.addoption(
        "--whole",
        action="store_true",
        help="run all cases of shared tests, and the tests of rooms that did not change",
    )
    parser.addoption(
        "--seed",
        type=int,
        default=0,
        help="draw other cases, models and pipelines; 0 draws those of an ordinary run",
    )


def is_whole(config: pytest.Config) -> bool:
    """Whether all cases of shared tests run."""
    return bool(config.getoption("--whole")) or config.getoption("--share") == 1


def seed(config: pytest.Config) -> int:
    """Return the seed of all that is drawn."""
    return int(config.getoption("--seed"))


@pytest.hookimpl(trylast=True)  # after -k and -m
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep one case in n of each shared test, and at least one."""
    if is_whole(config):
        return
    cases: defaultdict[tuple[str, int], list[pytest.Item]] = defaultdict(list)
    for item in items:
        kind = _kind(item)
        if kind:
            n = config.getoption("--share") or SHARES[kind]
            cases[item.nodeid.partition("[")[0], n].append(item)
    left = {item for (_, n), group in cases.items() for item in left_out(group, n, seed(config))}
    config.hook.pytest_deselected(items=list(left))
    items[:] = [item for item in items if item not in left]


def _kind(item: pytest.Item) -> str | None:
    mark = item.get_closest_marker("share")
    if mark:
        return str(mark.args[0])
    callspec = getattr(item, "callspec", None)
    backend = callspec.params.get("backend", "reference") if callspec else "reference"
    return None if backend == "reference" else "backend"


def left_out(items: list[pytest.Item], n: int, drawn: int) -> list[pytest.Item]:
    """Return the cases that do not run, if one in n does, and at least one."""
    chosen = {item for item in items if _is_chosen(item, n, drawn)}
    chosen = chosen or {items[_number(items[0].nodeid, drawn) % len(items)]}
    return [item for item in items if item not in chosen]


def _is_chosen(item: pytest.Item, n: int, drawn: int) -> bool:
    """Choose a case by its name; where it has a model of the matrix, choose the model first."""
    case = case_of(item)
    if case is None:
        return _number(item.nodeid, drawn) % n == 0
    models = min(n, MODELS)
    is_fitted = _number(str(case), drawn) % models == 0
    return is_fitted and _number(item.nodeid, drawn) % max(1, n // models) == 0


def _number(name: str, drawn: int) -> int:
    return zlib.crc32(f"{drawn} {name}".encode() if drawn else name.encode())
