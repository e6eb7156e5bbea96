"""Judge a call: ask hbconv the same, and compare the answers by the tolerance of ``verify``.

Each estimator is converted once for each fitted state, within a time limit.
"""

from __future__ import annotations

import hashlib
import pickle
import re
import signal
import sys
import threading
import traceback
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import ref

import numpy as np

from hbconv.compiler import convert
from hbconv.errors import HbconvError, UnsupportedError, VerificationError
from hbconv.model import Model
from hbconv.names import ARGUMENT_METHODS, INVERSE, METHODS
from hbconv.parse.common.members import find_source
from hbconv.runtime.inputs.read import count_columns
from hbconv.sources.arguments import find_arguments
from hbconv.testing.comparison import Verdict, compare_answers
from hbconv.testing.outcomes import Outcome, as_list
from hbconv.testing.watch import Call, is_library

__all__ = ["Conversions", "Judge", "TooSlowError", "time_limit"]


class Judge:
    """Asks hbconv what a source was asked; one call at a time.

    Parameters
    ----------
    backends : iterable of str
    limit : float
        Seconds that one question may take, with the conversion.
    """

    def __init__(self, backends: Iterable[str] = ("reference",), limit: float = 60.0) -> None:
        self.backends = tuple(backends)
        self.limit = limit
        self._conversions = Conversions()
        self._lock = threading.Lock()

    def outcomes(self, call: Call) -> list[Outcome]:
        """Return what hbconv makes of a call, for each backend."""
        # Filters of warnings are global, so calls of several threads go one after another.
        with self._lock, warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return [self._outcome(call, backend) for backend in self.backends]

    def shared(self, estimator: Any, rows: Any, backend: str) -> list[str]:
        """Return the methods that an estimator and its model have."""
        model = self._conversions.model(estimator, rows, backend)
        return [method for method in model.methods if hasattr(estimator, method)]

    def _outcome(self, call: Call, backend: str) -> Outcome:
        about = type(call.estimator).__name__, call.method, backend
        try:
            with time_limit(self.limit):
                kind, reason, detail = self._judge_call(call, backend)
        except TooSlowError:
            kind = "skipped"
            reason = f"more than {self.limit:g} s"
            detail = ""
        except Exception as error:  # what is looked for
            where = traceback.format_exc(limit=-3)
            kind = "error"
            reason = type(error).__name__
            detail = f"{error!r}\n{where}"
        return Outcome(kind, *about, reason, detail)

    def _judge_call(self, call: Call, backend: str) -> Verdict:
        method, reason = _find_question(call)
        if reason:
            return "skipped", reason, ""
        if method not in (*METHODS, *ARGUMENT_METHODS, INVERSE):
            return _refusal(call, f"no method {method}", "")
        try:
            model = self._conversions.model(call.estimator, call.rows, backend)
            if not hasattr(model, method):
                why = model.parsed.refused.get(method, "")
                return _refusal(call, f"no method {method}", why)
            answer = as_list(getattr(model, method)(call.rows))
        except VerificationError:
            raise
        except HbconvError as error:
            cls = _class_of_their_own(error)
            if cls:
                return "skipped", f"{cls} is a class of none of the libraries", ""
            return _refusal(call, reason_of(error), str(error))
        if call.error is not None:
            return "answered", f"{type(call.error).__name__}", str(call.error)
        if any(node.alone for node in model.parsed.nodes()):
            return "skipped", "a row is answered as if alone", ""
        asked = model.inverse if method == INVERSE else model
        return compare_answers(call, asked or model, answer)


def _find_question(call: Call) -> tuple[str, str]:
    """Return the method of hbconv that a call is to be asked of, and why it cannot be."""
    method = "apply" if call.method == "calc_leaf_indexes" else call.method
    arguments = {a.name: a for a in find_arguments(_source(call.estimator), method)}
    others = []
    for name, value in call.options.items():
        methods = arguments[name].find_methods(value) if name in arguments else None
        if methods is None or len(methods) > 1:
            others.append(name)
        elif methods:
            method = methods[0]
    if others:
        return method, f"called with {', '.join(others)}"
    if call.rows is None:
        return method, "rows that cannot be copied, or none"
    if isinstance(call.error, Warning):
        return method, "a warning that was made an error"
    unfitted = type(call.error).__name__ == "NotFittedError"
    return method, "not fitted" if unfitted else ""


def _source(estimator: Any) -> str:
    """Return the class whose arguments the methods take; nothing where it has no parser."""
    try:
        return find_source(estimator)
    except HbconvError:
        return ""


def _refusal(call: Call, reason: str, detail: str) -> Verdict:
    return ("refused", reason, detail) if call.error is None else ("right", "", "")


def reason_of(error: HbconvError) -> str:
    """Return what a refusal has in common with its like: no numbers, names or addresses.

    Examples
    --------
    >>> reason_of(UnsupportedError("NMF", "prep/NMF", "tol", 0.1, "Use tol=0."))
    'NMF with tol=0.1'
    """
    if isinstance(error, UnsupportedError) and error.parameter is not None:
        value = error.value if isinstance(error.value, str | int | float) else type(error.value)
        return f"{error.estimator} with {error.parameter}={value!r:.60}"
    text = re.sub(r"\(step '.*?'\) |0x[0-9a-f]+", "", str(error).partition("\n")[0])
    return f"{type(error).__name__}: {re.sub(r'[0-9]+', 'N', text):.120}"


def _class_of_their_own(error: HbconvError) -> str:
    """Return the class that is unknown, and defined outside the libraries; else nothing."""
    named = re.search(r"no parser for ([\w.]+)\.(\w+)\.", str(error))
    return named[2] if named is not None and not is_library(named[1]) else ""


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
        owner, model = self._kept.get(key, (None, None))
        if model is None or owner is None or owner() is not estimator:
            model = _convert(estimator, backend, sample)
            if state is not None:
                self._keep(key, estimator, model)
        if isinstance(model, HbconvError):
            raise model
        return model

    def _keep(self, key: object, estimator: object, model: Model | HbconvError) -> None:
        self._kept[key] = (ref(estimator), model)
        if len(self._kept) > _KEPT:
            self._kept.popitem(last=False)


def _convert(estimator: object, backend: str, sample: Any) -> Model | HbconvError:
    try:
        return convert(estimator, backend, sample=sample)
    except HbconvError as error:
        return error


def _state(estimator: object) -> bytes | None:
    """Return a digest of all that an answer may follow from; None where it cannot be told."""
    # Settings of scikit-learn decide the form of outputs, so a changed one converts again.
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
    # Signals reach the main thread alone, and Windows has no interval timers.
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
