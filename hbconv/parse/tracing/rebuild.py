"""Rebuild a function of the user over doubles: its code as compiled, with other names around it.

Globals, builtins and closure cells are replaced, not the code. A name may stand for a number, a
container of such, a function, or a module that is known. Any other object refuses when it is used,
since it may hold state. Containers are copied, and a function that changed one is refused
afterwards. Functions of the user are rebuilt in turn.
"""

from __future__ import annotations

import builtins
import dis
import functools
import importlib
import math
import operator
import re
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from hbconv.parse.tracing import formulas as _formulas  # noqa: F401
from hbconv.parse.tracing.array_functions import MAKERS
from hbconv.parse.tracing.arrays import (
    TracedMatrix,
    TracedVector,
    Transposed,
    call_function,
    holds_traced,
)
from hbconv.parse.tracing.cell_functions import (
    FUNCTIONS_OF_MATH,
    FUNCTIONS_OF_RE,
    KnownPattern,
    vectorized,
)
from hbconv.parse.tracing.cells import CellParts, KnownDict, KnownFrozenSet, KnownSet, TracedCell
from hbconv.parse.tracing.dates import MOMENTS, make_moment
from hbconv.parse.tracing.frame_functions import MAKERS_OF_FRAMES
from hbconv.parse.tracing.frames import TracedFrame, TracedSeries
from hbconv.parse.tracing.inner import Inner, is_known
from hbconv.parse.tracing.known_categories import known_categories
from hbconv.parse.tracing.known_names import BEYOND, BUILTINS, IMPURE, OF_NUMPY, VALUES
from hbconv.parse.tracing.labels import ConstantTable, TracedLabels
from hbconv.parse.tracing.sparse import TESTS, TracedSparse
from hbconv.parse.tracing.trace import RowCount, current_trace, refuse
from hbconv.parse.tracing.twin import (
    CHECKS,
    Twin,
    is_of_library,
    is_own_object,
    make_super,
    own_function,
    real_object,
)

__all__ = ["Rebuilder", "run_function"]

_STATE = "A model holds no state: pass numbers, by kw_args or as defaults of its arguments."
_CHANCE = "Its answer for a row is not the same each time."


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, str | bool | int | float)


def _is_instance(x: Any, cls: Any) -> bool:
    """``isinstance``: what records is an instance of the class that it stands for."""
    classes = cls if isinstance(cls, tuple) else (cls,)
    if isinstance(x, TracedCell):
        return x.is_instance(classes)
    real = _real_class(x)
    if real is None:
        return isinstance(x, cls)
    # Doubles of classes answer for those that they stand for.
    return any(isinstance(c, type) and issubclass(real, c) for c in classes)


def _real_class(x: Any) -> Any:
    """Return the class that a value which records stands for; None for any other."""
    if isinstance(x, TracedSeries):
        return sys.modules["pandas"].Series
    if isinstance(x, TracedFrame):
        return sys.modules["pandas"].DataFrame
    if isinstance(x, TracedMatrix | TracedVector | Transposed | TracedLabels):
        return np.ndarray
    if isinstance(x, TracedSparse):
        return x.real_class
    if isinstance(x, Inner | Twin):
        return type(real_object(x))
    return int if isinstance(x, RowCount) else None


def _type(x: Any, *args: Any) -> Any:
    """``type`` of one argument."""
    if args:
        refuse("makes a class while it runs")
    if isinstance(x, RowCount):
        return int
    if isinstance(x, TracedFrame | TracedSeries | TracedCell | TracedSparse):
        refuse("asks for the type of a table or value", "Use isinstance.")
    arrays = TracedMatrix | TracedVector | Transposed | TracedLabels | ConstantTable
    return np.ndarray if isinstance(x, arrays) else type(x)


def _length(x: Any) -> Any:
    """``len``: of rows it is their number, and of a text that of its characters."""
    if isinstance(x, TracedCell | CellParts):
        return x.length()
    arrays = TracedMatrix | TracedVector | TracedFrame | TracedLabels
    return x.shape[0] if isinstance(x, arrays) else len(x)


def _print(*_: object, **__: object) -> None:
    """``print`` nothing: a model answers, and does no more."""


def _refusing(name: str, what: str = "") -> Callable[..., NoReturn]:
    """Return what refuses whenever it is called."""

    def refusing(*_: object, **__: object) -> NoReturn:
        refuse(f"calls {name}{what}", _CHANCE if what else "")

    return refusing


