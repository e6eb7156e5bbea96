"""Ranks: sets of codes that lie one in the other, as thresholds on one number for each code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import Bins, Recode
from hbconv.optimize.rules.move_tests.lineage import Ref
from hbconv.optimize.rules.move_tests.new_columns import side_by_side
from hbconv.optimize.rules.move_tests.places import CategorySets, Destination
from hbconv.optimize.rules.move_tests.switches import Switches

__all__ = ["rank_codes"]

DTYPE = "float32"
"""Dtype of ranks: there are fewer than 2**16 codes."""


@dataclass(frozen=True, eq=False)
class _Ranked:
    """A column of codes, the rank of each code, and the thresholds of the columns made of it."""

    cut: Ref
    ranks: npt.NDArray[np.int64]
    thresholds: dict[int, npt.NDArray[np.int64]]

    @property
    def in_order(self) -> bool:
        """Whether codes are their own ranks."""
        return bool((np.diff(self.ranks) == 1).all())


def rank_codes(places: Sequence[Destination]) -> list[Destination]:
    """Write tests for sets of codes as tests on ranks, where the sets lie one in the other.

    The sets of one function of a code always do: each holds the codes up to a threshold. Trees
    decide a threshold faster than a set, on every backend. A code's rank is the number of sets that
    it is not in, and the set in place j holds the ranks up to j. Where sets hold the first codes,
    codes are compared themselves. Bins in order need no codes.
    """
    sets = {
        place.column: place
        for place in places
        if isinstance(place.written, CategorySets) and not isinstance(place.cut[0], Bins)
    }
    cuts = dict.fromkeys(place.cut for place in sets.values())
    ranked = [_ranked([p for p in sets.values() if p.cut == cut]) for cut in cuts]
    found = [columns for columns in ranked if columns is not None]
    cut_of = _written([columns for columns in found if not columns.in_order])
    for columns in found:
        cut = cut_of.get(columns.cut, columns.cut)
        for column, threshold in columns.thresholds.items():
            sets[column] = replace(sets[column], cut=cut, written=_switches(threshold))
    return [sets.get(place.column, place) for place in places]


def _ranked(places: Sequence[Destination]) -> _Ranked | None:
    """Rank the codes of one column; None if its sets do not lie one in the other.

    1. Sort the distinct sets by size.
    2. Count for each code the sets that it is not in.
    3. If no code has a lower rank than the code before, the codes stand for the ranks.
    """
    written = [p.written for p in places if isinstance(p.written, CategorySets)]
    distinct, number = np.unique(
        np.concatenate([w.goes_left for w in written]), axis=0, return_inverse=True
    )
    order = np.argsort(distinct.sum(axis=1), kind="stable")  # 1
    nested = distinct[order]
    if (nested[:-1] & ~nested[1:]).any():
        return None
    ranks = (~nested).sum(axis=0)  # 2
    place_of = np.argsort(order)[number.reshape(-1)]
    if (np.diff(ranks) >= 0).all():  # 3
        least = written[0].least
        place_of = nested.sum(axis=1)[place_of] + least - 1
        ranks = np.arange(nested.shape[1]) + least
    cuts = np.cumsum([len(w.goes_left) for w in written])[:-1]
    parts = np.split(place_of, cuts)
    columns = [place.column for place in places]
    return _Ranked(places[0].cut, ranks, dict(zip(columns, parts, strict=True)))


def _written(columns: Sequence[_Ranked]) -> dict[Ref, Ref]:
    """Look up the ranks of all columns at once, and return where those of each are."""
    if not columns:
        return {}
    codes = side_by_side([ranked.cut for ranked in columns])
    ranks = Recode(codes, tuple(Array.of(ranked.ranks, DTYPE) for ranked in columns))
    return {ranked.cut: (ranks, j) for j, ranked in enumerate(columns)}


def _switches(threshold: npt.NDArray[np.int64]) -> Switches:
    never = np.zeros(len(threshold), bool)
    return Switches(threshold.astype(np.float64), mirrored=never, default_left=never)
