"""See every outermost call of a method that computes: the rows, and the answer or the error.

Methods are wrapped where the libraries' classes define them, in modules imported before and after.
Calls made inside another one, or while something is fitted, pass unseen, in threads too.
"""

from __future__ import annotations

import copy
import functools
import importlib.abc
import inspect
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.machinery import ExtensionFileLoader, ModuleSpec, SourceFileLoader
from types import ModuleType
from typing import Any

from hbconv.names import METHODS

__all__ = ["Call", "call_unseen", "is_library", "watching"]


@dataclass(frozen=True)
class Call:
    """A call of a method that computes, after it ended.

    Parameters
    ----------
    estimator : object
    method : str
    rows : object
        A copy of the rows, made before the call, which may write to them; None where it cannot
        be made.
    options : dict
        Arguments other than the rows, where they are not the defaults.
    answer : object
        What was returned; of a generator, what a second one yields.
    error : Exception or None
        What was raised.
    """

    estimator: Any
    method: str
    rows: Any
    options: dict[str, Any] = field(default_factory=dict)
    answer: Any = None
    error: Exception | None = None


Observer = Callable[[Call], None]

_OBSERVERS: list[Observer] = []
_PROCESS = os.getpid()


class _Depth(threading.local):
    """Calls that a thread is in; a thread started in a call is in it for good."""

    def __init__(self) -> None:
        self.calls = int(getattr(threading.current_thread(), "_hbconv_inside", False))


_DEPTH = _Depth()


@contextmanager
def watching(observer: Observer) -> Iterator[None]:
    """Hand outermost calls to the observer, and to no other, until the block ends."""
    if not _OBSERVERS:
        _WRAPPING.begin()
    _OBSERVERS.append(observer)
    try:
        yield
    finally:
        _OBSERVERS.remove(observer)
        if not _OBSERVERS:
            _WRAPPING.end()


def call_unseen(estimator: Any, method: str, rows: Any) -> Call:
    """Call a method of an estimator, with what it calls unseen."""
    call = Call(estimator, method, _copy_rows(rows))
    with _inside():
        answer = getattr(estimator, method)(rows)
        return replace(call, answer=list(answer) if inspect.isgenerator(answer) else answer)


@contextmanager
def _inside() -> Iterator[None]:
    _DEPTH.calls += 1
    try:
        yield
    finally:
        _DEPTH.calls -= 1


