"""Models of the estimators met: converted once for each fitted state, within a time limit."""

from __future__ import annotations

import hashlib
import pickle
import signal
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import ref

from hbconv.compiler import convert
from hbconv.errors import HbconvError
from hbconv.model import Model
from hbconv.runtime.inputs.read import count_columns

__all__ = ["Conversions", "TooSlowError", "time_limit"]

_KEPT = 32
"""Estimators whose models are kept."""


class TooSlowError(BaseException):
    """A question took longer than the limit; no Exception, which something might catch."""


class Conversions:
    """Models by estimator, fitted state, backend, and width of the rows where it is not fitted."""

    def __init__(self) -> None:
        self._kept: OrderedDict[object, tuple[Callable[[], object], Model | HbconvError]]
        self._kept = OrderedDict()

    def model(self, estimator: Any, rows: Any, backend: str) -> Model:
        """Return the model of an estimator as it is now, or raise what converting raised."""
        sample = None if hasattr(estimator, "n_features_in_") else rows
        state = _state(estimator)
        width = None if sample is None else count_columns(sample)
        key = (id(estimator), state, backend, width)
        owner, found = self._kept.get(key, (None, None))
        if found is None or owner is None or owner() is not estimator:
            found = _converted(estimator, backend, sample)
            if state is not None:
                self._keep(key, estimator, found)
        if isinstance(found, HbconvError):
            raise found
        return found

    def _keep(self, key: object, estimator: object, found: Model | HbconvError) -> None:
        self._kept[key] = (ref(estimator), found)
        if len(self._kept) > _KEPT:
            self._kept.popitem(last=False)


def _converted(estimator: object, backend: str, sample: Any) -> Model | HbconvError:
    try:
        return convert(estimator, backend, sample=sample)
    except HbconvError as error:
        return error


def _state(estimator: object) -> bytes | None:
    """Return a digest of all that an answer may follow from; None where it cannot be told."""
    digest = hashlib.blake2b(repr(_settings()).encode())
    try:
        digest.update(pickle.dumps(estimator, 5, buffer_callback=lambda b: digest.update(b.raw())))
    except Exception:  # whatever __getstate__ and __reduce__ of a test raise
        return None
    return digest.digest()


def _settings() -> dict[str, object]:
    """Return scikit-learn's own, which decide the form of answers."""
    sklearn = sys.modules.get("sklearn")
    return {} if sklearn is None else dict(sklearn.get_config())


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TooSlowError after some seconds, where the platform and the thread can.

    A timer that someone else has set is left alone.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or not hasattr(signal, "setitimer") or any(signal.getitimer(signal.ITIMER_REAL)):
        yield
        return
    before = signal.signal(signal.SIGALRM, _raise)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _raise(*_: object) -> None:
    raise TooSlowError
