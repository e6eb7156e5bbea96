"""The job of ``hbconv score`` on a cluster: its workers run the plain job on one part each.

Answers to a file go from the worker into the folder, with their record, as those of the plain job
do. So a part that two workers run, because the cluster took one for lost, is written twice, with
the same bytes and under the same name. Answers that become one file come back in the order of
their rows, and this process writes them.
"""

from __future__ import annotations

import io
import os
import pickle
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hbconv.errors import InputError
from hbconv.score.clusters import ComputeCluster
from hbconv.score.concurrency import write_behind
from hbconv.score.formats import split_row_groups
from hbconv.score.job import ScoreJob
from hbconv.score.outputs import table_writer
from hbconv.score.parts import FilePart, ReturnedPart
from hbconv.score.resumable import Folder
from hbconv.score.shards import Shard, is_url

__all__ = ["ClusterJob"]

PART_BATCHES = 16
"""Batches of a part of a parquet file, at least: a million rows, where nobody asks otherwise."""


@dataclass(frozen=True)
class ClusterJob(ScoreJob):
    """A job whose files are answered by the workers of a cluster, part by part.

    Parameters
    ----------
    cluster : ComputeCluster
    """

    cluster: ComputeCluster

    def write_files(
        self, folder: Folder, shards: Sequence[Shard], kind: str, *, set_aside: bool
    ) -> Iterator[dict[str, Any]]:
        """Yield the record of each file, as soon as a worker has written it."""
        _ = set_aside  # as the workers were told
        shared = Folder(folder.place if is_url(folder.place) else os.path.abspath(folder.place))
        parts = [_packed(FilePart(_absolute(shard), shared, kind)) for shard in shards]
        with closing(self.cluster.as_they_end(parts)) as records:
            for record in records:
                if not folder.holds(record):
                    raise InputError(
                        f"A worker wrote {record['output']}, and it is not in {folder.place} here. "
                        "Name an output that this machine and all workers share."
                    )
                self.advance(record["rows"] + record["rejected"])
                yield record
        # What a lost worker left half-written.
        folder.sweep()

    def write(
        self,
        shards: Sequence[Shard],
        path: Path,
        kind: str,
        rejects: Any = None,
        schema: Any = None,
    ) -> tuple[int, int]:
        """Write the answers that the workers return into one file, in the order of their rows."""
        if schema is None:
            # Later parts must have the types of the first rows, which only these tell for certain.
            here = replace(self, advance=lambda _: None)
            schema = here.first_schema(shards, None if rejects is None else io.StringIO())
        rows = rejected = 0
        packed = (_packed(ReturnedPart(part, schema)) for part in self._split(shards))
        with (
            closing(self.cluster.in_order(packed, self._count(shards))) as answered,
            table_writer(path, kind, schema) as write,
            write_behind(write) as hand_on,
        ):
            for answers in answered:
                for batch in _batches(answers.table):
                    hand_on(batch)
                if rejects is not None:
                    rejects.write(answers.rejects)
                self.advance(answers.rows + answers.rejected)
                rows += answers.rows
                rejected += answers.rejected
        return rows, rejected

    def _split(self, shards: Sequence[Shard]) -> Iterator[Shard]:
        """Yield the parts of files, in the order of their rows."""
        for shard in map(_absolute, shards):
            split = shard.kind == "parquet"
            parts = split_row_groups(shard, PART_BATCHES * self.batch_rows) if split else ()
            yield from parts or (shard,)

    def _count(self, shards: Sequence[Shard]) -> int:
        """Return about how many parts there are, without a look at the files."""
        rows = PART_BATCHES * self.batch_rows
        return sum(max(1, (shard.rows or 0) // rows) for shard in shards)


def _packed(part: FilePart | ReturnedPart) -> bytes:
    return pickle.dumps((part, part.shard.info()))


def _absolute(shard: Shard) -> Shard:
    """Return a file by a path that does not depend on the folder that a process works in."""
    return replace(shard, path=os.path.abspath(shard.path)) if shard.is_local else shard


def _batches(table: bytes) -> Iterator[Any]:
    import pyarrow as pa

    file = pa.ipc.open_file(pa.py_buffer(table))
    for number in range(file.num_record_batches):
        yield file.get_batch(number)
