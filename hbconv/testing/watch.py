"""See every outermost call of a method that computes: the rows, and the answer or the error.

Calls made inside another one, or while something is fitted, pass unseen, in threads too.
"""

from __future__ import annotations

import copy
import functools
import inspect
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from hbconv.testing.outcomes import Wrapping

__all__ = ["Call", "asked", "watching"]


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


def asked(estimator: Any, method: str, rows: Any) -> Call:
    """Call a method of an estimator, with what it calls unseen."""
    call = Call(estimator, method, _copied(rows))
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


def _watched(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the method with its outermost calls seen."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def method(*args: Any, **kwargs: Any) -> Any:
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


def _silent(function: Callable[..., Any]) -> Callable[..., Any]:
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
        given = signature.bind(*args, **kwargs).arguments
    except TypeError:
        return None
    own, *names = signature.parameters
    estimator = given[own]
    if not hasattr(estimator, "fit") and type(estimator).__name__ != "Booster":
        return None
    default = {n: p.default for n, p in signature.parameters.items()}
    options = {n: given[n] for n in names[1:] if n in given and given[n] is not default[n]}
    return Call(estimator, name, _copied(given.get(names[0]) if names else None), options)


def _copied(rows: Any) -> Any:
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


def _started(start: Callable[..., None]) -> Callable[..., None]:
    """Return the start of threads that says whether it happens in a call."""

    @functools.wraps(start)
    def started(thread: threading.Thread) -> None:
        if _DEPTH.calls:
            thread._hbconv_inside = True  # type: ignore[attr-defined]  # noqa: SLF001
        start(thread)

    return started


_WRAPPING = Wrapping(_watched, _silent, _started)
