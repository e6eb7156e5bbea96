"""Tell on standard error how many rows are scored."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from hbconv.cli.shards import Shard

__all__ = ["progress"]


@contextmanager
def progress(shards: Sequence[Shard], *, quiet: bool) -> Iterator[Any]:
    """Give a function that takes rows scored, and tells of them on standard error.

    A terminal is told at once, and a log after half a minute, then every half minute.
    """
    try:
        from tqdm import tqdm
    except ImportError:
        quiet = True
    if quiet:
        yield lambda rows: None
        return
    rest = 0.1 if sys.stderr.isatty() else 30.0
    counts = [shard.rows for shard in shards if shard.rows is not None]
    total = sum(counts) if len(counts) == len(shards) else None
    with tqdm(
        total=total,
        unit=" rows",
        unit_scale=True,
        file=sys.stderr,
        mininterval=rest,
        delay=0 if rest < 1 else rest,
        leave=sys.stderr.isatty(),
    ) as bar:
        yield bar.update
