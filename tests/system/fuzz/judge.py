"""The source as the judge of a damaged model: what it answers, asked in a child that it may
kill.
"""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from hbconv.errors import HbconvError

__all__ = ["answers_alike", "answers_of", "call", "in_child"]

SECONDS = 2
"""Processor time that a source may take."""
HUGE = 1e30
"""Numbers beyond have overflown, or may."""
NOISE = 1e-13
"""Rounding error of sums, for the largest number of a row."""
NOISE_UNITS = 8
"""The same in units of the answer's dtype, where these are more, as of float32.

Of MiniBatchSparsePCA in float32 the source was wrong by 2.3 units, and hbconv by 1.2, both by
the same sums in float64.
"""

SCORES = ("predict_proba", "decision_function")
"""What labels are made of."""

Answers = Mapping[str, Any]


def in_child(work: Callable[[], Any]) -> tuple[bool, Any]:
    """Return whether a forked child lived through some work, and what it returned; an error of
    Python counts as None.

    Loaders written in C end their process over some damaged files, of which none is to be found
    here.
    """
    read, write = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(read)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)  # timers are not inherited
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1), os.dup2(silent, 2)
        with suppress(BaseException), os.fdopen(write, "wb") as out:
            pickle.dump(work(), out)
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as given:
        data = given.read()
    lived = not os.WIFSIGNALED(os.waitpid(process, 0)[1])
    return lived, pickle.loads(data) if lived and data else None


def answers_of(model: Any, methods: Any, x: Any) -> Answers:
    """Answers of the methods that answer, as arrays."""
    found = {}
    for method in methods:
        with suppress(Exception):
            found[method] = _plain(getattr(model, method)(x))
    return found


def _plain(answer: Any) -> Any:
    if hasattr(answer, "toarray"):
        return answer.toarray()
    return np.asarray(answer) if hasattr(answer, "dtype") else [_plain(part) for part in answer]


def answers_alike(source: Answers | None, ours: Answers, scale: float = 1e-5) -> None:
    """Raise AssertionError where both answer, and not the same.

    Which label comes of scores that are NaN depends on how comparisons are written: such labels
    are left aside.
    """
    numbers = [source[method] for method in SCORES if method in (source or {})]
    for method in (source or {}).keys() & ours.keys():
        if method == "predict" and any(_holds_nan(answer) for answer in numbers):
            continue
        if not _alike(source[method], ours[method], scale):
            raise AssertionError(
                f"{method} differs: {_shown(source[method])} of the source, {_shown(ours[method])} of hbconv"
            )


def _holds_nan(answer: Any) -> bool:
    if isinstance(answer, list):
        return any(map(_holds_nan, answer))
    return answer.dtype.kind == "f" and bool(np.isnan(answer).any())


def _alike(source: Any, ours: Any, scale: float) -> bool:
    if isinstance(source, list):
        return (
            isinstance(ours, list)
            and len(source) == len(ours)
            and all(_alike(a, b, scale) for a, b in zip(source, ours, strict=True))
        )
    if isinstance(ours, list) or source.shape != ours.shape:
        return False
    if source.dtype.kind == "f" and ours.dtype.kind in "fiu":
        with np.errstate(all="ignore"):
            overflown = ~(np.abs(source) < HUGE) & ~(
                np.abs(ours) < HUGE
            )  # where, depends on the order of sums
            least = np.maximum(scale * 1e-3, _largest(source) * _noise(source.dtype))
            return bool(np.all(overflown | np.isclose(ours, source, rtol=scale, atol=least)))
    return bool(np.all(source == ours))


def _noise(dtype: Any) -> float:
    return max(NOISE, NOISE_UNITS * float(np.finfo(dtype).eps))


def _largest(answer: Any) -> Any:
    """Largest finite magnitude of each row, to which its other numbers may have been added on
    the way.
    """
    finite = np.where(np.isfinite(answer), np.abs(answer), 0)
    return finite.max(axis=-1, keepdims=True, initial=0) if finite.ndim > 1 else 0


def _shown(answer: Any) -> str:
    return " ".join(str(answer).split())[:60]


def call(model: Any, methods: Any, x: Any) -> Answers:
    """Answers of hbconv's methods; what raises without a name passes through."""
    found = {}
    for method in methods:
        with suppress(HbconvError):
            found[method] = _plain(getattr(model, method)(x))
    return found
