"""How pyarrow reads JSON lines files: block after block of whole lines, none of which may be lost.

pyarrow takes several objects of a line for rows, and ends the process over a row that is ``null``
and over values that are nested thousands deep. So lines are looked at before it reads them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NoReturn

from hbconv.cli.records import Block, read_records
from hbconv.errors import InputError

__all__ = ["json_blocks", "json_schema", "lines_of", "without_times"]

NO_OBJECT = re.compile(rb"\n[ \t\r]*[^ \t\r\n{]")
"""The start of a line that holds no object; its first letter lets it be found quickly."""
NO_OBJECT_FIRST = re.compile(rb"[ \t\r\n]*[^ \t\r\n{]")
BEHIND_OBJECT = re.compile(rb"\}[ \t\r]*[^ \t\r\n,}\]]")
"""What stands behind an object in its line, or in a text."""
TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]')
DEEPEST = 200
"""Lists and objects that a value may stand in."""


def json_blocks(shard: Any, schema: Any = None) -> Iterator[Any]:
    """Read a file as record batches: all columns with types of their own, or those of a schema.

    Raises
    ------
    InputError
        A line is no JSON object; the message names its row.
    """
    from pyarrow import json as arrow_json

    parse = arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    for block in read_records(shard):
        table = _table(shard, block, None if schema is None else parse)
        yield from (table if schema is None else table.select(schema.names)).to_batches()


def json_schema(shard: Any) -> Any:
    """Return names and types of the columns of a file's first block, or None if it has no lines."""
    batch = next(json_blocks(shard), None)
    return None if batch is None else batch.schema


def lines_of(shard: Any) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a file that hold an object, with the numbers of their rows."""
    for block in read_records(shard):
        yield from _lines(block)


def without_times(kind: Any) -> Any:
    """Return a type that leaves as text what pyarrow takes for dates and times.

    >>> import pyarrow as pa
    >>> without_times(pa.time32("s")), without_times(pa.list_(pa.timestamp("s")))
    (DataType(string), ListType(list<item: string>))
    """
    import pyarrow as pa

    if pa.types.is_temporal(kind):
        return pa.string()
    if pa.types.is_list(kind):
        return pa.list_(without_times(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, without_times(field.type)) for field in kind])
    return kind


def _table(shard: Any, block: Block, parse: Any) -> Any:
    import pyarrow as pa
    from pyarrow import json as arrow_json

    if _is_strange(block):
        _require_objects(shard, block)
    options = arrow_json.ReadOptions(block_size=block.parse_bytes)
    try:
        table = arrow_json.read_json(pa.BufferReader(block.text), options, parse)
    except pa.ArrowInvalid as error:
        _require_objects(shard, block)
        _refuse(shard, block, re.sub(r" in row \d+$", "", str(error)))
    if table.num_rows != block.count:
        _require_objects(shard, block)
        _refuse(shard, block, f"{table.num_rows:,} of {block.count:,} rows can be read")
    return table


def _refuse(shard: Any, block: Block, reason: str) -> NoReturn:
    rows = f"rows {block.first + 1:,} to {block.first + block.count:,}"
    raise InputError(f"{shard.name} cannot be read as json, {rows}: {reason:.300}.")


def _is_strange(block: Block) -> bool:
    """Say whether a line may be something else than one object, or may be nested deeply."""
    text = block.text
    if NO_OBJECT_FIRST.match(text) or NO_OBJECT.search(text) or BEHIND_OBJECT.search(text):
        return True
    openers = text.count(b"[") + text.count(b"{")
    return openers > block.count + DEEPEST


def _require_objects(shard: Any, block: Block) -> None:
    for row, line in _lines(block):
        reason = _flaw(line)
        if reason:
            cut = (
                " The file ends inside this line." if block.is_cut and _is_last(block, row) else ""
            )
            raise InputError(
                f"{shard.name} cannot be read as json, row {row:,}: {reason}.{cut} "
                "Each line must hold one object."
            )


def _is_last(block: Block, row: int) -> bool:
    return row == block.first + block.count


def _lines(block: Block) -> Iterator[tuple[int, bytes]]:
    return enumerate(filter(bytes.strip, block.text.split(b"\n")), block.first + 1)


def _flaw(line: bytes) -> str:
    """Say why a line is not one JSON object that pyarrow may read; "" of others."""
    if line.count(b"[") + line.count(b"{") > DEEPEST and _depth(line) > DEEPEST:
        return f"it holds lists or objects within each other, more than {DEEPEST} deep"
    try:
        found = json.loads(line.decode())
    except ValueError as error:
        return str(error)
    return (
        "" if isinstance(found, dict) else f"it holds {json.dumps(found):.30}, which is no object"
    )


def _depth(line: bytes) -> int:
    depth = deepest = 0
    for token in TOKEN.finditer(line):
        depth += {b"[": 1, b"{": 1, b"]": -1, b"}": -1}.get(token[0], 0)
        deepest = max(deepest, depth)
    return deepest
