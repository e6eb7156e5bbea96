"""What ``hbconv score`` does to one file after another: read, score and write its rows.

Batches are scored in this process, or by the processes of several devices. Of a batch that the
model refuses, the refused rows are found, and the others are scored.
"""

from __future__ import annotations

import argparse
import posixpath
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Any

from hbconv.engines.scorer import Scorer, answered_parts
from hbconv.errors import InputError
from hbconv.score.answers import BatchAnswers, JointAnswers, RefusedBatch
from hbconv.score.concurrency import DevicePool, parse_devices, read_ahead, write_behind
from hbconv.score.formats import split_row_groups
from hbconv.score.outputs import json_line, open_output_in, table_writer, text_file
from hbconv.score.resumable import Folder, file_hash
from hbconv.score.shards import Shard
from hbconv.score.tables import ShardTable

__all__ = ["ScoreJob", "answering_for", "job_of"]


@dataclass(frozen=True)
class ScoreJob:
    """Models, the table that they score, and how.

    Each file can be scored by itself, so several processes may share the files of a job.

    Parameters
    ----------
    scorers : dict of Scorer
        By the names of the models, ``FIRST`` among them.
    table : ShardTable
    batch_rows : int
        Rows held in memory at a time.
    advance : callable
        Told how many rows were scored.
    answering : InProcess or OnDevices
        Answers files, in the order of their rows.
    """

    scorers: Mapping[str, Scorer]
    table: ShardTable
    batch_rows: int
    advance: Callable[[int], None]
    answering: InProcess | OnDevices

    @property
    def methods(self) -> tuple[str, ...]:
        """What is called of the models."""
        return tuple(dict.fromkeys(m for scorer in self.scorers.values() for m in scorer.methods))

    @cached_property
    def schema(self) -> Any:
        """Names and types of the output's columns; to find them compiles the model."""
        return self._answer(_empty(self.table.schema)).schema

    def first_schema(self, shards: Sequence[Shard], rejects: Any = None) -> Any:
        """Return names and types of the output's columns, as the first rows have them."""
        planned = self.schema
        bad_rows = [BadRows(shard.name, rejects) for shard in shards]
        with closing(self._all_parts(shards, bad_rows)) as parts:
            return next((part.schema for part in parts), planned)

    def write_files(
        self, folder: Folder, shards: Sequence[Shard], kind: str, *, set_aside: bool
    ) -> Iterator[dict[str, Any]]:
        """Write the answers to each file into a file of a folder, and yield the records.

        A record appears when the answers and the rows that are set aside are on the disk.

        Raises
        ------
        InputError
            As for ``write``.
        """
        for shard in shards:
            yield self.write_file(folder, shard, kind, set_aside=set_aside)

    def write_file(
        self, folder: Folder, shard: Shard, kind: str, *, set_aside: bool
    ) -> dict[str, Any]:
        """Write the answers to a file into a file of a folder, and return its record."""
        name = folder.output(shard, kind)
        folder.make_folder(posixpath.dirname(name))
        with ExitStack() as stack:
            rejects = None
            if set_aside:
                folder.make_folder(posixpath.dirname(folder.rejects(name)))
                rejects = text_file(stack, open_output_in(*folder.at(folder.rejects(name))))
            path = stack.enter_context(open_output_in(*folder.at(name)))
            rows, rejected = self.write([shard], path, kind, rejects)
            # While the file is still temporary: once placed, others may replace it.
            size, checksum = path.stat().st_size, file_hash(path)
        return folder.record(
            name, input=shard.name, rows=rows, rejected=rejected, bytes=size, sha256=checksum
        )

    def write(
        self,
        shards: Sequence[Shard],
        path: Path,
        kind: str,
        rejects: Any = None,
        schema: Any = None,
    ) -> tuple[int, int]:
        """Write the answers to some files into one, and return the rows scored and rejected.

        Parameters
        ----------
        shards : sequence of Shard
        path : Path
        kind : str
            Format of the output.
        rejects : file of text, optional
            Where rows go that cannot be scored.
        schema : pyarrow.Schema, optional
            Names and types of the output's columns; by default as the first rows have them.

        Raises
        ------
        InputError
            A file is damaged, the model refuses a row and there is no file of rejects, or a file
            was written to meanwhile.
        """
        # It compiles the model, which must happen while the processes of devices are there.
        planned = self.schema
        bad_rows = [BadRows(shard.name, rejects) for shard in shards]
        rows = 0
        with closing(self._all_parts(shards, bad_rows)) as parts:
            first = next(parts, None)
            if schema is None:
                schema = planned if first is None else first.schema
            with table_writer(path, kind, schema) as write, write_behind(write) as hand_on:
                # A writer needs the schema first, and only the first rows have it for certain.
                for part in chain([] if first is None else [first], parts):
                    hand_on(_cast(part, schema))
                    rows += part.num_rows
        return rows, sum(bad.count for bad in bad_rows)

    def _all_parts(self, shards: Sequence[Shard], bad_rows: Sequence[BadRows]) -> Generator[Any]:
        for shard, bad in zip(shards, bad_rows, strict=True):
            yield from self._parts(shard, bad)

    def _parts(self, shard: Shard, bad: BadRows) -> Iterator[Any]:
        before = shard.info()
        position = shard.start
        unfit = bad.unfit if bad.sink is not None and shard.kind == "csv" else None
        with self.answering.read(self.table, shard, self.batch_rows, unfit) as answers:
            for scored in answers:
                rows = scored.num_rows
                if isinstance(scored, RefusedBatch):
                    yield from find_parts(self._answer, scored.batch, position, bad)
                else:
                    yield scored
                position += rows
                self.advance(rows)
        # A file that grew or was replaced gives rows of two states, which no reader can tell.
        if shard.info() != before:
            raise InputError(
                f"{shard.name} was written to while it was read. Its answers were not kept."
            )

    def _answer(self, batch: Any) -> Any:
        """Score one batch, or raise what the model says of its rows."""
        scored = self.answering.one(batch)
        if isinstance(scored, RefusedBatch):
            raise scored.error
        return scored


