"""Rows that a model refuses among others that it answers: they are found by halving."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from hbconv.errors import BackendError, OptionError, StoreError

__all__ = ["FAULTS", "REFUSALS", "answered_parts"]

FAULTS = (BackendError, OptionError, StoreError)
"""What is wrong with a run as a whole, whatever its rows; each is a ValueError too."""
REFUSALS = (ValueError, TypeError)
"""What a model raises for rows that it refuses, but for the faults."""


def answered_parts(
    score: Callable[[Any], Any], batch: Any, position: int = 0
) -> Iterator[tuple[int, Any, Exception | None]]:
    """Yield the answers to neighbouring rows of a batch, and each row that is refused.

    Halves of a refused batch are scored by themselves, down to the single row.

    Parameters
    ----------
    score : callable
        Answers a batch, or raises.
    batch : pyarrow.RecordBatch or Table
    position : int
        Of its first row.

    Yields
    ------
    position, answers, None
        Of the rows from that position on.
    position, row, error
        A batch of one row, and why it is refused.

    Examples
    --------
    >>> import pyarrow as pa
    >>> def halve(batch):
    ...     if None in batch["a"].to_pylist():
    ...         raise ValueError("a is missing.")
    ...     return [value / 2 for value in batch["a"].to_pylist()]
    >>> batch = pa.record_batch({"a": [2, 4, None, 6]})
    >>> for position, found, error in answered_parts(halve, batch):
    ...     print(position, found if error is None else error)
    0 [1.0, 2.0]
    2 a is missing.
    3 [3.0]
    """
    try:
        answers = score(batch)
    # Faults are ValueErrors too, so they are let through before refusals are caught.
    except FAULTS:
        raise
    except REFUSALS as error:
        if batch.num_rows == 0:
            raise
        if batch.num_rows == 1:
            yield position, batch, error
            return
    else:
        yield position, answers, None
        return
    # Halving finds one bad row of n by about 2 log2(n) calls, where one by one takes n.
    half = batch.num_rows // 2
    yield from answered_parts(score, batch.slice(0, half), position)
    yield from answered_parts(score, batch.slice(half), position + half)
