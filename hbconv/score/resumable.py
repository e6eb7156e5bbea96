"""A folder of outputs, one file for each input file, that a later run can continue.

``_hbconv/job.json`` says what the run has to do. ``_hbconv/done/NAME.json`` appears when a file is
on the disk, with its rows and checksum. ``_hbconv/manifest.json`` holds all of them, and is written
last.

Others may have written to the folder. So what these files say is checked before it is used, they
name no file outside the folder, and no link in the folder is followed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import posixpath
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from hbconv.errors import OptionError
from hbconv.score.formats import WRITTEN_SUFFIX
from hbconv.score.outputs import open_output_in
from hbconv.score.shards import Shard, is_url, open_file_system
from hbconv.system.files import LEFTOVER, lock_file, sweep

__all__ = ["Folder", "file_hash", "require_names"]

JOB = "_hbconv/job.json"
MANIFEST = "_hbconv/manifest.json"


@dataclass(frozen=True)
class Folder:
    """A folder of answers in a local or another file system.

    Parameters
    ----------
    place : str
        Path or URL.
    """

    place: str

    @cached_property
    def root(self) -> tuple[Any, str]:
        """Its file system, and its path there."""
        return open_file_system(self.place)

    def at(self, name: str) -> tuple[Any, str]:
        """Return the file system and the path of a file in the folder."""
        system, path = self.root
        return system, f"{path.rstrip('/')}/{name}".rstrip("/")

    def output(self, shard: Shard, kind: str) -> str:
        """Return the name of the answers to a file."""
        return posixpath.splitext(shard.name)[0] + WRITTEN_SUFFIX[kind]

    def rejects(self, name: str) -> str:
        """Return the name of the rows set aside beside a file of answers."""
        return f"_hbconv/rejects/{name}.jsonl"

    @property
    def job(self) -> Any:
        """The job of the run in the folder, or None where there is none.

        Raises
        ------
        OptionError
            The file that says so is damaged.
        """
        job = self._read(JOB)
        if job is not None and not _is_job(job):
            raise OptionError(
                f"{self.at(JOB)[1]} is damaged, so the run cannot continue. Start again with "
                "--force, or name a new folder."
            )
        return job

    def begin(self, job: dict[str, Any], *, resume: bool, force: bool) -> list[dict[str, Any]]:
        """Return the records of the files that are done, of a run of the same job.

        Raises
        ------
        OptionError
            The folder is not empty and neither is wanted, or it holds a run of another job, or
            files of others.
        """
        if force:
            self._clear(job)
        before = self.job
        if before is None:
            self._require_none_but([])
            self.write(JOB, job)
            return []
        if not resume:
            state = "finished" if self._read(MANIFEST) else "begun"
            raise OptionError(
                f"-o {self.place} holds a run that was {state}. "
                "Go on with it with --resume, or replace it with --force."
            )
        _require_same(self.place, before, job)
        held = self._records()
        records = [held[name] for name in before["outputs"] if name in held]
        whole = [record for record in records if self._is_whole(record)]
        return [r for r in whole if not before["rejects"] or self._has_rejects(r)]

    def record(self, name: str, **facts: Any) -> dict[str, Any]:
        """Write down that a file of answers is complete."""
        record = {"output": name, **facts}
        self.write(f"_hbconv/done/{name}.json", record)
        return record

    def finish(self, job: dict[str, Any], records: list[dict[str, Any]]) -> None:
        """Write the manifest, which holds all records, and remove them one by one."""
        held = {record["output"]: record for record in records}
        shards = [held[name] for name in job["outputs"]]
        rows = sum(shard["rows"] for shard in shards)
        # The manifest first: if the run ends between the two, records are there twice, never lost.
        self.write(MANIFEST, {**job, "rows": rows, "shards": shards})
        self._remove_records()

    def write(self, name: str, value: Any) -> None:
        """Write a small file as JSON."""
        self.make_folder(posixpath.dirname(name))
        with open_output_in(*self.at(name)) as temporary:
            temporary.write_text(json.dumps(value, indent=1), encoding="utf-8")

    def make_folder(self, name: str) -> None:
        """Make a folder in the folder."""
        system, path = self.at(name)
        system.create_dir(path, recursive=True)

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other runs of this machine out of a local folder; the lock ends with the process.

        What killed runs left half-written is removed.

        Raises
        ------
        OptionError
            Another run is at work, or the folder holds files of others and no run.
        """
        self._require_no_links()
        if self._read(JOB) is None:
            self._require_none_but([])
        if is_url(self.place):
            self.sweep()
            yield
            return
        self.make_folder("_hbconv")
        # O_NOFOLLOW: a link in the place of the lock would open, or make, a file elsewhere.
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        with open(os.open(self.at("_hbconv/lock")[1], flags, 0o666), "rb") as file:
            # The kernel drops it with the process, so a killed run leaves no lock behind. Where
            # files cannot be locked, the user keeps runs apart.
            if lock_file(file.fileno()) is False:
                raise OptionError(f"-o {self.place}: another run is at work there.")
            self.sweep()
            yield

    def _require_no_links(self) -> None:
        """Refuse a local folder that holds anything but files and folders of its own."""
        if is_url(self.place):
            return
        for folder, _, _ in os.walk(self.at("")[1]):
            for path in map(Path(folder).joinpath, os.listdir(folder)):
                mode = path.lstat().st_mode
                if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                    raise OptionError(
                        f"-o {self.place}: {path} is a link or no ordinary file. A run's folder "
                        "holds none: remove it, or name a new folder."
                    )

    def _read(self, name: str) -> Any:
        """Return what a file says; None where there is no file, and "" where it is damaged."""
        system, path = self.at(name)
        try:
            with system.open_input_stream(path, compression=None) as file:
                return json.loads(file.read())
        except FileNotFoundError:
            return None
        # JSON that is nested thousands deep is damage too.
        except (ValueError, RecursionError):
            return ""

    def _list(self, name: str) -> list[str]:
        from pyarrow import fs

        system, path = self.at(name)
        listed = system.get_file_info(fs.FileSelector(path, allow_not_found=True, recursive=True))
        return [posixpath.relpath(i.path, path) for i in listed if i.type == fs.FileType.File]

    def _records(self) -> dict[str, dict[str, Any]]:
        """Return what was written down of each file of answers; damaged records are none."""
        done = self._read(MANIFEST)
        shards = done.get("shards") if isinstance(done, dict) else None
        records = list(shards) if isinstance(shards, list) else []
        records += [self._read(f"_hbconv/done/{name}") for name in self._list("_hbconv/done")]
        return {record["output"]: record for record in records if _is_record(record)}

    def holds(self, record: dict[str, Any]) -> bool:
        """Say whether a file of answers is there, with the size of its record."""
        system, path = self.at(record["output"])
        info = system.get_file_info(path)
        return bool(info.is_file and info.size == record["bytes"])

    def _is_whole(self, record: dict[str, Any]) -> bool:
        """Compare size and checksum; of another file system, the size alone."""
        if not self.holds(record):
            return False
        # A checksum there would download each file again.
        return (
            is_url(self.place) or file_hash(Path(self.at(record["output"])[1])) == record["sha256"]
        )

    def _has_rejects(self, record: dict[str, Any]) -> bool:
        system, path = self.at(self.rejects(record["output"]))
        return bool(system.get_file_info(path).is_file)

    def _require_none_but(self, expected: Sequence[str]) -> None:
        names = set(self._list("")).difference(expected)
        others = [name for name in names if not name.startswith("_hbconv/")]
        if others:
            raise OptionError(
                f"-o {self.place} holds files of others, such as {min(others)}. Name a new folder."
            )

    def _clear(self, job: dict[str, Any]) -> None:
        """Remove the run that is there, and no file of others.

        Where it does not say what it was asked, its files are those that it has records of, and
        those that are asked for now.
        """
        before = self._read(JOB)
        if before is None:
            return
        if not _is_job(before):
            before = job
        names = dict.fromkeys([*before["outputs"], *self._records()])
        self._require_none_but(list(names))
        system, _ = self.at("")
        # The job goes last: an interrupted --force still knows which files are the run's own.
        for name in (MANIFEST, *names, JOB):
            with contextlib.suppress(FileNotFoundError):
                system.delete_file(self.at(name)[1])
            if name == MANIFEST:
                self._remove_records()

    def _remove_records(self) -> None:
        system, path = self.at("_hbconv/done")
        with contextlib.suppress(FileNotFoundError):
            system.delete_dir(path)

    def sweep(self) -> None:
        """Remove what killed runs left half-written."""
        system, root = self.at("")
        if not is_url(self.place):
            for folder, _, _ in os.walk(root):
                sweep(folder)
            return
        for name in self._list(""):
            if LEFTOVER.fullmatch(posixpath.basename(name)):
                system.delete_file(self.at(name)[1])


