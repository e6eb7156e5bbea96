"""Read table files with pyarrow: parquet, CSV and Arrow, in batches of bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hbconv.cli.csv_types import narrowest_schema
from hbconv.cli.formats import SUFFIXES, blocks, file_format, reading
from hbconv.errors import InputError, MissingPackageError

if TYPE_CHECKING:
    from hbconv.model import Model

__all__ = ["TableFile", "open_table", "read_all", "rows_for"]


@dataclass(frozen=True)
class TableFile:
    """A table on the disk: one file, or a folder of parquet files.

    Parameters
    ----------
    path : Path
    names : tuple of str
        Its columns; those of the first file of a folder.
    fragments : tuple
        Its files, as pyarrow's fragments.
    schema : pyarrow.Schema
        Types of the columns, as they are read.
    """

    path: Path
    names: tuple[str, ...]
    fragments: tuple[Any, ...]
    schema: Any

    def narrowed(self, columns: Sequence[str]) -> TableFile:
        """Return the table with some of its columns, which all of its files hold with one type.

        Raises
        ------
        InputError
            A file lacks a column, holds it twice, or holds it with a type that does not fit. Or a
            file is damaged.
        """
        if self.path.suffix.lower() == ".csv":
            _require_columns(self.path.name, self.names, columns)
            schema = narrowest_schema(self.path, self.names, self.schema, columns)
            return replace(self, schema=schema)
        schemas = []
        for fragment in self.fragments:
            with reading(fragment.path):
                schemas.append(fragment.physical_schema)
            _require_columns(Path(fragment.path).name, schemas[-1].names, columns)
        return replace(self, schema=self._common(columns, schemas))

    def batches(self, rows: int) -> Iterator[Any]:
        """Read batches of at most some rows, as pyarrow Tables of the types of the schema.

        Raises
        ------
        InputError
            A file is damaged, or a value does not fit its column.
        """
        import pyarrow as pa

        for fragment in self.fragments:
            found = blocks(fragment.path, self.schema, rows)
            while True:
                with reading(fragment.path):
                    block = next(found, None)
                    table = (
                        None if block is None else pa.Table.from_batches([block]).cast(self.schema)
                    )
                if table is None:
                    break
                yield table

    def count_rows(self) -> int:
        """Count the rows; parquet files say how many they hold."""
        rows = 0
        for fragment in self.fragments:
            with reading(fragment.path):
                rows += fragment.count_rows()
        return rows

    def _common(self, columns: Sequence[str], schemas: Sequence[Any]) -> Any:
        """Find for each column a type that holds the values of all files.

        For int64 and float64 it is float64.
        """
        import pyarrow as pa

        fields = []
        for name in columns:
            held = [pa.schema([schema.field(name)]) for schema in schemas]
            try:
                fields += list(pa.unify_schemas(held, promote_options="permissive"))
            except pa.ArrowException as error:
                types = [one.field(name).type for one in held]
                other = next(i for i, kind in enumerate(types) if kind != types[0])
                first, second = (Path(self.fragments[i].path).name for i in (0, other))
                raise InputError(
                    f"Column {name!r} is {types[0]} in {first} and {types[other]} in {second}. "
                    "Write these files with one type."
                ) from error
        return pa.schema(fields)


def open_table(path: Path) -> TableFile:
    """Open a file by its suffix, or a folder of parquet files.

    This reads the columns' names and types, but no rows.

    Raises
    ------
    InputError
        No such file, an unknown suffix, a folder without parquet files, or a damaged file.
    MissingPackageError
        pyarrow is not installed.
    """
    try:
        import pyarrow.dataset
    except ImportError as error:
        raise MissingPackageError(
            "Reading tables needs pyarrow. Install with: pip install 'hbconv[score]'"
        ) from error
    if not path.exists():
        raise InputError(f"No file {path}.")
    kind = "parquet" if path.is_dir() else SUFFIXES.get(path.suffix.lower())
    if kind is None:
        raise InputError(f"{path.name}: unknown table format. Known: {', '.join(SUFFIXES)}.")
    with reading(path):
        found = pyarrow.dataset.dataset(path, format=file_format(kind))
        fragments = tuple(found.get_fragments())
    if not fragments:
        raise InputError(f"The folder {path} holds no parquet files.")
    return TableFile(path, tuple(found.schema.names), fragments, found.schema)


def read_all(path: Path, columns: list[str] | None, rows: int | None = None) -> Any:
    """Read a table, or its first rows, into memory as a pyarrow Table."""
    import pyarrow as pa

    table = open_table(path)
    table = table.narrowed(table.names if columns is None else columns)
    held: list[Any] = []
    for batch in table.batches(65_536 if rows is None else max(rows, 1)):
        held.append(batch)
        if rows is not None and sum(map(len, held)) >= rows:
            break
    whole = pa.concat_tables(held) if held else table.schema.empty_table()
    return whole if rows is None else whole.slice(0, rows)


def rows_for(model: Model, table: Any) -> Any:
    """Return a pyarrow Table as the model takes it.

    A model that reads a sequence, of texts for example, takes the only column.

    Raises
    ------
    InputError
        Several columns, where the model reads a sequence.
    """
    conventions = model.schema.conventions
    if not (conventions.items or conventions.sequence):
        return table
    if table.num_columns != 1:
        raise InputError(
            f"The model reads one column of values, and here are {', '.join(table.column_names)}. "
            "Give a table of that column alone."
        )
    return table.column(0)


def _require_columns(name: str, present: Sequence[str], columns: Sequence[str]) -> None:
    missing = [column for column in columns if column not in present]
    if missing:
        raise InputError(
            f"{name} lacks the columns {', '.join(missing)}. It has: {', '.join(present)}."
        )
    twice = [column for column in columns if present.count(column) > 1]
    if twice:
        raise InputError(
            f"{name} holds the columns {', '.join(twice)} more than once. "
            "Rename or drop the others."
        )
