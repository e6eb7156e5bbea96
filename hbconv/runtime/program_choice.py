"""The choice of a program for rows of some dtypes: one that is there, if its answers are the same.

A service must not compile because a client sends ``30`` for ``30.0``. So rows are converted to the
dtypes of a program that is there, where the source model answers both alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from hbconv.containers import Graph
from hbconv.containers.schema import MOST_EXACT_INT, WEAK_INT, WIDER
from hbconv.errors import InputError, log_converted
from hbconv.lower import Padding
from hbconv.names import unknown
from hbconv.runtime.inputs.table import Reads, Table

__all__ = ["ChosenPrograms", "Conversion", "OnNewDtypes", "check_on_new_dtypes", "name_dtypes"]

Dtypes = tuple[str, ...]
Key = tuple[tuple[str, ...], Dtypes, Padding]

_REMEDY = (
    "Convert the rows, or allow a program for them: on_new_dtypes='compile', or "
    "model.compile(rows) beforehand."
)
OnNewDtypes = Literal["compile", "convert", "refuse"]
"""What a call does with rows that no program here answers as the source model does.

``"compile"`` makes a program for them. ``"convert"`` answers as the source model does for the rows
converted to a wider dtype, and refuses where there is none. ``"refuse"`` raises InputError.
"""


def check_on_new_dtypes(value: str) -> None:
    """Raise OptionError for anything else than what ``on_new_dtypes`` may be."""
    if value not in get_args(OnNewDtypes):
        raise unknown("on_new_dtypes", value, get_args(OnNewDtypes))


@dataclass(frozen=True)
class Conversion:
    """The dtypes that rows are converted to.

    Parameters
    ----------
    dtypes : tuple of str
    small : frozenset of int
        Columns of ints that must be within ``MOST_EXACT_INT``.
    """

    dtypes: Dtypes
    small: frozenset[int] = frozenset()


class ChosenPrograms:
    """Chooses programs for rows, and remembers what it chose.

    Parameters
    ----------
    graph : Graph
        As parsed.
    on_new_dtypes : {"compile", "convert", "refuse"}
    """

    def __init__(self, graph: Graph, on_new_dtypes: OnNewDtypes) -> None:
        self.graph = graph
        self.reads = Reads.of(graph)
        self.on_new_dtypes = on_new_dtypes
        self._choices: dict[Key, Conversion] = {}

    def converted(self, table: Table, methods: tuple[str, ...], there: Iterable[Key]) -> Table:
        """Return rows in the dtypes of the program that answers them.

        Parameters
        ----------
        table : Table
        methods : tuple of str
        there : iterable of Key
            Programs that are there.

        Raises
        ------
        InputError
            No program answers such rows as the source model does, and none may be compiled.
        """
        key = (methods, table.dtypes, table.padding)
        choice = self._choices.get(key)
        # Not remembered: dtypes of no rows say nothing of the rows to come.
        if choice is None and not table.rows and self.on_new_dtypes != "compile":
            return table.converted(self._of_no_rows(key, list(there)))
        if choice is None:
            choice = self._choose(key, list(there))
            self._choices[key] = choice
        if choice.dtypes == table.dtypes:
            return table
        beyond = table.beyond(choice.small, MOST_EXACT_INT)
        if beyond is None:
            return table.converted(choice.dtypes)
        if self.on_new_dtypes == "compile":
            return table
        raise InputError(
            f"{self.reads.where(beyond)} holds ints beyond 2**53, which float64 does not hold, and "
            f"this model has no program for ints. {_REMEDY}"
        )

    def remembered(
        self, methods: tuple[str, ...], given: Dtypes, padding: Padding
    ) -> Conversion | None:
        """Return what was chosen for rows of these dtypes; None if none came so far."""
        return self._choices.get((methods, given, padding))

    def asked(self, table: Table, methods: tuple[str, ...]) -> Table:
        """Return rows in the dtypes of a program that may be compiled for them."""
        choice = self._widened((methods, table.dtypes, table.padding))
        # A program that is about to be compiled may serve rows that were converted before.
        self._choices.clear()
        return table.converted(choice.dtypes)

    def _choose(self, key: Key, keys: list[Key]) -> Conversion:
        methods, wanted, padding = key
        # Rows that came as a sparse matrix may be computed otherwise by the source.
        alike = [(of, dtypes) for of, dtypes, form in keys if form.written == padding.written]
        of_method = [dtypes for of, dtypes in alike if of == methods]
        others = [dtypes for of, dtypes in alike if of != methods]
        # Programs of this method first: others have yet to be compiled for it.
        there = list(dict.fromkeys((*of_method, *others)))
        if wanted in of_method or (wanted in there and not of_method):
            return Conversion(wanted)
        for dtypes in there:
            conversion = self._conversion(key, dtypes)
            if conversion is not None:
                return conversion
        if self.on_new_dtypes == "compile" or not there:
            return self._widened(key)
        wider = next((dtypes for dtypes in there if self._holds(dtypes, wanted)), None)
        if self.on_new_dtypes == "convert" and wider is not None:
            log_converted(self.reads.owner, self._named(wanted), self._named(wider))
            return Conversion(wider, self._ints(wanted, wider))
        compiled = " and for ".join(map(self._named, there))
        raise InputError(
            f"The rows are of {self._named(wanted)}, and this model was compiled for {compiled}. "
            f"{self.reads.owner} may answer such rows otherwise. {_REMEDY}"
        )

    def _of_no_rows(self, key: Key, there: list[Key]) -> Dtypes:
        """Choose for no rows, whose dtypes may be those of an empty list: any program will do."""
        try:
            return self._choose(key, there).dtypes
        except InputError:
            return next(dtypes for _, dtypes, _ in there)

    def _holds(self, dtypes: Dtypes, given: Dtypes) -> bool:
        pairs = zip(self._read(given, dtypes), dtypes, strict=True)
        return all(narrow == wide or wide in WIDER.get(narrow, ()) for narrow, wide in pairs)

    def _conversion(self, key: Key, dtypes: Dtypes) -> Conversion | None:
        """Return the conversion to other dtypes that changes no answer."""
        from hbconv.containers.widening import Widening, find_widening

        methods, given, padding = key
        graph = self.graph.for_rows(sparse=padding.matrix or padding.written).only(*methods)
        widening = find_widening(graph, self._read(given, dtypes), dtypes)
        if widening is None:
            return None
        small = self._ints(given, dtypes) if widening is Widening.SMALL else frozenset()
        return Conversion(dtypes, small)

    def _widened(self, key: Key) -> Conversion:
        """Choose floats for ints where that changes no answer: one program for both."""
        given = key[1]
        dtypes = tuple("float64" if dtype in ("int64", WEAK_INT) else dtype for dtype in given)
        return (
            Conversion(given)
            if dtypes == given
            else self._conversion(key, dtypes) or Conversion(given)
        )

    def _read(self, given: Sequence[str], dtypes: Sequence[str]) -> Dtypes:
        """Take over the dtypes of columns whose dtype does not count."""
        pairs = enumerate(zip(given, dtypes, strict=True))
        return tuple(own if i in self.reads.typed else other for i, (own, other) in pairs)

    def _ints(self, given: Sequence[str], dtypes: Sequence[str]) -> frozenset[int]:
        read = self._read(given, dtypes)
        return frozenset(i for i, own in enumerate(read) if own == "int64" != dtypes[i])

    def _named(self, dtypes: Sequence[str]) -> str:
        """Say the dtypes of the columns that are read as numbers."""
        return name_dtypes(dtypes, self.reads.numbers)


def name_dtypes(dtypes: Sequence[str], columns: Iterable[int]) -> str:
    """Say the dtypes of some columns: one for all, or how many have which.

    Examples
    --------
    >>> name_dtypes(["float64", "string", "int64"], [0, 2])
    'float64 (1 column), int64 (1)'
    >>> name_dtypes(["float64"] * 3, range(3))
    'float64'
    """
    counts = Counter(dtypes[i] for i in sorted(columns))
    if len(counts) < 2:
        return next(iter(counts), "text")
    (first, many), *others = counts.items()
    said = [f"{first} ({many} column{'s' if many > 1 else ''})"]
    return ", ".join([*said, *(f"{dtype} ({count})" for dtype, count in others)])
