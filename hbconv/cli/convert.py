"""Convert a model file and save it, or export it for another runtime.

The suffix of the output decides: .hbc (hbconv's own), .onnx, .pt (TorchScript),
.pt2 (torch.export), .so (a C library, with a header next to it), .sql (one SELECT).
With --format triton it is a model repository of the Triton server. With --native
the compiled kernel is stored next to a .pt or .pt2, as an operator of torch.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hbconv.cli import answer, require_parent, seconds
from hbconv.cli.score_folder import check_folder
from hbconv.cli.sources import load_model, methods_argument, model_arguments, split_names
from hbconv.cli.waiting import waiting
from hbconv.compiler import tune_model
from hbconv.engines.scorer import read_names, rows_for, with_unread
from hbconv.errors import OptionError
from hbconv.model import Model
from hbconv.runtime.program_choice import name_dtypes
from hbconv.runtime.storage.export import answered_in_sql, find_writer
from hbconv.score.tables import read_all

EXAMPLES = """
examples:
  hbconv convert model.txt -o model.hbc
  hbconv convert model.joblib --allow-pickle -o model.hbc --sample rows.parquet
  hbconv convert model.skops -o model.onnx
  hbconv convert model.hbc --sql postgres --keys id -o model.sql
"""


def arguments(command: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    model_arguments(command)
    command.add_argument(
        "-o", "--output", required=True, help="file to write: .hbc, .onnx, .pt, .pt2, .so or .sql"
    )
    command.add_argument(
        "--format", choices=["triton"], help="write a folder: a repository of the Triton server"
    )
    command.add_argument("--name", help="name of the model in the repository (default: model)")
    command.add_argument(
        "--file", choices=[".pt", ".onnx", ".hbc"], help="what the repository holds (default: .pt)"
    )
    command.add_argument(
        "--target",
        help="processors that a .so is for: x86-64, x86-64-v3, aarch64 (default: this machine's)",
    )
    command.add_argument(
        "--machines",
        metavar="NAMES",
        help="processors that a .hbc holds programs for, by commas: x86-64-v3,aarch64 (default: "
        "this machine's)",
    )
    command.add_argument(
        "--sql",
        metavar="DIALECT",
        help="database that a .sql is for: duckdb (default), postgres, spark or sqlite",
    )
    command.add_argument("--table", help="table that a .sql reads (default: rows)")
    command.add_argument(
        "--keys", help="columns of the table that a .sql passes through, by commas"
    )
    methods_argument(command, "what a file answers (default: everything)")
    command.add_argument(
        "--native",
        action="store_true",
        default=None,
        help="make the compiled kernel an operator of a .pt or .pt2, in a library next to it",
    )
    command.add_argument(
        "--compiled",
        action="store_true",
        default=None,
        help="let torch's AOTInductor compile a .pt2 for the device that is here",
    )
    command.add_argument(
        "--sample",
        metavar="TABLE",
        help="compile for the dtypes of this table, and export them "
        "(default: the dtypes that the model was fitted on)",
    )
    command.add_argument(
        "--tune",
        nargs="?",
        const=True,
        type=seconds,
        metavar="SECONDS",
        help="time the ways to compile that are nearest in prediction, for about a second",
    )
    command.add_argument("--force", action="store_true", help="replace an output that is there")


SAMPLE_ROWS = 8
"""Rows of a sample; a sparse or text model compiles for their sizes."""


def compile_for(model: Model, path: Path, methods: Sequence[str] = ()) -> None:
    """Compile a model for the dtypes of a table; methods may be such as else wait for a call."""
    rows = rows_for(model, with_unread(model, read_all(path, read_names(model), SAMPLE_ROWS)))
    with warnings.catch_warnings():  # A file names columns that the model may know by position.
        warnings.simplefilter("ignore", UserWarning)
        model.compile(rows, methods)


def run(options: argparse.Namespace) -> int:
    """Convert and write."""
    # Impossible outputs are refused before the conversion, which may take minutes.
    how = _export_options(options)
    began = time.perf_counter()
    with waiting(f"Converting {options.model}"):
        model = tune_model(load_model(options), options.tune)
        if options.machines is not None:
            model = model.for_target(machines=split_names([options.machines]))
        if options.sample is not None:
            compile_for(model, Path(options.sample), how.get("methods", ()))
    with waiting(f"Writing {options.output}"):
        model.export(options.output, **how)
    seconds = time.perf_counter() - began
    methods = how.get("methods") or _methods_in(Path(options.output), model)
    size = _size(Path(options.output))
    result = {
        "output": str(options.output),
        "bytes": size,
        "seconds": round(seconds, 3),
        "backend": model.backend,
        "methods": list(methods),
        "inputs": name_dtypes(model.dtypes, range(len(model.dtypes))),
        "compiled": [str(held) for held in model.compiled if {*held.methods} <= {*methods}],
        "tuned": model.explain().tuning.splitlines(),
    }
    answer(
        options,
        result,
        f"{options.output}: {size:,} bytes, methods {', '.join(methods)}, "
        f"inputs {result['inputs']}, converted in {seconds:.2f} s",
    )
    return 0


def _export_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the keyword arguments of ``Model.export``, and refuse impossible outputs early."""
    path = Path(options.output)
    if options.machines is not None:
        _check_machines(options)
    _check_sql(options)
    if options.format is None:
        check_folder(path)
        if path.exists() and not options.force:
            raise OptionError(f"-o {path} is there already. Replace it with --force.")
        if path.suffix not in (".hbc", ".so", ".sql"):
            find_writer(path)
    elif path.exists() and not path.is_dir():
        raise OptionError(f"-o {path} is a file. Name a folder: --format triton adds to it.")
    else:
        require_parent(path, "-o")
    names = ("format", "name", "file", "target", "native", "compiled", "table")
    values = {name: getattr(options, name) for name in names}
    values |= {"dialect": options.sql, "keys": split_names([options.keys or ""]) or None}
    values["methods"] = split_names(options.methods) or None
    return {name: value for name, value in values.items() if value is not None}


def _written_suffix(options: argparse.Namespace) -> str:
    """Return the suffix of the file that is written, which a repository has inside."""
    return str(options.file or ".pt") if options.format else Path(options.output).suffix


def _check_sql(options: argparse.Namespace) -> None:
    """Refuse what is for queries alone, by the names of the command line."""
    suffix = _written_suffix(options)
    for name in ("sql", "table", "keys"):
        if suffix != ".sql" and getattr(options, name) is not None:
            raise OptionError(
                f"--{name} is for .sql files, and the output is {suffix or 'a folder'}."
            )


def _check_machines(options: argparse.Namespace) -> None:
    """Refuse ``--machines`` where the output would hold none of their programs."""
    suffix = _written_suffix(options)
    if suffix != ".hbc":
        raise OptionError(
            f"--machines is for .hbc files, and the output is {suffix or 'a folder'}. A .so is for "
            "one machine, which --target names."
        )
    if options.sample is None:
        raise OptionError(
            "--machines needs --sample: the file holds programs for the dtypes of these rows."
        )


def _methods_in(path: Path, model: Model) -> tuple[str, ...]:
    """Return the methods that a file holds where none are named."""
    return answered_in_sql(model.parsed) if path.suffix == ".sql" else model.methods


def _size(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())
