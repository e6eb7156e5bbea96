"""Whether a value from a file is what a field's annotation says."""

from __future__ import annotations

import types
from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar, ForwardRef, Literal, Union, get_args, get_origin, get_type_hints

__all__ = ["fields_of", "fits"]


@cache
def fields_of(cls: type) -> dict[str, Any]:
    """Annotation of each field of a dataclass.

    Raises
    ------
    NameError
        An annotation names what its module imports only for type checkers.
    """
    return {
        name: hint for name, hint in get_type_hints(cls).items() if get_origin(hint) is not ClassVar
    }


def fits(value: Any, hint: Any) -> bool:
    """Whether a value has an annotated type; an int passes for a float, a bool for neither.

    Examples
    --------
    >>> fits((1, 2), tuple[int, ...]), fits((1, "a"), tuple[int, ...])
    (True, False)
    >>> fits(None, int | None), fits(True, float)
    (True, False)
    """
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin in (Union, types.UnionType):
        return any(fits(value, arg) for arg in args)
    if origin is Literal:
        return any(type(value) is type(arg) and value == arg for arg in args)
    if origin is tuple:
        return isinstance(value, tuple) and _items_fit(value, args)
    if origin is Mapping:
        return isinstance(value, dict) and all(
            fits(k, args[0]) and fits(v, args[1]) for k, v in value.items()
        )
    if origin is frozenset:
        return isinstance(value, frozenset) and all(fits(v, args[0]) for v in value)
    if isinstance(hint, ForwardRef):
        return _is_plain(value)
    if hint in (int, float):
        return type(value) is int or type(value) is hint
    return isinstance(value, hint)


def _is_plain(value: Any) -> bool:
    """Whether a value is a feature name, the only recursive type."""
    return (
        all(map(_is_plain, value))
        if isinstance(value, tuple)
        else value is None or isinstance(value, str | int | float)
    )


def _items_fit(values: tuple[Any, ...], hints: tuple[Any, ...]) -> bool:
    if len(hints) == 2 and hints[1] is ...:
        alike = {
            type(value): value for value in values
        }  # one stands for all of its type, but for what holds others
        return all(fits(value, hints[0]) for value in alike.values()) and all(
            fits(v, hints[0]) for v in values if isinstance(v, tuple | dict)
        )
    return len(values) == len(hints) and all(
        fits(value, hint) for value, hint in zip(values, hints, strict=True)
    )
