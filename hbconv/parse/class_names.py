"""Whose class it is: what a class says of itself, not what stands in a namespace now.

sklearnex, cuml.accel and mocks put classes of their own in the place of scikit-learn's.
"""

from __future__ import annotations

from collections.abc import Collection

__all__ = ["foreign_method", "is_named", "package"]

_HOSTS = frozenset({"hbconv", "mlflow"})
"""Packages that wrap methods of classes, and return what the method returned."""


def is_named(cls: type, name: str) -> bool:
    """Tell whether a class is the one of a public name: defined in that module, or below it.

    Examples
    --------
    >>> from sklearn.svm import SVC
    >>> SVC.__module__
    'sklearn.svm._classes'
    >>> is_named(SVC, "sklearn.svm.SVC"), is_named(SVC, "sklearn.linear_model.SVC")
    (True, False)
    """
    module, _, attribute = name.rpartition(".")
    return cls.__qualname__ == attribute and f"{cls.__module__}.".startswith(f"{module}.")


def package(cls: type) -> str:
    """Return the top package of a class."""
    return cls.__module__.partition(".")[0]


def foreign_method(
    cls: type, methods: Collection[str], libraries: Collection[str]
) -> tuple[str, str] | None:
    """Return a method that something else put in a library's class, and the package it is of.

    None where the methods of these names are the libraries' own. A class that only calls itself a
    library's is found by its methods too, as those of cuml.accel are.
    """
    own = {*libraries, *_HOSTS}
    for base in cls.__mro__:
        if package(base) not in libraries:
            continue
        for name in vars(base).keys() & methods:
            writer = _writer(vars(base)[name])
            if writer and writer not in own:
                return name, writer
    return None


def _writer(definition: object) -> str:
    """Return the package that a method was written in; "" where that is not told, as in C."""
    function = getattr(definition, "fn", definition)  # the one behind scikit-learn's available_if
    names = getattr(function, "__globals__", None)
    if isinstance(names, dict):
        return str(names.get("__name__", "")).partition(".")[0]
    return "" if hasattr(function, "__get__") else package(type(function))
