"""Whose class an estimator has, and whether a subclass predicts as its base class does.

sklearnex, cuml.accel and mocks put classes of their own in the place of scikit-learn's.
So a class is judged by its own module and methods, not by what a namespace holds now.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

__all__ = [
    "FOREIGN",
    "find_added",
    "find_changed",
    "find_overridden",
    "foreign_method",
    "foreign_way_out",
    "is_harmless",
    "is_named",
    "package",
]

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
    trusted = {*libraries, *_HOSTS}
    for base in cls.__mro__:
        if package(base) not in libraries:
            continue
        for name in vars(base).keys() & methods:
            writer = _writer(vars(base)[name])
            if writer and writer not in trusted:
                return name, writer
    return None


def _writer(definition: object) -> str:
    """Return the package that a method was written in; "" where that is unknown, as in C."""
    # fn is the function behind available_if of scikit-learn.
    function = getattr(definition, "fn", definition)
    names = getattr(function, "__globals__", None)
    if isinstance(names, dict):
        return str(names.get("__name__", "")).partition(".")[0]
    # Methods written in C have no globals; other objects are judged by their type.
    return "" if hasattr(function, "__get__") else package(type(function))


_SKLEARNEX = (
    "It is of scikit-learn-intelex, which computes results of its own. Call "
    "sklearnex.unpatch_sklearn(), import the class from sklearn again, and fit that."
)
_CUML = (
    "It is of cuML, which computes results of its own. Fit scikit-learn's class in a process "
    "without cuml.accel, or convert what as_treelite() of a forest returns."
)

FOREIGN: dict[str, str] = {
    "cuml": _CUML,
    "daal4py": _SKLEARNEX,
    "lightgbm.dask": "It predicts tables of Dask. Convert the model that its to_local() returns.",
    "mlxtend": (
        "It is of mlxtend, of which hbconv reads nothing. Use scikit-learn's StackingClassifier, "
        "VotingClassifier, SequentialFeatureSelector or ColumnTransformer."
    ),
    "onedal": _SKLEARNEX,
    "sklearnex": _SKLEARNEX,
    "unittest.mock": "It is a mock. Convert the fitted estimator that it replaces.",
    "xgboost.dask": "It predicts tables of Dask. Convert the Booster of its get_booster().",
    "xgboost.spark": "It predicts tables of Spark. Convert the Booster of its get_booster().",
}
"""By package: whose class it is, and what to do."""


def foreign_way_out(cls: type) -> str:
    """Return the way out for a class of these libraries, or one made of theirs; "" for others."""
    modules = [f"{base.__module__}." for base in cls.__mro__]
    ways = (way for name, way in FOREIGN.items() if any(m.startswith(f"{name}.") for m in modules))
    return next(ways, "")


_HARMLESS = re.compile(
    r"__(?!getattribute).*__|_?(partial_)?fit.*|set_.*|score"
    r"|get_(params|feature_names_out|metadata_routing)|_(get_)?(repr|sk|doc|more|abc)_.*|.*[^_]_"
    r"|_(parameter_constraints|required_parameters|estimator_type)"
)
"""Names that no output depends on, and fitted attributes, which parsers read."""

_ABSENT = object()

_ASKED_FOR = ("predict", "predict_proba", "decision_function")
"""Methods of which an estimator around others takes the first that a member has."""


def is_harmless(name: str) -> bool:
    """Tell whether no output depends on what a class defines under this name.

    Parsers read fitted attributes, so these are harmless too.
    """
    return _HARMLESS.fullmatch(name) is not None


def find_overridden(cls: type, base: type) -> list[str]:
    """Return the names that ``base`` defines and ``cls`` redefines, if they are not harmless.

    Examples
    --------
    >>> class Base:
    ...     _power = 1
    ...     def predict(self, x): return self._score(x)
    ...     def _score(self, x): return x
    >>> class Other(Base):
    ...     _power = 2
    ...     def fit(self, x): return self
    ...     def _score(self, x): return -x
    >>> find_overridden(Other, Base)
    ['_power', '_score']
    """
    names = [name for c in cls.__mro__ if c not in base.__mro__ for name in vars(c)]
    return find_changed(cls, base, (name for name in dict.fromkeys(names) if not is_harmless(name)))


def find_changed(cls: type, base: type, names: Iterable[str]) -> list[str]:
    """Return those of the names that ``base`` defines and ``cls`` redefines."""
    return [
        name
        for name in names
        if _definition(base, name) is not _ABSENT
        and not _is_same(_definition(cls, name), _definition(base, name))
    ]


def find_added(cls: type, base: type) -> list[str]:
    """Return the methods of ``cls`` that ``base`` lacks, and that estimators around it may ask for.

    Examples
    --------
    >>> class Base:
    ...     def predict_proba(self, x): return x
    >>> class Other(Base):
    ...     def decision_function(self, x): return -x
    >>> find_added(Other, Base)
    ['decision_function']
    """
    return [
        name
        for name in _ASKED_FOR
        if _definition(base, name) is _ABSENT and _definition(cls, name) is not _ABSENT
    ]


def _definition(cls: type, name: str) -> object:
    return next((vars(c)[name] for c in cls.__mro__ if name in vars(c)), _ABSENT)


def _is_same(first: object, second: object) -> bool:
    """Tell whether two definitions are one; equal sets of names are, which each class remakes."""
    return first is second or (
        type(first) is type(second) and isinstance(first, set | str) and first == second
    )
