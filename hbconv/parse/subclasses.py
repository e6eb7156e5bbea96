"""Tell whether a subclass answers like its base class."""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["added", "changed", "is_harmless", "overridden"]

_HARMLESS = re.compile(
    r"__(?!getattribute).*__|_?(partial_)?fit.*|set_.*|score"
    r"|get_(params|feature_names_out|metadata_routing)|_(get_)?(repr|sk|doc|more|abc)_.*|.*[^_]_"
    r"|_(parameter_constraints|required_parameters|estimator_type)"
)
"""Names that no answer depends on, and fitted attributes, which parsers read."""

_ABSENT = object()

_ASKED_FOR = ("predict", "predict_proba", "decision_function")
"""Methods of which an estimator around others takes the first that a member has."""


def is_harmless(name: str) -> bool:
    """Tell whether no answer depends on what a class defines under this name.

    Parsers read fitted attributes, so these are harmless too.
    """
    return _HARMLESS.fullmatch(name) is not None


def overridden(cls: type, base: type) -> list[str]:
    """Return the names that ``base`` defines and ``cls`` defines anew, if they are not harmless.

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
    >>> overridden(Other, Base)
    ['_power', '_score']
    """
    own = [name for c in cls.__mro__ if c not in base.__mro__ for name in vars(c)]
    return changed(cls, base, (name for name in dict.fromkeys(own) if not is_harmless(name)))


def changed(cls: type, base: type, names: Iterable[str]) -> list[str]:
    """Return those of the names that ``base`` defines and ``cls`` defines anew."""
    return [
        name
        for name in names
        if _defined(base, name) is not _ABSENT
        and not _is_same(_defined(cls, name), _defined(base, name))
    ]


def added(cls: type, base: type) -> list[str]:
    """Return the methods of ``cls`` that ``base`` lacks, and that estimators around it may ask for.

    Examples
    --------
    >>> class Base:
    ...     def predict_proba(self, x): return x
    >>> class Other(Base):
    ...     def decision_function(self, x): return -x
    >>> added(Other, Base)
    ['decision_function']
    """
    return [
        name
        for name in _ASKED_FOR
        if _defined(base, name) is _ABSENT and _defined(cls, name) is not _ABSENT
    ]


def _defined(cls: type, name: str) -> object:
    return next((vars(c)[name] for c in cls.__mro__ if name in vars(c)), _ABSENT)


def _is_same(one: object, other: object) -> bool:
    """Tell whether two definitions are one; equal sets of names are, which classes make anew."""
    return one is other or (
        type(one) is type(other) and isinstance(one, set | str) and one == other
    )
