"""Saved models: a zip of a manifest (JSON), arrays (safetensors) and compiled programs.

There is no pickle, and reading runs nothing.

Read documents of older formats: each entry becomes what today's code writes.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import warnings
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from importlib import metadata
from typing import Any

from hbconv.backends import Backend, find_backend
from hbconv.containers import Graph, verify_graph
from hbconv.cost_model.tuning_record import Tuning
from hbconv.errors import MissingPackageError, StoreError
from hbconv.lower import Padding, lower, lower_nodes
from hbconv.model_formats import REFUSED, ModelFormat, find_format
from hbconv.names import ARGUMENT_METHODS, INVERSE, METHODS
from hbconv.runtime.options import compiling_target
from hbconv.runtime.program import HostSide, Key, StoredProgram, answering
from hbconv.runtime.row_artifact import own_files
from hbconv.runtime.storage.array_layouts import (
    drop_layouts,
    have_room,
    read_layouts,
    restore_layouts,
)
from hbconv.runtime.storage.codec import Decoder, encode_all, fields_of, fits
from hbconv.runtime.storage.member_patches import drop_alike, restore_alike
from hbconv.runtime.storage.narrow import deflate_members, inflate_members
from hbconv.runtime.tied_rows import first_files
from hbconv.system.files import appearing, read_json
from hbconv.target import Target
from hbconv.tensor import verify_program

__all__ = ["FORMAT", "Kept", "Stored", "pack", "unpack", "write"]

NO_PROGRAMS = (
    "Nothing is compiled yet, so the file holds no programs for any of machines=. Call "
    "model.compile(sample) with rows as they will come, or a method, and save the model then."
)
_MOST_THREADS = 4096
_MANIFEST, _ARRAYS = "manifest.json", "arrays.safetensors"
_PACKAGES = ("numpy", "torch", "apache-tvm", "onnx", "onnxruntime")
_ORDINARY_TIME = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class Kept:
    """Programs of a file that only other machines run: they are written again with the model.

    Parameters
    ----------
    target : Target
        What the file is for. Here a substitute may compute the model.
    programs : mapping
    """

    target: Target
    programs: Mapping[Key, StoredProgram] = field(default_factory=dict)

    def only(self, graph: Graph) -> Kept:
        """Return those that answer methods of a graph."""
        return replace(self, programs=answering(graph, self.programs))

    def joined(
        self, target: Target, programs: Mapping[Key, StoredProgram]
    ) -> tuple[Target, Mapping[Key, StoredProgram]]:
        """Return what a file is for and holds, which has programs of this machine's target too."""
        if not self.programs:
            return target, programs
        # A file is for one target: what a substitute compiled is compiled again.
        own = programs if target == self.target else {}
        return self.target, {**self.programs, **own}


@dataclass(frozen=True)
class Stored:
    """What a file holds.

    Parameters
    ----------
    parsed : Graph
        As the parsers made it.
    target : Target
    dtypes : tuple of str
        Column dtypes that exports take.
    programs : mapping
        The compiled program of each set of methods and combination of column dtypes.
    tuning : Tuning, optional
        Times measured, which count on the machine that measured them.
    foreign : mapping
        Programs that were read, and that only other machines run.
    """

    parsed: Graph
    target: Target
    dtypes: tuple[str, ...]
    programs: Mapping[Key, StoredProgram] = field(default_factory=dict)
    tuning: Tuning | None = None
    foreign: Mapping[Key, StoredProgram] = field(default_factory=dict)


