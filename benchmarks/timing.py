"""Time repeated calls, alone or by turns, and describe the machine."""

from __future__ import annotations

import multiprocessing
import os
import platform
import random
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from importlib import metadata
from pathlib import Path
from statistics import quantiles
from typing import Any, TypeVar

__all__ = [
    "in_new_process", "interleaved", "least_processor_seconds", "least_wall_seconds", "machine",
    "many", "spread", "timed", "use_threads", "versions",
]  # fmt: skip

Result = TypeVar("Result")

TURN_SECONDS = 2e-3
"""Seconds of a turn: short calls come in runs, with warm caches."""
MOST_CALLS = 20_000
PACKAGES = (
    "apache-tvm",
    "catboost",
    "daal4py",
    "faiss-cpu",
    "hbconv",
    "hnswlib",
    "lightgbm",
    "lleaves",
    "numpy",
    "onnxmltools",
    "onnxruntime",
    "pylignum",
    "scikit-learn",
    "scikit-learn-intelex",
    "skl2onnx",
    "snapml",
    "tl2cgen",
    "torch",
    "treelite",
    "xgboost",
    "ydf",
)


def timed(call: Callable[[Any], Any], rows: Any, seconds: float, least: int = 5) -> list[float]:
    """Time repeated calls for about ``seconds``, at least ``least`` of them.

    A first call is not timed.
    """
    call(rows)
    times: list[float] = []
    while len(times) < least or (sum(times) < seconds and len(times) < 2000):
        began = time.perf_counter()
        call(rows)
        times.append(time.perf_counter() - began)
    return times


def interleaved(
    calls: Mapping[str, Callable[[Any], Any]], rows: Any, seconds: float, least: int = 5
) -> dict[str, list[float]]:
    """Time several callables by turns, so that a machine that drifts slows all of them.

    Each is timed as ``timed`` does.

    Returns
    -------
    dict of str to list of float
        Seconds of each call, by name.
    """
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call(rows)
    waiting = list(calls)
    while waiting:
        for name in waiting:
            times[name] += turn(calls[name], rows)
        waiting = [
            name
            for name in waiting
            if len(times[name]) < least
            or (sum(times[name]) < seconds and len(times[name]) < MOST_CALLS)
        ]
    return times


def least_processor_seconds(
    calls: Mapping[str, Callable[[], Any]], seconds: float, least: int = 5
) -> dict[str, float]:
    """Time several calls by turns, and return the least processor time of each.

    What else runs on the machine counts little, for waiting is not processor time.
    """
    return _least_seconds(calls, seconds, least, "process_time")


def least_wall_seconds(
    calls: Mapping[str, Callable[[], Any]], seconds: float, least: int = 5
) -> dict[str, float]:
    """Do the same by the wall's clock, for calls of several threads."""
    return _least_seconds(calls, seconds, least, "perf_counter")


def _least_seconds(
    calls: Mapping[str, Callable[[], Any]], seconds: float, least: int, clock: str
) -> dict[str, float]:
    """Time by a clock of ``time``: a first call is not timed, and the order is drawn each turn.

    What ran before leaves its caches, so a fixed order favours some. A reading is the clock's
    resolution at least: ratios of a call that is shorter are lower bounds, and never divide by 0.
    """
    read = getattr(time, clock)
    resolution = time.get_clock_info(clock).resolution
    order = random.Random(0)
    for call in calls.values():
        call()
    best = dict.fromkeys(calls, float("inf"))
    end = read() + seconds
    turns = 0
    while turns < least or read() < end:
        for name in order.sample(list(calls), len(calls)):
            began = read()
            calls[name]()
            best[name] = min(best[name], max(read() - began, resolution))
        turns += 1
    return best


def many(call: Callable[[Any], Any], rows: Any, count: int) -> Callable[[], None]:
    """Repeat a call, for one reading of the clock."""

    def repeated() -> None:
        for _ in range(count):
            call(rows)

    return repeated


def in_new_process(function: Callable[..., Result], *arguments: Any) -> Result:
    """Call a function in a process of its own."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def turn(call: Callable[[Any], Any], rows: Any) -> list[float]:
    """Time calls for the length of a turn, at least one."""
    times: list[float] = []
    while not times or sum(times) < TURN_SECONDS:
        began = time.perf_counter()
        call(rows)
        times.append(time.perf_counter() - began)
    return times


def spread(times: list[float]) -> dict[str, float]:
    """Return the number of calls, and their median, quartiles, fastest and slowest in seconds."""
    lower, middle, upper = quantiles(times, n=4, method="inclusive")
    return {
        "calls": len(times),
        "median": middle,
        "lower": lower,
        "upper": upper,
        "fastest": min(times),
        "slowest": max(times),
    }


def use_threads(count: int) -> None:
    """Tell the libraries that are not imported yet how many threads to use."""
    os.environ["OMP_NUM_THREADS"] = str(count)


def machine() -> dict[str, Any]:
    """Describe the processor as Linux does: name, cores, vector instructions, caches."""
    lines = (
        Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        if Path("/proc/cpuinfo").exists()
        else []
    )
    facts = {
        key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)
    }
    caches = [
        path.read_text().strip()
        for path in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"))
    ]
    return {
        "processor": facts.get("model name", platform.processor()),
        "cores": os.cpu_count(),
        "vectors": [
            flag
            for flag in ("avx2", "avx512f", "avx512vbmi")
            if flag in facts.get("flags", "").split()
        ],
        "caches": caches,
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def versions() -> dict[str, str]:
    """Return the versions of the contenders that are installed."""
    installed = {
        distribution.name.lower(): distribution.version for distribution in metadata.distributions()
    }
    return {name: installed[name] for name in PACKAGES if name in installed}
