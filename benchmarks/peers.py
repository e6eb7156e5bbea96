"""The contenders: each makes a function from a float32 matrix to the answer of a fitted model.

Every contender is optional: it says if it is not installed, or if it refuses a model. Some
libraries answer the positive class alone.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from models import Fitted

__all__ = ["ONE_THREAD", "PEERS", "Contender", "Setting", "Unavailable", "contenders"]

Call = Callable[[Any], Any]
ONE_THREAD = "hbconv tvm, one thread"


class Unavailable(Exception):  # noqa: N818
    """Why a contender does not run a model."""


@dataclass(frozen=True)
class Setting:
    """What contenders are made for: a model, threads, and the seconds that compiling may take."""

    fitted: Fitted
    threads: int = 1
    compile_limit: float = 60.0

    @property
    def model(self) -> Any:
        """The fitted model."""
        return self.fitted.model

    @property
    def sample(self) -> Any:
        """A few rows."""
        return self.fitted.rows(5)

    def compiled(self, suffix: str, code: str, *arguments: Any) -> Path:
        """Run code in a new process that writes the file ``sys.argv[1]``, unless it is there."""
        path = self.fitted.folder / f"{self.fitted.name}{suffix}"
        if not path.exists():
            if not self.compile_limit:
                raise Unavailable(f"{path.name} was not compiled before, and --compile-limit is 0")
            run_within(self.compile_limit, code, path, *arguments)
        return path


@dataclass(frozen=True)
class Contender:
    """A function to time, and the seconds that it took to make."""

    name: str
    call: Call
    seconds: float


def run_within(limit: float, code: str, *arguments: Any) -> None:
    """Run Python code in a new process; after ``limit`` seconds end it and its children."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    with subprocess.Popen(
        command, process_group=0, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            _, errors = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise Unavailable(f"compiling takes longer than {limit:.0f} s") from None
    if process.returncode:
        last_line = errors.strip().splitlines()[-1:]
        raise Unavailable(f"compiling failed: {(last_line or [process.returncode])[0]}")


def contenders(setting: Setting, names: list[str]) -> Iterator[Contender | tuple[str, str]]:
    """Yield each contender, or its name and the reason why it is left out."""
    for name in names:
        began = time.perf_counter()
        try:
            call = PEERS[name](setting)
            call(setting.sample)
        except ImportError as error:
            yield name, f"{error.name} is not installed"
        except Exception as error:
            yield (
                name,
                f"{type(error).__name__}: {error}"
                if not isinstance(error, Unavailable)
                else str(error),
            )
        else:
            yield Contender(name, call, time.perf_counter() - began)


def booster(setting: Setting) -> Any:
    """Return the Booster inside a model of LightGBM or XGBoost, None for others."""
    if setting.fitted.library == "lightgbm":
        return setting.model.booster_
    return setting.model.get_booster() if setting.fitted.library == "xgboost" else None


def source(setting: Setting) -> Call:
    """Call the library that fitted the model, by the shortest way it documents."""
    own = booster(setting)
    threads = setting.threads
    if setting.fitted.library == "lightgbm":
        return lambda x: own.predict(x, num_threads=threads)
    if setting.fitted.library == "xgboost":
        own.set_param({"nthread": threads})
        return own.inplace_predict
    if hasattr(setting.model, "n_jobs"):
        setting.model.n_jobs = threads
    return getattr(setting.model, setting.fitted.method)


def onnxruntime(setting: Setting, precision: str = "exact") -> Call:
    """Run the ONNX file that hbconv exports, cut down to the method timed."""
    import onnx
    import onnxruntime

    import hbconv

    path = setting.fitted.folder / f"{setting.fitted.name}-{precision}.onnx"
    method = setting.fitted.method
    hbconv.convert(
        setting.model, backend="onnx", precision=precision, sample=setting.sample
    ).export(path)
    whole = onnx.load(path)
    part = onnx.utils.Extractor(whole).extract_model([i.name for i in whole.graph.input], [method])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = setting.threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        part.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    (feed,) = (i.name for i in session.get_inputs())
    return lambda x: session.run([method], {feed: x})[0]


def onedal(setting: Setting) -> Call:
    """Convert to oneDAL's gradient boosting.

    scikit-learn's ensembles go by way of treelite, as oneDAL's documentation advises.
    """
    import daal4py

    daal4py.daalinit(setting.threads)
    model = daal4py.mb.convert_model(booster(setting) or as_treelite(setting))
    return model.predict if model._is_regression else model.predict_proba  # noqa: SLF001


def lleaves(setting: Setting, single: bool = False) -> Call:
    """Compile by lleaves, which takes minutes for deep trees."""
    import lleaves

    if setting.fitted.library != "lightgbm":
        raise Unavailable("reads LightGBM's models only")
    text = setting.fitted.folder / f"{setting.fitted.name}.txt"
    booster(setting).save_model(text)
    code = """if True:
        import sys, lleaves
        model = lleaves.Model(sys.argv[2])
        model.compile(cache=sys.argv[1], use_fp64=sys.argv[3] == '0')
    """
    cache = setting.compiled("-single.lleaves" if single else ".lleaves", code, text, int(single))
    model = lleaves.Model(str(text))
    model.compile(cache=str(cache), use_fp64=not single)
    return lambda x: model.predict(x, n_jobs=setting.threads)


