"""Files for other runtimes, by their suffix, and the text of a query."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from hbconv.backends import find_backend
from hbconv.backends.interface import argument_names
from hbconv.containers import Graph, reads_tied_points
from hbconv.cost_model.tuning_record import Tuning
from hbconv.errors import BackendError, OptionError, log_export
from hbconv.lower import find_choosing
from hbconv.names import unknown, unknown_device
from hbconv.runtime.inputs.table import Reads
from hbconv.runtime.options import take_flag, take_options
from hbconv.runtime.program_choice import name_dtypes
from hbconv.runtime.programs import Programs
from hbconv.runtime.storage.model_file import write
from hbconv.target import Target

__all__ = [
    "Writer",
    "WritesFiles",
    "answered_in_sql",
    "export_bytes",
    "export_file",
    "find_writer",
]


class WritesFiles:
    """What has files for other runtimes, and the text of a query."""

    def export(
        self: Exportable,
        path: str | os.PathLike[str],
        format: str | None = None,  # noqa: A002
        methods: Iterable[str] | None = None,
        **options: Any,
    ) -> None:
        """Write a file for another runtime, by its suffix, or a folder in a format.

        ``.onnx``; ``.pt`` (TorchScript); ``.pt2`` (``torch.export``); ``.so`` (a C library, with a
        header beside it); ``.sql`` (its options are those of ``to_sql``); ``.hbc`` (as ``save``).
        Its inputs have the dtypes of the sample of ``compile``. Without a sample they have those
        that the source model was fitted on: float64 for most, which a line of the logger says.
        Torch's files tell in ``hbconv.json`` what they take and return.

        Parameters
        ----------
        path : path
        format : {"triton"}, optional
            Write the next version of the model into a repository of the Triton server.
        methods : iterable of str, optional
            What the file answers; by default all methods that are tensors, without
            ``contributions``. Files for torch, and native ones most of all, take the time of all
            their methods in each call.
        **options : str or bool
            Of ``.pt`` and ``.pt2``: ``device`` that the file is for, ``"cpu"`` or ``"cuda"``
            (default: the model's own). This machine need not have it. Of ``.pt2``:
            ``compiled=True`` lets AOTInductor compile the file for the device that is here.
            Of a Triton repository: ``name`` of the model there (default ``"model"``); ``file``
            that the version holds, ``".pt"`` (default), ``".onnx"`` or ``".hbc"``; ``device`` of
            its instances, ``"cpu"`` or ``"cuda"`` (default: the model's own). Of a C library:
            ``target``, the instruction set of the processors that will run it, such as
            ``"x86-64-v3"`` or ``"aarch64"`` (default: that of this machine). Of ``.pt`` and
            ``.pt2``: ``native=True`` makes the compiled kernel a torch operator, in a library
            beside the file (``model_op.so`` beside ``model.pt``, ``model_op2.so`` beside
            ``model.pt2``), for which ``target`` counts.

        Raises
        ------
        OptionError
            Another suffix, format or option.
        BackendError
            What is written cannot hold the model.
        """
        if methods is not None:
            self._only(methods).export(path, format, **options)
            return
        if format is None:
            export_file(self, Path(path), options)
            return
        if format != "triton":
            raise unknown("format", format, ("triton",))
        self._export_repository(Path(path), options)

    def to_bytes(
        self: Exportable,
        suffix: str = ".hbc",
        device: str | None = None,
        *,
        compiled: bool = False,
    ) -> bytes:
        """Return what ``export`` writes to a file of that suffix.

        Parameters
        ----------
        suffix : str
        device : str
            Where a ``.pt`` or ``.pt2`` file will run, which decides its tree strategies, and in
            which form its sums keep their order. This machine need not have it. By default the
            model's own.
        compiled : bool
            A ``.pt2`` file holds machine code for the device, which this machine must have.

        Raises
        ------
        OptionError
            Another device.
        """
        if suffix == ".hbc":
            return self._bytes()
        return export_bytes(self, suffix, device, compiled=compiled)

    def to_sql(
        self: Exportable,
        dialect: str = "duckdb",
        table: str = "rows",
        keys: str | Iterable[str] = (),
        methods: str | Iterable[str] | None = None,
    ) -> str:
        """Write the model as one SELECT, which answers each row of a table (``docs/sql.md``).

        Numeric columns are read as float64. Rows that the source model refuses get NULL.

        Parameters
        ----------
        dialect : {"duckdb", "postgres", "spark", "sqlite"}
        table : str
            Name of the table, whose columns are named as those that the model was fitted on. Points
            part it from its schema, except between double quotes.
        keys : str or iterable of str
            More columns of the table, which are passed through.
        methods : str or iterable of str, optional
            By default ``predict`` and ``predict_proba``, or ``transform``. Answers of several
            columns end in the class or feature: ``predict_proba_yes``.

        Raises
        ------
        OptionError
            Another dialect or method.
        BackendError
            SQL cannot hold the model, or its text is longer than a megabyte.

        Examples
        --------
        >>> from sklearn.linear_model import LinearRegression
        >>> import hbconv
        >>> source = LinearRegression(fit_intercept=False).fit([[1.0], [2.0]], [2.0, 4.0])
        >>> model = hbconv.convert(source, backend="reference")
        >>> print(model.to_sql(), end="")
        WITH v_1 AS (SELECT coalesce(CAST("x0" AS DOUBLE),CAST('nan' AS DOUBLE)) AS v0 FROM "rows"),
        v_2 AS (SELECT v0, (NOT (abs(v0)<CAST('inf' AS DOUBLE))) AS v1 FROM v_1)
        SELECT CASE WHEN v1 THEN NULL ELSE v0*2.0e0 END AS "predict" FROM v_2
        """
        return write_sql(self, dialect, table, keys, methods)


LIBRARY_OPTIONS = ("target",)
SQL_OPTIONS = ("dialect", "table", "keys")
SQL_METHODS = ("predict", "predict_proba", "transform")
"""What a query answers unless methods are named: each one more makes it longer."""
SQL_DTYPES = {"string": "string", "float32": "float32"}
"""Dtypes that columns keep. NULL makes floats of whole numbers, as pandas does."""
TORCH_OPTIONS = {".pt": ("device",), ".pt2": ("device", "compiled")}


class Exportable(Protocol):
    """What a file for another runtime is made of: a model."""

    parsed: Graph
    reads: Reads
    dtypes: tuple[str, ...]
    target: Target
    tuning: Tuning | None

    def for_target(self, **changes: Any) -> Any:
        """Return the same model for another target."""

    def output_names(self, method: str) -> list[str]:
        """Return the names of the values of an answer."""

    def to_bytes(
        self, suffix: str = ..., device: str | None = ..., *, compiled: bool = ...
    ) -> bytes:
        """Return a file of a suffix."""

    def export(
        self,
        path: str | os.PathLike[str],
        format: str | None = ...,  # noqa: A002
        methods: Iterable[str] | None = ...,
        **options: Any,
    ) -> None:
        """Write a file."""

    def _only(self, methods: Iterable[str]) -> Exportable:
        """Return the model with some of its methods."""

    def _bytes(self) -> bytes:
        """Return the file that ``save`` writes."""

    def _export_repository(self, path: Path, options: dict[str, Any]) -> None:
        """Write a version into a repository of the Triton server."""


def export_file(model: Exportable, path: Path, options: dict[str, Any]) -> None:
    """Write the file of a suffix, as ``Model.export`` describes it."""
    suffix = path.suffix
    if suffix == ".so":
        chosen = take_options(suffix, options, LIBRARY_OPTIONS)
        _write_library(_find_programs(model, "tvm"), model.dtypes, path, **chosen)
    elif suffix == ".sql":
        chosen = take_options(suffix, options, SQL_OPTIONS)
        write(path, write_sql(model, **chosen).encode())
    elif suffix in (".pt", ".pt2") and take_flag(options, "native"):
        chosen = take_options(suffix, options, LIBRARY_OPTIONS)
        _write_native(_find_programs(model, "tvm"), model.dtypes, path, **chosen)
    else:
        chosen = take_options(suffix, options, TORCH_OPTIONS.get(suffix, ()))
        write(path, model.to_bytes(suffix, **chosen))


def export_bytes(
    model: Exportable, suffix: str, device: str | None = None, *, compiled: bool = False
) -> bytes:
    """Return the file of a suffix, as ``Model.to_bytes`` describes it."""
    writer = find_writer(f"model{suffix}", take_flag({"compiled": compiled}, "compiled"))
    programs = _find_programs(model, writer.backend)
    model_device = model.target.device if suffix in (".pt", ".pt2") else "cpu"
    device = str(device or model_device)
    if device.partition(":")[0] not in ("cpu", "cuda"):
        raise unknown_device(device)
    target = programs.target.replace(device=device)
    return writer.write(Programs(model.parsed, target, tuning=model.tuning), model.dtypes)


def write_sql(
    model: Exportable,
    dialect: str = "duckdb",
    table: str = "rows",
    keys: Iterable[str] = (),
    methods: Iterable[str] | None = None,
) -> str:
    """Return a model as one SELECT, as ``Model.to_sql`` describes it."""
    from hbconv.backends.sql.export import Query

    _require_file(model)
    graph = model.parsed
    chosen = [methods] if isinstance(methods, str) else [*(methods or answered_in_sql(graph))]
    for name in chosen:
        if name not in graph.exported:
            raise unknown("method", name, graph.exported)
    dtypes = tuple(SQL_DTYPES.get(dtype, "float64") for dtype in model.dtypes)
    # Writing needs no database, so its package may miss.
    target = model.target.replace(backend="sql", device="cpu", native=False)
    stages = Programs(graph, target, tuning=model.tuning).compilation(tuple(chosen), dtypes)
    names = {name: model.output_names(name) for name in chosen}
    passed = (keys,) if isinstance(keys, str) else tuple(keys)
    return Query(dialect, table, passed, names, model.dtypes).write(stages.graph, target)


def answered_in_sql(graph: Graph) -> tuple[str, ...]:
    """Return the methods that a query answers unless others are named."""
    usual = tuple(name for name in SQL_METHODS if name in graph.exported)
    return usual or graph.exported[:1]


def _find_programs(model: Exportable, backend: str) -> Programs:
    """Return the programs of a backend, or raise BackendError where no file can hold them."""
    _require_file(model)
    programs: Programs = model.for_target(backend=backend, device="cpu", native=False).programs
    return programs


def _require_file(model: Exportable) -> None:
    """Raise BackendError where no file for another runtime holds the model; log its columns."""
    graph = model.parsed
    if model.reads.entries:
        raise BackendError(
            "A file for another runtime cannot hold this model: its texts become tokens on the "
            "host. Save it as .hbc."
        )
    _warn_of_ties(graph.only(*graph.exported))
    if not graph.exported:
        tensors = graph.tensors
        others = ", ".join(method for method in graph.outputs if method not in tensors)
        named = (
            f"Name one that is, such as methods={[*tensors[:1]]}, or save" if tensors else "Save"
        )
        raise BackendError(
            "A file for another runtime holds methods whose answers are tensors, and "
            f"{others} is none. {named} it as .hbc."
        )
    log_export(name_dtypes(model.dtypes, range(len(graph.schema.columns))))


@dataclass(frozen=True)
class Writer:
    """How a file is made: from the programs of a backend, for column dtypes."""

    backend: str
    write: Callable[[Programs, tuple[str, ...]], bytes]


def find_writer(path: str | os.PathLike[str], compiled: bool = False) -> Writer:
    """Return the writer for a file's suffix, or of compiled code, or raise OptionError."""
    suffix = Path(path).suffix
    if compiled and suffix != ".pt2":
        raise OptionError(f"compiled=True is an option of '.pt2', not of {suffix!r}.")
    if suffix not in _WRITERS:
        raise unknown("file suffix", suffix, [*_WRITERS, ".so", ".sql", ".hbc"])
    return COMPILED if compiled else _WRITERS[suffix]


def _write_library(
    programs: Programs, dtypes: tuple[str, ...], path: Path, target: str | None = None
) -> None:
    """Write a C library of all methods that are tensors, and its header beside it.

    Names in it begin with the stem of the file's name.
    """
    (prefix,) = argument_names([path.stem])
    from hbconv.backends.tvm.import_tvm import import_tvm

    import_tvm()
    from hbconv.backends.tvm.c_library.export import export_library

    methods = programs.parsed.exported
    graphs = {method: programs.compilation((method,), dtypes).graph for method in methods}
    library, header = export_library(graphs, programs.target, prefix, target)
    write(path.with_suffix(".h"), header.encode())
    write(path, library)


def _write_native(
    programs: Programs, dtypes: tuple[str, ...], path: Path, target: str | None = None
) -> None:
    """Write a file for torch that calls the compiled kernel, and the library that holds this.

    Parameters
    ----------
    programs : Programs
        Of backend ``tvm``.
    dtypes : tuple of str
    path : Path
        Its suffix is ``.pt`` or ``.pt2``; the library is next to it.
    target : str, optional
        Instruction set of the processors that will run it. By default this machine's.
    """
    find_backend("torch").require_packages()
    from hbconv.backends.torch.native import export_native, require_stable_interface
    from hbconv.backends.tvm.c_library.operator import export_operator

    require_stable_interface()
    graph = programs.compilation(programs.parsed.exported, dtypes).graph
    operator = export_operator(graph, programs.target, target)
    library = path.with_name(f"{path.stem}_op{path.suffix.removeprefix('.pt')}.so")
    data = export_native(graph, programs.target, operator, path.suffix, library.name)
    write(library, operator.library)
    write(path, data)


def _warn_of_ties(graph: Graph) -> None:
    """Warn where a file for another runtime orders equally near rows otherwise than the source."""
    if not any(reads_tied_points(node.entries) for node in find_choosing(graph)):
        return
    warnings.warn(
        "Several rows that the model was fitted on are often equally near, as rows of ints are. "
        "This file takes those that come first; the source model and hbconv.Model take those that "
        "its search meets. Serve the model as .hbc where this matters.",
        UserWarning,
        stacklevel=5,
    )


def _onnx(programs: Programs, dtypes: tuple[str, ...]) -> bytes:
    from hbconv.backends.onnx import export_onnx

    graph = programs.compilation(programs.parsed.exported, dtypes).graph
    return export_onnx(graph, programs.target)


def _torchscript(programs: Programs, dtypes: tuple[str, ...]) -> bytes:
    from hbconv.backends.torch.export import export_torchscript

    stages = programs.compilation(programs.parsed.exported, dtypes)
    return export_torchscript(stages.graph, programs.target)


def _compiled(programs: Programs, dtypes: tuple[str, ...]) -> bytes:
    from hbconv.backends.torch.compiled import export_compiled

    stages = programs.compilation(programs.parsed.exported, dtypes)
    return export_compiled(stages.graph, programs.target)


def _torch_export(programs: Programs, dtypes: tuple[str, ...]) -> bytes:
    from hbconv.backends.torch.export import export_program

    stages = programs.compilation(programs.parsed.exported, dtypes)
    return export_program(stages.graph, programs.target)


COMPILED = Writer("torch", _compiled)
_WRITERS = {
    ".onnx": Writer("onnx", _onnx),
    ".pt": Writer("torchscript", _torchscript),
    ".pt2": Writer("torch", _torch_export),
}