def pack(stored: Stored) -> bytes:
    """Return the file's bytes; equal models give equal bytes."""
    from safetensors.numpy import save

    if stored.target.machines and not stored.programs:
        warnings.warn(NO_PROGRAMS, UserWarning, stacklevel=4)
    model = {
        "parsed": stored.parsed,
        "target": stored.target,
        "dtypes": stored.dtypes,
        "tuning": stored.tuning,
    }
    hosts = tuple(program.host for program in stored.programs.values())
    (document, host_document), arrays = encode_all((model, hosts))
    members: dict[str, bytes] = {}
    programs = []
    # Methods of one forest share its tables: CatBoost's files were ten times as long.
    written_as: dict[bytes, str] = {}
    for number, ((methods, dtypes, padding), program) in enumerate(stored.programs.items()):
        names = {
            name: written_as.setdefault(data, f"programs/{number}/{name}")
            for name, data in program.files.items()
        }
        members |= {names[name]: data for name, data in program.files.items()}
        programs.append(
            {
                "methods": list(methods),
                "dtypes": list(dtypes),
                "padding": [padding.size, padding.matrix, padding.written],
                "digest": program.digest,
                "files": names,
            }
        )
    members, patches = drop_alike(members)
    kept_arrays, kept, layouts = drop_layouts(arrays, members)
    written, lengths = deflate_members({_ARRAYS: save(kept_arrays), **kept})
    if not have_room(layouts, sum(map(len, written.values()))):
        # Arrays that are nearly all zeros take far less in the file than in memory.
        layouts = {}
        written, lengths = deflate_members({_ARRAYS: save(arrays), **members})
    manifest = {
        "format": FORMAT,
        "versions": _versions(),
        "model": document,
        "programs": programs,
        "hosts": host_document,
        "lengths": lengths,
        "layouts": {name: asdict(layout) for name, layout in layouts.items()},
        "patches": patches,
        "sha256": {name: hashlib.sha256(data).hexdigest() for name, data in written.items()},
    }
    text = json.dumps(manifest, allow_nan=False)
    try:
        # Half a character in a name would make a file that nobody can read.
        read_json(text)
    except ValueError as error:
        raise StoreError(
            f"The model cannot be saved: {error}. Rename it before fitting."
        ) from error
    return _zip({_MANIFEST: text.encode(), **written})


def unpack(data: bytes, *, trusted: bool = False) -> Stored:
    """Read the bytes of a file.

    Programs of other versions are left out, and compiled again. So are all of a file that is not
    trusted.

    Raises
    ------
    StoreError
        The file is not a model, is damaged or truncated, has a newer format, or holds values that
        do not make up a model.
    """
    members = _unzip(data)
    manifest = _manifest(members)
    for name, digest in manifest["sha256"].items():
        if name not in members:
            raise StoreError(f"The model file is damaged: {name} is missing. Save the model again.")
        # The checksum finds damage, not malice: whoever writes the file writes it too.
        if hashlib.sha256(members[name]).hexdigest() != digest:
            raise StoreError(
                f"The model file is damaged: {name} is not what was written (its checksum "
                "differs). Save the model again."
            )
    try:
        read = members if trusted else {_ARRAYS: members[_ARRAYS]}
        lengths = {name: n for name, n in manifest.get("lengths", {}).items() if name in read}
        inflated = inflate_members(read, lengths, len(data))
        return _stored(manifest, inflated, len(data), trusted=trusted)
    except StoreError:
        raise
    except Exception as error:
        raise StoreError(
            f"The model file cannot be read: {type(error).__name__}: "
            f"{str(error).rstrip('.'):.500}. It is damaged, or from another version of hbconv."
        ) from error


