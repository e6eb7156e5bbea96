"""Inverses: read what ``inverse_transform`` of an estimator makes of transformed columns.

Its rows are those that ``transform`` returns, so that it is a graph of its own.
Readers are next to the parsers of their estimators, under the same names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from hbconv.containers import AsRows, Cast, Matrix, Node, Output, Schema, Sparse, at_step
from hbconv.errors import UnsupportedError
from hbconv.parse.damage import reading_estimator
from hbconv.parse.registry import find_parser
from hbconv.parse.step import Step

__all__ = ["finite", "inverse_columns", "inverse_names", "inverts", "numbers", "read_inverse"]


class InverseReader(Protocol):
    """A function that reads the inverse of one estimator into nodes over ``step.x``."""

    def __call__(self, step: Step, /) -> Node | Output:
        """Return what ``inverse_transform`` makes of ``step.x``."""


@dataclass(frozen=True)
class _Inverse:
    read: InverseReader
    takes_sparse: bool
    columns: Callable[[Any, int], Schema] | None


_INVERSES: dict[str, _Inverse] = {}


def inverts(
    *names: str,
    takes_sparse: bool = False,
    columns: Callable[[Any, int], Schema] | None = None,
) -> Callable[[InverseReader], InverseReader]:
    """Register the decorated function as the reader of ``inverse_transform`` of these estimators.

    Parameters
    ----------
    *names : str
        Names under which their parsers are registered.
    takes_sparse : bool
        The source model inverts a sparse matrix too.
    columns : callable, optional
        Makes the schema of the transformed columns from the estimator and their number.
        By default it is a matrix.
    """

    def register(read: InverseReader) -> InverseReader:
        _INVERSES.update(dict.fromkeys(names, _Inverse(read, takes_sparse, columns)))
        return read

    return register


def inverse_names() -> tuple[str, ...]:
    """Return the dotted names of all estimators whose inverse has a reader."""
    return tuple(sorted(_INVERSES))


def inverse_columns(estimator: object, width: int) -> Schema:
    """Return the schema of so many transformed columns."""
    inverse = _INVERSES.get(find_parser(estimator).name)
    columns = None if inverse is None else inverse.columns
    return Schema.matrix(width) if columns is None else columns(estimator, width)


def read_inverse(
    step: Step, estimator: object, x: Node, name: str, *, x_sparse: bool | None = False
) -> Output:
    """Return what ``inverse_transform`` of an estimator makes of x.

    ``name`` is its part of the path.

    Raises
    ------
    UnsupportedError
        Nothing reads the inverse of its class, or part of it has no exact form.
    """
    path = "/".join(part for part in (step.path, name) if part)
    inner = replace(step, estimator=estimator, x=x, path=path, x_sparse=x_sparse, iterations=None)
    inverse = _INVERSES.get(find_parser(estimator, inner.where).name)
    if inverse is None:
        raise inner.refuse(None, None, "hbconv does not invert it.")
    with at_step(inner.where), reading_estimator(estimator, inner.where):
        result = inverse.read(inner)
    if not inverse.takes_sparse:
        inner.refuse_sparse("inverts no sparse matrix")
    return result if isinstance(result, Output) else Output(result)


def numbers(step: Step, output: Output) -> Node:
    """Return the node of an output that another estimator reads, or refuse labels and lists."""
    if not isinstance(output.form, Matrix | Sparse | AsRows):
        raise UnsupportedError(
            step.name,
            step.where,
            hint="One of its steps inverts to labels, and the step before it would read them.",
        )
    return output.node if output.dtype is None else Cast(output.node, output.dtype)


def finite(step: Step) -> Node:
    """Return floats of the step's input, which may be NaN; refuse infinite ones."""
    return step.require_finite(Cast(step.x, "float"), allow_nan=True)
