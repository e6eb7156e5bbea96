"""Twins: an object of a user's own class, as its methods see it while they are traced.

Fitted attributes are constants, methods and properties of the user are rebuilt, and nothing may be
written. What the class has of a library is refused, but for the checks of rows below.
"""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NoReturn, Protocol

import numpy as np

from hbconv.containers import IsNonFinite
from hbconv.names import METHODS
from hbconv.parse.tracing.arrays import TracedMatrix
from hbconv.parse.tracing.inner import ask_base
from hbconv.parse.tracing.trace import current_trace, refuse

__all__ = [
    "CHECKS",
    "Twin",
    "is_of_library",
    "is_own_object",
    "make_super",
    "own_function",
    "real_object",
]

_STATE = "A model holds no state: compute it in fit."
_OF_ROWS = frozenset({"accept_sparse", "copy", "ensure_2d", "ensure_min_features", "estimator"}) | {
    *("ensure_min_samples", "input_name", "order", "reset", "skip_check_array", "y"),
}
"""Options of checks that change no number of the rows."""


def is_of_library(cls: type) -> bool:
    """Tell whether a class is installed, and not written by the user."""
    if cls.__module__.partition(".")[0] in sys.stdlib_module_names - {"builtins"}:
        return True
    try:
        place = inspect.getfile(cls)
    except (TypeError, OSError):
        # A class of a session has no file, and one written in C neither.
        return cls.__module__ not in ("__main__", "builtins") or cls is object
    return "site-packages" in place or "dist-packages" in place


def own_function(method: Any) -> Any:
    """Return the function that a user wrote, without what scikit-learn wraps around it."""
    while hasattr(method, "__wrapped__") and _is_of_sklearn(method):
        method = method.__wrapped__
    return method


def _is_of_sklearn(function: Any) -> bool:
    # functools.wraps gives a wrapper the module of what it wraps.
    return str(getattr(function, "__globals__", {}).get("__name__", "")).startswith("sklearn.")


def is_own_object(value: object) -> bool:
    """Tell whether a value is an object of a class that a user wrote."""
    cls = type(value)
    is_written = bool(cls.__flags__ & _HEAP_TYPE) and hasattr(value, "__dict__")
    return is_written and not isinstance(value, type | types.ModuleType) and not is_of_library(cls)


_HEAP_TYPE = 1 << 9
"""Flag of classes that a class statement made."""


class StandIns(Protocol):
    """What stands in for values and functions while a method is traced."""

    def stand_in(self, name: str, value: Any) -> Any:
        """Return what stands for a value."""

    def rebuilt_once(self, function: types.FunctionType) -> types.FunctionType:
        """Return the one function that stands for a function of the user."""


