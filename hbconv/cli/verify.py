"""Compare a converted model with its source on a table, method by method.

The file of a booster is compared with its own library. Exits with 1 when a decision differs.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from hbconv.cli import answer, positive
from hbconv.cli.sources import (
    convert_options,
    is_saved,
    load_source,
    model_arguments,
    refuse_trusted,
)
from hbconv.cli.waiting import waiting
from hbconv.containers import Graph, InputPort, OutputPort, Session
from hbconv.engines.scorer import rows_for
from hbconv.errors import MissingPackageError, OptionError
from hbconv.model_formats import ModelFormat, format_of
from hbconv.parse.spark.boosters import native_part
from hbconv.parse.spark.saved_model import SparkModel
from hbconv.parse.treelite import StoredModel
from hbconv.score.formats import SUFFIXES
from hbconv.score.tables import read_all
from hbconv.sources.library_files import BOOSTERS, TRUSTED, open_catboost

__all__ = ["load_predictor"]

EXAMPLES = """
examples:
  hbconv verify model.txt rows.parquet
  hbconv verify model.joblib --allow-pickle rows.csv --rows 1000
"""


def arguments(command: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    model_arguments(command)
    command.add_argument("data", help=f"table of rows to compare on ({', '.join(SUFFIXES)})")
    command.add_argument("--rows", type=positive, help="only the first rows")


def run(options: argparse.Namespace) -> int:
    """Convert, predict with both, and report."""
    import hbconv

    path = Path(options.model)
    if is_saved(path):
        raise OptionError(
            f"{path.name} holds no source to compare with. Give the model file that it was "
            f"converted from: hbconv verify SOURCE {options.data}."
        )
    refuse_trusted(options)
    with waiting(f"Converting {path}"):
        source = load_source(path, allow_pickle=options.allow_pickle)
        model = hbconv.convert(source, **convert_options(options))
        source = load_predictor(source, path)
    if isinstance(source, SparkModel):
        raise OptionError(
            f"{path.name} is a model of Spark, which hbconv does not run. Compare the answers of "
            f"hbconv score {path.name} {options.data} with those of your cluster."
        )
    names = getattr(model, "feature_names_in_", None)
    rows = rows_for(
        model,
        read_all(
            Path(options.data), None if names is None else [str(n) for n in names], options.rows
        ),
    ).to_pandas()
    with waiting(f"Comparing {len(rows):,} rows"):
        report = hbconv.verify(source, model, rows if names is not None else rows.to_numpy())
    answer(options, report.to_dict(), str(report))
    return 0 if report.ok else 1


_NOT_LOADED: Mapping[ModelFormat | None, str] = {
    ModelFormat.TREELITE_JSON: "Treelite itself does not load its JSON. Compare a checkpoint "
    f"({ModelFormat.TREELITE.value.suffixes[0]}) of the model.",
    ModelFormat.XGBOOST_OLD: "XGBoost since 3.1 does not load its old binary. Save the model by "
    "booster.save_model('model.ubj') with an earlier one, and compare that.",
}
"""Formats that their own library does not load."""


@dataclass(frozen=True)
class OwnBooster:
    """The predictions of a booster's own library for rows, a DataFrame or an array.

    Parameters
    ----------
    predict, raw_scores, apply : callable
        From rows to an array: answers, scores before the link function, and leaves.
    """

    predict: Callable[[Any], Any]
    raw_scores: Callable[[Any], Any]
    apply: Callable[[Any], Any]


def load_predictor(source: Any, path: Path, threads: int = 1) -> Any:
    """Return what predicts as the source: the model that was read, or what its library loads.

    hbconv reads boosters without their libraries, those in .skops files too, so these load the
    file again.
    """
    if isinstance(source, Graph | StoredModel):
        return open_booster(path, threads)
    is_file = source is not None and path.is_file()
    if is_file and format_of(path) is ModelFormat.SKOPS:
        return open_booster(path, threads)
    return source


def open_booster(path: Path, threads: int = 1) -> Any:
    """Load a booster with the library that its file is of.

    A folder is one that SynapseML's ``saveNativeModel`` wrote, for others hold no booster.
    An ONNX model is opened with onnxruntime. All but CatBoost use as many threads as are given.

    Raises
    ------
    MissingPackageError
        The library is not installed.
    OptionError
        The library does not load the file.
    """
    kind = format_of(path)
    if kind in _NOT_LOADED:
        raise OptionError(f"{path.name}: {_NOT_LOADED[kind]}")
    try:
        return _LOADERS[kind](path, threads)
    except ImportError as error:
        raise MissingPackageError(
            f"To compare {path.name} with its own library, install it: pip install {error.name}"
        ) from error


def _lightgbm(path: Path, threads: int) -> OwnBooster:
    import lightgbm

    predict = partial(lightgbm.Booster(model_file=path).predict, num_threads=threads)
    return OwnBooster(predict, partial(predict, raw_score=True), partial(predict, pred_leaf=True))


def _skops(path: Path) -> Any:
    """Load an estimator with its boosters, whose bytes go to the loaders of their libraries."""
    from skops import io

    return io.load(path, trusted=[*TRUSTED, *BOOSTERS])


def _treelite(path: Path, threads: int) -> OwnBooster:
    import numpy as np
    import treelite

    model = treelite.Model.deserialize(path)

    def ask(rows: Any, answer: Callable[..., Any], **how: bool) -> Any:
        return answer(model, np.asarray(rows, model.input_type), nthread=threads, **how)

    predict = partial(ask, answer=treelite.gtil.predict)
    leaves = partial(ask, answer=treelite.gtil.predict_leaf)
    return OwnBooster(predict, partial(predict, pred_margin=True), leaves)


def _xgboost(path: Path, threads: int) -> OwnBooster:
    import xgboost

    # From bytes: by its path XGBoost takes the suffix for the format.
    booster = xgboost.Booster({"nthread": threads}, model_file=bytearray(path.read_bytes()))

    def ask(rows: Any, **how: bool) -> Any:
        names = booster.feature_names
        return booster.predict(xgboost.DMatrix(rows, feature_names=names, nthread=threads), **how)

    return OwnBooster(ask, partial(ask, output_margin=True), partial(ask, pred_leaf=True))


_DTYPES = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(bool)": np.bool_,
    "tensor(string)": np.object_,
}


def open_session(path: Path, threads: int = 1) -> Any:
    """Return the answers of onnxruntime by method, for rows in a DataFrame or an array.

    Raises
    ------
    ImportError
        onnxruntime is not installed.
    """
    import onnxruntime

    from hbconv.parse.onnx.graph import open_onnx

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    native = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    graph = open_onnx(path)
    session = graph.traits.session or Session((), ())
    methods: dict[str, Callable[[Any], Any]] = {
        port.method: partial(_answer, native, graph, session, port) for port in session.computed
    }
    return SimpleNamespace(**methods)


def _answer(native: Any, graph: Graph, session: Session, port: OutputPort, rows: Any) -> Any:
    dtypes = {port_in.name: _DTYPES[port_in.type] for port_in in native.get_inputs()}
    feeds = {
        port_in.name: _columns(graph, port_in, rows).astype(dtypes[port_in.name])
        for port_in in session.inputs
    }
    (values,) = native.run([port.name], feeds)
    if port.keys is not None:
        return np.array([[row[key] for key in port.keys.data.tolist()] for row in values])
    if isinstance(values, list):
        return values
    # The rows may be on another axis in the file; hbconv returns them first.
    answer = np.moveaxis(np.asarray(values), port.shape.index(-1), 0)
    flat = answer.reshape(len(answer), -1)
    return flat.ravel() if graph.outputs[port.method].is_vector else flat


def _columns(graph: Graph, port: InputPort, rows: Any) -> Any:
    """Return the columns of one input, found by name in a frame of named ones."""
    columns = list(port.columns)
    if not hasattr(rows, "iloc"):
        values = np.asarray(rows)[:, columns]
    elif graph.schema.named:
        values = rows[[graph.schema.names[i] for i in columns]].to_numpy()
    else:
        values = rows.iloc[:, columns].to_numpy()
    return values.reshape(len(values), *port.shape)


_LOADERS: Mapping[ModelFormat | None, Callable[[Path, int], Any]] = {
    ModelFormat.CATBOOST_JSON: lambda path, _: open_catboost(path, "json"),
    ModelFormat.LIGHTGBM: _lightgbm,
    ModelFormat.ONNX: open_session,
    ModelFormat.SKOPS: lambda path, _: _skops(path),
    ModelFormat.SYNAPSE: lambda path, threads: _lightgbm(native_part(path), threads),
    ModelFormat.TREELITE: _treelite,
    ModelFormat.XGBOOST: _xgboost,
    ModelFormat.XGBOOST_JSON: _xgboost,
}
"""What loads each format with the library that it is of."""
