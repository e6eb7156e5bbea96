"""A part of a job as a worker of a cluster runs it: bytes in, bytes out.

Whatever goes to a worker or comes from one is bytes: no scheduler has to know hbconv.
"""

from __future__ import annotations

import io
import pickle
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from hbconv.engines.scorer import Scorer
from hbconv.errors import HbconvError, InputError
from hbconv.files import scratch
from hbconv.score.job import ScoreJob, job_of
from hbconv.score.resumable import Folder
from hbconv.score.shards import Shard

__all__ = ["FilePart", "ReturnedPart", "SharedWork", "run_packed"]

MOST_BYTES = 1 << 30
"""Answers to a part that a worker returns; Spark hands no value of 2 GB on."""


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


def run_packed(packed_work: bytes, packed_part: bytes) -> bytes:
    """Run a part in a worker, and return what `ComputeCluster` takes for its outcome.

    The outcome is a text, of what is wrong with the part, or None, and what it returned.
    """
    part, planned = pickle.loads(packed_part)  # noqa: S301 - the workers are the user's own
    outcome: tuple[str | None, Any]
    try:
        _require_same_file(part.shard, planned)
        work, job = _job(packed_work)
        outcome = None, part.run(job, set_aside=work.set_aside)
    except HbconvError as error:
        outcome = str(error), None
    except OSError as error:
        outcome = f"{part.shard.name}, on {socket.gethostname()}: {error}", None
    return pickle.dumps(outcome)


@lru_cache(maxsize=1)
def _job(packed_work: bytes) -> tuple[SharedWork, ScoreJob]:
    """Return the job of a worker, which runs one part after another of it."""
    work: SharedWork = pickle.loads(packed_work)  # noqa: S301 - the workers are the user's own
    return work, job_of(work.scorers, work.schema, work.batch_rows)


def _require_same_file(shard: Shard, planned: dict[str, Any]) -> None:
    """Refuse a file that a worker does not see as the planning machine did."""
    if shard.info() != planned:
        raise InputError(
            f"{shard.path} is not the same file on {socket.gethostname()} as where the run was "
            "planned, or it was written to since. Name files that this machine and all workers "
            "share, such as s3://bucket/in/."
        )