class _Unknown:
    """A name that stands for what may hold state."""

    def __init__(self, name: str, what: str) -> None:
        object.__setattr__(self, "_why", f"uses {name}, which is {what}")

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        refuse(object.__getattribute__(self, "_why"), _STATE)

    __getattribute__ = __setattr__ = __call__ = __getitem__ = __setitem__ = _refuse
    __iter__ = __next__ = __len__ = __bool__ = __contains__ = __enter__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _refuse
    __truediv__ = __rtruediv__ = __eq__ = __ne__ = __lt__ = __gt__ = _refuse
    __float__ = __int__ = __index__ = __array__ = __hash__ = __str__ = _refuse


class _Module:
    """The double of a module: each name as the rebuilder stands it in."""

    def __init__(self, module: types.ModuleType, stand_in: Callable[[str, Any], Any]) -> None:
        object.__setattr__(self, "_module", module)
        object.__setattr__(self, "_stand_in", stand_in)

    def __getattr__(self, name: str) -> Any:
        module = object.__getattribute__(self, "_module")
        impure = _impurity(module.__name__)
        if impure and not (module.__name__ == "datetime" and name in MOMENTS):
            refuse(f"uses {module.__name__}.{name}, which is {impure}", _CHANCE)
        if name.startswith("__"):
            refuse(f"uses {module.__name__}.{name}")
        return self._stand_in(f"{module.__name__}.{name}", getattr(module, name))

    def __setattr__(self, name: str, value: object) -> NoReturn:
        refuse("sets a name of a module", _STATE)


def _impurity(module: str) -> str | None:
    """Return what a module depends on."""
    parts = module.split(".")
    names = (".".join(parts[:end]) for end in range(1, len(parts) + 1))
    return next((IMPURE[name] for name in names if name in IMPURE), None)


def _is_of_numpy(function: Any) -> bool:
    """Tell whether a function is numpy's of its name."""
    return getattr(np, getattr(function, "__name__", ""), None) is function


