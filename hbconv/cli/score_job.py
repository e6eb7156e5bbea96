"""What ``hbconv score`` does to one file after another: read, answer and write its rows."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from hbconv.cli.ahead import behind
from hbconv.cli.bad_rows import BadRows, find_parts
from hbconv.cli.batch_answers import InProcess, OnDevices, RefusedBatch
from hbconv.cli.outputs import table_writer
from hbconv.cli.shards import Shard
from hbconv.cli.tables import ShardTable
from hbconv.errors import InputError
from hbconv.scorer import Scorer

__all__ = ["ScoreJob"]


@dataclass(frozen=True)
class ScoreJob:
    """A model, the table that it scores, and how.

    Each file can be scored by itself, so several processes may share the files of a job.

    Parameters
    ----------
    scorer : Scorer
    table : ShardTable
    batch_rows : int
        Rows held in memory at a time.
    advance : callable
        Told how many rows were scored.
    answering : InProcess or OnDevices
        Answers files, in the order of their rows.
    """

    scorer: Scorer
    table: ShardTable
    batch_rows: int
    advance: Callable[[int], None]
    answering: InProcess | OnDevices

    @cached_property
    def schema(self) -> Any:
        """Names and types of the output's columns; to find them compiles the model."""
        return self._answer(_empty(self.table.schema)).schema

    def write(
        self, shards: Sequence[Shard], path: Path, kind: str, rejects: Any = None
    ) -> tuple[int, int]:
        """Write the answers to some files into one, and return the rows scored and rejected.

        Raises
        ------
        InputError
            A file is damaged, the model refuses a row and there is no file of rejects, or a file
            was written to meanwhile.
        """
        planned = self.schema  # asked while what answers is there
        bad = [BadRows(shard.name, rejects) for shard in shards]
        rows = 0
        with closing(self._all_parts(shards, bad)) as parts:
            first = next(parts, None)
            schema = planned if first is None else first.schema
            with table_writer(path, kind, schema) as write, behind(write) as hand_on:
                for part in chain([] if first is None else [first], parts):
                    hand_on(_as(part, schema))
                    rows += part.num_rows
        return rows, sum(one.count for one in bad)

    def _all_parts(self, shards: Sequence[Shard], bad: Sequence[BadRows]) -> Generator[Any]:
        for shard, own in zip(shards, bad, strict=True):
            yield from self._parts(shard, own)

    def _parts(self, shard: Shard, bad: BadRows) -> Iterator[Any]:
        before = shard.info()
        place = 0
        unfit = bad.unfit if bad.sink is not None and shard.kind == "csv" else None
        with self.answering.read(self.table, shard, self.batch_rows, unfit) as answers:
            for found in answers:
                rows = found.num_rows
                if isinstance(found, RefusedBatch):
                    for _, part in find_parts(self._answer, found.batch, place, bad):
                        yield part
                else:
                    yield found
                place += rows
                self.advance(rows)
        if shard.info() != before:
            raise InputError(
                f"{shard.name} was written to while it was read. Its answers were not kept."
            )

    def _answer(self, batch: Any) -> Any:
        """Answer one batch, or raise what the model says of its rows."""
        found = self.answering.one(batch)
        if isinstance(found, RefusedBatch):
            raise found.error
        return found


def _empty(schema: Any) -> Any:
    import pyarrow as pa

    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)


def _as(batch: Any, schema: Any) -> Any:
    """Give answers the types of the first ones; no number may change by it."""
    import pyarrow as pa

    if batch.schema == schema:
        return batch
    try:
        return batch.cast(schema)
    except pa.ArrowInvalid as error:
        raise InputError(
            f"Later rows have answers of another type than the first ones: {error}. "
            "Give each column one type, such as float64."
        ) from error