def _empty(schema: Any) -> Any:
    import pyarrow as pa

    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)


def _cast(batch: Any, schema: Any) -> Any:
    """Return outputs in the types of the first ones; a safe cast changes no number."""
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


Unfit = Callable[[Any], str] | None
Load = Callable[[argparse.Namespace], Mapping[str, Scorer]]
"""Reads the models that options name, for their device."""


@dataclass(frozen=True)
class InProcess:
    """Answers here."""

    answer: JointAnswers

    @contextmanager
    def read(
        self, table: ShardTable, shard: Shard, rows: int, unfit: Unfit
    ) -> Iterator[Iterator[Any]]:
        """Give the answers to a file, which a thread reads ahead."""
        with read_ahead(table.batches(shard, rows, unfit)) as batches:
            yield map(self.answer, batches)

    def one(self, batch: Any) -> Any:
        """Answer one batch."""
        return self.answer(batch)


@dataclass(frozen=True)
class OnDevices:
    """Answers in the processes of devices.

    Each reads row groups of a parquet file by itself, unless they are large. Other files are read
    here.
    """

    pool: DevicePool

    @contextmanager
    def read(
        self, table: ShardTable, shard: Shard, rows: int, unfit: Unfit
    ) -> Iterator[Iterator[Any]]:
        """Give the answers to a file, in the order of its rows."""
        # A process is sent numbers of row groups; their rows would have to be pickled.
        pieces = split_row_groups(shard, rows) if shard.kind == "parquet" else ()
        if pieces:
            yield chain.from_iterable(self.pool.answers(pieces))
            return
        with read_ahead(table.batches(shard, rows, unfit)) as batches:
            yield self.pool.answers(batches)

    def one(self, batch: Any) -> Any:
        """Answer one batch."""
        (scored,) = self.pool.answers([batch])
        return scored


@dataclass(frozen=True)
class DeviceAnswers:
    """What a process of a device does: answer a batch, or read some row groups and answer them."""

    answer: JointAnswers
    table: ShardTable
    rows: int

    def __call__(self, asked: Any) -> Any:
        """Answer a batch, or return the answers to the batches of a Shard."""
        if not isinstance(asked, Shard):
            return self.answer(asked)
        return [self.answer(batch) for batch in self.table.batches(asked, self.rows)]


