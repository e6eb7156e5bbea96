"""Names of the columns that ``transform`` returns, and the format in which it returns them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hbconv.containers.schema import Schema
from hbconv.errors import InputError

__all__ = ["FrameFormat", "NamesOut", "place"]


def place(column: int) -> str:
    """Return what stands in a pattern for the name of an input column."""
    return f"\0{column}\0"


_PLACE = re.compile("\0(\\d{1,9})\0")


@dataclass(frozen=True)
class NamesOut:
    r"""Names of the columns that ``transform`` returns.

    Parameters
    ----------
    default : tuple of str
        Where the caller does not name the input columns.
    pattern : tuple of str
        The same, with places for the input columns' names; empty where these do not matter.
    checked : bool
        Names of the input columns must be those of fitting, or at least as many.

    Examples
    --------
    >>> names = NamesOut(("x0", "x0^2"), (place(0), place(0) + "^2"), checked=True)
    >>> names.of(["age"], Schema.matrix(1))
    ('age', 'age^2')
    """

    default: tuple[str, ...]
    pattern: tuple[str, ...] = ()
    checked: bool = False

    def of(self, given: Sequence[str] | None, schema: Schema) -> tuple[str, ...]:
        """Return the names for input columns of the given names; those of fitting for None.

        Raises
        ------
        InputError
            Other names than in fitting, or another number of them, where the source checks that.
        """
        if given is None:
            return self.default
        if self.checked and schema.named and tuple(given) != schema.names:
            raise InputError("input_features is not equal to feature_names_in_")
        if self.checked and len(given) != len(schema.columns):
            raise InputError(
                f"input_features should have length equal to number of features "
                f"({len(schema.columns)}), got {len(given)}"
            )
        return (
            tuple(
                _PLACE.sub(lambda found: str(given[int(found[1])]), name) for name in self.pattern
            )
            or self.default
        )

    @property
    def reads(self) -> set[int]:
        """Input columns whose names are in the pattern."""
        return {int(column) for name in self.pattern for column in _PLACE.findall(name)}


@dataclass(frozen=True)
class FrameFormat:
    """Format in which ``transform`` returns columns.

    Parameters
    ----------
    library : {"default", "pandas", "polars", "given", "rows", ""}
        "default" stands for arrays, "given" for frames of the library of the rows and arrays for
        other rows, "rows" for the rows themselves, and "" for the configuration of scikit-learn.
    names : tuple of str, or None
        Names of a frame's columns; None where the rows name them.
    renames : bool
        Columns of the rows are named anew, as the wrapper of scikit-learn's ``set_output`` does.
        Else an Index of pandas is that of the rows, with its dtype and name, where it fits.
    """

    library: str
    names: tuple[str, ...] | None
    renames: bool = False
