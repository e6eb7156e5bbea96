"""Answer batches of a table: in this process, or as each process of several devices does."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from hbconv.cli.bad_rows import FAULTS, REFUSALS
from hbconv.cli.device_pool import DevicePool, parse_devices
from hbconv.cli.sources import load_model
from hbconv.errors import InputError
from hbconv.scorer import Scorer

__all__ = ["BatchAnswers", "InProcess", "RefusedBatch", "answering_for", "for_device"]


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

        columns = self.scorer.model.schema.columns
        needed = self.scorer.needed(self.schema.names)
        return tuple(
            name
            for name, column in zip(needed, columns, strict=False)
            if column.dtype != "string" and self.schema.field(name).type == pa.string()
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
    """Answers batches here, as a ``DevicePool`` does in the processes of devices."""

    answer: BatchAnswers

    def answers(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield the answer to each batch, in their order."""
        return map(self.answer, batches)


def answering_for(
    options: argparse.Namespace, scorer: Scorer, schema: Any
) -> AbstractContextManager[InProcess | DevicePool]:
    """Return what answers batches: the processes of ``--devices``, or this one."""
    if not options.devices:
        return nullcontext(InProcess(BatchAnswers(scorer, schema)))
    make = partial(for_device, options, scorer.methods, scorer.keep, schema)
    return DevicePool(make, parse_devices(options.devices))


def for_device(
    options: argparse.Namespace,
    methods: tuple[str, ...],
    keep: tuple[str, ...],
    schema: Any,
    device: str,
) -> BatchAnswers:
    """Load the model in the process of a device."""
    own = argparse.Namespace(**(vars(options) | {"device": device}))
    return BatchAnswers(Scorer(load_model(own), methods, keep), schema)
