"""Read models from files.

Formats that can run code are read only when the user allows it.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hbconv.cli import positive, require_file
from hbconv.errors import MissingPackageError, OptionError
from hbconv.model_formats import KNOWN, ModelFormat, format_of

if TYPE_CHECKING:
    from hbconv.model import Model

__all__ = [
    "convert_options",
    "is_saved",
    "load_model",
    "load_source",
    "methods_argument",
    "model_arguments",
    "split_names",
]


def load_source(path: Path, *, allow_pickle: bool = False) -> Any:
    """Read a fitted model, the Graph of a booster's file, or a folder of Spark ML or YDF.

    It is what ``hbconv.convert`` opens by its path, or a pickle.

    Raises
    ------
    ConversionError
        Unknown format, or a damaged file.
    OptionError
        There is no such file, or it is a pickle without ``--allow-pickle``.
    """
    from hbconv.sources.model_files import open_model

    require_file(path)
    if format_of(path) is not ModelFormat.PICKLE:
        return open_model(path)
    if not allow_pickle:
        raise OptionError(
            f"{path.name} is a pickle, which can run any code when loaded. "
            "If you trust it, add --allow-pickle; or save it with skops."
        )
    from hbconv.parse.damage import REFIT, reading

    with reading(path.name, REFIT):
        return _load_pickle(path)


def is_saved(path: Path) -> bool:
    """Tell whether a file is a saved model of hbconv.

    Raises
    ------
    OptionError
        There is no such file.
    """
    require_file(path)
    return format_of(path) is ModelFormat.SAVED


def load_model(options: argparse.Namespace) -> Model:
    """Load a saved .hbc model, or convert any other model file.

    The options are those of ``model_arguments``.
    """
    import hbconv

    path = Path(options.model)
    chosen = convert_options(options)
    if is_saved(path):
        return load_saved(path, chosen, trusted=options.trusted)
    refuse_trusted(options)
    return hbconv.convert(load_source(path, allow_pickle=options.allow_pickle), **chosen)


def refuse_trusted(options: argparse.Namespace) -> None:
    """Refuse ``--trusted`` for files that store no programs.

    Raises
    ------
    OptionError
    """
    if options.trusted:
        raise OptionError(
            f"--trusted is for .hbc files, and {options.model} is none. Leave it out."
        )


def load_saved(path: Path, chosen: dict[str, Any], *, trusted: bool = False) -> Model:
    """Load a saved .hbc model, and the programs stored in it if they are trusted.

    Keyword arguments of ``hbconv.convert`` replace those it was saved with.
    """
    import hbconv

    where = {name: chosen[name] for name in ("backend", "device") if name in chosen}
    how = {name: chosen[name] for name in chosen.keys() - where.keys()}
    model = hbconv.load(path, **where, trusted=trusted, on_new_dtypes="compile")
    return model.for_target(**how) if how else model


def model_arguments(command: argparse.ArgumentParser, nargs: str | None = None) -> None:
    """Add the arguments that name a model and how to compile it; "?" lets it be left out."""
    command.add_argument(
        "model", nargs=nargs, help=f"model file, whatever its name: {KNOWN}, pickles, .hbc"
    )
    command.add_argument(
        "--allow-pickle",
        action="store_true",
        help="load pickles and joblib files, which can run any code: only from people you trust",
    )
    command.add_argument(
        "--backend",
        help="reference, torch, torchscript, onnx, tvm, or sql to try a query in DuckDB (default: "
        "the best installed)",
    )
    command.add_argument("--device", help="cpu (default) or cuda")
    command.add_argument(
        "--precision", help="exact (default: the source's dtypes) or fast (float32)"
    )
    command.add_argument("--strategy", help="force a tree strategy by name")
    command.add_argument(
        "--without",
        metavar="RULE",
        action="append",
        help="leave out a rule of the optimizer, to see what it does; may be given again",
    )
    command.add_argument("--threads", type=positive, help="threads one call may use (default 1)")
    command.add_argument(
        "--trusted",
        action="store_true",
        help="run the programs stored in a .hbc file, which can do anything: only of people you "
        "trust",
    )
    kept = (
        "A .hbc file keeps the backend, device, precision, strategy, threads and rules it was "
        "saved with, unless others are given."
    )
    command.epilog = f"{kept}\n{command.epilog or ''}"


def methods_argument(command: argparse.ArgumentParser, meaning: str) -> None:
    """Add the option that names methods, with the one spelling of all commands."""
    command.add_argument(
        "--methods",
        action="append",
        metavar="NAMES",
        help=f"{meaning}, separated by commas; may be given again",
    )


def split_names(texts: Sequence[str] | None) -> tuple[str, ...]:
    """Return the names of a list that is separated by commas, each once.

    >>> split_names(["predict,predict_proba", "predict"])
    ('predict', 'predict_proba')
    """
    return tuple(dict.fromkeys(n for text in texts or () for n in text.split(",") if n))


def convert_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the keyword arguments of ``hbconv.convert`` that were given."""
    names = ("backend", "device", "precision", "strategy", "threads", "without")
    values = {name: getattr(options, name) for name in names}
    if values["without"] is not None:
        values["without"] = tuple(values["without"])
    return {name: value for name, value in values.items() if value not in (None, "auto")}


def _load_pickle(path: Path) -> Any:
    try:
        import joblib
    except ImportError as error:
        raise MissingPackageError(
            f"Reading {' and '.join(ModelFormat.PICKLE.value.suffixes)} files needs joblib. "
            "Install with: pip install joblib"
        ) from error
    with warnings.catch_warnings():
        warnings.simplefilter(
            "default"
        )  # a version mismatch of the training library is worth a line, not a failure
        return joblib.load(path)
