"""Places: where the columns that a model reads stand in a table, found as its source finds them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Protocol

from hbconv.containers import Schema
from hbconv.errors import InputError
from hbconv.runtime.inputs.table import Reads

__all__ = ["Named", "find_places", "finds_silently", "require_width", "unnamed_rows", "warn"]

__warningregistry__: dict[Any, Any] = {}
"""What Python remembers of the warnings of this file, as of those of every file."""
_MEND = "Give X[list(model.feature_names_in_)]"


class Named(Protocol):
    """A table as its names show it; ``ordered`` is False for mappings."""

    @property
    def names(self) -> tuple[Any, ...]:
        """Names of the columns."""

    @property
    def ordered(self) -> bool:
        """Whether they have an order."""


def find_places(frame: Named, reads: Reads) -> dict[int, int]:
    """Return the position in the table of each column of the schema.

    Columns that are not needed may be absent.

    A model fitted on names finds them as its source model does (``Schema.finds``). In a mapping,
    which has no order, it finds them by name. Without names it takes columns by position.

    Raises
    ------
    InputError
        The width differs, or columns are missing, repeated, unexpected or in another order, and the
        source model refuses that or would read the wrong column.
    """
    names, finds = _names(frame, reads.schema), reads.schema.finds
    if names is not None and frame.ordered and finds == "positions":
        _require_places(names, reads)
    if names is None or not reads.schema.named:
        return _by_position(frame, reads)
    if frame.ordered and finds == "positions":
        return _whatever_names(names, reads)
    if frame.ordered and finds == "names in order":
        _require_order(names, reads)
    if not frame.ordered and finds != "names":
        _require_known(names, reads, [reads.schema.names[i] for i in sorted(reads.needed)])
    return _by_name(names, reads)


def finds_silently(frame: Named, reads: Reads) -> bool:
    """Whether the columns of a table are found by their names, or refused, but never warned of."""
    if reads.schema.conventions.items:
        return True
    texts = [isinstance(name, str) for name in frame.names]
    if not reads.schema.named:
        return not any(texts)
    if not all(texts):
        return False
    by_position = frame.ordered and reads.schema.finds == "positions"
    return not by_position or frame.names == reads.schema.names


def _names(frame: Named, schema: Schema) -> tuple[str, ...] | None:
    """Return the names of a table as the source model reads them; None if it has none.

    scikit-learn ignores names that are numbers.
    """
    texts = [isinstance(name, str) for name in frame.names]
    if not schema.conventions.names_as_text and not all(texts):
        # scikit-learn refuses mixed names too.
        if any(texts):
            raise InputError(
                "Column names mix text and other types. Make them all text: X.columns = "
                "X.columns.astype(str)."
            )
        return None
    underscored = schema.conventions.underscored
    return (
        tuple(str(name).replace(" ", "_") if underscored else str(name) for name in frame.names)
        or None
    )


def _by_position(frame: Named, reads: Reads) -> dict[int, int]:
    require_width(len(frame.names), reads)
    if reads.schema.named:
        warn(unnamed_rows(reads))
    elif frame.names and all(isinstance(name, str) for name in frame.names):
        warn(f"X has feature names, but {reads.owner} was fitted without feature names")
    return _everywhere(reads)


def _everywhere(reads: Reads) -> dict[int, int]:
    return {i: i for i in range(len(reads.schema.columns))}


def _whatever_names(names: Sequence[str], reads: Reads) -> dict[int, int]:
    require_width(len(names), reads)
    if tuple(names) != reads.schema.names:
        warn(
            f"X has other feature names than {reads.owner} was fitted with, which reads columns by "
            "position"
        )
    return _everywhere(reads)


def _require_places(names: Sequence[str], reads: Reads) -> None:
    """Refuse a name that was fitted at another position.

    A source model that ignores names would take it for another column.
    """
    fitted = {name: i for i, name in enumerate(reads.schema.names)}
    # An unknown name counts as renamed; a known one elsewhere as moved.
    wrong = next(((i, name) for i, name in enumerate(names) if fitted.get(name, i) != i), None)
    if wrong is not None:
        stands = (
            f"Column {wrong[1]!r} stands at position {wrong[0]}, and stood at {fitted[wrong[1]]} "
            "in fitting"
        )
        mend = (
            f"{_MEND}, or" if reads.schema.named else "Give the columns in the order of fitting, or"
        )
        raise InputError(
            f"{stands}: {reads.owner} reads columns by position, and would take it for another. "
            f"{mend} X.to_numpy() for them as they stand."
        )


def _require_order(names: Sequence[str], reads: Reads) -> None:
    """Refuse what the source refuses: columns besides those fitted on, and another order."""
    _require_known(names, reads, reads.schema.names)
    if len(names) == len(reads.schema.names) and tuple(names) != reads.schema.names:
        raise InputError(
            f"The columns are in another order ({_some(names)}) than {reads.owner} was fitted on. "
            f"{_MEND}."
        )


def _require_known(names: Sequence[str], reads: Reads, wanted: Sequence[str]) -> None:
    """Refuse columns besides those fitted on, and those that are wanted and missing."""
    fitted_names = set(reads.schema.names)
    besides = [name for name in names if name not in fitted_names]
    missing = [name for name in wanted if name not in names]
    if missing:
        unexpected = f" Not fitted on: {_some(besides)}." if besides else ""
        raise InputError(
            f"Columns are missing: {', '.join(map(repr, missing))}. The table has "
            f"{_some(names)}.{unexpected}"
        )
    if besides:
        raise InputError(
            f"{reads.owner} was not fitted on the columns {_some(besides)}, and refuses them. "
            f"{_MEND}."
        )


def _by_name(names: Sequence[str], reads: Reads) -> dict[int, int]:
    """Return the place of each column by its name; those not needed may be missing."""
    wanted, places = reads.schema.names, dict[str, list[int]]()
    for position, name in enumerate(names):
        places.setdefault(name, []).append(position)
    missing = [name for i, name in enumerate(wanted) if i in reads.needed and name not in places]
    if missing:
        raise InputError(
            f"Columns are missing: {', '.join(map(repr, missing))}. The table has {_some(names)}."
        )
    twice = [name for name in wanted if len(places.get(name, ())) > 1]
    if twice:
        raise InputError(
            f"Columns stand more than once in the table: {', '.join(map(repr, twice))}. Rename or "
            "drop the others."
        )
    return {i: places[name][0] for i, name in enumerate(wanted) if name in places}


def require_width(width: int, reads: Reads) -> None:
    """Refuse rows of another number of columns than the source was fitted on."""
    expected = len(reads.schema.columns)
    if width != expected:
        raise InputError(f"X has {width} columns, but {reads.owner} expects {expected}.")


def unnamed_rows(reads: Reads) -> str:
    """Return the warning of a source model fitted on names, for rows that have none."""
    return f"X does not have valid feature names, but {reads.owner} was fitted with feature names"


def warn(message: str) -> None:
    """Warn as the source does, at each call. Finding the caller would take a microsecond."""
    warnings.warn_explicit(message, UserWarning, __file__, 1, __name__, __warningregistry__)


def _some(names: Sequence[Any]) -> str:
    listed = ", ".join(map(repr, names[:20]))
    return (
        listed + (f" and {len(names) - 20} more" if len(names) > 20 else "")
        if names
        else "no columns"
    )
