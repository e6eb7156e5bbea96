"""What a run in a folder of answers was asked, and the file of all rows set aside.

Refuse outputs that would take the place of what must stay, before any work is done.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path, PurePath, PurePosixPath
from typing import Any

from hbconv.cli import require_parent
from hbconv.cli.sources import convert_options
from hbconv.errors import OptionError
from hbconv.score.formats import reading
from hbconv.score.job import ScoreJob
from hbconv.score.resumable import Folder, file_hash, require_names
from hbconv.score.shards import Shard, is_url, open_file_system

__all__ = [
    "check_folder",
    "check_outputs",
    "describe_run",
    "join_rejects",
    "replaces_rejects",
]


def describe_run(
    job: ScoreJob, folder: Folder, options: argparse.Namespace, kind: str
) -> dict[str, Any]:
    """Return what decides the answers; a run is gone on with only when all of it is equal."""
    shards = job.table.shards
    chosen = convert_options(options)
    if options.encoding:
        chosen["encoding"] = options.encoding
    if options.checksum:
        chosen["checksum"] = True
    if options.separator:
        chosen["separator"] = options.separator
    if options.rename:
        chosen["rename"] = dict(options.rename)
    if options.models:
        chosen["models"] = {name: model_hash(Path(path)) for name, path in options.models}
    return {
        "model": model_hash(Path(options.model)),
        "options": {name: str(value) for name, value in chosen.items()},
        "methods": list(job.methods),
        "columns": {field.name: str(field.type) for field in job.schema},
        "rejects": whole_path(options.rejects) if options.rejects else False,
        "inputs": {s.name: s.digest() if options.checksum else s.info() for s in shards},
        "outputs": list(require_names(folder, shards, kind)),
    }


def model_hash(path: Path) -> str:
    """Return the SHA-256 of a model's file, or of the names and files of its folder."""
    if not path.is_dir():
        return file_hash(path)
    files = sorted(file for file in path.rglob("*") if file.is_file())
    listing = "".join(f"{file_hash(file)} {file.relative_to(path)}\n" for file in files)
    return hashlib.sha256(os.fsencode(listing)).hexdigest()


def join_rejects(
    folder: Folder, asked: dict[str, Any], place: AbstractContextManager[Path]
) -> None:
    """Write the rejects of all files into one."""
    with place as path, path.open("wb") as whole:
        for name in asked["outputs"]:
            system, part = folder.at(folder.rejects(name))
            with system.open_input_stream(part) as file:
                shutil.copyfileobj(file, whole)


def check_outputs(
    options: argparse.Namespace, shards: Sequence[Shard], *, into_folder: bool
) -> None:
    """Refuse the outputs of ``hbconv score``: the answers, and the file of rejects.

    Raises
    ------
    OptionError
        The folder of a file is not there, or it is no ordinary file, or it is there already. Or it
        is one of the inputs or the model, or lies in a folder of inputs. Or two files would have
        answers of one name.
    """
    if options.output == "-":
        pass
    elif into_folder:
        _require_outside("-o", options.output, options.input)
        require_names(Folder(options.output), shards, options.output_format or "parquet")
    else:
        _check_file("-o", options.output, options, shards, force=options.force)
    if not options.rejects:
        return
    force = replaces_rejects(options, into_folder=into_folder)
    _check_file("--rejects", options.rejects, options, shards, force=force)
    if options.output != "-" and _is_within(options.rejects, options.output):
        raise OptionError(
            f"--rejects {options.rejects} lies in the output {options.output}. "
            "Name a file elsewhere."
        )


def replaces_rejects(options: argparse.Namespace, *, into_folder: bool) -> bool:
    """Say whether the file of rejects may be replaced: a run that goes on has written it itself."""
    if options.force or not (options.rejects and into_folder and options.resume):
        return bool(options.force)
    before = Folder(options.output).job
    return before is not None and before.get("rejects") == whole_path(options.rejects)


def whole_path(place: str) -> str:
    """Return a path from the root; a URL stays."""
    return place if is_url(place) else os.path.abspath(place)


def _check_file(
    flag: str, output: str, options: argparse.Namespace, shards: Sequence[Shard], *, force: bool
) -> None:
    if is_url(output):
        _require_bucket(flag, output)
    else:
        check_folder(Path(output), flag)
    models = (options.model, *(path for _, path in options.models))
    taken = [*(_is_shard(output, s) for s in shards), *(_is_same(output, m) for m in models)]
    if any(taken):
        raise OptionError(
            f"{flag} {output} is the input itself, which would be lost. Name another file."
        )
    _require_outside(flag, output, options.input)
    _check_new(flag, output, force=force)


def _require_bucket(flag: str, output: str) -> None:
    """Refuse an output in a bucket that is not there: it would be sent when all is done."""
    from pyarrow import fs

    system, path = open_file_system(output)
    # Only object stores have buckets; folders elsewhere are checked as files.
    if system.type_name not in ("s3", "gcs"):
        return
    bucket = path.partition("/")[0]
    with reading(output):
        info = system.get_file_info(bucket)
    if info.type == fs.FileType.NotFound:
        raise OptionError(f"{flag} {output}: there is no bucket {bucket}. Make it first.")


def check_folder(path: Path, flag: str = "-o") -> None:
    """Refuse an output whose folder is not there, or that is not an ordinary file.

    Raises
    ------
    OptionError
    """
    require_parent(path, flag)
    if path.exists() and not path.is_file():
        raise OptionError(f"{flag} {path} is no ordinary file. Name a file that is written whole.")


def _require_outside(flag: str, output: str, inputs: Sequence[str]) -> None:
    """Refuse an output in one of the input folders, where a later run would read it."""
    for place in inputs:
        if _is_within(output, place):
            raise OptionError(
                f"{flag} {output} lies in the input folder {place}, whose files are read as one "
                "table. Name a file elsewhere."
            )


def _check_new(flag: str, output: str, *, force: bool) -> None:
    """Refuse a file that is there already, unless it may be replaced."""
    from pyarrow import fs

    system, path = open_file_system(output)
    exists = system.get_file_info(path).type != fs.FileType.NotFound
    is_link = not is_url(output) and os.path.islink(path)  # to nothing, which pyarrow does not find
    if not force and (exists or is_link):
        raise OptionError(f"{flag} {output} is there already. Replace it with --force.")


def _is_within(place: str, folder: str) -> bool:
    """Say whether a path or URL is a folder, or lies in it."""
    system, path = _locate(place)
    other, root = _locate(folder)
    return system == other and root in (path, *path.parents)


def _locate(place: str) -> tuple[Any, PurePath]:
    system, path = open_file_system(place)
    return system, PurePosixPath(path) if is_url(place) else Path(path).resolve()


def _is_shard(place: str, shard: Shard) -> bool:
    system, path = open_file_system(place)
    if is_url(place) or system != shard.system:
        return bool(system == shard.system and path == shard.path)
    return _is_same(path, shard.path)


def _is_same(first: str, second: str) -> bool:
    # samefile follows links, so a link to the input counts as the input.
    return os.path.exists(first) and os.path.exists(second) and os.path.samefile(first, second)