def as_treelite(setting: Setting) -> Any:
    """Import the model into treelite."""
    import treelite

    if setting.fitted.method == "score_samples":
        raise Unavailable("answers another score of isolation forests")
    if setting.fitted.library == "lightgbm":
        return treelite.frontend.from_lightgbm(booster(setting))
    if setting.fitted.library == "xgboost":
        return treelite.frontend.from_xgboost(booster(setting))
    return treelite.sklearn.import_model(setting.model)


def treelite(setting: Setting) -> Call:
    """Interpret by treelite's own GTIL."""
    from treelite import gtil

    model = as_treelite(setting)
    return lambda x: gtil.predict(model, x, nthread=setting.threads)


def tl2cgen(setting: Setting) -> Call:
    """Compile C that treelite's generator writes."""
    import tl2cgen

    stored = setting.fitted.folder / f"{setting.fitted.name}.treelite"
    as_treelite(setting).serialize(stored)
    code = """if True:
        import sys, treelite, tl2cgen
        model = treelite.Model.deserialize(sys.argv[2])
        tl2cgen.export_lib(model, 'gcc', sys.argv[1], {'parallel_comp': 8})
    """
    predictor = tl2cgen.Predictor(setting.compiled(".so", code, stored), nthread=setting.threads)
    return lambda x: predictor.predict(tl2cgen.DMatrix(x, dtype="float32"))


def ydf(setting: Setting) -> Call:
    """Import an ensemble of scikit-learn into YDF, which takes the fastest engine that it has.

    For trees of up to 64 leaves that is QuickScorer (Lucchese et al., 2015) in vectors. YDF reads
    forests and GradientBoostingRegressor. Of a call for one row most is its reading of the rows.
    """
    import ydf

    ydf.verbose(0)
    model = ydf.from_sklearn(setting.model)
    threads = setting.threads
    return lambda x: model.predict({"features": x}, num_threads=threads)


def snapml(setting: Setting) -> Call:
    """Import a text of LightGBM into Snap ML, which chooses a layout of trees for the processor."""
    import snapml

    if setting.fitted.library != "lightgbm":
        raise Unavailable("reads LightGBM's models only")
    path = setting.fitted.folder / f"{setting.fitted.name}-snapml.txt"
    booster(setting).save_model(path)
    classifies = setting.fitted.method == "predict_proba"
    model = snapml.BoostingMachineClassifier() if classifies else snapml.BoostingMachineRegressor()
    model.import_model(str(path), "lightgbm", tree_format="auto")
    model.set_params(n_jobs=setting.threads)
    return getattr(model, setting.fitted.method)


def hbconv_backend(backend: str, precision: str = "exact") -> Callable[[Setting], Call]:
    """Make a contender of one of hbconv's backends."""

    def make(setting: Setting) -> Call:
        import torch

        import hbconv

        torch.set_num_threads(setting.threads)
        model = hbconv.convert(
            setting.model,
            backend=backend,
            precision=precision,
            sample=setting.sample,
            threads=setting.threads,
        )
        return getattr(model, setting.fitted.method)

    return make


def one_thread(setting: Setting) -> Call:
    """Make the compiled model on one thread, to compare several threads with."""
    if setting.threads == 1:
        raise Unavailable("there is one thread anyway")
    return hbconv_backend("tvm")(replace(setting, threads=1))


def bound(setting: Setting) -> Call:
    """Bind low-latency calls of the compiled model, one for each number of rows."""
    import hbconv

    model = hbconv.convert(
        setting.model, backend="tvm", sample=setting.sample, threads=setting.threads
    )
    calls: dict[int, Call] = {}

    def call(x: Any) -> Any:
        known = calls.get(len(x))
        if known is None:
            known = calls[len(x)] = model.bind(setting.fitted.method, len(x))
        return known(x)

    return call


PEERS: dict[str, Callable[[Setting], Call]] = {
    "source": source,
    "onnxruntime": onnxruntime,
    "onnxruntime float32": lambda setting: onnxruntime(setting, "fast"),
    "onedal": onedal,
    "lleaves": lleaves,
    "lleaves float32": lambda setting: lleaves(setting, single=True),
    "treelite": treelite,
    "tl2cgen": tl2cgen,
    "ydf": ydf,
    "snapml": snapml,
    "hbconv torch": hbconv_backend("torch"),
    "hbconv torchscript": hbconv_backend("torchscript"),
    "hbconv tvm": hbconv_backend("tvm"),
    "hbconv tvm fast": hbconv_backend("tvm", "fast"),
    "hbconv tvm bound": bound,
    ONE_THREAD: one_thread,
}
"""All contenders by name; the first is the one that others are compared with."""


def answer(values: Any) -> np.ndarray:
    """Return an answer as a matrix; for two classes it holds the second one alone."""
    matrix = np.asarray(values, np.float64).reshape(len(values), -1)
    return matrix[:, 1:] if matrix.shape[1] == 2 else matrix
