"""Parts shared by the strategies: prepared splits, forests without splits, refusals."""

from __future__ import annotations

import numpy as np

from hbconv.cost_model import Work
from hbconv.target import Target
from hbconv.tensor import Builder, Value
from hbconv.trees.forest import Forest
from hbconv.trees.splits import PLAIN, find_nan_rules
from hbconv.trees.strategy import Refusal

__all__ = [
    "VALUE_BYTES",
    "fixed_leaves",
    "refuse_memory",
    "splits_work",
    "threshold_splits_work",
]

VALUE_BYTES = 8
"""Most bytes of a feature value."""
NODE_BYTES = 16
"""Bytes of a node in tables that are not padded."""
SMALL_TABLES = 16 << 20
"""Bytes of tables that may be padded however much."""
MOST_PADDING = 16
"""Tables may be so many times as large as those of the nodes alone."""


def splits_work(forest: Forest) -> Work:
    """Count what ``prepare_splits`` writes."""
    work = threshold_splits_work(forest)
    if not forest.tables:
        return work
    tables = forest.tables.count
    columns = len(_rules(forest)) * forest.n_features
    return Work(
        operators=work.operators + 6,
        elementwise=work.elementwise + 4 * tables + columns,
        takes=tables,
        reads=tables,
        tables=work.tables + VALUE_BYTES * len(forest.tables.goes_left) + 8 * tables,
        temporaries=work.temporaries + tables * (2 * VALUE_BYTES + 12) + VALUE_BYTES * columns,
    )


def threshold_splits_work(forest: Forest) -> Work:
    """Count what ``prepare_threshold_splits`` writes.

    Per feature: NaN replaced (isnan and where), a copy for each rule that needs one (one isnan for
    all), and the columns of all rules joined.
    """
    replaced = not np.isnan(find_nan_rules(forest, "float32")[0]).all()
    rules = _rules(forest)
    copies = len(rules) - (PLAIN in rules)
    joined = len(rules) if len(rules) > 1 else 0
    if not replaced and not copies:
        return Work()
    operators = 2 * replaced + (1 + copies if copies else 0)
    return Work(
        operators=operators + (joined > 0),
        elementwise=forest.n_features * (operators + joined),
        tables=VALUE_BYTES * forest.n_features * replaced,
        temporaries=forest.n_features * (VALUE_BYTES * (replaced + copies + joined) + 1),
    )


def _rules(forest: Forest) -> list[int]:
    """List the rules for NaN that some split follows."""
    return np.flatnonzero(np.bincount(find_nan_rules(forest, "float32")[1])).tolist()


def fixed_leaves(forest: Forest, x: Value, b: Builder) -> Value:
    """Return the leaves of a forest without splits: the same for every row."""
    return b.op("expand", x, b.constant(~forest.roots.data))


def refuse_memory(
    forest: Forest, work: Work, target: Target, tables: str, temporaries: str
) -> Refusal | None:
    """Refuse work that needs more memory than the target allows, and say how much.

    Refuse tables that are mostly padding too, unless the target names the strategy.
    """
    if work.tables > target.memory:
        return Refusal(f"needs {_bytes(work.tables)} for {tables}, allowed {_bytes(target.memory)}")
    entries = len(forest.tables.goes_left) if forest.tables else 0
    plain = NODE_BYTES * (forest.n_tests + forest.n_leaves + entries)
    if target.strategy is None and work.tables > max(SMALL_TABLES, MOST_PADDING * plain):
        return Refusal(
            f"needs {_bytes(work.tables)} for {tables}, {work.tables // plain:,} times as much as "
            "the nodes"
        )
    rows = work.rows_at_once(target)
    needed = work.tables + work.temporaries * rows
    if needed <= target.memory:
        return None
    allowed = _bytes(target.memory)
    return Refusal(f"needs {_bytes(needed)} for {temporaries} of {rows} rows, allowed {allowed}")


def _bytes(count: int) -> str:
    """Write a number of bytes with its unit.

    Examples
    --------
    >>> _bytes(3_100_000_000), _bytes(50_000_000), _bytes(512)
    ('3.1 GB', '50.0 MB', '0.5 kB')
    """
    size, unit = next(
        (s, u) for s, u in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")) if count >= s or u == "kB"
    )
    return f"{count / size:.1f} {unit}"
