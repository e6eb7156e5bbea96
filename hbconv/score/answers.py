"""What models answer to batches of a table: columns, or that they refuse a row.

Several models may answer the same rows. The columns of all but the first begin with their names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

from hbconv.engines.scorer import FAULTS, REFUSALS, Scorer
from hbconv.errors import InputError, OptionError

__all__ = [
    "FIRST",
    "BatchAnswers",
    "JointAnswers",
    "RefusedBatch",
    "needed_of",
    "require_columns_of_their_own",
]

FIRST = ""
"""The name of the model whose columns have no name in front."""


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
        # Faults are ValueErrors too, so they are let through before refusals are caught.
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
class JointAnswers:
    """Answers of several models to the same batches, side by side.

    A row that one of them refuses is refused.

    Parameters
    ----------
    answers : dict of BatchAnswers
        By the names of the models, ``FIRST`` among them. All keep the same columns.
    """

    answers: Mapping[str, BatchAnswers]

    def __call__(self, batch: Any) -> Any:
        """Answer a batch with the columns that are kept, then those of each model."""
        import pyarrow as pa

        names: list[str] = []
        columns: list[Any] = []
        for name, answer in self.answers.items():
            scored = answer(batch)
            if isinstance(scored, RefusedBatch):
                return _name_model(scored, name)
            own = scored.select(
                range(len(answer.scorer.keep) if columns else 0, scored.num_columns)
            )
            names += own.schema.names if name == FIRST else named(name, own.schema.names)
            columns += own.columns
        return pa.RecordBatch.from_arrays(columns, names=names)


def named(model: str, columns: Sequence[str]) -> list[str]:
    """Return names of columns behind the name of the model that answers them.

    >>> named("new", ["predict"])
    ['new_predict']
    """
    return [f"{model}_{column}" for column in columns]


def _name_model(refused: RefusedBatch, name: str) -> RefusedBatch:
    if name == FIRST:
        return refused
    return RefusedBatch(refused.batch, InputError(f"Model {name}: {refused.error}"))


def needed_of(scorers: Mapping[str, Scorer], columns: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of a table that some of the models read."""
    needed = (scorer.needed(columns) for scorer in scorers.values())
    return tuple(dict.fromkeys(chain.from_iterable(needed)))


def require_columns_of_their_own(scorers: Mapping[str, Scorer]) -> None:
    """Refuse models whose answers have columns of one name, before a row is read.

    Raises
    ------
    OptionError
        So it is, or a model lacks a method.
    """
    first = scorers[FIRST]
    taken = {*first.keep, *first.names}
    for name, scorer in scorers.items():
        columns = set() if name == FIRST else set(named(name, scorer.names))
        if taken & columns:
            raise OptionError(
                f"--model {name}=: the table has a column {min(taken & columns)} already. "
                "Give the model another name."
            )
        taken |= columns
