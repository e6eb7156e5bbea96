"""CatBoost's statistics of the target by category (its CTRs), from the tables of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import current_step
from hbconv.errors import ConversionError, UnsupportedError
from hbconv.parse.damage import finite_numbers
from hbconv.system.files import read_json

__all__ = [
    "CATEGORY",
    "ONE",
    "TEST",
    "Element",
    "Statistic",
    "read_statistics",
    "refuse_two_binarizations",
    "require_ascending",
]

Floats = npt.NDArray[np.float32]
Numbers = npt.NDArray[np.float64]
Hashes = npt.NDArray[np.int64]

CATEGORY = "cat_feature_value"
"""Kind of an element: the hash of a category."""
TEST = "float_feature"
"""Kind of an element: whether a number is above a border."""
ONE = "cat_feature_exact_value"
"""Kind of an element: whether a category is a certain one."""

OPERANDS: Mapping[str, tuple[str, str | None]] = {
    CATEGORY: ("cat_feature_index", None),
    TEST: ("float_feature_index", "border"),
    ONE: ("cat_feature_index", "value"),
}
"""Keys of the feature of an element and of what it is compared with, by its kind.

Elements are hashed in this order of their kinds.
"""

FREQUENCIES = ("Counter", "FeatureFreq")
MEANS = ("BinarizedTargetMeanValue", "FloatTargetMeanValue")
SHARES = ("Borders", "Buckets")
"""Kinds of statistics, by what their tables count."""

EMPTY = "18446744073709551615"
"""Stands in a table for the hash of an entry that is free."""

MOST_COUNTED = 2**31 - 1


@dataclass(frozen=True)
class Element:
    """One of the numbers that are hashed together.

    Parameters
    ----------
    kind : str
        The hash of a category, or whether a number is above a border, or whether a category is one.
    feature : int
        Number of the feature, among those of categories or those of numbers.
    value : float or None
        What it is compared with: the border, or the hash of a category.
    """

    kind: str
    feature: int
    value: float | None


@dataclass(frozen=True)
class Statistic:
    """A number that trees read in place of a category, or of several together.

    Parameters
    ----------
    elements : tuple of Element
        What is hashed, in its order: categories first.
    hashes : Array of int64
        The hashes that the table holds, ascending.
    values : Array of float32
        For none of them, then for each.
    target : int
        Class whose share it is; classes of a number are those between borders.
    borders : tuple of float
        What trees compare it with.
    """

    elements: tuple[Element, ...]
    hashes: Array
    values: Array
    target: int
    borders: tuple[float, ...]


@dataclass(frozen=True)
class CountTable:
    """What was counted for each hash: (n_hashes, stride - 1), ordered by the hashes."""

    hashes: Hashes
    counts: Numbers
    denominator: int

    @cached_property
    def is_whole(self) -> bool:
        """Whether all of it are counts."""
        whole = (self.counts == np.floor(self.counts)) & (self.counts <= MOST_COUNTED)
        return bool(((self.counts >= 0) & whole).all())


def read_statistics(
    features: Mapping[str, Any], tables: Mapping[str, Any] | None
) -> tuple[Statistic, ...]:
    """Read the statistics of ``features_info``, whose tables are ``ctr_data``.

    Raises
    ------
    ConversionError
        A table contradicts itself, or the features.
    UnsupportedError
        There are no tables, or one counts what hbconv does not know.
    """
    if features.get("ctrs") and not tables:
        hint = "The model lacks the tables of its statistics. Fit with 'Default'."
        parameter = "final_ctr_computation_mode"
        raise UnsupportedError("CatBoost", current_step(), parameter, "Skip", hint)
    # Measured: predictions were off by 0.7 where the file kept one table of two.
    _refuse_shared_tables(features.get("ctrs") or ())
    counts = {
        name: _table(name, (tables or {}).get(name))
        # Several statistics differ in prior and borders alone, and read one table.
        for name in dict.fromkeys(ctr["identifier"] for ctr in features.get("ctrs") or ())
    }
    return tuple(_statistic(ctr, counts[ctr["identifier"]]) for ctr in features.get("ctrs") or ())


def _refuse_shared_tables(ctrs: Sequence[Mapping[str, Any]]) -> None:
    """Refuse statistics that the file tells apart by nothing: it keeps one table of theirs.

    CatBoost's own answer to such a file is another than the model's.
    """
    keys = ("target_border_idx", "prior_numerator", "prior_denomerator", "shift", "scale")
    identities = [(ctr["identifier"], *(ctr[key] for key in keys)) for ctr in ctrs]
    if len(set(identities)) < len(identities):
        raise _lost_table(ctrs[0].get("ctr_type"))


def refuse_two_binarizations(categories: Mapping[str, Any]) -> None:
    """Refuse statistics of one type by several ``TargetBorderCount``: the file keeps one table.

    Parameters
    ----------
    categories : mapping
        ``cat_feature_params`` of the model's parameters.
    """
    lists = [
        categories.get("simple_ctrs") or (),
        categories.get("combinations_ctrs") or (),
        *(categories.get("per_feature_ctrs") or {}).values(),
    ]
    for ctrs in lists:
        counts: dict[str, Any] = {}
        for ctr in ctrs:
            name = ctr["ctr_type"]
            if counts.setdefault(name, ctr.get("target_binarization")) != ctr.get(
                "target_binarization"
            ):
                raise _lost_table(name)


def _lost_table(kind: object) -> UnsupportedError:
    hint = (
        "CatBoost writes one table for several statistics of this type. Give each type one "
        "TargetBorderCount, or sum models with another ctr_merge_policy than 'KeepAllTables'."
    )
    return UnsupportedError("CatBoost", current_step(), "simple_ctr", kind, hint)


def require_ascending(borders: Sequence[Any], of: str) -> None:
    """Refuse borders that are no ascending numbers."""
    if (np.diff(finite_numbers(borders)) <= 0).any():
        raise ConversionError(f"The CatBoost model is damaged: the borders of {of} do not ascend.")


def _statistic(ctr: Mapping[str, Any], table: CountTable) -> Statistic:
    identifier = read_json(ctr["identifier"])
    if identifier != {"identifier": ctr["elements"], "type": ctr["ctr_type"]}:
        raise _damaged(ctr["identifier"], "is named after other elements than it has")
    values = _values(ctr, table)
    require_ascending(ctr["borders"], f"the statistic {ctr['identifier']:.200}")
    return Statistic(
        # The file lists elements in another order than they are hashed in.
        tuple(sorted(map(_element, ctr["elements"]), key=lambda e: [*OPERANDS].index(e.kind))),
        Array(table.hashes),
        Array(values),
        ctr["target_border_idx"],
        tuple(ctr["borders"]),
    )


def _element(element: Mapping[str, Any]) -> Element:
    kind = element["combination_element"]
    if kind not in OPERANDS:
        raise UnsupportedError(
            "CatBoost",
            current_step(),
            "combination_element",
            kind,
            f"hbconv handles {', '.join(OPERANDS)}.",
        )
    feature, value = OPERANDS[kind]
    return Element(kind, element[feature], None if value is None else element[value])


def _table(name: str, table: Mapping[str, Any] | None) -> CountTable:
    """Read the entries of a table that are not free, by their hashes."""
    if table is None:
        raise _damaged(name, "has no table in ctr_data")
    stride = table["hash_stride"]
    flat = table["hash_map"]
    # Each entry is a hash and at least one number; anything else would shift all later entries.
    if type(stride) is not int or stride < 2 or len(flat) % stride:
        raise _damaged(name, f"has {len(flat)} numbers in entries of {stride!r:.20}")
    written = flat[::stride]
    if not all(type(h) is str and h.isascii() and h.isdecimal() for h in written):
        raise _damaged(name, "has a hash that is no text of digits")
    # Only texts of 20 digits may exceed 64 bits: so few are parsed here.
    if any(int(h) > int(EMPTY) for h in written if len(h) >= len(EMPTY)):
        raise _damaged(name, "has a hash beyond 64 bits")
    taken = np.array([h != EMPTY for h in written], np.bool_)
    # Texts of digits go through uint64, since half of the hashes exceed int64.
    hashes = np.array(written, np.str_).astype(np.uint64).view(np.int64)[taken]
    counts = np.stack([finite_numbers(flat[i::stride]) for i in range(1, stride)], axis=1)[taken]
    order = np.argsort(hashes)
    if (np.diff(hashes[order]) == 0).any():
        raise _damaged(name, "holds a hash twice")
    return CountTable(hashes[order], counts[order], table.get("counter_denominator", 0))


def _values(ctr: Mapping[str, Any], table: CountTable) -> Floats:
    """Compute the statistic of no entry, then of each, as CatBoost does in float32.

    ``((counted + prior) / (all + denominator) + shift) * scale``
    """
    counted, whole = _counts(ctr, table)
    prior, below, shift, scale = finite_numbers(
        [ctr[name] for name in ("prior_numerator", "prior_denomerator", "shift", "scale")]
    ).astype(np.float32)
    with np.errstate(all="ignore"):  # priors may be 0
        # Each step is rounded to float32, in this order: borders were chosen among these values.
        values: Floats = ((counted + prior) / (whole + below) + shift) * scale
    return values


def _counts(ctr: Mapping[str, Any], table: CountTable) -> tuple[Floats, Floats]:
    """Return what is divided by what: for no entry, which counts nothing, then for each."""
    kind = ctr["ctr_type"]
    _require_counts(ctr, table)
    every = np.concatenate([np.zeros((1, table.counts.shape[1])), table.counts])
    if kind in FREQUENCIES:
        return _narrow(every[:, 0], np.full(len(every), table.denominator))
    if kind in MEANS:
        return _narrow(every[:, 0], every[:, 1])
    place = ctr["target_border_idx"]
    # Buckets count one class; Borders count all classes above one.
    counted = every[:, place] if kind == "Buckets" else every[:, place + 1 :].sum(axis=1)
    return _narrow(counted, every.sum(axis=1))


def _narrow(counted: npt.NDArray[Any], whole: npt.NDArray[Any]) -> tuple[Floats, Floats]:
    return counted.astype(np.float32), whole.astype(np.float32)


def _require_counts(ctr: Mapping[str, Any], table: CountTable) -> None:
    """Refuse a table that does not count what its kind divides."""
    name = ctr["identifier"]
    kind = ctr["ctr_type"]
    width = table.counts.shape[1]
    if kind not in (*FREQUENCIES, *MEANS, *SHARES):
        handled = ", ".join((*SHARES, *MEANS, *FREQUENCIES))
        hint = f"hbconv handles {handled}."
        raise UnsupportedError("CatBoost", current_step(), "simple_ctr", kind, hint)
    # A frequency counts rows; a mean has a sum and a count; shares count each class.
    needed = {**dict.fromkeys(FREQUENCIES, 1), **dict.fromkeys(MEANS, 2)}
    if width != needed.get(kind, max(width, 2)):
        raise _damaged(name, f"counts {width} numbers")
    if kind not in MEANS and not table.is_whole:
        raise _damaged(name, "has a count that is no whole number of 31 bits")
    if type(table.denominator) is not int or not 0 <= table.denominator <= MOST_COUNTED:
        raise _damaged(name, f"has counter_denominator={table.denominator!r:.20}")
    place = ctr["target_border_idx"]
    if kind in SHARES and (type(place) is not int or not 0 <= place < width):
        raise _damaged(name, f"has target_border_idx={place!r:.20}")


def _damaged(name: object, what: str) -> ConversionError:
    return ConversionError(f"The CatBoost model is damaged: the statistic {name!s:.200} {what}.")
