"""Read models from files.

Formats that can run code are read only when the user allows it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hbconv.cli import positive
from hbconv.errors import ConversionError, MissingPackageError, OptionError
from hbconv.parse.checks.damage import reading

if TYPE_CHECKING:
    from hbconv.containers import Graph
    from hbconv.model import Model

__all__ = ["convert_options", "load_model", "load_source", "model_arguments", "open_catboost"]

TRUSTED = (
    "catboost.core.CatBoost",
    "catboost.core.CatBoostClassifier",
    "catboost.core.CatBoostRanker",
    "catboost.core.CatBoostRegressor",
    "collections.OrderedDict",
    "functools.partial",
    "lightgbm.basic.Booster",
    "lightgbm.sklearn.LGBMClassifier",
    "lightgbm.sklearn.LGBMModel",
    "lightgbm.sklearn.LGBMRanker",
    "lightgbm.sklearn.LGBMRegressor",
    "numpy.dtype",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.tree._tree.Tree",
    "sklearn.utils.validation.check_array",
    "xgboost.core.Booster",
    "xgboost.sklearn.XGBClassifier",
    "xgboost.sklearn.XGBModel",
    "xgboost.sklearn.XGBRFClassifier",
    "xgboost.sklearn.XGBRFRegressor",
    "xgboost.sklearn.XGBRanker",
    "xgboost.sklearn.XGBRegressor",
)
"""Types beyond skops' own list that a .skops file may hold: exactly those that hbconv converts."""

KNOWN = (
    ".txt (LightGBM), .json and .ubj (XGBoost), .json and .cbm (CatBoost), "
    ".skops, .joblib and .pkl, .hbc"
)
"""Suffixes of model files."""


def load_source(path: Path, *, allow_pickle: bool = False) -> Any:
    """Read a fitted model, or the Graph of a booster's file, by the file's suffix.

    Raises
    ------
    ConversionError
        Unknown suffix, a damaged file, or one that needs ``--allow-pickle``.
    """
    if not path.is_file():
        raise ConversionError(f"No file {path}.")
    with reading(path.name, "Save the model anew."):
        return _load(path, allow_pickle=allow_pickle)


def _load(path: Path, *, allow_pickle: bool) -> Any:
    if path.suffix == ".txt":
        from hbconv.parse.lightgbm.estimators import parse_lightgbm_text

        return parse_lightgbm_text(path.read_text(encoding="utf-8"))
    if path.suffix in (".json", ".ubj"):
        return _read_json(path.read_bytes())
    if path.suffix == ".cbm":
        _require_readable(path)
        return open_catboost(path)
    if path.suffix == ".skops":
        return _load_skops(path)
    if path.suffix in (".pkl", ".pickle", ".joblib"):
        return _load_pickle(path, allow_pickle=allow_pickle)
    raise ConversionError(f"{path.name}: unknown model format. Known: {KNOWN}.")


def load_model(options: argparse.Namespace) -> Model:
    """Load a saved .hbc model, or convert any other model file.

    The options are those of ``model_arguments``.
    """
    import hbconv

    path = Path(options.model)
    chosen = convert_options(options)
    if path.suffix == ".hbc":
        return load_saved(path, chosen)
    return hbconv.convert(load_source(path, allow_pickle=options.allow_pickle), **chosen)


def load_saved(path: Path, chosen: dict[str, Any]) -> Model:
    """Load a saved .hbc model.

    Keyword arguments of ``hbconv.convert`` replace those it was saved with.
    """
    import hbconv

    where = {name: chosen[name] for name in ("backend", "device") if name in chosen}
    how = {name: chosen[name] for name in chosen.keys() - where.keys()}
    model = hbconv.load(path, **where, on_new_dtypes="compile")
    return model.for_target(**how) if how else model


def model_arguments(command: argparse.ArgumentParser) -> None:
    """Add the arguments that name a model and how to compile it."""
    command.add_argument("model", help=f"model file: {KNOWN}")
    command.add_argument(
        "--allow-pickle",
        action="store_true",
        help="load .pkl and .joblib files, which can run any code: only from people you trust",
    )
    command.add_argument(
        "--backend", help="reference, torch, torchscript, onnx or tvm (default: the best installed)"
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
    command.epilog = (
        "A .hbc file keeps the backend, device, precision, strategy, threads and rules it was "
        "saved with, unless others are given."
    )


def convert_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the keyword arguments of ``hbconv.convert`` that were given."""
    names = ("backend", "device", "precision", "strategy", "threads", "without")
    given = {name: getattr(options, name) for name in names}
    if given["without"] is not None:
        given["without"] = tuple(given["without"])
    return {name: value for name, value in given.items() if value not in (None, "auto")}


def _read_json(data: bytes) -> Graph:
    if b'"features_info"' in data and b'"scale_and_bias"' in data:
        from hbconv.parse.catboost.estimators import parse_catboost_json

        return parse_catboost_json(data)
    from hbconv.parse.xgboost.estimators import parse_xgboost_bytes

    return parse_xgboost_bytes(data)


PYTHON_EXITS = (0, 1)
"""Exit codes of a process that Python ends: done, or an exception. A crash has another."""


def _require_readable(path: Path) -> None:
    """Refuse a file over which CatBoost crashes, by reading it in another process first.

    What that process raises is left to whoever reads the file next.
    """
    command = [sys.executable, "-m", "hbconv.cli.trial", str(path)]
    code = subprocess.run(command, capture_output=True, check=False).returncode  # noqa: S603
    if code not in PYTHON_EXITS:
        raise ConversionError(
            f"{path.name} is damaged: CatBoost crashes over it (exit code {code}). "
            "Save the model again."
        )


def open_catboost(path: Path) -> Any:
    """Load a binary CatBoost model as the estimator that its objective is for.

    A damaged file can end the process.
    """
    try:
        import catboost
    except ImportError as error:
        raise MissingPackageError(
            "Reading .cbm files needs catboost. Install with: pip install catboost. "
            "Or save the model with format='json'."
        ) from error
    from hbconv.parse.catboost.objectives import CLASSIFIERS

    loss = str(catboost.CatBoost().load_model(str(path)).get_param("loss_function")).partition(":")[
        0
    ]
    return (
        catboost.CatBoostClassifier if loss in CLASSIFIERS else catboost.CatBoostRegressor
    )().load_model(str(path))


def _load_skops(path: Path) -> Any:
    try:
        from skops import io
    except ImportError as error:
        raise MissingPackageError(
            "Reading .skops files needs skops. Install with: pip install skops"
        ) from error
    unknown = sorted(set(io.get_untrusted_types(file=path)) - set(TRUSTED))
    if unknown:
        raise ConversionError(
            f"{path.name} holds types that are not trusted: {', '.join(unknown)}. "
            "Load it yourself and call hbconv.convert."
        )
    return io.load(path, trusted=list(TRUSTED))


def _load_pickle(path: Path, *, allow_pickle: bool) -> Any:
    if not allow_pickle:
        raise OptionError(
            f"{path.name} is a pickle, which can run any code when loaded. "
            "If you trust it, add --allow-pickle; or save it with skops."
        )
    try:
        import joblib
    except ImportError as error:
        raise MissingPackageError(
            "Reading .pkl and .joblib files needs joblib. Install with: pip install joblib"
        ) from error
    with warnings.catch_warnings():
        warnings.simplefilter(
            "default"
        )  # a version mismatch of the training library is worth a line, not a failure
        try:
            return joblib.load(path)
        except ModuleNotFoundError as error:
            raise MissingPackageError(
                f"{path.name} needs the package {error.name!r}. "
                "Install the libraries that the model was fitted with."
            ) from error
