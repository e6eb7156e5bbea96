"""Score a table file (parquet, CSV or Arrow) into another, in batches of bounded memory.

The suffix of the output decides its format, and the file appears only when it is complete.
Columns are found by name, and --keep copies input columns beside the answers.
A CSV file is read as pandas.read_csv reads it.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hbconv.cli import answer, positive
from hbconv.cli.outputs import check_output, table_writer
from hbconv.cli.sources import load_model, model_arguments
from hbconv.cli.tables import TableFile, open_table, rows_for
from hbconv.errors import InputError, OptionError

if TYPE_CHECKING:
    from hbconv.model import Model


@dataclass(frozen=True)
class Job:
    """Method, columns that it needs, and columns that are kept beside its answers."""

    model: Model
    method: str
    needed: tuple[str, ...]
    keep: tuple[str, ...]
    names: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that are read."""
        return tuple(dict.fromkeys([*self.needed, *self.keep]))

    def answers(self, batch: Any) -> Any:
        """Return a table of the columns kept, then a column for each class or output."""
        import pyarrow as pa

        values = getattr(self.model, self.method)(rows_for(self.model, batch.select(self.needed)))
        blocks = values if isinstance(values, list) else [values]
        columns = [_arrow(column) for block in blocks for column in _columns(block, len(batch))]
        kept = [batch.column(name) for name in self.keep]
        return pa.table([*kept, *columns], names=[*self.keep, *self.names])


