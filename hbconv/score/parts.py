"""A part of a job as a worker of a cluster runs it: bytes in, bytes out.

Whatever goes to a worker or comes from one is bytes: no scheduler has to know hbconv.
"""

from __future__ import annotations

import io
import pickle
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from hbconv.engines.scorer import Scorer
from hbconv.errors import HbconvError, InputError
from hbconv.score.job import ScoreJob, job_of
from hbconv.score.resumable import Folder
from hbconv.score.shards import Shard
from hbconv.system.files import scratch

__all__ = ["FilePart", "ReturnedPart", "SharedWork", "run_packed"]

MOST_BYTES = 1 << 30
"""Answers to a part that a worker returns; Spark hands no value of 2 GB on."""
CALL_BYTES = 1 << 25
"""Answers with which a call ends, whatever parts it has left: the asking machine holds many."""
CALL_SECONDS = 10.0
"""Time after which a call ends, whatever parts it has left: a lost worker loses no more, and the
asking machine is told of what is wrong, and how far the job is."""


@dataclass(frozen=True)
class SharedWork:
    """What all parts of a job have in common, and each worker is given once.

    Parameters
    ----------
    scorers : dict of Scorer
        As those of the job.
    schema : pyarrow.Schema
        Types of the columns, as they are read.
    batch_rows : int
    set_aside : bool
        Whether rows that cannot be scored are set aside.
    """

    scorers: Mapping[str, Scorer]
    schema: Any
    batch_rows: int
    set_aside: bool


@dataclass(frozen=True)
class FilePart:
    """A file whose answers a worker writes into a folder."""

    shard: Shard
    folder: Folder
    kind: str

    def run(self, job: ScoreJob, *, set_aside: bool) -> dict[str, Any]:
        """Write the answers, and return their record."""
        # A worker would make a folder of that name on a disk of its own.
        if self.folder.job is None:
            raise InputError(
                f"{socket.gethostname()} does not see the run in {self.folder.place}. Name an "
                "output that this machine and all workers share, such as s3://bucket/out/."
            )
        return job.write_file(self.folder, self.shard, self.kind, set_aside=set_aside)


@dataclass(frozen=True)
class Answers:
    """The answers to a part, as a file of Arrow, and the lines of the rows that were set aside."""

    table: bytes
    rejects: str
    rows: int
    rejected: int


@dataclass(frozen=True)
class ReturnedPart:
    """A file, or row groups of one, whose answers a worker returns."""

    shard: Shard
    schema: Any

    def run(self, job: ScoreJob, *, set_aside: bool) -> Answers:
        """Return the answers, with the types of the schema."""
        rejects = io.StringIO() if set_aside else None
        with scratch() as path:
            rows, rejected = job.write([self.shard], path, "ipc", rejects, self.schema)
            size = path.stat().st_size
            if size > MOST_BYTES:
                raise InputError(
                    f"{self.shard.name}: its answers take {size:,} bytes, and a worker returns "
                    f"{MOST_BYTES:,} at most. Write a file for each input: -o folder/."
                )
            return Answers(path.read_bytes(), rejects.getvalue() if rejects else "", rows, rejected)


def run_packed(packed_work: bytes, packed_parts: Sequence[bytes]) -> bytes:
    """Run parts in a worker until its time is up, and return what `ComputeCluster` makes of it.

    That is a text, of what is wrong with a part, or None, and what the parts before it returned.
    """
    returned: list[bytes] = []
    try:
        work, job = _job(packed_work)
        ends = time.monotonic() + CALL_SECONDS
        for part in packed_parts:
            returned.append(_run_part(part, work, job))
            if time.monotonic() > ends or sum(map(len, returned)) > CALL_BYTES:
                break
    except HbconvError as error:
        return pickle.dumps((str(error), returned))
    return pickle.dumps((None, returned))


def _run_part(packed: bytes, work: SharedWork, job: ScoreJob) -> bytes:
    part, planned = pickle.loads(packed)  # noqa: S301 - the workers are the user's own
    try:
        _require_same_file(part.shard, planned)
        return pickle.dumps(part.run(job, set_aside=work.set_aside))
    except OSError as error:
        raise InputError(f"{part.shard.name}, on {socket.gethostname()}: {error}") from error


@lru_cache(maxsize=1)
def _job(packed_work: bytes) -> tuple[SharedWork, ScoreJob]:
    """Return the job of a worker, which runs one part after another of it."""
    work: SharedWork = pickle.loads(packed_work)  # noqa: S301 - the workers are the user's own
    job = job_of(work.scorers, work.schema, work.batch_rows)
    _ = job.schema  # what is compiled belongs to the start, as in the plain job
    return work, job


def _require_same_file(shard: Shard, planned: dict[str, Any]) -> None:
    """Refuse a file that a worker does not see as the planning machine did."""
    if shard.info() != planned:
        raise InputError(
            f"{shard.path} is not the same file on {socket.gethostname()} as where the run was "
            "planned, or it was written to since. Name files that this machine and all workers "
            "share, such as s3://bucket/in/."
        )
