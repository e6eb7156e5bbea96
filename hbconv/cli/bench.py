"""Time a model next to its source, at several batch sizes, on one or more backends.

With ``--ablate`` it is timed next to itself, with rules of the optimizer left out.
The rows are random or those of a table. The times are medians of repeated calls in this process.
The machine's speed drifts, so compare within one run.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from hbconv.backends import find_backend
from hbconv.cli import answer, positive, require_file
from hbconv.cli.sources import (
    convert_options,
    is_saved,
    load_saved,
    load_source,
    methods_argument,
    model_arguments,
    refuse_trusted,
    split_names,
)
from hbconv.cli.verify import load_predictor
from hbconv.cli.waiting import waiting
from hbconv.engines.scorer import read_names, rows_for, with_unread
from hbconv.errors import InputError, MissingPackageError, OptionError
from hbconv.model import Model
from hbconv.optimize import rule_names
from hbconv.runtime.inputs.read import read_table
from hbconv.runtime.report.derivations import find_effective_rules
from hbconv.score.tables import read_all

__all__: list[str] = []

EXAMPLES = """
examples:
  hbconv bench model.txt
  hbconv bench model.joblib --allow-pickle --data rows.parquet --backends torch,onnx,tvm
"""


def arguments(command: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    model_arguments(command)
    command.add_argument(
        "--data", help="table of rows (default: standard normal float32 rows, for numeric models)"
    )
    methods_argument(command, "method to call (default: predict_proba, predict or the first)")
    command.add_argument(
        "--batch", type=_sizes, default="1,100,10000", help="batch sizes, separated by commas"
    )
    command.add_argument("--repeat", type=positive, default=7, help="calls timed for each figure")
    command.add_argument(
        "--backends",
        help="backends to compare, separated by commas (default: the one of --backend)",
    )
    command.add_argument(
        "--ablate",
        action="store_true",
        help="time the model with each rule of the optimizer left out instead of its source",
    )


def run(options: argparse.Namespace) -> int:
    """Time each backend, and the source where there is one."""
    import hbconv

    path = Path(options.model)
    backends = options.backends.split(",") if options.backends else [options.backend]
    _require_options(options, backends)
    with waiting(f"Converting {path}"):
        source = _source(path, options)
        # Rows and method are refused before the model is converted for the other backends.
        first = _model(hbconv, path, source, options, backends[0])
        method = _method(first, split_names(options.methods))
        rows = _rows(first, options.data, max(options.batch))
        others = {name: _model(hbconv, path, source, options, name) for name in backends[1:]}
    models = {backends[0]: first, **others}
    if options.ablate:
        return _ablate(models.values(), method, rows, options)
    contenders: dict[str, Callable[[Any], Any]] = {
        model.backend: getattr(model, method) for model in models.values()
    }
    predictor = _load_predictor(source, path, options.threads or 1)
    if predictor is not None:
        contenders = {"source": getattr(predictor, method), **contenders}
    figures = []
    for size in options.batch:
        timed = [_time(n, call, rows[:size], options.repeat) for n, call in contenders.items()]
        figures += [f | {"speed_up": timed[0]["seconds"] / f["seconds"]} for f in timed]
    answer(options, {"method": method, "figures": figures}, _table(method, figures))
    return 0


def _require_options(options: argparse.Namespace, backends: Sequence[str | None]) -> None:
    """Refuse rows, methods and backends that are not there, before a model is loaded.

    Raises
    ------
    OptionError
    MissingPackageError
    """
    if len(split_names(options.methods)) > 1:
        raise OptionError("bench times one method. Name one with --methods.")
    for name in backends:
        if name not in (None, "auto"):
            find_backend(name).require_packages()
    for path in filter(None, (options.data, options.model)):
        require_file(path)


def _method(model: Model, named: Sequence[str]) -> str:
    """Return the method to time."""
    if not named:
        return "predict_proba" if "predict_proba" in model.methods else next(iter(model.methods))
    if named[0] not in model.methods:
        raise OptionError(
            f"The model has no method {named[0]!r}. It has: {', '.join(model.methods)}."
        )
    return named[0]


def _source(path: Path, options: argparse.Namespace) -> Any:
    """Read what is converted; None for a .hbc file."""
    if is_saved(path):
        return None
    refuse_trusted(options)
    return load_source(path, allow_pickle=options.allow_pickle)


def _load_predictor(source: Any, path: Path, threads: int) -> Any:
    """Return what predicts as the source; None where there is none, or its library is missing."""
    try:
        return load_predictor(source, path, threads)
    except (MissingPackageError, OptionError):
        return None


def _ablate(models: Iterable[Any], method: str, rows: Any, options: argparse.Namespace) -> int:
    """Time each model with each rule left out."""
    figures = [
        figure
        for size in options.batch
        for model in models
        for figure in ablate(model, method, rows[:size], options.repeat)
    ]
    answer(options, {"method": method, "figures": figures}, show_ablation(method, figures))
    return 0


def _model(
    hbconv: Any, path: Path, source: Any, options: argparse.Namespace, backend: str | None
) -> Any:
    chosen = convert_options(options) | ({} if backend in (None, "auto") else {"backend": backend})
    if source is None:
        return load_saved(path, chosen, trusted=options.trusted)
    return hbconv.convert(source, **chosen)


def _sizes(text: str) -> list[int]:
    return [positive(size) for size in text.split(",")]


def _random(count: int, width: int, names: Any) -> Any:
    """Return standard normal rows, named as those the model was fitted on."""
    values = np.random.default_rng(0).standard_normal((count, width), np.float32)
    if names is None:
        return values
    import pandas as pd

    return pd.DataFrame(values, columns=names)


def _rows(model: Any, data: str | None, count: int) -> Any:
    names = getattr(model, "feature_names_in_", None)
    if data is None:
        if "string" in model.schema.dtypes:
            raise InputError("The model reads text columns; give rows with --data.")
        return _random(count, len(model.schema.columns), names)
    read = read_all(Path(data), read_names(model), count)
    table = rows_for(model, with_unread(model, read)).to_pandas()
    if not len(table):
        raise InputError(f"{data} holds no rows.")
    # A small table is repeated up to the largest batch.
    rows = table.iloc[np.arange(count) % len(table)].reset_index(drop=True)
    return rows.to_numpy() if names is None and hasattr(rows, "columns") else rows


def _time(name: str, call: Callable[[Any], Any], rows: Any, repeat: int) -> dict[str, Any]:
    call(rows)
    seconds = []
    for _ in range(repeat):
        began = time.perf_counter()
        call(rows)
        seconds.append(time.perf_counter() - began)
    return {
        "backend": name,
        "rows": len(rows),
        "seconds": median(seconds),
        "fastest": min(seconds),
        "slowest": max(seconds),
    }


def _table(method: str, figures: list[dict[str, Any]]) -> str:
    about = f"median of the repeats (fastest to slowest); speed-up beside {figures[0]['backend']}"
    lines = [
        f"{method}: {about}",
        f"{'backend':<12} {'rows':>9} {'us a call':>12} {'ns a row':>12} {'speed-up':>9}   spread",
    ]
    for f in figures:
        spread = f"{f['fastest'] * 1e6:,.0f} to {f['slowest'] * 1e6:,.0f} us"
        lines.append(
            f"{f['backend']:<12} {f['rows']:>9,} {f['seconds'] * 1e6:>12,.1f} "
            f"{f['seconds'] / f['rows'] * 1e9:>12,.0f} {f['speed_up']:>9,.1f}   {spread}"
        )
    return "\n".join(lines)


WHOLE = "all rules"
NONE = "no rule"


def ablate(model: Model, method: str, rows: Any, repeat: int) -> list[dict[str, Any]]:
    """Time a method with all rules, without each that matters, and without any.

    The calls go by turns. A figure is the least processor time of a call, for what else runs on
    the machine counts little in it.
    """
    calls = {name: getattr(m, method) for name, m in _variants(model, method, rows).items()}
    seconds = _by_turns(calls, rows, repeat)
    return [
        {
            "backend": model.backend,
            "rows": len(rows),
            "rules": name,
            "processor_seconds": least,
            "times_slower": least / seconds[WHOLE],
        }
        for name, least in seconds.items()
    ]


def show_ablation(method: str, figures: list[dict[str, Any]]) -> str:
    """Print the figures as a table."""
    head = f"{'backend':<12} {'rows':>9} {'us a call':>12} {'times':>7}   rules"
    about = f"{method}: least processor time, and how many times that of all rules"
    return "\n".join([about, head, *map(_line, figures)])


def _line(figure: dict[str, Any]) -> str:
    where = f"{figure['backend']:<12} {figure['rows']:>9,}"
    seconds = f"{figure['processor_seconds'] * 1e6:>12,.1f} {figure['times_slower']:>7.2f}"
    return f"{where} {seconds}   {figure['rules']}"


def _variants(model: Model, method: str, rows: Any) -> dict[str, Model]:
    planned = model.programs.planned(read_table(rows, model.reads).dtypes)
    rules = find_effective_rules(planned, method)
    without = model.target.without
    variants = {f"without {n}": model.for_target(without=(*without, n)) for n in rules}
    return {WHOLE: model, **variants, NONE: model.for_target(without=rule_names())}


def _by_turns(
    calls: Mapping[str, Callable[[Any], Any]], rows: Any, repeat: int
) -> dict[str, float]:
    """Return the least processor time of each call; a first call is not timed."""
    for call in calls.values():
        call(rows)
    best = dict.fromkeys(calls, float("inf"))
    # By turns, since the speed of a shared machine drifts within seconds.
    for _ in range(repeat):
        for name, call in calls.items():
            began = time.process_time()
            call(rows)
            best[name] = min(best[name], time.process_time() - began)
    return best