def _is_inside(name: Any) -> bool:
    """Say whether a value is the name of a file of answers in a folder.

    >>> [_is_inside(name) for name in ("a/b.csv", "../b.csv", "/b.csv", "_hbconv/lock")]
    [True, False, False, False]
    """
    if not isinstance(name, str) or "\0" in name:
        return False
    parts = name.split("/")
    return parts[0] != "_hbconv" and not {"", ".", ".."}.intersection(parts)


def _is_job(value: Any) -> bool:
    """Whether a value is the job of a run."""
    if not isinstance(value, dict) or not isinstance(value.get("outputs"), list):
        return False
    has_types = isinstance(value.get("rejects"), str | bool) and isinstance(
        value.get("inputs"), dict
    )
    return has_types and all(map(_is_inside, value["outputs"]))


def _is_record(value: Any) -> bool:
    if not isinstance(value, dict) or not _is_inside(value.get("output")):
        return False
    counts = (value.get(name) for name in ("rows", "rejected", "bytes"))
    # True is an int to isinstance.
    return all(type(n) is int for n in counts) and isinstance(value.get("sha256"), str)


def _require_same(place: str, before: dict[str, Any], job: dict[str, Any]) -> None:
    # By way of JSON, in which tuples are lists, as in the file.
    for name, value in json.loads(json.dumps(job)).items():
        old = before.get(name)
        if old == value:
            continue
        what = name
        if name == "inputs" and isinstance(old, dict):
            changed = sorted(n for n in old.keys() | value.keys() if old.get(n) != value.get(n))
            what = f"inputs ({', '.join(changed[:3])})"
        raise OptionError(
            f"-o {place} holds a run with other {what}. Name a new folder, or start "
            "again with --force."
        )


def file_hash(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def require_names(folder: Folder, shards: Sequence[Shard], kind: str) -> tuple[str, ...]:
    """Return the names of the answers to files, each of its own.

    Raises
    ------
    OptionError
        Two files would have answers of one name.
    """
    owner: dict[str, Shard] = {}
    for shard in shards:
        name = folder.output(shard, kind)
        if name in owner:
            raise OptionError(
                f"{owner[name].path} and {shard.path} would both be scored to {name}. "
                "Score them into folders of their own."
            )
        owner[name] = shard
    return tuple(owner)