def arguments(command: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    model_arguments(command)
    command.add_argument(
        "input", help="table to score: .parquet (or a folder of them), .csv, .arrow, .feather"
    )
    command.add_argument(
        "-o", "--output", required=True, help="table to write: .parquet, .csv, .arrow, .feather"
    )
    command.add_argument("--method", help="method to call (default: predict, or the model's first)")
    command.add_argument(
        "--keep",
        default="",
        metavar="COLUMNS",
        help="input columns to copy to the output, separated by commas",
    )
    command.add_argument(
        "--batch-rows",
        type=positive,
        default=65_536,
        help="rows held in memory at a time (default 65,536)",
    )
    command.add_argument("--quiet", action="store_true", help="no progress bar")


def run(options: argparse.Namespace) -> int:
    """Check all that can be checked before any work, then score batch after batch."""
    path = Path(options.input)
    output = Path(options.output)
    check_output(output, (path, Path(options.model)))
    table = open_table(path)
    job = _job(load_model(options), options.method, table, options.keep)
    table = table.narrowed(job.columns)
    began = time.perf_counter()
    total = table.count_rows()
    with _progress(total, quiet=options.quiet) as bar:
        rows = _write(job, table, output, options.batch_rows, bar)
        if rows != total:
            raise InputError(
                f"{path.name} held {total:,} rows at the start and {rows:,} while it was read; "
                "the output was not kept."
            )
    seconds = time.perf_counter() - began
    result = {
        "output": options.output,
        "rows": rows,
        "seconds": round(seconds, 3),
        "rows_per_second": round(rows / seconds),
        "method": job.method,
    }
    answer(
        options,
        result,
        f"{options.output}: {rows:,} rows by {job.method} in {seconds:.2f} s "
        f"({rows / seconds:,.0f} rows/s)",
    )
    return 0


def _job(model: Model, method: str | None, table: TableFile, keep: str) -> Job:
    """Choose the method and the columns.

    Columns that are missing, or that would stand twice in the output, are refused.
    """
    kept = tuple(dict.fromkeys(name for name in keep.split(",") if name))
    chosen = _method(model, method)
    needed = _needed_columns(model, table, kept)
    names = tuple(_names(model, chosen))
    twice = [name for name in kept if name in names]
    if twice:
        raise OptionError(
            f"--keep {','.join(twice)}: the answers have columns of that name. "
            "Rename the columns of the table, or leave them out."
        )
    if len(set(names)) < len(names):
        raise OptionError(
            f"The answers of {chosen!r} have columns of equal names: {', '.join(names)}."
        )
    return Job(model, chosen, needed, kept, names)


def _write(job: Job, table: TableFile, output: Path, batch_rows: int, bar: Any) -> int:
    """Write the answers of each batch; those to the first one, or to no rows, give the schema."""
    batches = table.batches(batch_rows)
    first = next(batches, table.schema.empty_table())
    answers = job.answers(first)
    rows = 0
    with table_writer(output, answers.schema) as write:
        for batch, found in chain([(first, answers)], _answered(job, batches)):
            write(_as(found, answers.schema))
            rows += batch.num_rows
            bar.update(batch.num_rows)
    return rows


def _answered(job: Job, batches: Iterator[Any]) -> Iterator[tuple[Any, Any]]:
    return ((batch, job.answers(batch)) for batch in batches)


def _as(table: Any, schema: Any) -> Any:
    """Give answers the types of the first ones; no number may change by it."""
    import pyarrow as pa

    try:
        return table.cast(schema)
    except pa.ArrowInvalid as error:
        raise InputError(
            f"Later rows have answers of another type than the first ones: {error}. "
            "Give each column one type, such as float64."
        ) from error


def _arrow(column: Any) -> Any:
    """Return a column as Arrow holds it; objects become text if they are all text."""
    import pyarrow as pa

    if column.dtype != object:
        return pa.array(column)
    return pa.array(
        column.tolist(), pa.string() if all(isinstance(label, str) for label in column) else None
    )


def _columns(values: Any, rows: int) -> list[Any]:
    """Return the columns of an answer; those of a cube one block after another.

    One dimension is a column, or all columns of a single row.
    """
    import numpy as np

    values = np.asarray(values.todense() if hasattr(values, "todense") else values)
    if values.ndim == 1 and rows != 1:
        return [values]
    width = math.prod(values.shape[1:]) if values.ndim > 1 else values.size
    return list(values.reshape(rows, width).T)


def _names(model: Model, method: str) -> list[str]:
    """Name the columns of the answers after classes, features or their places.

    Columns of several targets have the name of the target first.
    """
    output = model.parsed.outputs[method]
    if method == "transform":
        return [str(name) for name in model.get_feature_names_out()]
    if output.is_vector:
        return [method]
    widths = output.widths or (output.node.type.width,)
    classes = getattr(model, "classes_", None)
    if len(widths) > 1:
        return [
            f"{method}_{target}_{c}"
            for target, labels in enumerate(classes or map(range, widths))
            for c in labels
        ]
    own = (
        classes
        if classes is not None and not isinstance(classes, list) and len(classes) == widths[0]
        else range(widths[0])
    )
    return [f"{method}_{c}" for c in own]


def _method(model: Model, wanted: str | None) -> str:
    if wanted is None:
        return "predict" if "predict" in model.methods else next(iter(model.methods))
    columns = model.parsed.tensors
    if wanted not in model.methods:
        raise OptionError(f"The model has no method {wanted!r}. It has: {', '.join(columns)}.")
    if wanted not in columns:
        raise OptionError(
            f"The answers of {wanted!r} are no columns of a table. "
            f"Those of these methods are: {', '.join(columns)}."
        )
    return wanted


def _needed_columns(model: Model, table: TableFile, keep: Sequence[str]) -> tuple[str, ...]:
    named = getattr(model, "feature_names_in_", None)
    needed = [c for c in table.names if c not in keep] if named is None else [str(c) for c in named]
    return tuple(needed)


def _progress(total: int, *, quiet: bool) -> Any:
    """Return a progress bar on a terminal's standard error, or a silent stand-in."""
    from contextlib import nullcontext
    from types import SimpleNamespace

    silent = nullcontext(SimpleNamespace(update=lambda rows: None))
    if quiet or not sys.stderr.isatty():
        return silent
    try:
        from tqdm import tqdm
    except ImportError:
        return silent
    return tqdm(total=total, unit=" rows", unit_scale=True, file=sys.stderr)
