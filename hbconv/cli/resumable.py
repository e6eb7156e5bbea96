"""A folder of answers, one file for each input file, that a later run can go on with.

``_hbconv/job.json`` says what is asked. ``_hbconv/done/NAME.json`` appears when a file is on the
disk, with its rows and checksum. ``_hbconv/manifest.json`` holds all of them, and is written last.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from hbconv.cli.outputs import placed_in
from hbconv.cli.shards import Shard, is_url, open_file_system
from hbconv.errors import OptionError

__all__ = ["Folder", "file_hash", "require_names"]

JOB = "_hbconv/job.json"
MANIFEST = "_hbconv/manifest.json"
STRAY = re.compile(r"(.*/|)\.([^/]+)\.\w{8}")
"""Names of files that a killed run left half-written."""
SUFFIX = {"parquet": ".parquet", "csv": ".csv", "ipc": ".arrow", "json": ".jsonl"}


@dataclass(frozen=True)
class Folder:
    """A folder of answers in a local or another file system.

    Parameters
    ----------
    given : str
        Path or URL.
    """

    given: str

    @cached_property
    def root(self) -> tuple[Any, str]:
        """Its file system, and its path there."""
        return open_file_system(self.given)

    def at(self, name: str) -> tuple[Any, str]:
        """Return the file system and the path of a file in the folder."""
        system, path = self.root
        return system, f"{path.rstrip('/')}/{name}".rstrip("/")

    def output(self, shard: Shard, kind: str) -> str:
        """Return the name of the answers to a file."""
        return posixpath.splitext(shard.name)[0] + SUFFIX[kind]

    def rejects(self, name: str) -> str:
        """Return the name of the rows set aside beside a file of answers."""
        return f"_hbconv/rejects/{name}.jsonl"

    @property
    def job(self) -> Any:
        """What the run in the folder was asked, or None."""
        return self._read(JOB)

    def begin(self, job: dict[str, Any], *, resume: bool, force: bool) -> list[dict[str, Any]]:
        """Return the records of the files that are done, of a run that was asked the same.

        Raises
        ------
        OptionError
            The folder is not empty and neither is wanted, or it holds a run that was asked
            something else, or files of others.
        """
        before = self.job
        if force and before is not None:
            self._sweep(before)
            self._require_none_but(before["outputs"])
            self._clear(before)
            before = None
        if before is not None and not resume:
            state = "finished" if self._read(MANIFEST) else "begun"
            raise OptionError(
                f"-o {self.given} holds a run that was {state}. "
                "Go on with it with --resume, or replace it with --force."
            )
        if before is None:
            self._require_none_but([])
            self.write(JOB, job)
            return []
        _require_same(self.given, before, job)
        self._sweep(job)
        records = [record for record in self._records(before) if self._is_whole(record)]
        return [r for r in records if not before["rejects"] or self._has_rejects(r)]

    def record(self, name: str, **found: Any) -> dict[str, Any]:
        """Write down that a file of answers is complete."""
        record = {"output": name, **found}
        self.write(f"_hbconv/done/{name}.json", record)
        return record

    def finish(self, job: dict[str, Any], records: list[dict[str, Any]]) -> None:
        """Write the manifest, which holds all records, and remove them one by one."""
        held = {record["output"]: record for record in records}
        shards = [held[name] for name in job["outputs"]]
        rows = sum(shard["rows"] for shard in shards)
        self.write(MANIFEST, {**job, "rows": rows, "shards": shards})
        system, path = self.at("_hbconv/done")
        with contextlib.suppress(FileNotFoundError):
            system.delete_dir(path)

    def write(self, name: str, value: Any) -> None:
        """Write a small file as JSON."""
        self.make_folder(posixpath.dirname(name))
        with placed_in(*self.at(name)) as temporary:
            temporary.write_text(json.dumps(value, indent=1), encoding="utf-8")

    def make_folder(self, name: str) -> None:
        """Make a folder in the folder."""
        system, path = self.at(name)
        system.create_dir(path, recursive=True)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other runs of this machine out of a local folder; the lock ends with the process.

        Raises
        ------
        OptionError
            Another run is at work, or the folder holds files of others and no run.
        """
        if self.job is None:
            self._require_none_but([])
        if is_url(self.given):
            yield
            return
        import fcntl

        self.make_folder("_hbconv")
        with open(self.at("_hbconv/lock")[1], "w", encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise OptionError(f"-o {self.given}: another run is at work there.") from error
            yield

    def _read(self, name: str) -> Any:
        system, path = self.at(name)
        try:
            with system.open_input_stream(path) as file:
                return json.loads(file.read())
        except FileNotFoundError:
            return None

    def _list(self, name: str) -> list[str]:
        from pyarrow import fs

        system, path = self.at(name)
        listed = system.get_file_info(fs.FileSelector(path, allow_not_found=True, recursive=True))
        return [posixpath.relpath(i.path, path) for i in listed if i.type == fs.FileType.File]

    def _records(self, job: dict[str, Any]) -> list[dict[str, Any]]:
        done = self._read(MANIFEST)
        held = {record["output"]: record for record in (done or {"shards": []})["shards"]}
        for name in self._list("_hbconv/done"):
            if name.endswith(".json"):
                record = self._read(f"_hbconv/done/{name}")
                held[record["output"]] = record
        return [held[name] for name in job["outputs"] if name in held]

    def _is_whole(self, record: dict[str, Any]) -> bool:
        """Compare size and checksum; of another file system, the size alone."""
        system, path = self.at(record["output"])
        found = system.get_file_info(path)
        if not found.is_file or found.size != record["bytes"]:
            return False
        return is_url(self.given) or file_hash(Path(path)) == record["sha256"]

    def _has_rejects(self, record: dict[str, Any]) -> bool:
        system, path = self.at(self.rejects(record["output"]))
        return bool(system.get_file_info(path).is_file)

    def _require_none_but(self, own: Sequence[str]) -> None:
        found = set(self._list("")).difference(own)
        others = [name for name in found if not name.startswith("_hbconv/")]
        if others:
            raise OptionError(
                f"-o {self.given} holds files of others, such as {min(others)}. Name a new folder."
            )

    def _clear(self, job: dict[str, Any]) -> None:
        system, _ = self.at("")
        for name in (MANIFEST, *job["outputs"], JOB):
            with contextlib.suppress(FileNotFoundError):
                system.delete_file(self.at(name)[1])
            if name == MANIFEST:
                with contextlib.suppress(FileNotFoundError):
                    system.delete_dir(self.at("_hbconv/done")[1])

    def _sweep(self, job: dict[str, Any]) -> None:
        """Remove what a killed run left half-written."""
        system, _ = self.at("")
        outputs = set(job["outputs"])
        for name in self._list(""):
            stray = STRAY.fullmatch(name)
            if stray and (name.startswith("_hbconv/") or stray[1] + stray[2] in outputs):
                system.delete_file(self.at(name)[1])


def _require_same(given: str, before: dict[str, Any], job: dict[str, Any]) -> None:
    for name, value in json.loads(json.dumps(job)).items():
        old = before.get(name)
        if old == value:
            continue
        what = name
        if name == "inputs" and isinstance(old, dict):
            changed = sorted(n for n in old.keys() | value.keys() if old.get(n) != value.get(n))
            what = f"inputs ({', '.join(changed[:3])})"
        raise OptionError(
            f"-o {given} holds a run with other {what}. Name a new folder, or start "
            "anew with --force."
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
