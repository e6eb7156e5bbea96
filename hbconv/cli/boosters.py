"""Open the file of a booster with its own library, to compare a converted model with it.

The answers have the names that models converted from such files give them.

Open an .onnx file with onnxruntime, to compare a converted model with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from hbconv.containers import Graph, InputPort, OutputPort, Session
from hbconv.errors import MissingPackageError, OptionError
from hbconv.files import ModelFormat, format_of
from hbconv.parse.spark.boosters import native_part
from hbconv.parse.treelite.stored_model import StoredModel
from hbconv.sources.catboost_files import open_catboost
from hbconv.sources.skops_files import BOOSTERS, TRUSTED

__all__ = ["asked_source", "open_booster"]

_NOT_LOADED: Mapping[ModelFormat | None, str] = {
    ModelFormat.TREELITE_JSON: "Treelite itself does not load its JSON. Compare a checkpoint (.tl) "
    "of the model.",
    ModelFormat.XGBOOST_OLD: "XGBoost since 3.1 does not load its old binary. Save the model by "
    "booster.save_model('model.ubj') with an earlier one, and compare that.",
}
"""Formats that their own library does not load."""


@dataclass(frozen=True)
class OwnBooster:
    """The answers of a booster's own library to rows, a DataFrame or an array.

    Parameters
    ----------
    predict, raw_scores, apply : callable
        From rows to an array: answers, scores before the link function, and leaves.
    """

    predict: Callable[[Any], Any]
    raw_scores: Callable[[Any], Any]
    apply: Callable[[Any], Any]


def asked_source(source: Any, path: Path, threads: int = 1) -> Any:
    """Return what answers as the source: the model that was read, or what its library loads.

    hbconv reads boosters without their libraries, those in .skops files too, so these load the
    file anew.
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
    found = ModelFormat.LIGHTGBM if path.is_dir() else format_of(path)
    if found in _NOT_LOADED:
        raise OptionError(f"{path.name}: {_NOT_LOADED[found]}")
    try:
        if path.is_dir():
            return _lightgbm(native_part(path), threads)
        if found is ModelFormat.LIGHTGBM:
            return _lightgbm(path, threads)
        if found is ModelFormat.ONNX:
            return open_session(path, threads)
        if found is ModelFormat.TREELITE:
            return _treelite(path, threads)
        if found is ModelFormat.SKOPS:
            return _skops(path)
        if found is ModelFormat.CATBOOST_JSON:
            return open_catboost(path, "json")
        return _xgboost(path, threads)
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
    own = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    graph = open_onnx(path)
    session = graph.traits.session or Session((), ())
    methods: dict[str, Callable[[Any], Any]] = {
        port.method: partial(_answer, own, graph, session, port) for port in session.computed
    }
    return SimpleNamespace(**methods)


def _answer(own: Any, graph: Graph, session: Session, port: OutputPort, rows: Any) -> Any:
    dtypes = {given.name: _DTYPES[given.type] for given in own.get_inputs()}
    feeds = {
        given.name: _columns(graph, given, rows).astype(dtypes[given.name])
        for given in session.inputs
    }
    (values,) = own.run([port.name], feeds)
    if port.keys is not None:
        return np.array([[row[key] for key in port.keys.data.tolist()] for row in values])
    if isinstance(values, list):
        return values
    answer = np.moveaxis(np.asarray(values), port.shape.index(-1), 0)
    flat = answer.reshape(len(answer), -1)
    return flat.ravel() if graph.outputs[port.method].is_vector else flat


def _columns(graph: Graph, given: InputPort, rows: Any) -> Any:
    """Return the columns of one input, found by name in a frame of named ones."""
    columns = list(given.columns)
    if not hasattr(rows, "iloc"):
        found = np.asarray(rows)[:, columns]
    elif graph.schema.named:
        found = rows[[graph.schema.names[i] for i in columns]].to_numpy()
    else:
        found = rows.iloc[:, columns].to_numpy()
    return found.reshape(len(found), *given.shape)
