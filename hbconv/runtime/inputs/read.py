"""What the user gives, whatever its form, becomes a Table.

Rows of float16: programs read them as float32, as source models do that convert them.

Codes: arrays of numbers for a model fitted on columns of categories, whose codes they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.containers import (
    Cast,
    CategoryNumbers,
    Codes,
    Columns,
    Concat,
    Entries,
    Graph,
    Node,
    Select,
    Together,
    rewrite,
    topological,
)
from hbconv.containers.schema import WEAK_INT
from hbconv.errors import InputError
from hbconv.lower import DENSE, WRITTEN
from hbconv.runtime.inputs.arrays import (
    as_numbers,
    dtype_name,
    numeric,
    only_numbers,
    read_matrix,
    reads_rows,
    refuse_texts,
)
from hbconv.runtime.inputs.arrow_columns import Data, fill_nulls, find_na
from hbconv.runtime.inputs.dataframes import (
    Frame,
    is_nullable,
    plain_column,
    read_frame,
    read_sequence,
)
from hbconv.runtime.inputs.dates import Zoned
from hbconv.runtime.inputs.places import find_places, require_width, unnamed_rows, warn
from hbconv.runtime.inputs.records import is_nothing, parse_json, read_items, read_records
from hbconv.runtime.inputs.table import Block, Reads, Table
from hbconv.runtime.text.categories import Categories, Text
from hbconv.runtime.text.sparse_rows import EntryRows
from hbconv.runtime.text.vectorize import extract

__all__ = [
    "category_columns",
    "column_kinds",
    "count_columns",
    "is_table",
    "over_arrays",
    "read_entries",
    "read_table",
]

Places = Mapping[int, int] | Sequence[int]
"""The position in a table of each column of the schema."""


@reads_rows
def is_table(x: Any) -> bool:
    """Whether rows come as a table or as records, which have columns by name."""
    # Asked at each call, and of the class: a frame lists all its columns to answer.
    kind = type(x)
    if kind is dict or (hasattr(kind, "columns") and not hasattr(kind, "collect")):
        return True
    x = parse_json(x)
    return is_nothing(x) or (read_records(x) or read_frame(x)) is not None


@reads_rows
def count_columns(x: Any) -> int | None:
    """Return the number of columns of any table or matrix; None for other sequences.

    These may be mappings of differing keys, which are records to most models, but not to all.
    """
    try:
        x = parse_json(x)
        # A mapping of scalars is a record, and one of lists a table: records are asked first.
        frame = read_records(x) or read_frame(x)
    except InputError:  # What reads the rows tells what is wrong with them.
        return None
    if frame is not None:
        return len(frame.names)
    try:
        shape = np.shape(x)
    except ValueError:  # Of sequences that differ in length.
        return None
    return shape[1] if len(shape) == 2 else None


def column_kinds(x: Any) -> dict[str, str]:
    """Return what each column of a frame holds: a kind of values, or "" where none is known.

    Kinds are "number", "bool", "date" and "text". There are none where x is no frame, or has names
    that are no texts.
    """
    frame = read_frame(x) if hasattr(x, "columns") else None
    names = () if frame is None else frame.names
    if frame is None or not all(isinstance(name, str) for name in names):
        return {}
    return {str(name): _kind_held(frame, place) for place, name in enumerate(names)}


def _kind_held(frame: Frame, place: int) -> str:
    with suppress(InputError):  # of a column that the model may not read
        values = frame.read(place)
        if isinstance(values, Text):
            return "text"
        if isinstance(values, np.ndarray) and values.dtype.kind == "O":
            return "text" if any(isinstance(value, str) for value in values) else ""
        if isinstance(values, np.ndarray):
            return {"b": "bool", "i": "number", "u": "number", "f": "number", "M": "date"}.get(
                values.dtype.kind, ""
            )
    return ""


@reads_rows
def category_columns(x: Any) -> dict[int, str]:
    """Return the names of the columns of categories by position, of a table that stays as it is."""
    frame = read_frame(x) if hasattr(x, "shape") else None
    if frame is None:
        return {}
    return {i: str(name) for i, name in enumerate(frame.names) if _holds_categories(frame, i)}


def _holds_categories(frame: Frame, place: int) -> bool:
    if frame.is_category is not None:
        return frame.is_category(place)
    with suppress(InputError):  # of a column that the model may not read
        return isinstance(frame.read(place), Categories)
    return False


@reads_rows
def read_table(x: Any, reads: Reads) -> Table:
    """Read any table or array.

    Parameters
    ----------
    x : array, table, list of lists or records
        Of shape (n_rows, n_columns): numpy array, list of lists, pandas or polars DataFrame, Arrow
        Table or RecordBatch, anything with ``__arrow_c_stream__``, dict of columns, structured
        array, torch tensor, or scipy sparse matrix. It may have no rows. Or a record (a dict of
        scalars, a row of a pandas frame), a list of records, or JSON text of any of these.
    reads : Reads
        The columns the model reads.

    Raises
    ------
    InputError
        The width, names, dimensions or dtypes do not fit, or text is where numbers are read.
    """
    conventions = reads.schema.conventions
    original, x = x, x if conventions.takes_column else parse_json(x)
    frame = _frame_of(x, reads)
    if frame is not None:
        return _read_frame(frame, reads)
    if conventions.tables_only:
        raise InputError(
            f"{reads.owner} was fitted on columns of categories. Give a table (such as a "
            "DataFrame) that holds their values, not an array."
        )
    if hasattr(x, "tocsr") and reads.text:
        raise InputError(
            f"A sparse matrix holds numbers alone, and {reads.owner} reads text. Give a table, or "
            "an array of objects."
        )
    if hasattr(x, "tocsr") and not reads.reads_sparse:
        raise InputError(
            reads.why_dense or f"A step of {reads.owner} takes no sparse matrix. Give X.toarray()."
        )
    matrix = read_matrix(x)
    require_width(matrix.shape[1], reads)
    if reads.schema.named:
        warn(unnamed_rows(reads))
    # Objects are read column by column, as each may hold another type.
    if matrix.dtype.kind in "OUTM" and (reads.text or matrix.dtype.kind == "O"):
        columns = Frame((), len(matrix), lambda i: matrix[:, i], none_is_value=x is original)
        return _read_columns(columns, range(matrix.shape[1]), reads)
    return _whole(reads, as_numbers(matrix, reads.schema), matrix.dtype)


@reads_rows
def read_entries(x: Any, leaf: Entries, reads: Reads) -> EntryRows:
    """Read the items of any iterable as the sparse rows of a leaf, without a table around them."""
    column = _read_column(read_items(x), 0, leaf.column, reads)
    items = column.objects() if isinstance(column, Zoned) else column
    entries = extract(items, leaf.extractor, reads.where(leaf.column))
    return EntryRows(*entries, leaf.extractor.width)


def _frame_of(x: Any, reads: Reads) -> Frame | None:
    if reads.schema.conventions.items:
        return read_items(x)
    if reads.schema.conventions.sequence:
        return read_sequence(x)
    if is_nothing(x):
        return _nothing(reads)
    return read_records(x) or read_frame(x)


def _nothing(reads: Reads) -> Frame:
    """Return a table of the columns that the model was fitted on, without rows."""
    schema = reads.schema
    names = schema.names if schema.named else tuple(range(len(schema.columns)))
    return Frame(names, 0, lambda i: plain_column(names[i], []), ordered=False)


def _read_frame(frame: Frame, reads: Reads) -> Table:
    place = find_places(frame, reads)
    listed = (
        frozenset(i for i in reads.needed if frame.is_category(place[i]))
        if frame.is_category
        else reads.categories
    )
    if reads.schema.conventions.no_categories:
        _require_numbers(listed, reads)
    if reads.schema.conventions.tables_only:
        _require_categories(listed, reads)
    # A matrix of one dtype is read at once if all of its columns are.
    if frame.matrix is None or reads.text or len(place) < len(reads.schema.columns):
        return _read_columns(frame, place, reads)
    order = [place[i] for i in range(len(place))]
    values = numeric(frame.matrix, "X")
    return _whole(
        reads,
        # In the order of fitting a matrix needs no copy.
        values if order == list(range(values.shape[1])) else values[:, order],
        frame.matrix.dtype,
    )


def _require_numbers(listed: frozenset[int], reads: Reads) -> None:
    for i in sorted(listed):
        raise InputError(
            f"{reads.where(i)} has dtype category; {reads.owner} was fitted on numbers, and would "
            "read the codes. Give numbers."
        )


def _require_categories(listed: frozenset[int], reads: Reads) -> None:
    """Refuse categories where the model was fitted on numbers, and numbers for categories.

    The source model would read codes.
    """
    for i in sorted(listed - reads.categories):
        fitted = ", ".join(repr(reads.schema.names[j]) for j in sorted(reads.categories))
        raise InputError(
            f"{reads.where(i)} has dtype category; {reads.owner} was fitted on categories in "
            f"{fitted} alone."
        )
    for i in sorted(reads.categories & reads.numbers - listed):
        raise InputError(
            f"{reads.where(i)} holds plain numbers; {reads.owner} was fitted on categories. Give "
            "it dtype category, as in fitting."
        )


def _whole(reads: Reads, values: Any, dtype: np.dtype[Any]) -> Table:
    dtypes = (dtype_name(values.dtype),) * values.shape[1]
    _require_converted(
        reads, dtypes, frozenset(range(len(dtypes))) if dtype == np.float16 else frozenset()
    )
    _refuse_bools(reads, frozenset(range(len(dtypes))) if dtype.kind == "b" else frozenset())
    _refuse_narrow(reads, dict.fromkeys(range(len(dtypes)), dtype))
    padding = WRITTEN if reads.by_form and hasattr(values, "tocsr") else DENSE
    return Table(reads, values.shape[0], dtypes, values, padding=padding)


def _refuse_bools(reads: Reads, bools: frozenset[int]) -> None:
    """Refuse columns of bools where the source model makes one array of them alone."""
    message = next((text for columns, text in reads.bools if columns and columns <= bools), None)
    if message is not None:
        raise InputError(message)


def _refuse_narrow(reads: Reads, dtypes: Mapping[int, np.dtype[Any]]) -> None:
    """Refuse ints of other types than int64 where the source model computes in these.

    It makes one array of the columns of a check, so their common dtype counts.
    """
    for columns, refused, message in reads.narrow:
        given = {dtypes[i] for i in columns & dtypes.keys()}
        are_numbers = all(dtype.kind in "biuf" for dtype in given)
        if given and are_numbers and np.result_type(*given).name in refused:
            raise InputError(message)


def _refuse_nullable(reads: Reads, frame: Frame, place: Places) -> None:
    """Refuse nullable numbers of pandas where the source model computes in their types."""
    for columns, message in reads.nullable if len(frame.dtypes) else ():
        if any(is_nullable(frame.dtypes[place[i]]) for i in columns if i in place):
            raise InputError(message)


def _require_converted(reads: Reads, dtypes: tuple[str, ...], half: frozenset[int]) -> None:
    """Refuse float16 if the source model computes in it: programs compute in float32."""
    if half and reads.graph is not None and not is_converted(reads.graph, dtypes, half):
        where = reads.where(min(half)) if len(half) < len(dtypes) else "X"
        reason = (
            f"{where} is float16. {reads.owner} computes in the dtype of its rows, hbconv in no "
            "float16."
        )
        raise InputError(f"{reason} Give both of them float32: X.astype('float32').")


def _read_columns(frame: Frame, place: Places, reads: Reads) -> Table:
    column_at = {place[i]: i for i in sorted(reads.numbers)}
    alike = [
        ([column_at[position] for position in group], values)
        for group, values in frame.alike(list(column_at))
    ]
    blocks = tuple(Block(tuple(group), numeric(values, "X")) for group, values in alike)
    dtypes: dict[int, str] = {}
    for (group, values), block in zip(alike, blocks, strict=True):
        dtypes |= dict.fromkeys(group, _small_or_own(values, block.values))
    data = {
        i: _read_column(frame, place[i], i, reads) for i in sorted(reads.needed - dtypes.keys())
    }
    if frame.none_is_value:
        _refuse_na(frame, place, data, reads)
    arrays = {i: _array(data[i]) for i in reads.numbers - dtypes.keys()}
    for i in reads.objects & arrays.keys():
        arrays[i] = only_numbers(arrays[i], reads.strangers.get(i), reads.where(i))
    for i in reads.textless & arrays.keys():
        refuse_texts(arrays[i], reads.where(i))
    columns = data | {i: numeric(array, reads.where(i)) for i, array in arrays.items()}
    dtypes |= {i: _small_or_own(array, columns[i]) for i, array in arrays.items()}
    dtypes |= _moved_dtypes(frame, place, reads)
    # Small ints matter beside float32 alone, which they leave as it is.
    if "float32" not in dtypes.values():
        dtypes = {i: "int64" if dtype == WEAK_INT else dtype for i, dtype in dtypes.items()}
    given_as = {
        i: array for group, array in (*alike, *(([i], a) for i, a in arrays.items())) for i in group
    }
    bools = (i for i, array in given_as.items() if frame.has_bools(place[i], array))
    _refuse_bools(reads, frozenset(bools))
    _refuse_narrow(reads, {i: array.dtype for i, array in given_as.items()})
    _refuse_nullable(reads, frame, place)
    every = tuple(dtypes.get(i, "string") for i in range(len(reads.schema.columns)))
    _require_converted(
        reads,
        every,
        frozenset(i for i, array in given_as.items() if array.dtype == np.float16),
    )
    return Table(reads, frame.rows, every, columns=columns, blocks=blocks)


def _read_column(frame: Frame, position: int, column: int, reads: Reads) -> Data:
    """Read a column as it was given, and its nulls as what the model was fitted on."""
    is_number = column in reads.numbers
    read = frame.read if is_number or frame.read_values is None else frame.read_values
    data = _array(read(position)) if is_number else read(position)
    return data if frame.none_is_value else fill_nulls(data, reads.missing[column])


def _refuse_na(frame: Frame, place: Places, data: Mapping[int, Data], reads: Reads) -> None:
    """Refuse ``pandas.NA`` where the source model raises at it, in columns read or not."""
    for i in _there(reads.without_na, place):
        row = find_na(data[i] if i in data else frame.read(place[i]))
        if row is not None:
            raise InputError(
                f"{reads.where(i)} holds <NA> in row {row}. {reads.without_na[i]} Give NaN or "
                "None for what is missing."
            )


def _there(columns: Iterable[int], place: Places) -> list[int]:
    """Return those of some columns that a table has, which may lack what is not needed."""
    return [i for i in sorted(columns) if not isinstance(place, Mapping) or i in place]


def _moved_dtypes(frame: Frame, place: Places, reads: Reads) -> dict[int, str]:
    """Return the dtypes of columns of numbers that are only moved; others may hold anything."""
    moved = {i: _array(frame.read(place[i])) for i in _there(reads.moved, place)}
    plain = {i: array for i, array in moved.items() if array.dtype.kind in "biuf"}
    return {i: _small_or_own(a, numeric(a[:0], reads.where(i))) for i, a in plain.items()}


def _small_or_own(array: npt.NDArray[Any], numbers: Any) -> str:
    """Return the dtype of a column; ``WEAK_INT`` for bools and ints of up to 16 bits.

    In numpy these leave a float32 column beside them float32.
    """
    # numpy promotes int16 and float32 to float32, int32 and float32 to float64.
    small = array.dtype.kind in "bui" and array.dtype.itemsize <= 2
    return WEAK_INT if small else dtype_name(numbers.dtype)


def _array(data: Data) -> npt.NDArray[Any]:
    return data.objects() if isinstance(data, Text | Categories | Zoned) else data


MOVES = (Columns, Select, Concat, Together, Cast)
"""Containers that move or convert values, and compute nothing."""


def is_converted(graph: Graph, dtypes: Sequence[str], half: frozenset[int]) -> bool:
    """Return whether a source model converts float16 columns before it computes with them.

    It does if its values have the same dtype for float32 and for float64 columns.
    If the dtypes follow the columns', it computes in float16 with float16, each operation rounded.

    Parameters
    ----------
    graph : Graph
    dtypes : sequence of str
        Of all columns.
    half : frozenset of int
        Which of them are float16.
    """
    # No graph has float16, so two other dtypes tell whether dtypes follow the columns'.
    narrow, wide = (_typed(graph, dtypes, half, dtype) for dtype in ("float32", "float64"))
    computed = (
        _alike(n, w)
        for n, w in zip(topological(narrow.roots), topological(wide.roots), strict=True)
    )
    outputs = (
        n.type == w.type for n, w in zip(narrow.output_roots, wide.output_roots, strict=True)
    )
    return all(computed) and all(outputs)


def _alike(narrow: Node, wide: Node) -> bool:
    """Return whether a node computes in the same dtype of float32 and of float64, or moves it."""
    if isinstance(narrow, MOVES):
        return True
    inputs = zip(narrow.inputs, wide.inputs, strict=True) if narrow.starts_as_x else ()
    return narrow.type == wide.type and all(n.type == w.type for n, w in inputs)


def _typed(graph: Graph, dtypes: Sequence[str], half: frozenset[int], dtype: str) -> Graph:
    return graph.with_schema(
        graph.schema.with_dtypes(
            [dtype if i in half else column_dtype for i, column_dtype in enumerate(dtypes)]
        )
    )


def over_arrays(graph: Graph) -> Graph | None:
    """Return the graph of a model fitted on categories as it reads an array.

    The numbers of the array are those by which the source model numbers its categories.

    The graph does not check whether a category is known, because the source model does not for an
    array. Returns None if a column is also read by its values, as by an encoder beside the model:
    an array does not hold these.
    """
    # Arrays hold the codes of categories as numbers.
    plain = ["float64" if dtype == "string" else dtype for dtype in graph.schema.dtypes]
    schema = replace(
        graph.schema, conventions=replace(graph.schema.conventions, tables_only=False)
    ).with_dtypes(plain)

    def visit(node: Node) -> Node:
        if isinstance(node, CategoryNumbers):
            return node.of_array(schema)
        return replace(node, schema=schema) if isinstance(node, Columns) else node

    mapping = rewrite(graph.roots, visit)
    numbered = {mapping[node.codes] for node in mapping if isinstance(node, CategoryNumbers)}
    checks = tuple(
        replace(c, node=mapping[c.node])
        for c in graph.checks
        if not numbered.intersection(topological((mapping[c.node],)))
    )
    outputs = {name: output.mapped(mapping) for name, output in graph.outputs.items()}
    changed = replace(graph, schema=schema, outputs=outputs, checks=checks)
    return (
        None
        if any(isinstance(node, Codes | Entries) for node in topological(changed.roots))
        else changed
    )
