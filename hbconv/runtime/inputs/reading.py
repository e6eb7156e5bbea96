"""Reading: what goes wrong while rows are read is wrong with the rows, and is told so."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from hbconv.errors import HbconvError, InputError

__all__ = ["reads_rows"]

P = ParamSpec("P")
T = TypeVar("T")


def reads_rows(read: Callable[P, T]) -> Callable[P, T]:
    """Make a function raise InputError for whatever the library of the rows raises.

    The function only reads rows. It must not compute anything, whose errors would be hidden.

    Examples
    --------
    >>> @reads_rows
    ... def read(x):
    ...     return x.__array__()
    >>> read(0)
    Traceback (most recent call last):
        ...
    hbconv.errors.InputError: The rows cannot be read
    (AttributeError: 'int' object has no attribute '__array__').
    Give a numpy array or a DataFrame.
    """

    @wraps(read)
    def reading(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return read(*args, **kwargs)
        except (HbconvError, MemoryError, Warning):  # a warning that the user made an error
            raise
        except Exception as error:
            told = f"{type(error).__name__}: {error!s:.200}".rstrip(": .")
            raise InputError(
                f"The rows cannot be read ({told}). Give a numpy array or a DataFrame."
            ) from error

    return reading