def write(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file so that it is there complete, or not at all."""
    with appearing(path) as temporary:
        temporary.write_bytes(data)


def _zip(members: Mapping[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, data in members.items():
            # Without the time of writing, equal models are equal bytes.
            archive.writestr(zipfile.ZipInfo(name, _ORDINARY_TIME), data)
    return out.getvalue()


def _unzip(data: bytes) -> dict[str, bytes]:
    """Read all members. A damaged zip raises nearly anything, so that all is caught."""
    kind = find_format(io.BytesIO(data))
    if kind is not None and kind is not ModelFormat.SAVED:
        raise StoreError(
            f"This is not a model file of hbconv, but {kind.value}. "
            f"{REFUSED.get(kind, 'Call hbconv.convert with it.')}"
        )
    if not data.startswith(b"PK"):
        raise StoreError("This is not a model file of hbconv: it is no zip archive.")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            infos = archive.infolist()
            # A small compressed member may unpack to gigabytes.
            if any(i.compress_type != zipfile.ZIP_STORED for i in infos):
                raise StoreError("This is not a model file of hbconv: its members are compressed.")
            # Members that share bytes hold more than the file: a zip bomb without compression.
            if len({i.filename for i in infos}) < len(infos) or sum(
                i.file_size for i in infos
            ) > len(data):
                raise StoreError(
                    "This is not a model file of hbconv: its members share a name, or bytes."
                )
            return {i.filename: archive.read(i) for i in infos}
    except StoreError:
        raise
    except Exception as error:
        raise StoreError(
            f"The model file is damaged or truncated ({error}). Save the model again."
        ) from error


def _manifest(members: Mapping[str, bytes]) -> dict[str, Any]:
    if _MANIFEST not in members:
        raise StoreError(
            f"This is not a model file of hbconv, or a damaged one: {_MANIFEST} is missing."
        )
    try:
        manifest: dict[str, Any] = read_json(members[_MANIFEST])
        written = int(manifest["format"])
        versions, _ = manifest["versions"]["hbconv"], manifest["sha256"][_ARRAYS]
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise StoreError(
            f"The model file is damaged: {_MANIFEST} cannot be read ({type(error).__name__}: "
            f"{error!s:.200})."
        ) from error
    if written > FORMAT:
        raise StoreError(
            f"The model file has format {written}, written by hbconv {versions}; this hbconv reads "
            f"up to {FORMAT}. Upgrade hbconv (docs/faq.md#versions)."
        )
    return manifest


def _stored(
    manifest: dict[str, Any], members: Mapping[str, bytes], size: int, *, trusted: bool
) -> Stored:
    from safetensors.numpy import load

    document = upgrade(manifest["model"], int(manifest["format"]))
    layouts = read_layouts(manifest.get("layouts", {}))
    read = {name: layout for name, layout in layouts.items() if trusted or not layout.tensor}
    arrays, members = restore_layouts(read, load(members[_ARRAYS]), members, size)
    decoder = Decoder(arrays)
    stored = Stored(**decoder.read(document))
    if not all(
        fits(getattr(stored, name), hint)
        for name, hint in fields_of(Stored).items()
        if name not in ("programs", "foreign")
    ):
        raise StoreError("The model file holds something else than a graph, a target and dtypes.")
    _verify(stored)
    # Formats before 3 have programs without what the host does around them.
    if not trusted or "hosts" not in manifest:
        return stored
    backend = _find_reader(manifest["versions"], compiling_target(stored.target, stored=True))
    if backend is None:
        return stored
    hosts = decoder.read(manifest["hosts"])
    whole = restore_alike(manifest.get("patches", {}), members)
    programs = _programs(manifest["programs"], hosts, whole)
    own = {key for key in programs if backend.runs(first_files(own_files(programs[key].files)))}
    return replace(
        stored,
        programs={key: programs[key] for key in programs if key in own},
        foreign={key: programs[key] for key in programs if key not in own},
    )


def _programs(
    entries: list[dict[str, Any]], hosts: Any, members: Mapping[str, bytes]
) -> dict[Key, StoredProgram]:
    if not fits(hosts, tuple[HostSide, ...]):
        raise StoreError("The model file holds something else than what surrounds its programs.")
    by_key = {}
    for entry, host in zip(entries, hosts, strict=True):
        key = tuple(entry["methods"]), tuple(entry["dtypes"]), Padding(*entry["padding"])
        files = {name: members[member] for name, member in entry["files"].items()}
        by_key[key] = StoredProgram(host, entry["digest"], files)
    return by_key


def _verify(stored: Stored) -> None:
    """Raise an error if the values are not a graph: a checksum does not tell who wrote the file.

    Its checks are lowered once, and its outputs but those on demand, whose tables may take more
    time and memory than the file. Each primitive infers its type, and fails here if its operands
    do not fit; those of outputs on demand fail where they are compiled.
    """
    graph = verify_graph(stored.parsed)
    if len(stored.dtypes) != len(graph.schema.columns):
        raise StoreError("The model file holds dtypes of other columns.")
    session = graph.traits.session
    methods = () if session is None else (port.method for port in session.computed)
    if strange := sorted(set(graph.outputs) - {*METHODS, *ARGUMENT_METHODS, INVERSE, *methods}):
        raise StoreError(f"The model file holds {strange[0]!r:.50}, which is no method.")
    if stored.target.threads > _MOST_THREADS:
        raise StoreError(f"The model file asks for {stored.target.threads} threads.")
    _verify_lowered(graph)
    if graph.inverse is not None:
        _verify_lowered(graph.inverse)


def _verify_lowered(graph: Graph) -> None:
    verify_program(lower(graph.prompt).program)
    verify_program(
        lower_nodes(
            graph, {f"{i}": check.node for i, check in enumerate((*graph.checks, *graph.warnings))}
        ).program
    )


def _find_reader(written: Mapping[str, str], target: Target) -> Backend | None:
    """Return the backend that reads what it stored; None if that is of other versions."""
    try:
        backend = find_backend(target.backend)
    except MissingPackageError:
        return None
    versions = _versions(backend.stored_with)
    if backend.runs_stored:
        # Each program names the machines that run it, whatever machine wrote the file.
        del versions["machine"]
    is_alike = all(
        written.get(name) == versions.get(name) for name in (*backend.stored_with, *versions)
    )
    return backend if is_alike else None


def _versions(packages: Iterable[str] = _PACKAGES) -> dict[str, str]:
    from hbconv import __version__

    versions = {"hbconv": __version__, "machine": f"{platform.system()} {platform.machine()}"}
    for package in packages:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return versions


FORMAT = 9
"""Number of the format written; files of a larger number are refused.

Format 2 (after 0.1.0) gives an ``Output`` one form in place of eleven fields, and some classes
and fields other names (``_CLASSES``, ``_FIELDS``). A ``FindCode`` has values for each column.
Format 3 holds what the host does around each compiled program; programs of older files are compiled
again.
Format 4 holds the graph of ``inverse_transform``, why methods are refused, contributions of
features, and which outputs exports hold on demand alone.
Format 5 holds the columns of a schema field by field. Graphs have other digests since, so programs
of older files are compiled again.
Format 6 holds the names of the features that contributions are of.
Format 7 holds arrays and tables as deflated byte planes (``narrow``).
Format 8 holds recipes of arrays that are others in another layout (``array_layouts``), members as
what differs from another one (``member_patches``), and paths as bits of preorder.
Format 9 holds each schema once, and recipes of rows in an order that is stored.
"""
GRAPHS = 2
"""Format since which graphs are written as today."""

Entry = dict[str, Any]

_CLASSES = {"Container": "FrameFormat", "Step": "AffineStep", "Tables": "CategoryTables"}
"""Classes of format 1 by their names then."""

_FIELDS = {
    "Check": {"sparse": "sparse_only"},
    "Graph": {"sparse": "accepts_sparse"},
    "Traits": {"container": "frame_format"},
}
"""Fields of format 1 by class, and their names today."""


def upgrade(value: Any, written: int) -> Any:
    """Return a document of an older format as one of today's format.

    Parameters
    ----------
    value : JSON value
        The document, or any part of it.
    written : int
        Number of the format in which it was written.
    """
    if written >= GRAPHS:
        return value
    if isinstance(value, list):
        return [upgrade(item, written) for item in value]
    if not isinstance(value, dict):
        return value
    entry = {key: upgrade(item, written) for key, item in value.items()}
    if not isinstance(entry.get("is"), str):
        return entry
    if entry["is"] == "Output":
        return _output(entry)
    return _renamed(entry)


def _renamed(entry: Entry) -> Entry:
    """Give the class and the fields the names of today; the path of a step stood in ``source``.

    A FindCode had the values of its only column.
    """
    fields = _FIELDS.get(entry["is"], {})
    new = {fields.get(name, name): item for name, item in entry.items()}
    if "source" in new:
        new["step"] = new.pop("source")
    if entry["is"] == "FindCode":
        new["values"] = {"tuple": [new["values"]]}
    return {**new, "is": _CLASSES.get(entry["is"], entry["is"])}


def _output(entry: Entry) -> Entry:
    return {
        "is": "Output",
        "node": entry["node"],
        "form": _form(entry),
        "dtype": entry["dtype"],
    }


def _form(entry: Entry) -> Entry:
    parts = entry["parts"]["tuple"]
    dtypes = entry["dtypes"]["tuple"]
    if entry["paths"] is not None:
        return dict(entry["paths"])
    if dtypes:
        pairs = [{"tuple": [*pair]} for pair in zip(parts, dtypes, strict=True)]
        return {"is": "MatrixTuple", "parts": {"tuple": pairs}}
    if entry["staged"]:
        return {"is": "Stages", "count": len(parts), "each": _one_array(entry)}
    if parts:
        return {"is": "MatrixList", "parts": entry["parts"]}
    if entry["shape"] is not None:
        return {"is": "Cube", "shape": entry["shape"]}
    return _matrix(entry)


def _matrix(entry: Entry) -> Entry:
    sparse = {"is": "Sparse", "layout": entry["layout"], "arrays": entry["arrays"]}
    if entry["sparse"]:
        return sparse
    blocks = entry["blocks"]["tuple"]
    pairs = [pair for block in blocks for pair in _blocks(block)]
    dense = {"is": "Blocks", "parts": {"tuple": pairs}} if blocks else _one_array(entry)
    if entry["sparse"] is None:
        return {"is": "AsRows", "sparse": sparse, "dense": dense}
    return dense


def _blocks(output: Entry) -> list[Entry]:
    """Return node and dtype of each block of an output that is upgrade already."""
    form = output["form"].get("dense", output["form"])
    if form["is"] == "Blocks":
        return list(form["parts"]["tuple"])
    return [{"tuple": [output["node"], output["dtype"]]}]


def _one_array(entry: Entry) -> Entry:
    classes = entry["classes"]
    if classes is None:
        return {"is": "Vector" if entry["vector"] else "Matrix"}
    if "tuple" in classes:
        return {"is": "LabelColumns", "tables": classes}
    return {"is": "Labels", "classes": classes, "vector": entry["vector"]}
