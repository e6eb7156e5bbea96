"""Score one file of a folder after another; each is done when its record is on the disk."""

from __future__ import annotations

import argparse
import os
import shutil
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

from hbconv.cli.output_checks import whole_path
from hbconv.cli.outputs import placed_in
from hbconv.cli.resumable import Folder, file_hash, require_names
from hbconv.cli.score_job import ScoreJob
from hbconv.cli.shards import Shard
from hbconv.cli.sources import convert_options

__all__ = ["asked_of", "join_rejects", "score_shard", "text_file"]


def score_shard(
    job: ScoreJob, folder: Folder, shard: Shard, kind: str, options: argparse.Namespace
) -> dict[str, Any]:
    """Score a file into a file, whose record appears when both are on the disk."""
    name = folder.output(shard, kind)
    folder.make_folder(os.path.dirname(name))
    with ExitStack() as stack:
        rejects = None
        if options.rejects:
            folder.make_folder(os.path.dirname(folder.rejects(name)))
            rejects = text_file(stack, placed_in(*folder.at(folder.rejects(name))))
        path = stack.enter_context(placed_in(*folder.at(name)))
        rows, rejected = job.write([shard], path, kind, rejects)
        size, checksum = path.stat().st_size, file_hash(path)
    return folder.record(
        name, input=shard.name, rows=rows, rejected=rejected, bytes=size, sha256=checksum
    )


def asked_of(
    job: ScoreJob, folder: Folder, options: argparse.Namespace, kind: str
) -> dict[str, Any]:
    """Return what decides the answers; a run is gone on with only when all of it is equal."""
    shards = job.table.shards
    chosen = convert_options(options)
    if options.encoding:
        chosen["encoding"] = options.encoding
    if options.checksum:
        chosen["checksum"] = True
    return {
        "model": file_hash(Path(options.model)),
        "options": {name: str(value) for name, value in chosen.items()},
        "methods": list(job.scorer.methods),
        "columns": {field.name: str(field.type) for field in job.schema},
        "rejects": whole_path(options.rejects) if options.rejects else False,
        "inputs": {s.name: s.digest() if options.checksum else s.info() for s in shards},
        "outputs": list(require_names(folder, shards, kind)),
    }


def join_rejects(
    folder: Folder, asked: dict[str, Any], place: AbstractContextManager[Path]
) -> None:
    """Write the rejects of all files into one."""
    with place as path, path.open("wb") as whole:
        for name in asked["outputs"]:
            system, part = folder.at(folder.rejects(name))
            with system.open_input_stream(part) as file:
                shutil.copyfileobj(file, whole)


def text_file(stack: ExitStack, place: AbstractContextManager[Path]) -> Any:
    """Return a file to write text to that appears with the stack's end."""
    path = stack.enter_context(place)
    return stack.enter_context(path.open("w", encoding="utf-8"))