def _of_constants(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a pure function that refuses what records."""

    @functools.wraps(function, updated=())
    def call(*args: Any, **keywords: Any) -> Any:
        of_cell = FUNCTIONS_OF_MATH.get(function.__name__)
        if of_cell is not None and len(args) == 1 and isinstance(args[0], TracedCell):
            return of_cell(args[0])
        if holds_traced([args, keywords]):
            refuse(f"calls {name} with rows", f"Use numpy.{function.__name__} of whole columns.")
        return function(*args, **keywords)

    return call


def _of_pandas(function: Any) -> Callable[..., Any]:
    """Return the double of a function of pandas, of columns that record."""

    @functools.wraps(function, updated=())
    def call(*args: Any, **keywords: Any) -> Any:
        is_date = function.__name__ == "to_datetime" and isinstance((*args, None)[0], str)
        if not is_date and not holds_traced([args, keywords]):
            refuse(f"calls pandas.{function.__name__} of constants", "Compute it when fitting.")
        return MAKERS_OF_FRAMES[function.__name__](*args, **keywords)

    return call


def _of_numpy(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the double of a function of numpy, for rows and for constants."""
    short = name.removeprefix("numpy.")

    @functools.wraps(function, updated=())
    def call(*args: Any, **keywords: Any) -> Any:
        if holds_traced([args, keywords]):
            if short in MAKERS:
                return MAKERS[short](*args, **keywords)
            return call_function(short, args, keywords)
        if short not in OF_NUMPY.split():
            refuse(f"calls {name}, which hbconv does not follow", "Compute it when fitting.")
        made = function(*args, **keywords)
        return made.view(ConstantTable) if type(made) is np.ndarray else made

    return call


@dataclass
class Rebuilder:
    """What stands in for the names of one function and of those it calls.

    Each object has one stand-in, so that functions share what they share.
    """

    _made: dict[int, tuple[Any, Any]] = field(default_factory=dict)
    _containers: list[tuple[Any, Any]] = field(default_factory=list)
    _functions: list[types.FunctionType] = field(default_factory=list)

    def stand_in(self, name: str, value: Any) -> Any:
        """Return what stands for a value in the rebuilt function."""
        if id(value) not in self._made:
            # The value is kept, so that no other one takes its id.
            self._made[id(value)] = (value, None)
            self._made[id(value)] = (value, self._make(name, value))
        return self._made[id(value)][1]

    def require_unchanged(self) -> None:
        """Refuse a function that changed a container, or kept something in a function."""
        for copied, snapshot in self._containers:
            if not _same(copied, snapshot):
                refuse("changes a container that outlives the call", _STATE)
        holds_tables = any(hasattr(copied, "equals") for copied, _ in self._containers)
        for function in self._functions:
            if vars(function):
                refuse(f"keeps values in {function.__name__}", _STATE)
            named = sorted(
                set(BEYOND.split()) & {n for c in _codes(function.__code__) for n in c.co_names}
            )
            if holds_tables and named:
                refuse(f"calls {named[0]} of a table that it holds", _STATE)

    def _make(self, name: str, value: Any) -> Any:
        if value is None or isinstance(value, bool | int | float | complex | str | bytes):
            return value
        if isinstance(value, np.generic | np.dtype | range | slice) or value is Ellipsis:
            return value
        if type(value).__name__ in MOMENTS and type(value).__module__.startswith(
            ("pandas", "datetime")
        ):
            return value
        if isinstance(value, types.ModuleType):
            return self._module(value)
        if type(value).__name__ == "CategoricalDtype" and value.categories is not None:
            return known_categories(value.categories, value.ordered)
        if isinstance(value, types.FunctionType | types.BuiltinFunctionType | np.ufunc):
            return self._function(name, value)
        if isinstance(value, type):
            return self._class(value)
        if isinstance(value, re.Pattern):
            return KnownPattern(value)
        if isinstance(value, np.vectorize):
            function = self.stand_in("its function", value.pyfunc)
            options: Any = {"excluded": value.excluded, "signature": value.signature}
            return vectorized(function, value.otypes, **options)
        if isinstance(value, functools.partial):
            return self._partial(value)
        if is_own_object(value):
            return Inner(value, name, self.stand_in) if is_known(value) else Twin(value, self)
        if isinstance(value, types.MethodType) and not is_of_library(type(value.__self__)):
            function = self.rebuilt_once(own_function(value.__func__))
            return types.MethodType(function, Twin(value.__self__, self))
        if type(value) in (dict, list, tuple, set, frozenset, np.ndarray):
            return self._container(name, value)
        if value is np.c_:
            return MAKERS["c_"]
        wrapped = getattr(value, "__wrapped__", None)
        if type(value).__name__ == "_lru_cache_wrapper" and wrapped is not None:
            return self.stand_in(name, wrapped)
        # _ArrayFunctionDispatcher and others written in C.
        if callable(value) and _is_of_numpy(value):
            return _of_numpy(f"numpy.{value.__name__}", value)
        if value is np.linalg.norm:
            return _of_numpy("numpy.linalg.norm", value)
        if type(value).__module__.partition(".")[0] == "pandas" and hasattr(value, "equals"):
            return self._copied(value.copy(), value.copy())
        if is_known(value):
            return Inner(value, name, self.stand_in)
        return _Unknown(name, f"an object of {type(value).__name__}")

    def _module(self, module: types.ModuleType) -> Any:
        name = module.__name__
        if name == "math":
            return _Module(module, lambda full, value: (
                _of_constants(full, value) if callable(value) else value
            ))  # fmt: skip
        if name in ("warnings", "logging"):
            return _Silent()
        return _Module(module, self.stand_in)

    def _function(self, name: str, function: Any) -> Any:
        module = getattr(function, "__module__", None) or ""
        if isinstance(function, np.ufunc):
            return function
        if isinstance(function, types.BuiltinFunctionType):
            owner = function.__self__
            if owner is math:
                return _of_constants(name, function)
            if _is_of_numpy(function):
                return _of_numpy(f"numpy.{function.__name__}", function)
            if function is functools.reduce or vars(operator).get(function.__name__) is function:
                return function
            if owner is builtins:
                return self.builtins.get(function.__name__, _refusing(function.__name__))
            return _Unknown(name, "a function written in C")
        top = module.partition(".")[0]
        if _is_of_numpy(function):
            return _of_numpy(f"numpy.{function.__name__}", function)
        if _impurity(module):
            return _refusing(name, f", which is {_impurity(module)}")
        if top == "pandas" and function.__name__ in MAKERS_OF_FRAMES:
            return _of_pandas(function)
        if module == "sklearn.utils.validation" and function.__name__ in CHECKS:
            return CHECKS[function.__name__]
        if top == "scipy" and function.__name__ in TESTS:
            return TESTS[function.__name__]
        if module == "re" and function.__name__ in FUNCTIONS_OF_RE:
            return FUNCTIONS_OF_RE[function.__name__]
        if top in ("numpy", "scipy", "pandas", "sklearn", "polars"):
            return _refusing(f"{module}.{function.__name__}")
        return self.rebuilt(function)

    def _class(self, cls: type) -> Any:
        if cls.__name__ in MOMENTS and cls.__module__.startswith(("pandas", "datetime", "numpy")):
            return _double_of_class(cls, make_moment(cls))
        if cls.__module__ == "builtins" and cls.__name__ in BUILTINS.split():
            return cls
        if cls.__module__ == "numpy" and (
            cls.__name__ in VALUES.split() or issubclass(cls, np.generic)
        ):
            return cls
        if cls.__module__ == "itertools":
            return cls
        if cls is np.vectorize:
            return _double_of_class(cls, vectorized)
        if cls is np.ndarray or (issubclass(cls, Exception) and "__init__" not in vars(cls)):
            return cls
        is_made = cls.__name__ in MAKERS_OF_FRAMES and cls.__module__.startswith("pandas")
        return _double_of_class(cls, MAKERS_OF_FRAMES[cls.__name__] if is_made else None)

    def _partial(self, value: functools.partial[Any]) -> Any:
        keywords = {key: self.stand_in(key, v) for key, v in value.keywords.items()}
        args = [self.stand_in("an argument", v) for v in value.args]
        return functools.partial(self.stand_in("its function", value.func), *args, **keywords)

    def _container(self, name: str, value: Any) -> Any:
        if isinstance(value, np.ndarray):
            if value.dtype.hasobject and not all(map(_is_plain, np.ravel(value).tolist())):
                return _Unknown(name, "an array of objects")
            return self._copied(value.copy().view(ConstantTable), value.copy().view(ConstantTable))
        copied: Any
        snapshot: Any
        if isinstance(value, dict):
            items = ((self.stand_in(name, k), self.stand_in(name, v)) for k, v in value.items())
            copied = KnownDict(items)
            snapshot = KnownDict(copied)
        elif isinstance(value, set | frozenset):
            kind = KnownSet if isinstance(value, set) else KnownFrozenSet
            copied = kind(self.stand_in(name, v) for v in value)
            snapshot = kind(copied)
        else:
            copied = type(value)(self.stand_in(name, v) for v in value)
            snapshot = type(value)(copied)
        return self._copied(copied, snapshot)

    def _copied(self, copied: Any, snapshot: Any) -> Any:
        """Keep a copy that the function is given, and what it must still hold afterwards."""
        self._containers.append((copied, snapshot))
        return copied

    @functools.cached_property
    def builtins(self) -> dict[str, Any]:
        """Builtins of the rebuilt function."""
        refused = {name: _refusing(name) for name in vars(builtins) if not name.startswith("_")}
        kept = {name: getattr(builtins, name) for name in BUILTINS.split()}
        return {
            **refused,
            **kept,
            "isinstance": _is_instance,
            "len": _length,
            "print": _print,
            "super": make_super,
            "type": _type,
            "__import__": self._import,
            "__build_class__": _refusing("class", ", which makes a class while it runs"),
        }

    def _import(
        self,
        name: str,
        _globals: Any = None,
        _locals: Any = None,
        fromlist: Any = (),
        level: int = 0,
    ) -> Any:
        """``import`` inside the function."""
        if level:
            refuse("imports from its own package while it runs", "Import at the top of the file.")
        module = importlib.import_module(name if fromlist else name.partition(".")[0])
        return self.stand_in(name, module)

    def rebuilt_once(self, function: types.FunctionType) -> types.FunctionType:
        """Return the one function that stands for a function of the user."""
        rebuilt: types.FunctionType = self.stand_in(function.__name__, function)
        return rebuilt

    def rebuilt(self, function: types.FunctionType) -> types.FunctionType:
        """Return a function of the same code over stand-ins."""
        code = function.__code__
        _require_stateless(function)
        trace = current_trace()
        trace.codes.update(_codes(code))
        names = {name for each in _codes(code) for name in each.co_names}
        around = function.__globals__
        globals_ = {
            "__builtins__": self.builtins,
            "__name__": around.get("__name__", ""),
        }
        cells = tuple(types.CellType() for _ in code.co_freevars)
        new = types.FunctionType(code, globals_, function.__name__, None, cells or None)
        self._functions.append(new)
        # A function may call itself, so it stands in before its names do.
        self._made[id(function)] = (function, new)
        globals_.update({n: self.stand_in(n, around[n]) for n in sorted(names) if n in around})
        for cell, old, name in zip(
            cells, function.__closure__ or (), code.co_freevars, strict=True
        ):
            cell.cell_contents = self.stand_in(name, old.cell_contents)
        new.__defaults__ = function.__defaults__ and tuple(
            self.stand_in("a default", value) for value in function.__defaults__
        )
        new.__kwdefaults__ = function.__kwdefaults__ and {
            name: self.stand_in(name, value) for name, value in function.__kwdefaults__.items()
        }
        return new


class _Silent:
    """The double of a module that only says something."""

    def __getattr__(self, name: str) -> Any:
        return _print if name not in ("catch_warnings", "simplefilter") else _Context


class _Context:
    """A context that does nothing."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


class _ClassMeta(type):
    """Answers ``isinstance`` for the class that it stands for."""

    real: type

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.real)

    def __subclasscheck__(cls, subclass: Any) -> bool:
        return issubclass(subclass, cls.real)

    def __getattr__(cls, name: str) -> Any:
        return refuse(f"uses {cls.__name__}.{name}", _STATE)


def _double_of_class(cls: type, make: Callable[..., Any] | None = None) -> Any:
    """Return a double of a class, which may be asked for instances, and called to make what."""

    def new(_: object, *args: Any, **keywords: Any) -> Any:
        if make is not None:
            return make(*args, **keywords)
        return refuse(f"makes an object of {cls.__name__}", _STATE)

    return _ClassMeta(cls.__name__, (), {"real": cls, "__new__": new})


_WRITES = {"STORE_GLOBAL": "a global", "DELETE_GLOBAL": "a global"}


def _require_stateless(function: types.FunctionType) -> None:
    """Refuse a function that writes a global or a variable of the function around it."""
    own = function.__code__
    outer = set(own.co_freevars)
    for code in _codes(own):
        for instruction in dis.get_instructions(code):
            written = _WRITES.get(instruction.opname)
            if (
                instruction.opname in ("STORE_DEREF", "DELETE_DEREF")
                and instruction.argval in outer
            ):
                written = "a variable around it"
            if written:
                refuse(f"writes {written}, {instruction.argval}", _STATE)
    if set(vars(function)) - {"__wrapped__"}:
        refuse(f"has values of its own ({', '.join(sorted(vars(function)))})", _STATE)
    if any(code.co_flags & 0x2A0 & ~0x20 for code in _codes(own)):
        refuse("is a coroutine")


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """Yield a code and those inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _same(x: Any, y: Any) -> bool:
    """Tell whether a container holds the very objects, or numbers, that it held."""
    if type(x) is not type(y):
        return False
    if isinstance(x, np.ndarray):
        if x.dtype.hasobject:
            return bool(x.tolist() == y.tolist())
        return bool(x.dtype == y.dtype and x.tobytes() == y.tobytes())
    if hasattr(x, "equals"):
        return bool(x.equals(y))
    if isinstance(x, dict):
        return list(x) == list(y) and all(
            a is b for a, b in zip(x.values(), y.values(), strict=True)
        )
    if isinstance(x, set | frozenset):
        return bool(x == y)
    return len(x) == len(y) and all(a is b for a, b in zip(x, y, strict=True))


def run_function(func: Any, argument: Any, keywords: Mapping[str, Any]) -> Any:
    """Run a function, rebuilt, on an argument that records, and return what it returns.

    Raises
    ------
    FunctionRefusal
        Also where the function caught it.
    """
    rebuilder = Rebuilder()
    function = rebuilder.stand_in("the function", func)
    given = {name: rebuilder.stand_in(name, value) for name, value in keywords.items()}
    trace = current_trace()
    result = None
    try:
        result = function(argument, **given)
    except Exception as error:
        if trace.refusal is None:
            shown = " ".join(str(error).split())[:200]
            refuse(f"raises {type(error).__name__} while it is traced: {shown}")
    if trace.refusal is not None:
        raise trace.refusal
    rebuilder.require_unchanged()
    return result
