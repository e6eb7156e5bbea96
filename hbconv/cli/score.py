"""Score a table file (parquet, CSV or Arrow) into a parquet file, in batches of bounded memory.

The output appears only when it is complete. Columns are found by name; --keep copies input columns beside the answers.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hbconv.cli import answer
from hbconv.cli.sources import load_model, model_arguments
from hbconv.cli.tables import atomic_parquet, open_table, rows_for
from hbconv.errors import InputError, OptionError

if TYPE_CHECKING:
    from hbconv.model import Model


def arguments(command: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    model_arguments(command)
    command.add_argument("input", help="table to score: .parquet (or a folder of them), .csv, .arrow, .feather")
    command.add_argument("-o", "--output", required=True, help="parquet file to write")
    command.add_argument("--method", help="method to call (default: predict, or the model's first)")
    command.add_argument("--keep", default="", metavar="COLUMNS", help="input columns to copy to the output, separated by commas")
    command.add_argument("--batch-rows", type=int, default=65_536, help="rows held in memory at a time (default 65,536)")
    command.add_argument("--quiet", action="store_true", help="no progress bar")


def run(options: argparse.Namespace) -> int:
    """Score batch after batch."""
    model, path = load_model(options), Path(options.input)
    method = _method(model, options.method)
    dataset = open_table(path)
    keep = [c for c in options.keep.split(",") if c]
    needed = _needed_columns(model, dataset.schema.names, keep, path.name)
    began, total = time.perf_counter(), dataset.count_rows()
    with _progress(total, quiet=options.quiet) as bar:
        rows = _write(model, method, dataset, needed, keep, options, bar)
    if rows != total:
        raise InputError(f"{path.name} held {total:,} rows at the start and {rows:,} while it was read; the output was not kept.")
    seconds = time.perf_counter() - began
    result = {"output": options.output, "rows": rows, "seconds": round(seconds, 3), "rows_per_second": round(rows / seconds), "method": method}
    answer(options, result, f"{options.output}: {rows:,} rows by {method} in {seconds:.2f} s ({rows / seconds:,.0f} rows/s)")
    return 0


def _write(model: Model, method: str, dataset: Any, needed: list[str], keep: list[str], options: argparse.Namespace, bar: Any) -> int:
    """Write the answers of each batch; the schema is that of the answers to no rows."""
    batches = _batches(dataset, needed, keep, options.batch_rows)
    empty = dataset.schema.empty_table().select(list(dict.fromkeys([*needed, *keep])))
    schema = _answers(model, method, empty, needed, keep).schema
    rows = 0
    with atomic_parquet(Path(options.output), schema) as writer:
        for batch in batches:
            writer.write_table(_answers(model, method, batch, needed, keep).cast(schema))
            rows += batch.num_rows
            bar.update(batch.num_rows)
    return rows


def _batches(dataset: Any, needed: list[str], keep: list[str], batch_rows: int) -> Iterator[Any]:
    import pyarrow as pa

    if batch_rows < 1:
        raise OptionError("--batch-rows must be at least 1.")
    columns = list(dict.fromkeys([*needed, *keep]))
    for batch in dataset.to_batches(columns=columns, batch_size=batch_rows, batch_readahead=2, fragment_readahead=1):
        if batch.num_rows:
            yield pa.Table.from_batches([batch])


def _answers(model: Model, method: str, batch: Any, needed: list[str], keep: list[str]) -> Any:
    """Answers to a batch as a table: one column a class or output, after the kept columns."""
    import pyarrow as pa

    values = getattr(model, method)(rows_for(model, batch.select(needed)))
    blocks = values if isinstance(values, list) else [values]
    columns = [column for block in blocks for column in _columns(block)]
    names = [method] if not isinstance(values, list) and values.ndim == 1 else _names(model, method, [len(_columns(block)) for block in blocks])
    kept = {name: batch.column(name) for name in keep}
    return pa.table(kept | {name: _arrow(column) for name, column in zip(names, columns, strict=True)})


def _arrow(column: Any) -> Any:
    """Return a column as Arrow holds it; labels that are objects are text where they are all text, as none are."""
    import pyarrow as pa

    if column.dtype != object:
        return pa.array(column)
    return pa.array(column.tolist(), pa.string() if all(isinstance(label, str) for label in column) else None)


def _columns(values: Any) -> list[Any]:
    """Return the columns of an answer; those of a cube one block after another."""
    import numpy as np

    values = np.asarray(values.todense() if hasattr(values, "todense") else values)
    return [values] if values.ndim == 1 else list(values.reshape(len(values), math.prod(values.shape[1:])).T)


def _names(model: Model, method: str, widths: list[int]) -> list[str]:
    """Name the columns after classes, features or their places; those of several targets after the target first."""
    if method == "transform":
        return list(model.get_feature_names_out())
    classes = getattr(model, "classes_", None)
    if len(widths) > 1:
        return [f"{method}_{target}_{c}" for target, labels in enumerate(classes or map(range, widths)) for c in labels]
    own = classes if classes is not None and not isinstance(classes, list) and len(classes) == widths[0] else range(widths[0])
    return [f"{method}_{c}" for c in own]


def _method(model: Model, wanted: str | None) -> str:
    if wanted is None:
        return "predict" if "predict" in model.methods else next(iter(model.methods))
    columns = model.parsed.tensors
    if wanted not in model.methods:
        raise OptionError(f"The model has no method {wanted!r}. It has: {', '.join(columns)}.")
    if wanted not in columns:
        raise OptionError(f"The answers of {wanted!r} are no columns of a table. Those of these methods are: {', '.join(columns)}.")
    return wanted


def _needed_columns(model: Model, present: list[str], keep: list[str], name: str) -> list[str]:
    named = getattr(model, "feature_names_in_", None)
    needed = [str(c) for c in named] if named is not None else [c for c in present if c not in keep]
    missing = [c for c in [*needed, *keep] if c not in present]
    if missing:
        raise InputError(f"{name} lacks the columns {', '.join(missing)}. It has: {', '.join(present)}.")
    return needed


def _progress(total: int, *, quiet: bool) -> Any:
    """Progress bar on a terminal's standard error, or something that takes its calls and does nothing."""
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
