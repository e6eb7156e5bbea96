"""What the strategies share: the work of preparing tests, forests without any, and refusals."""

from __future__ import annotations

import numpy as np

from hbconv.cost_model import Work
from hbconv.forest import Forest
from hbconv.strategy import Refusal
from hbconv.target import Target
from hbconv.tensor import Builder, Value
from hbconv.tensor.tests import planes_of_missing

__all__ = ["VALUE", "fixed_leaves", "refuse_memory", "tests_work", "thresholds_work"]

VALUE = 8
"""Bytes of a feature value, at most."""


def tests_work(forest: Forest) -> Work:
    """Count what ``prepare_tests`` writes."""
    work = thresholds_work(forest)
    if not forest.tables:
        return work
    tables, planes = forest.tables.count, len(_planes(forest)) * forest.n_features
    return Work(
        operators=work.operators + 6,
        elementwise=work.elementwise + 4 * tables + planes,
        takes=tables,
        reads=tables,
        tables=work.tables + VALUE * len(forest.tables.goes_left) + 8 * tables,
        temporaries=work.temporaries + tables * (2 * VALUE + 12) + VALUE * planes,
    )


def thresholds_work(forest: Forest) -> Work:
    """Count what ``prepare_thresholds`` writes: NaN replaced, copies of the columns, all joined."""
    replaced = not np.isnan(planes_of_missing(forest, "float32")[0]).all()
    planes = _planes(forest)
    copies = len(planes) - (0 in planes)
    joined = len(planes) if len(planes) > 1 else 0
    if not replaced and not copies:
        return Work()
    return Work(
        operators=2 * replaced + (1 + copies if copies else 0) + (joined > 0),
        elementwise=forest.n_features * (2 * replaced + (1 + copies if copies else 0) + joined),
        tables=VALUE * forest.n_features * replaced,
        temporaries=forest.n_features * (VALUE * (replaced + copies + joined) + 1),
    )


def _planes(forest: Forest) -> list[int]:
    return [int(plane) for plane in np.unique(planes_of_missing(forest, "float32")[1])]


def fixed_leaves(forest: Forest, x: Value, b: Builder) -> Value:
    """Leaves of a forest without tests: the same for every row."""
    return b.op("expand", x, b.constant(~forest.roots.data))


def refuse_memory(work: Work, target: Target, tables: str, temporaries: str) -> Refusal | None:
    """Refuse work that needs more memory than the target allows, and say how much."""
    if work.tables > target.memory:
        return Refusal(f"needs {_bytes(work.tables)} for {tables}, allowed {_bytes(target.memory)}")
    rows = work.rows_at_once(target)
    needed = work.tables + work.temporaries * rows
    if needed > target.memory:
        return Refusal(
            f"needs {_bytes(needed)} for {temporaries} of {rows} rows, allowed {_bytes(target.memory)}"
        )
    return None


def _bytes(count: int) -> str:
    """Write a number of bytes as people do.

    Examples
    --------
    >>> _bytes(3_100_000_000), _bytes(50_000_000), _bytes(512)
    ('3.1 GB', '50.0 MB', '0.5 kB')
    """
    size, unit = next(
        (s, u) for s, u in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")) if count >= s or u == "kB"
    )
    return f"{count / size:.1f} {unit}"
