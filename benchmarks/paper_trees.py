"""Tables 7, 8 and 10 and Figure 8 of the Hummingbird paper: trees."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from paper_models import make_trees
from published import TABLE_7, TABLE_8, TABLE_10, ratio
from timing import least_processor_seconds

import hbconv
from hbconv.errors import HbconvError
from hbconv_datasets import generated

__all__ = ["strategies", "trees"]

Figure = dict[str, Any]

BATCH = 10_000
BACKENDS = ("torchscript", "tvm")
STRATEGIES = ("gemm", "tree_traversal", "perfect_tree_traversal", "select")


def trees(count: int, fit_rows: int, seconds: float) -> Iterator[Figure]:
    """Measure each library on each shape: batches, one row, converting."""
    for name in TABLE_7:
        library, _, shape = name.partition(" ")
        data = generated.make(shape, fit_rows + BATCH)
        labels = np.unique(data.y, return_inverse=True)[1]
        y = data.y if data.task == "regression" else labels
        model = make_trees(library, data.task, count).fit(data.X[:fit_rows], y[:fit_rows])
        yield from measure(name, model, np.ascontiguousarray(data.X[fit_rows:]), seconds)


def measure(name: str, model: Any, X: Any, seconds: float) -> Iterator[Figure]:
    """Convert a model to each backend, and time it beside its source."""
    method = "predict_proba" if hasattr(model, "predict_proba") else "predict"
    calls: dict[str, Callable[[Any], Any]] = {"source": getattr(model, method)}
    for backend in BACKENDS:
        began = time.process_time()
        converted = hbconv.convert(model, backend=backend)
        getattr(converted, method)(X[:5])
        took = time.process_time() - began
        published = TABLE_10.get(name, (None, None))[BACKENDS.index(backend)]
        yield figure("table 10", name, backend, took, published_seconds=published)
        calls[backend] = getattr(converted, method)
    yield from beside(f"table 7, {BATCH:,} rows", name, calls, X, TABLE_7.get(name), seconds)
    yield from beside("table 8, one row", name, calls, X[:1], TABLE_8.get(name), seconds)


def beside(
    part: str,
    name: str,
    calls: dict[str, Callable[[Any], Any]],
    X: Any,
    published: Any,
    seconds: float,
) -> Iterator[Figure]:
    """Time calls by turns, and give each backend's ratio to the source."""
    found = least_processor_seconds({key: partial(call, X) for key, call in calls.items()}, seconds)
    for key, taken in found.items():
        if key != "source":
            gain = found["source"] / taken
            yield figure(part, name, key, taken, gain=gain, published=ratio(published, key))


def strategies(count: int, seconds: float) -> Iterator[Figure]:
    """Measure each strategy of tvm by depth and batch, beside the one that the planner takes."""
    from sklearn.ensemble import RandomForestClassifier

    data = generated.numbers(200, rows=5000)
    for depth in (3, 7, 12):
        model = RandomForestClassifier(count, max_depth=depth, random_state=0)
        model.fit(data.X, data.y)
        converted = dict(forced(model))
        for rows in (1, 1000):
            calls = {key: partial(m.predict_proba, data.X[:rows]) for key, m in converted.items()}
            found = least_processor_seconds(calls, seconds)
            for key, taken in found.items():
                name = f"depth {depth}, {rows:,} rows"
                gain = min(found.values()) / taken
                yield figure("figure 8, least time over time", name, key, taken, gain=gain)


def forced(model: Any) -> Iterator[tuple[str, Any]]:
    """Yield the model with each strategy that the backend takes, and as planned."""
    for strategy in (None, *STRATEGIES):
        try:
            converted = hbconv.convert(model, backend="tvm", strategy=strategy)
            converted.predict_proba(np.zeros((2, 200), np.float32))
        except HbconvError as error:
            print(f"  {strategy} left out: {error}", flush=True)
            continue
        yield strategy or "planned", converted


def figure(part: str, name: str, contender: str, seconds: float, **more: Any) -> Figure:
    """Describe one measurement, and print it."""
    found = {"part": part, "name": name, "contender": contender, "seconds": seconds, **more}
    shown = {key: f"{value:.2f}" for key, value in more.items() if value is not None}
    words = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in shown.items())
    print(f"{part:<32} {name:<24} {contender:<24} {seconds * 1e3:>11.3f} ms  {words}", flush=True)
    return found
