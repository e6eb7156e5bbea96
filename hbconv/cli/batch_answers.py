"""Answer batches of a table: in this process, or as each process of several devices does."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from typing import Any

from hbconv.cli.ahead import read_ahead
from hbconv.cli.bad_rows import FAULTS, REFUSALS
from hbconv.cli.device_pool import DevicePool, parse_devices
from hbconv.cli.formats import split_row_groups
from hbconv.cli.shards import Shard
from hbconv.cli.sources import load_model
from hbconv.cli.tables import ShardTable
from hbconv.errors import InputError
from hbconv.scorer import Scorer

__all__ = ["BatchAnswers", "InProcess", "OnDevices", "RefusedBatch", "answering_for", "for_device"]

Unfit = Callable[[Any], str] | None


@dataclass(frozen=True)
class RefusedBatch:
    """A batch with rows that the model refuses, and what it says of the first."""

    batch: Any
    error: Exception

    @property
    def num_rows(self) -> int:
        """Rows of the batch."""
        return int(self.batch.num_rows)


@dataclass(frozen=True)
class BatchAnswers:
    """Answers of a model to batches of a table, or that it refuses one.

    Parameters
    ----------
    scorer : Scorer
    schema : pyarrow.Schema
        Of the table.
    """

    scorer: Scorer
    schema: Any

    def __call__(self, batch: Any) -> Any:
        """Answer a batch; text in columns that the model reads as numbers is read as such.

        A single word in a CSV file makes text of all numbers in its column.
        """
        try:
            return self.scorer(batch)
        except FAULTS:
            raise
        except REFUSALS as error:
            return self._again(batch, error)

    def _again(self, batch: Any, error: Exception) -> Any:
        if not self._numbers:
            return RefusedBatch(batch, error)
        try:
            return self.scorer(self._with_numbers(batch))
        except FAULTS:
            raise
        except REFUSALS as second:
            return RefusedBatch(batch, second)

    @cached_property
    def _numbers(self) -> tuple[str, ...]:
        """Columns of text that the model reads as numbers."""
        import pyarrow as pa

        model = self.scorer.model
        places = model.reads.asked if model.schema.named else range(len(model.schema.columns))
        return tuple(
            name
            for name, i in zip(self.scorer.needed(self.schema.names), places, strict=False)
            if model.schema.dtypes[i] != "string" and self.schema.field(name).type == pa.string()
        )

    def _with_numbers(self, batch: Any) -> Any:
        import pyarrow as pa

        for name in self._numbers:
            place = batch.schema.get_field_index(name)
            column = batch.column(name)
            try:
                numbers = column.cast(pa.float64())
            except pa.ArrowInvalid as error:
                words = f", and holds the text {column[0].as_py()!r}" if len(column) == 1 else ""
                raise InputError(f"Column {name!r} must be numbers{words}.") from error
            batch = batch.set_column(place, name, numbers)
        return batch


@dataclass(frozen=True)
class InProcess:
    """Answers here."""

    answer: BatchAnswers

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
        groups = split_row_groups(shard, rows) if shard.kind == "parquet" else ()
        if groups:
            pieces = (replace(shard, row_groups=own) for own in groups)
            yield chain.from_iterable(self.pool.answers(pieces))
            return
        with read_ahead(table.batches(shard, rows, unfit)) as batches:
            yield self.pool.answers(batches)

    def one(self, batch: Any) -> Any:
        """Answer one batch."""
        (found,) = self.pool.answers([batch])
        return found


@dataclass(frozen=True)
class DeviceAnswers:
    """What a process of a device does: answer a batch, or read some row groups and answer them."""

    answer: BatchAnswers
    rows: int

    def __call__(self, asked: Any) -> Any:
        """Answer a batch, or return the answers to the batches of a Shard."""
        if not isinstance(asked, Shard):
            return self.answer(asked)
        table = ShardTable((asked,), self.answer.schema)
        return [self.answer(batch) for batch in table.batches(asked, self.rows)]


@contextmanager
def answering_for(
    options: argparse.Namespace, scorer: Scorer, schema: Any
) -> Iterator[InProcess | OnDevices]:
    """Yield what answers batches: the processes of ``--devices``, or this one."""
    if not options.devices:
        yield InProcess(BatchAnswers(scorer, schema))
        return
    make = partial(for_device, options, scorer.methods, scorer.keep, schema)
    with DevicePool(make, parse_devices(options.devices)) as pool:
        yield OnDevices(pool)


def for_device(
    options: argparse.Namespace,
    methods: tuple[str, ...],
    keep: tuple[str, ...],
    schema: Any,
    device: str,
) -> DeviceAnswers:
    """Load the model in the process of a device."""
    own = argparse.Namespace(**(vars(options) | {"device": device}))
    scorer = Scorer(load_model(own), methods, keep)
    return DeviceAnswers(BatchAnswers(scorer, schema), options.batch_rows)
