"""Tell whether a subclass answers like its base class."""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["is_harmless", "overridden"]

_HARMLESS = re.compile(
    r"__.*__|_?(partial_)?fit.*|get_(params|feature_names_out|metadata_routing)|set_.*|score"
    r"|_(repr|sk|doc|more|abc)_.*|.*[^_]_"
)
"""Names that no answer depends on, and fitted attributes, which parsers read."""


def is_harmless(name: str) -> bool:
    """Tell whether no answer depends on what a class defines under this name.

    Parsers read fitted attributes, so these are harmless too.
    """
    return _HARMLESS.fullmatch(name) is not None


def overridden(cls: type, base: type, methods: Iterable[str]) -> list[str]:
    """Return the names that ``base`` defines and ``cls`` defines anew.

    Within the library of ``base`` only ``methods`` count.
    Outside of it every name counts that is not harmless.

    Examples
    --------
    >>> class Base:
    ...     def predict(self, x): return self._score(x)
    ...     def _score(self, x): return x
    >>> class Other(Base):
    ...     def fit(self, x): return self
    ...     def _score(self, x): return -x
    >>> Other.__module__ = "elsewhere"
    >>> overridden(Other, Base, ["predict"])
    ['_score']
    """
    own = [
        name
        for c in cls.__mro__
        if c not in base.__mro__
        for name, value in vars(c).items()
        if hasattr(value, "__get__")
    ]
    names = (
        methods
        if _library(cls) == _library(base)
        else [name for name in dict.fromkeys(own) if not is_harmless(name)]
    )
    return [
        name
        for name in names
        if _defined(base, name) is not None and _defined(cls, name) is not _defined(base, name)
    ]


def _library(cls: type) -> str:
    return cls.__module__.partition(".")[0]


def _defined(cls: type, name: str) -> object:
    return next((vars(c)[name] for c in cls.__mro__ if name in vars(c)), None)