@contextmanager
def answering_for(
    options: argparse.Namespace, load: Load, scorers: Mapping[str, Scorer], table: ShardTable
) -> Iterator[InProcess | OnDevices]:
    """Yield what answers batches: the processes of ``--devices``, or this one."""
    if not options.devices:
        yield InProcess(_join(scorers, table))
        return
    make = partial(for_device, options, load, ShardTable((), table.schema))
    with DevicePool(make, parse_devices(options.devices)) as pool:
        yield OnDevices(pool)


def for_device(
    options: argparse.Namespace, load: Load, table: ShardTable, device: str
) -> DeviceAnswers:
    """Load the models in the process of a device."""
    scorers = load(argparse.Namespace(**(vars(options) | {"device": device})))
    return DeviceAnswers(_join(scorers, table), table, options.batch_rows)


def job_of(scorers: Mapping[str, Scorer], schema: Any, batch_rows: int) -> ScoreJob:
    """Return a job in this process, of files whose columns have the types of a schema."""
    table = ShardTable((), schema)
    return ScoreJob(scorers, table, batch_rows, lambda _: None, InProcess(_join(scorers, table)))


def _join(scorers: Mapping[str, Scorer], table: ShardTable) -> JointAnswers:
    return JointAnswers({n: BatchAnswers(s, table.schema) for n, s in scorers.items()})


@dataclass
class BadRows:
    """What happens to rows that cannot be scored: the run fails, or they are written away.

    Parameters
    ----------
    name : str
        The file that is read.
    sink : file of text, optional
        Where rows go, as JSON lines. Without it the first one fails the run.
    """

    name: str
    sink: Any = None
    count: int = 0
    skipped: list[int] = field(default_factory=list)

    def add(self, row: int, reason: str, values: dict[str, Any] | str) -> None:
        """Take a row, by its number in the file from 1.

        Raises
        ------
        InputError
            No sink was given.
        """
        if self.sink is None:
            raise InputError(
                f"{self.name}, row {row:,}: {reason} "
                "Fix the row, or set such rows aside with --rejects FILE."
            )
        self.count += 1
        line = {"file": self.name, "row": row, "reason": reason, "values": values}
        self.sink.write(json_line(line))

    def unfit(self, row: Any) -> str:
        """Take a CSV row of too many or too few values, as pyarrow gives it."""
        # pyarrow counts the header.
        number = row.number - 1
        self.skipped.append(number)
        self.add(
            number,
            f"It has {row.actual_columns} values, and the header {row.expected_columns}.",
            row.text,
        )
        return "skip"

    def number(self, position: int) -> int:
        """Return the number in the file of a row, whose position is among those that were read."""
        number = position + 1
        # pyarrow skips uneven rows before they are counted, so each one moves those behind it.
        for skipped in self.skipped:
            number += skipped <= number
        return number


def find_parts(
    score: Callable[[Any], Any], batch: Any, position: int, bad: BadRows
) -> Iterator[Any]:
    r"""Yield the outputs for the rows of a batch that are not refused, part by part.

    The batch begins at ``position`` among the rows that were read.

    >>> import pyarrow as pa
    >>> import io
    >>> def halve(batch):
    ...     if None in batch["a"].to_pylist():
    ...         raise ValueError("a is missing.")
    ...     return [value / 2 for value in batch["a"].to_pylist()]
    >>> bad = BadRows("t.csv", io.StringIO())
    >>> batch = pa.record_batch({"a": [2, 4, None, 6]})
    >>> list(find_parts(halve, batch, 0, bad))
    [[1.0, 2.0], [3.0]]
    >>> bad.sink.getvalue()
    '{"file": "t.csv", "row": 3, "reason": "a is missing.", "values": {"a": null}}\n'
    """
    for place, found, error in answered_parts(score, batch, position):
        if error is None:
            yield found
        else:
            bad.add(bad.number(place), str(error), found.to_pylist()[0])
