"""The forms whose rows have items of their own: names of columns, or lists of neighbours."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from hbconv.array import Array
from hbconv.containers.extractors import Name
from hbconv.containers.forms import Form
from hbconv.containers.schema import Type

__all__ = ["AdjacencyLists", "NameArrays", "NameTuples", "NamedValues", "RowItems"]


@dataclass(frozen=True)
class RowItems(Form):
    """Base of a list with an item for each row, made of the names of its columns that are not 0.

    Parameters
    ----------
    names : Array or tuple of Name
        Name of each column.
    """

    names: Array | tuple[Name, ...]

    def misfit(self, values: Type) -> str | None:
        names = self.names
        shape = names.shape if isinstance(names, Array) else (len(names),)
        return None if shape == (values.width,) else f"has names of shape {shape}"


@dataclass(frozen=True)
class NameArrays(RowItems):
    """A list of an array of texts for each row: the names of the columns that are not 0.

    Parameters
    ----------
    names : tuple of Name
        Texts, those of the vocabulary itself, which is not copied.
    dtype : str
        Of the arrays, such as ``"<U12"``.
    """

    names: tuple[Name, ...]
    dtype: str

    def misfit(self, values: Type) -> str | None:
        own = super().misfit(values)
        is_text = re.fullmatch(r"<U\d{1,9}", self.dtype) is not None
        return own if is_text else "names columns by what is no text"


@dataclass(frozen=True)
class NameTuples(RowItems):
    """A list of a tuple for each row: the names of the columns that are not 0."""

    names: Array


@dataclass(frozen=True)
class NamedValues(RowItems):
    """A list of a dict for each row: the values that are not 0, by the names of their columns."""

    names: tuple[Name, ...]


@dataclass(frozen=True)
class AdjacencyLists(Form):
    """A tuple of two arrays of an array for each row, about its values that are not below 0.

    The first holds these values, the second the positions of their columns.

    Parameters
    ----------
    order : Array of int64, shape (width,)
        The columns in the order in which they are listed.
    """

    order: Array

    def misfit(self, values: Type) -> str | None:
        order = self.order.data
        fits = order.dtype == np.int64 and np.array_equal(np.sort(order), np.arange(values.width))
        return None if fits else f"lists other columns than the {values.width} there are"