class Twin:
    """The double of an object of the user's own class.

    Parameters
    ----------
    value : object
        What it stands for.
    rebuilder : StandIns
        Stands in for its attributes.
    """

    __slots__ = ("_hbconv_rebuilder", "_hbconv_value")

    def __init__(self, value: object, rebuilder: StandIns) -> None:
        object.__setattr__(self, "_hbconv_value", value)
        object.__setattr__(self, "_hbconv_rebuilder", rebuilder)

    def __getattr__(self, name: str) -> Any:
        value, rebuilder = self._hbconv_value, self._hbconv_rebuilder
        if name in getattr(value, "__dict__", {}):
            return rebuilder.stand_in(f"self.{name}", value.__dict__[name])
        return find_in_classes(self, name, type(value).__mro__)

    def _bound(self, name: str, found: Any) -> Any:
        rebuilder = self._hbconv_rebuilder
        if isinstance(found, types.FunctionType):
            return types.MethodType(rebuilder.rebuilt_once(own_function(found)), self)
        if isinstance(found, property) and found.fget is not None:
            return types.MethodType(rebuilder.rebuilt_once(found.fget), self)()
        if isinstance(found, staticmethod):
            return rebuilder.stand_in(f"self.{name}", found.__func__)
        if isinstance(found, classmethod):
            return refuse(f"calls self.{name}, a classmethod", "Make it a method.")
        if hasattr(type(found), "__get__"):
            return refuse(f"uses self.{name}, a {type(found).__name__}", "Make it a method.")
        return rebuilder.stand_in(f"self.{name}", found)

    def _of_library(self, name: str, owner: type) -> Any:
        check = CHECKS.get(name.removeprefix("_"))
        if check is None and name in METHODS:
            return partial(ask_base, self._hbconv_value, name)
        if check is None:
            return refuse(f"uses self.{name} of {owner.__name__}", "Write out what it computes.")
        return lambda *args, **options: check(self, *args, **options)

    def _refuse_writing(self, name: str, *_: object) -> NoReturn:
        refuse(f"writes self.{name}", _STATE)

    __setattr__ = __delattr__ = _refuse_writing

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Call the object, as its class says."""
        return find_in_classes(self, "__call__", type(self._hbconv_value).__mro__)(
            *args, **keywords
        )


def real_object(double: Any) -> object:
    """Return what a twin, or the double of an estimator, stands for."""
    if isinstance(double, Twin):
        return double._hbconv_value
    estimator: object = double._hbconv_estimator
    return estimator


def find_in_classes(twin: Twin, name: str, classes: Sequence[type]) -> Any:
    """Return what the first of some classes that has a name gives an object."""
    owner = next((cls for cls in classes if name in vars(cls)), None)
    if owner is None:
        raise AttributeError(f"The object has no attribute {name!r}")
    if is_of_library(owner):
        return twin._of_library(name, owner)
    return twin._bound(name, vars(owner)[name])


class Super:
    """The double of ``super()``: what the classes behind the method's own have.

    Parameters
    ----------
    twin : Twin
    cls : type
        The class that the method stands in.
    """

    __slots__ = ("_hbconv_classes", "_hbconv_twin")

    def __init__(self, twin: Twin, cls: type) -> None:
        classes = type(twin._hbconv_value).__mro__
        object.__setattr__(self, "_hbconv_twin", twin)
        object.__setattr__(self, "_hbconv_classes", classes[classes.index(cls) + 1 :])

    def __getattr__(self, name: str) -> Any:
        return find_in_classes(self._hbconv_twin, name, self._hbconv_classes)


def make_super(*args: Any) -> Super:
    """``super()`` in a method of a twin."""
    frame = sys._getframe(1)
    own, first = frame.f_locals.get("__class__"), frame.f_code.co_varnames[:1]
    twin = frame.f_locals.get(first[0]) if first else None
    if args or own is None or not isinstance(twin, Twin):
        refuse("calls super with arguments, or outside a method", "Write super().")
    return Super(twin, own.real)


def _checked(x: Any, options: dict[str, Any]) -> Any:
    """Return rows as an array, of which infinities and NaN are refused as the source does."""
    finite = options.pop("ensure_all_finite", options.pop("force_all_finite", True))
    dtype = options.pop("dtype", "numeric")
    if options.keys() - _OF_ROWS:
        refuse(f"checks rows with {', '.join(sorted(options.keys() - _OF_ROWS))}")
    rows = x.to_numpy() if hasattr(x, "to_numpy") else x
    if not isinstance(rows, TracedMatrix):
        refuse("checks what is no table of rows", "Check the rows that the method is given.")
    if not (dtype is None or dtype == "numeric"):
        if isinstance(dtype, list | tuple) or np.dtype(dtype) not in (np.float64, np.float32):
            refuse("checks rows for several types", "Use dtype=float.")
        rows = rows.astype(dtype)
    if finite is not False:
        allows_nan = finite == "allow-nan"
        what = "infinity" if allows_nan else "NaN or infinity"
        condition = IsNonFinite(rows.node, allows_nan)
        current_trace().checks.append((condition, f"A row holds {what}."))
    return rows.copy()


CHECKS: dict[str, Callable[..., Any]] = {
    "check_array": lambda x, **options: _checked(x, options),
    "check_is_fitted": lambda *_, **__: None,
    "validate_data": lambda _, x, **options: _checked(x, options),
}
"""Checks of scikit-learn by name, as they stand in."""
