"""Score on engines: a file for each, which lends it ``hbconv.Scorer``.

Import the file of the engine that you have: ``hbconv.engines.polars``, for example.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from hbconv import __version__
from hbconv.engines.scorer import Scorer

if TYPE_CHECKING:
    from hbconv.model import Model

__all__ = ["as_column", "as_read", "scorer_of", "travelling"]


def scorer_of(
    model: Model | Scorer | str | os.PathLike[str],
    methods: str | Sequence[str] | None = None,
    keep: Sequence[str] = (),
    reasons: str | None = None,
) -> Scorer:
    """Return a scorer as it is, and one of a model or of the file of one."""
    if isinstance(model, Scorer):
        return model
    return Scorer(model, methods, keep, reasons=reasons)


def as_read(column: Any, field: Any) -> Any:
    """Return numbers and bools in the type that a model reads, if it holds them.

    All else is returned as it is: the model reads it, or raises what is wrong.
    """
    import pyarrow as pa

    if column.type == field.type or not (_is_number(column.type) and _is_number(field.type)):
        return column
    # A safe cast refuses what it would change; the model then reads the column as it is.
    try:
        return column.cast(field.type)
    except pa.ArrowInvalid:
        return column


def _is_number(kind: Any) -> bool:
    from pyarrow import types

    tests = (types.is_boolean, types.is_integer, types.is_floating, types.is_decimal)
    return any(test(kind) for test in tests)


def as_column(answers: Any) -> Any:
    """Return a RecordBatch as one Arrow array: its only column, or structs of several."""
    return answers.column(0) if answers.num_columns == 1 else answers.to_struct_array()


def travelling(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function as workers of an engine can be sent it, whether they have hbconv or not.

    A function in a function is sent as its code, so a Python without hbconv can say so in one line.
    A pickle would end in a traceback of its own.
    """
    packed = pickle.dumps(function)
    wanted = __version__
    unpacked: list[Callable[..., Any]] = []

    def call(*given: Any) -> Any:
        if unpacked:
            return unpacked[0](*given)
        import pickle
        import socket
        import sys

        python = f"{sys.executable} on {socket.gethostname()}"
        way_out = f"Install 'hbconv[score]=={wanted}' there; PYSPARK_PYTHON names Spark's Python."
        try:
            import hbconv
        except ImportError as error:
            said = f"{python} does not import hbconv: {error}. {way_out}"
            raise ImportError(said) from None
        if hbconv.__version__ != wanted:
            raise ImportError(f"{python} has hbconv {hbconv.__version__}. {way_out}")
        unpacked.append(pickle.loads(packed))  # noqa: S301 - it came in a pickle
        return unpacked[0](*given)

    return call
