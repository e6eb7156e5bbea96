"""convert: from a fitted estimator to a model. ``hbconv.pipeline`` has the stages."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Sequence
from time import perf_counter
from typing import Any, Literal, Never

from hbconv.backends import find_installed
from hbconv.containers import Graph
from hbconv.errors import OptionError, log_parsed
from hbconv.model import Model
from hbconv.names import unknown
from hbconv.parse import parse
from hbconv.parse.onnx.graph import is_onnx_model, parse_onnx
from hbconv.runtime.inputs.read import category_columns, column_kinds, count_columns, read_table
from hbconv.runtime.options import check_options, read_machines, require_machines
from hbconv.runtime.program_choice import OnNewDtypes
from hbconv.runtime.timing.tune import read_tune, tune_programs
from hbconv.sources.model_files import open_model
from hbconv.target import Precision, Target

__all__ = ["convert", "tune_model"]


def convert(
    estimator: object,
    backend: str = "auto",
    *,
    device: str = "cpu",
    precision: Precision = "exact",
    strategy: str | None = None,
    tree_ops: Literal["native", "core"] = "native",
    iterations: tuple[int, int] | None = None,
    sample: Any = None,
    rows: int = 10_000,
    memory: int = 2 << 30,
    threads: int = 1,
    without: Sequence[str] = (),
    native: bool = True,
    machines: Sequence[str] = (),
    tune: Any = None,
    on_new_dtypes: OnNewDtypes = "compile",
    **others: Never,
) -> Model:
    """Compile a fitted estimator or pipeline.

    Parameters
    ----------
    estimator : object
        Fitted scikit-learn, LightGBM, XGBoost or CatBoost model, a pipeline of them, a Graph, an
        onnx.ModelProto, a Model, which counts as what it was made of, or a model file: its path,
        its bytes or its text. First bytes tell whether it is one of LightGBM, XGBoost, CatBoost,
        Treelite, ONNX or skops. A path may also be of a folder of Spark ML or YDF.
    backend : str
        ``"reference"``, ``"torch"``, ``"torchscript"``, ``"onnx"`` or ``"tvm"``. ``"auto"`` takes
        tvm on the CPU if it is installed, else torch; reference, which is slow, where neither is.
    device : str
        ``"cpu"`` or ``"cuda"``.
    precision : {"exact", "fast"}
        ``"exact"`` computes in the dtypes of the source model; ``"fast"`` in float32,
        but for sums of weights that cancel.
    strategy : str, optional
        Forces a tree strategy by name; None lets the cost model choose.
    tree_ops : {"native", "core"}
        ONNX only: trees as one TreeEnsemble operator, or as core tensor operators.
    iterations : tuple of int, optional
        LightGBM, XGBoost and CatBoost: the first boosting iteration to use, and the one after the
        last. By default those that ``predict`` of the source model uses.
    sample : table or array, optional
        A few rows as they will come. Programs for their dtypes, and for so few rows, are compiled
        at once instead of at the first call. Exports take their dtypes, else those that the source
        model was fitted on.
    rows : int
        Rows in a typical call, for the cost model.
    memory : int
        Bytes that one call may take.
    threads : int
        Threads that one call may use.
    without : sequence of str
        Names of rules of the optimizer to leave out, to see what each of them does.
    native : bool
        torch on the CPU only: the kernel that backend ``"tvm"`` compiles computes, as one operator
        of torch, where TVM is installed or the model was saved compiled. False takes plain
        operators of torch, which are slower.
    machines : sequence of str, optional
        Machines whose kernels ``save`` writes, instead of those of this one: ``"x86-64"``,
        ``"x86-64-v3"``, ``"x86-64-v4"`` and ``"aarch64"``, on Linux. A machine that loads the file
        takes the best of those that it runs.
    tune : bool, float, table or array, optional
        Time the few ways to compile that are nearest in prediction, and take the fastest. True
        spends about a second on it, a number so many seconds; rows are timed with instead of made
        ones. What is measured is kept beside the compiled code and read the next time. Without
        this, predictions decide alone.
    on_new_dtypes : {"compile", "convert", "refuse"}
        What a call does with rows of other dtypes than there are programs for, where the source
        model answers these otherwise: such as float32 rows that it computes in float32.
        ``"compile"`` makes a program for them, so that the answer is the source model's own.
        ``"convert"`` answers as the source model does for these rows as float64, and refuses what
        float64 does not hold. ``"refuse"`` raises InputError. Rows that the source model answers
        alike, such as ints for floats, never need a program of their own.

    Returns
    -------
    Model
        Answers as the estimator does.

    Raises
    ------
    UnsupportedError
        Part of the model has no exact form. The message names estimator, step and parameter.
    NotFittedError, OptionError, BackendError, MissingPackageError
    """
    for name in others:
        raise unknown("option", name, OPTIONS)
    target = Target(
        _choose(backend, device),
        device,
        precision,
        strategy,
        tree_ops,
        rows,
        memory,
        threads,
        tuple(without),
        native,
        read_machines(machines),
    )
    target = require_machines(check_options(target))
    model = Model(
        _parse(estimator, sample, iterations),
        target,
        on_new_dtypes=on_new_dtypes,
    )
    model = tune_model(model, tune, sample)
    # Without a sample nothing is compiled yet, but an impossible target is refused now.
    return model.compile(sample) if sample is not None else model.check()


OPTIONS = tuple(inspect.signature(convert).parameters)[1:-1]
"""Names of the options of ``convert``."""


def tune_model(model: Model, tune: Any, sample: Any = None) -> Model:
    """Return the model as timing decides, or the model itself if ``tune`` is None or False.

    Parameters
    ----------
    model : Model
    tune : bool, float, table or array
        As ``convert`` takes it.
    sample : table or array, optional
        Rows to time with.

    Raises
    ------
    OptionError
        The target forces a strategy, the number is not positive, or rows are needed.
    """
    if tune is None or tune is False:
        return model
    if model.target.strategy is not None:
        raise OptionError(
            f"strategy={model.target.strategy!r} leaves tune= nothing to choose. Leave one out."
        )
    seconds, rows = read_tune(tune, sample)
    # Arrays of a model of categories are read by another model.
    reading = model if rows is None else model.reading(rows)
    table = None if rows is None else read_table(rows, reading.reads)
    tuning = tune_programs(reading.programs, reading.dtypes, table, seconds)
    return Model(model.parsed, model.target, model.dtypes, None, tuning, model.on_new_dtypes)


def _parse(estimator: object, sample: Any, iterations: tuple[int, int] | None) -> Graph:
    n_features = None if sample is None else count_columns(sample)
    categories = {} if sample is None else category_columns(sample)
    if isinstance(estimator, (str, bytes, bytearray, memoryview, os.PathLike)):
        estimator = open_model(estimator, n_features, categories)
    elif isinstance(estimator, Model):
        estimator = estimator.parsed
    elif is_onnx_model(estimator):
        estimator = parse_onnx(estimator, n_features)
    if not isinstance(estimator, Graph):
        began = perf_counter()
        kinds = {} if sample is None else column_kinds(sample)
        graph = parse(estimator, n_features, iterations, categories, kinds)
        log_parsed(graph.traits.estimator, len(graph.nodes()), perf_counter() - began)
        return graph
    if iterations is not None:
        raise OptionError(
            "iterations is for models, not for a Graph: name them where it is read, such as "
            "parse_lightgbm_text(text, iterations)."
        )
    return estimator


def _choose(backend: str, device: str) -> str:
    if backend != "auto":
        return backend
    name = find_installed(device)
    if name == "reference":
        warnings.warn(
            "Neither TVM nor torch is installed, so the model runs on backend 'reference', which "
            "is slow (docs/faq.md#slower). Install with: pip install 'hbconv[tvm]' or "
            "'hbconv[torch]'.",
            UserWarning,
            stacklevel=3,
        )
    return name
