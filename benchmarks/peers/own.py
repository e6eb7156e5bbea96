"""hbconv's backends, and the library that fitted the model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from peers.setting import Call, Setting, Unavailable
from peers.trees import booster

__all__ = ["ONE_THREAD", "bound", "hbconv_backend", "one_thread", "source"]

ONE_THREAD = "hbconv tvm, one thread"


def source(setting: Setting) -> Call:
    """Call the library that fitted the model, by the shortest way it documents."""
    own = booster(setting)
    threads = setting.threads
    if setting.fitted.library == "lightgbm":
        return lambda x: own.predict(x, num_threads=threads)
    if setting.fitted.library == "xgboost":
        own.set_param({"nthread": threads})
        return own.inplace_predict
    if setting.fitted.library == "catboost":
        ask = getattr(setting.model, setting.fitted.method)
        return lambda x: ask(x, thread_count=threads)
    jobs = [name for name in setting.model.get_params() if name.endswith("n_jobs")]
    setting.model.set_params(**dict.fromkeys(jobs, threads))
    return getattr(setting.model, setting.fitted.method)


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
