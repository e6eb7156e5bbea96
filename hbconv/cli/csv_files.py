"""How pyarrow reads CSV files: block after block of whole rows, none of which may be lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from hbconv.cli.records import Block, read_records
from hbconv.errors import InputError

__all__ = ["csv_blocks", "csv_schema"]

MISSING = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"),
    *("<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
)
"""Texts that stand for missing values in CSV files: those of ``pandas.read_csv``."""

Unfit = Callable[[Any], str] | None


def csv_schema(shard: Any) -> Any:
    """Return names and types of the columns of a file's first block, or None if it has no lines."""
    block = next(read_records(shard), None)
    return None if block is None else _table(block, None, {}, lambda _: "skip").schema


def csv_blocks(shard: Any, schema: Any, unfit: Unfit) -> Iterator[Any]:
    """Read some columns of a file, with types that are given, as record batches.

    Parameters
    ----------
    shard : Shard
    schema : pyarrow.Schema
    unfit : callable, optional
        Asked what to do with a row of too many or too few values: "skip" or "error". The number
        that it is told counts the header.

    Raises
    ------
    InputError
        The file ends inside a row, or is no text; or rows are lost.
    """
    names = [name for name in shard.schema.names if name not in shard.keys]
    columns = {
        "column_types": schema,
        "include_columns": schema.names,
        "null_values": MISSING,
        "strings_can_be_null": True,
    }
    for block in read_records(shard):
        uneven = _Uneven(shard.name, block, unfit)
        table = _table(block, names, columns, unfit and uneven)
        uneven.require_all(table.num_rows)
        yield from table.to_batches()


def _table(block: Block, names: Any, columns: dict[str, Any], unfit: Unfit) -> Any:
    import pyarrow as pa
    from pyarrow import csv

    # Without threads pyarrow knows the number of a row that does not fit.
    options = csv.ReadOptions(
        use_threads=unfit is None,
        block_size=block.parse_bytes,
        column_names=names if block.first else None,
    )
    return csv.read_csv(
        pa.BufferReader(block.text),
        read_options=options,
        parse_options=csv.ParseOptions(newlines_in_values=True, invalid_row_handler=unfit),
        convert_options=csv.ConvertOptions(**columns),
    )


class _Uneven:
    """Asks what to do with the rows of a block that do not fit the header, and counts them."""

    def __init__(self, name: str, block: Block, unfit: Unfit) -> None:
        self.name = name
        self.block = block
        self.unfit = unfit
        self.count = 0
        self.cut = ""

    def __call__(self, row: Any) -> str:
        assert self.unfit is not None  # noqa: S101  (else pyarrow is not told of this)
        self.count += 1
        number = self.block.first + row.number
        is_last = self.block.is_cut and row.number == self.block.count
        if is_last and row.actual_columns < row.expected_columns:
            self.cut = (
                f"{self.name}, row {number - 1:,}: The file ends inside this row, which has "
                f"{row.actual_columns} values of {row.expected_columns}. Write it whole, or end it "
                "with a line, and it is a row like others."
            )
        return self.unfit(row._replace(number=number))

    def require_all(self, rows: int) -> None:
        """Require that all rows of the block were read, but for those that were skipped."""
        if self.cut:
            raise InputError(self.cut)
        held = self.block.count - (self.block.first == 0)
        if rows + self.count != held:
            raise InputError(
                f"{self.name}, rows {self.block.first or 1:,} and later: {rows + self.count:,} of "
                f"{held:,} rows can be read. Write the file anew."
            )