def _watch(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the method with its outermost calls seen."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def method(*args: Any, **kwargs: Any) -> Any:
        # Workers of joblib and forks inherit the wrapping, and have nobody to report to.
        if _DEPTH.calls or not _OBSERVERS or os.getpid() != _PROCESS:
            return function(*args, **kwargs)
        with _inside():
            call = _before(function.__name__, signature, args, kwargs)
            try:
                answer = function(*args, **kwargs)
            except Exception as error:
                _tell(call, error=error)
                raise
            if inspect.isgenerator(answer):  # It belongs to the caller: another one is read.
                _tell(call, **_values(function, args, kwargs))
            else:
                _tell(call, answer=answer)
            return answer

    return method


def _silence(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the method with all calls inside it unseen."""

    @functools.wraps(function)
    def method(*args: Any, **kwargs: Any) -> Any:
        with _inside():
            return function(*args, **kwargs)

    return method


def _before(
    name: str, signature: inspect.Signature, args: Sequence[Any], kwargs: dict[str, Any]
) -> Call | None:
    """Return the call before it begins; None of no estimator, or if the arguments do not fit."""
    try:
        arguments = signature.bind(*args, **kwargs).arguments
    except TypeError:
        return None
    first, *names = signature.parameters
    estimator = arguments[first]
    # Trees and predictors inside estimators have methods of these names too.
    if not hasattr(estimator, "fit") and type(estimator).__name__ != "Booster":
        return None
    default = {n: p.default for n, p in signature.parameters.items()}
    options = {
        n: arguments[n] for n in names[1:] if n in arguments and arguments[n] is not default[n]
    }
    return Call(estimator, name, _copy_rows(arguments.get(names[0]) if names else None), options)


def _copy_rows(rows: Any) -> Any:
    if rows is None or isinstance(rows, Iterator):
        return None
    try:
        return rows.copy() if hasattr(rows, "dtype") else copy.deepcopy(rows)
    except Exception:  # whatever a test gives as rows
        return None


def _values(function: Callable[..., Any], args: Any, kwargs: Any) -> dict[str, Any]:
    try:
        return {"answer": list(function(*args, **kwargs))}
    except Exception as error:  # the caller meets it where it reads its own
        return {"error": error}


def _tell(call: Call | None, **ended: Any) -> None:
    if call is not None and _OBSERVERS:
        _OBSERVERS[-1](replace(call, **ended))


def _mark_threads(start: Callable[..., None]) -> Callable[..., None]:
    """Return the start of threads that says whether it happens in a call."""

    @functools.wraps(start)
    def started(thread: threading.Thread) -> None:
        if _DEPTH.calls:
            thread._hbconv_inside = True  # type: ignore[attr-defined]  # noqa: SLF001
        start(thread)

    return started


LIBRARIES = ("sklearn", "lightgbm", "xgboost", "catboost")

COMPUTING = (
    *METHODS,
    "calc_leaf_indexes",
    "inverse_transform",
    "kneighbors_graph",
    "predict_joint_log_proba",
    "radius_neighbors",
    "radius_neighbors_graph",
    "staged_predict_log_proba",
)
"""What hbconv offers, what it calls otherwise, and what it lacks, which is worth counting."""

FITTING = ("fit", "fit_predict", "fit_transform", "partial_fit")

Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]


def is_library(module: str) -> bool:
    """Whether a module belongs to a library whose models hbconv reads, and not to its tests."""
    parts = str(module).split(".")
    return parts[0] in LIBRARIES and not {"tests", "conftest"} & set(parts)


class Wrapping(importlib.abc.MetaPathFinder):
    """Replaces methods while it is on; it finds modules of the libraries, to wrap those too.

    Parameters
    ----------
    computing, fitting, started : callable
        Take a method that computes, one that fits, and the start of threads, and return what
        is to be called instead.
    """

    def __init__(self, computing: Wrap, fitting: Wrap, started: Wrap) -> None:
        self._wraps = ((COMPUTING, computing), (FITTING, fitting))
        self._started = started
        self._originals: list[tuple[type, str, Any]] = []

    def begin(self) -> None:
        """Wrap what is imported, and watch imports."""
        for module in list(sys.modules.values()):
            self._wrap_module(module)
        self._replace(threading.Thread, "start", self._started(threading.Thread.start))
        sys.meta_path.insert(0, self)

    def end(self) -> None:
        """Put everything back."""
        sys.meta_path.remove(self)
        while self._originals:
            cls, name, original = self._originals.pop()
            setattr(cls, name, original)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Find a module as all others do; its classes are wrapped once it is executed."""
        if not is_library(name):
            return None
        # Asks the finders behind this one, or it would find itself.
        others = (f for f in sys.meta_path if f is not self and hasattr(f, "find_spec"))
        spec = next(filter(None, (f.find_spec(name, path, target) for f in others)), None)
        if spec is not None and isinstance(spec.loader, SourceFileLoader | ExtensionFileLoader):
            vars(spec.loader)["exec_module"] = self._executing(spec.loader.exec_module)
        return spec

    def _executing(self, execute: Callable[[ModuleType], None]) -> Callable[[ModuleType], None]:
        def exec_module(module: ModuleType) -> None:
            execute(module)
            # The block may have ended before the module was executed.
            if self in sys.meta_path:
                self._wrap_module(module)

        return exec_module

    def _wrap_module(self, module: ModuleType) -> None:
        name = getattr(module, "__name__", "")
        if not is_library(name):
            return
        for cls in list(vars(module).values()):
            if isinstance(cls, type) and cls.__module__ == name:
                self._wrap_class(cls)

    def _wrap_class(self, cls: type) -> None:
        for names, wrap in self._wraps:
            for name in names:
                original = vars(cls).get(name)
                if inspect.isfunction(original):
                    self._replace(cls, name, wrap(original))
                elif inspect.isfunction(getattr(original, "fn", None)):  # available_if
                    descriptor: Any = copy.copy(original)
                    descriptor.fn = wrap(descriptor.fn)
                    self._replace(cls, name, descriptor)

    def _replace(self, cls: type, name: str, wrapped: Any) -> None:
        self._originals.append((cls, name, vars(cls)[name]))
        setattr(cls, name, wrapped)


_WRAPPING = Wrapping(_watch, _silence, _mark_threads)
