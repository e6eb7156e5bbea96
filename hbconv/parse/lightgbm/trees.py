"""LightGBM's trees as a Forest: thresholds, category sets, missing rules, linear leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    FIRST_CODE,
    Affine,
    Cast,
    CategoryCodes,
    Concat,
    FindCode,
    MissingBetween,
    Node,
    Select,
)
from hbconv.errors import ConversionError
from hbconv.parse.common.node_tables import (
    FlatTrees,
    assemble,
    category_sizes,
    category_tables,
    cover_forest,
)
from hbconv.trees.covered_forest import CoveredForest
from hbconv.trees.forest import CategoryTables, Forest, Slopes

__all__ = ["DAMAGED", "Views", "read_trees"]

DAMAGED = "The LightGBM model text is damaged: {}."

# LightGBM writes kZeroThreshold as 1e-35f, so it has the value that float32 rounds to.
ZERO = float(np.float32(1e-35))
"""Largest absolute value that LightGBM's predictor counts as zero."""

CATEGORICAL = 1
DEFAULT_LEFT = 2
MISSING_ZERO = 4
MISSING_NAN = 8
"""Bits of ``decision_type``."""

PLAIN, NO_ZEROS, CATEGORY = range(3)
"""What a test reads: the value; the value, or NaN for zero; the code of the category."""

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Tree = Mapping[str, str]


@dataclass(frozen=True)
class Views:
    """What the columns become before the trees read them.

    A feature that splits read in several ways has a column for each way.

    Parameters
    ----------
    source : Array of int32, shape (n_columns,)
        Feature behind each column; the features themselves come first.
    kind : Array of int64, shape (n_columns,)
        PLAIN, NO_ZEROS or CATEGORY.
    multiplied : Array of bool, shape (n_columns,)
        Whether linear leaves multiply the column, so that a value near zero must be zero.
    codes : Codes
        What makes codes of categories.
    """

    source: Array
    kind: Array
    multiplied: Array
    codes: Codes

    def of(self, x: Node) -> Node:
        """Make the columns from x, which holds the features as floats."""
        # Features that splits read in one way need no columns of their own.
        if len(self.source) > x.type.width:
            x = Select(x, self.source)
        for columns, fill in ((self.multiplied.data, 0.0), (self.kind.data == NO_ZEROS, np.nan)):
            if columns.any():
                x = MissingBetween.of(
                    x, np.where(columns, -ZERO, np.nan), np.where(columns, ZERO, np.nan), fill
                )
        return self.codes.of(x)


def read_trees(
    trees: Sequence[Tree], n_features: int, n_outputs: int
) -> tuple[Forest, Views, CoveredForest | None]:
    """Read the settings of the trees; tree t adds to output ``t % n_outputs``.

    The covers are left out where the text does not have them, and for linear leaves.

    Raises
    ------
    ConversionError
        Arrays of the wrong length, or such that are no trees.
    """
    leaves = np.array([int(tree["num_leaves"]) for tree in trees], dtype=np.int64)
    _require_sizes(trees, leaves)
    feature = _join_arrays(trees, "split_feature", np.int64)
    threshold = _join_arrays(trees, "threshold", np.float64)
    decision = _join_arrays(trees, "decision_type", np.int64)
    values = _join_arrays(trees, "leaf_value", np.float64)
    if np.any((feature < 0) | (feature >= n_features)):
        raise ConversionError(
            DAMAGED.format(f"a test reads a column that does not exist (there are {n_features})")
        )
    # Two bits tell the missing type; the value 3 is none (found in 1 of 30,000 hostile files).
    if np.any((decision < 0) | (decision >= MISSING_ZERO | MISSING_NAN)):
        raise ConversionError(DAMAGED.format("a decision_type is none"))
    slopes = _slopes(trees, leaves, values)
    kind = _kinds(feature, threshold, decision)
    multiplied = np.unique(slopes.feature.data) if slopes else np.zeros(0, np.int64)
    column, source, kinds = _columns(feature, kind, multiplied, n_features)
    tables, column, codes = _category_sets(trees, leaves, threshold, kind == CATEGORY).tables(
        column, len(source)
    )
    left, right = (
        _children(_join_arrays(trees, key, np.int64), leaves)
        for key in ("left_child", "right_child")
    )
    if slopes and not (
        0 <= slopes.feature.data.min(initial=0) <= slopes.feature.data.max(initial=0) < n_features
    ):
        raise ConversionError(
            DAMAGED.format(
                f"a linear leaf reads a column that does not exist (there are {n_features})"
            )
        )
    first_leaf = np.cumsum(leaves) - leaves
    first_test = np.cumsum(leaves - 1) - (leaves - 1)
    flat = FlatTrees(
        feature=column,
        threshold=_past_zero(threshold),
        default_left=_default_left(threshold, decision),
        left=left,
        right=right,
        roots=np.where(leaves > 1, first_test, ~first_leaf),
        values=values[:, None],
        leaf_id=np.arange(len(values)) - np.repeat(first_leaf, leaves),
        tables=tables,
        slopes=slopes,
    )
    forest = assemble(
        flat,
        np.zeros(n_outputs),
        strict=False,
        n_features=len(source) + len(codes.sparse),
        target=np.arange(len(trees)) % n_outputs,
    )
    views = Views(
        Array.of(source, np.int32),
        Array(kinds),
        Array(np.isin(np.arange(len(source)), multiplied)),
        codes,
    )
    shares = _shares(trees, leaves, left, right)
    return forest, views, shares and cover_forest(forest, shares, feature, n_features)


def _shares(
    trees: Sequence[Tree], leaves: Ints, left: Ints, right: Ints
) -> tuple[Floats, Floats] | None:
    """Return the part of the training rows of each split that went left, and right."""
    if not all({"internal_count", "leaf_count"} <= tree.keys() for tree in trees):
        return None
    # A tree of one leaf has no tests to count.
    tests = _join_arrays(
        [tree for tree in trees if int(tree["num_leaves"]) > 1], "internal_count", np.int64
    )
    ends = _join_arrays(trees, "leaf_count", np.int64)
    if len(tests) != len(left) or len(ends) != leaves.sum():
        raise ConversionError(DAMAGED.format("internal_count or leaf_count has the wrong length"))
    with np.errstate(all="ignore"):  # a split without rows has no shares, which cover_forest sees
        left_share, right_share = (
            np.where(side >= 0, tests[side * (side >= 0)], ends[~side * (side < 0)]) / tests
            for side in (left, right)
        )
    return left_share, right_share


def _require_sizes(trees: Sequence[Tree], leaves: Ints) -> None:
    for key, less in {
        "leaf_value": 0,
        "split_feature": 1,
        "threshold": 1,
        "decision_type": 1,
        "left_child": 1,
        "right_child": 1,
    }.items():
        counts = [tree[key].count(" ") + bool(tree[key]) for tree in trees]
        if not np.array_equal(counts, leaves - less):
            raise ConversionError(DAMAGED.format(f"{key} has the wrong length"))


def _join_arrays(trees: Sequence[Tree], key: str, dtype: type[np.generic]) -> npt.NDArray[Any]:
    """Concatenate one array of all trees."""
    text = " ".join(tree[key] for tree in trees if tree[key])
    # fromstring stops at what is no number, so lengths are compared below.
    numbers = np.fromstring(text, dtype=dtype, sep=" ")
    if len(numbers) != text.count(" ") + bool(text):
        raise ConversionError(DAMAGED.format(f"{key} holds a value that is not a number"))
    return numbers


def _children(within: Ints, leaves: Ints) -> Ints:
    """Return children numbered over the whole forest; leaves are negative."""
    tests = leaves - 1
    if np.any((within >= np.repeat(tests, tests)) | (within < -np.repeat(leaves, tests))):
        raise ConversionError(DAMAGED.format("a child is in no tree, or in another"))
    first_test = np.repeat(np.cumsum(tests) - tests, tests)
    first_leaf = np.repeat(np.cumsum(leaves) - leaves, tests)
    return np.where(within >= 0, within + first_test, within - first_leaf)


def _past_zero(threshold: Floats) -> Floats:
    """Return thresholds that send x where LightGBM sends ``0 if abs(x) <= ZERO else x``.

    Examples
    --------
    >>> _past_zero(np.array([0.0, -0.0, 1e-36, 0.5])).tolist() == [ZERO, ZERO, ZERO, 0.5]
    True
    >>> bool(np.all(_past_zero(np.array([-ZERO, -1e-36])) < -ZERO))
    True
    """
    # LightGBM takes values up to ZERO for 0, so a threshold from 0 on sends all of these left.
    above = np.where((threshold >= 0) & (threshold < ZERO), ZERO, threshold)
    # Just below -ZERO, since values down to -ZERO count as 0 and go right.
    return np.where((above < 0) & (above >= -ZERO), np.nextafter(-ZERO, -np.inf), above)


def _default_left(threshold: Floats, decision: Ints) -> npt.NDArray[np.bool_]:
    """Return where NaN goes: as the split says, but as zero with missing type None."""
    return np.where(
        decision & (MISSING_ZERO | MISSING_NAN) > 0, decision & DEFAULT_LEFT > 0, threshold >= 0
    )


def _kinds(feature: Ints, threshold: Floats, decision: Ints) -> Ints:
    """Tell what each split reads.

    With missing type Zero, zero goes the way of NaN.
    That matters where the threshold sends zero elsewhere.
    Other splits of such a feature treat zero and NaN alike, and also read it without zeros.
    """
    on_category = decision & CATEGORICAL > 0
    sent_elsewhere = ~on_category & ((decision & DEFAULT_LEFT > 0) != (threshold >= 0))
    without = np.unique(feature[sent_elsewhere & (decision & MISSING_ZERO > 0)])
    tells_apart = sent_elsewhere & (decision & MISSING_NAN > 0)
    return np.where(
        on_category, CATEGORY, np.where(np.isin(feature, without) & ~tells_apart, NO_ZEROS, PLAIN)
    )


def _columns(
    feature: Ints, kind: Ints, multiplied: Ints, n_features: int
) -> tuple[Ints, Ints, Ints]:
    """Give each kind of a feature that is read a column; the first kind keeps the feature's own.

    Returns the column of each split, and the feature and kind of each column.

    Examples
    --------
    >>> _columns(np.array([1, 1, 0]), np.array([NO_ZEROS, CATEGORY, PLAIN]), np.array([0]), 3)
    (array([1, 3, 0]), array([0, 1, 2, 1]), array([0, 1, 0, 2]))
    """
    # One number for each pair of feature and kind, in the order of features.
    wanted = feature * 3 + kind
    pairs = np.unique(np.concatenate([wanted, multiplied * 3 + PLAIN]))
    source = pairs // 3
    kinds = pairs % 3
    # A second kind of the same feature follows the first, so equal neighbours are the further ones.
    extra = np.diff(source, prepend=-1) == 0
    place = np.where(extra, n_features - 1 + np.cumsum(extra), source)
    first_kinds = np.full(n_features, PLAIN)
    first_kinds[source[~extra]] = kinds[~extra]
    return (
        place[np.searchsorted(pairs, wanted)],
        np.concatenate([np.arange(n_features), source[extra]]),
        np.concatenate([first_kinds, kinds[extra]]),
    )


def _category_sets(
    trees: Sequence[Tree], leaves: Ints, threshold: Floats, on_category: npt.NDArray[np.bool_]
) -> CategorySets:
    """Read the sets; a categorical split has the number of its set as threshold."""
    sets = np.array([int(tree["num_cat"]) for tree in trees], dtype=np.int64)
    with_sets = [tree for tree in trees if int(tree["num_cat"])]
    bounds = _join_arrays(with_sets, "cat_boundaries", np.int64)
    words = _join_arrays(with_sets, "cat_threshold", np.int64)
    # Bounds start from 0 in each tree, so the difference between trees is not positive.
    sizes = np.diff(bounds)[np.diff(bounds) > 0] if len(bounds) else bounds
    if (
        len(bounds) != sets.sum() + len(with_sets)
        or len(sizes) != sets.sum()
        or sizes.sum() != len(words)
    ):
        raise ConversionError(
            DAMAGED.format("cat_boundaries or cat_threshold has the wrong length")
        )
    within = np.where(on_category, threshold, 0).astype(np.int64)
    available = np.repeat(sets, leaves - 1)
    if np.any(on_category & ((within < 0) | (within >= available))):
        raise ConversionError(
            DAMAGED.format("a test is about a set of categories that does not exist")
        )
    tests = np.where(on_category, within + np.repeat(np.cumsum(sets) - sets, leaves - 1), -1)
    return CategorySets.read(words.astype(np.uint32), sizes, tests)


def _slopes(trees: Sequence[Tree], leaves: Ints, values: Floats) -> Slopes | None:
    """Read linear leaves; the leaves of other trees are constants."""
    flags = [tree.get("is_linear", "0") for tree in trees]
    if not set(flags) <= {"0", "1"}:
        raise ConversionError(DAMAGED.format("is_linear is neither 0 nor 1"))
    linear = np.array(flags) == "1"
    if not linear.any():
        return None
    chosen = [tree for tree, is_linear in zip(trees, linear, strict=True) if is_linear]
    of_linear = np.repeat(linear, leaves)
    constant = values.copy()
    counts = np.zeros(len(values), np.int64)
    counts[of_linear] = _join_spaced(chosen, "num_features", np.int64, int(of_linear.sum()))
    # Linear leaves have a constant of their own; leaf_value holds what NaN rows get.
    constant[of_linear] = _join_spaced(chosen, "leaf_const", np.float64, int(of_linear.sum()))
    feature, coefficient = (
        _join_spaced(chosen, key, dtype, int(counts.sum()))
        for key, dtype in (("leaf_features", np.int64), ("leaf_coeff", np.float64))
    )
    return Slopes(
        Array(constant),
        Array.of(np.concatenate([[0], np.cumsum(counts)]), np.int32),
        Array.of(feature, np.int32),
        Array(coefficient),
    )


def _join_spaced(
    trees: Sequence[Tree], key: str, dtype: type[np.generic], size: int
) -> npt.NDArray[Any]:
    """Concatenate one array of all trees, whose numbers may stand several spaces apart."""
    numbers = np.fromstring(" ".join(tree[key] for tree in trees).strip(), dtype=dtype, sep=" ")
    if len(numbers) != size:
        raise ConversionError(DAMAGED.format(f"{key} has the wrong length"))
    return numbers


# A byte numbers them. Larger tables with few entries are listed instead.
_FEW = 256
"""Up to so many categories a table has an entry for each number, listed or not."""


@dataclass(frozen=True)
class Codes:
    """From category numbers to the codes of category tables.

    Parameters
    ----------
    sizes : Array of int32, shape (n_columns,)
        Number of categories of each column, as CategoryCodes wants it.
    sparse : tuple of int
        Columns whose few categories of large numbers are numbered again, each in a further column.
    listed : tuple of Array
        Categories of these columns, ascending.
    """

    sizes: Array
    sparse: tuple[int, ...] = ()
    listed: tuple[Array, ...] = ()

    def of(self, x: Node) -> Node:
        """Replace the columns of categories by codes."""
        if not self.sizes.data.any():
            return x
        # LightGBM cuts off the fraction of a category, and takes it for the number then.
        codes = CategoryCodes(x, self.sizes, cut_first=True)
        numbered = (
            self._number_listed(codes, column, listed.data)
            for column, listed in zip(self.sparse, self.listed, strict=True)
        )
        return Concat((codes, *numbered)) if self.sparse else codes

    def _number_listed(self, codes: Node, column: int, listed: Ints) -> Node:
        """Keep the codes of no category and of NaN, then number the listed ones without gaps."""
        codes_listed = np.concatenate([[FIRST_CODE - 1], FIRST_CODE + listed]).astype(
            codes.type.dtype
        )
        place = FindCode(Select(codes, Array(np.array([column], np.int32))), (Array(codes_listed),))
        return Affine.of(Cast(place, codes.type.dtype), add=1.0)


@dataclass(frozen=True)
class CategorySets:
    """The category sets of all trees, one after another.

    Parameters
    ----------
    tests : array of int, shape (n_tests,)
        Set of each test, -1 for tests on thresholds.
    owner, categories : array of int, shape (n_listed,)
        Set that lists each category, and its number.
    count : int
        Number of sets.
    """

    tests: Ints
    owner: Ints
    categories: Ints
    count: int

    @staticmethod
    def read(words: npt.NDArray[np.uint32], sizes: Ints, tests: Ints) -> CategorySets:
        """Find the bits that are set; ``sizes`` are the numbers of 32-bit words of each set.

        Examples
        --------
        >>> words = np.array([5, 0, 1], np.uint32)
        >>> sets = CategorySets.read(words, np.array([1, 2]), np.array([-1, 0, 1]))
        >>> sets.owner, sets.categories
        (array([0, 0, 1]), array([ 0,  2, 32]))
        """
        some = np.flatnonzero(words)
        bits = np.flatnonzero(
            np.unpackbits(words[some].astype("<u4").view(np.uint8), bitorder="little")
        )
        # Zero words are skipped before the bits are unpacked: a set
        # of large numbers is nearly empty.
        word = some[bits // 32]
        owner = np.repeat(np.arange(len(sizes)), sizes)[word]
        return CategorySets(
            tests, owner, bits % 32 + 32 * (word - (np.cumsum(sizes) - sizes)[owner]), len(sizes)
        )

    def tables(self, column: Ints, n_columns: int) -> tuple[CategoryTables | None, Ints, Codes]:
        """Write the category tables: listed categories go left.

        Returns the tables, the column of each split, and what makes the codes.
        """
        on_category = self.tests >= 0
        of_set = np.zeros(self.count, np.int64)
        of_set[self.tests[on_category]] = column[on_category]
        of_listed = of_set[self.owner]
        categories = self.categories.copy()
        column = column.copy()
        sizes = category_sizes(
            n_columns,
            np.concatenate([column[on_category], of_listed]),
            np.concatenate([np.full(on_category.sum(), -1), categories]),
        )
        sparse: list[int] = []
        lists: list[Array] = []
        for place in np.flatnonzero(sizes.data > _FEW).tolist():
            here = of_listed == place
            listed = np.unique(categories[here])
            # Few categories of large numbers: a search among them, not a
            # table with an entry for each number.
            if 4 * len(listed) < sizes.data[place]:
                categories[here] = np.searchsorted(listed, categories[here])
                column[on_category & (column == place)] = n_columns + len(sparse)
                sparse = [*sparse, place]
                lists = [*lists, Array(listed)]
        counts = np.bincount(self.owner, minlength=self.count)
        tables = category_tables(
            self.tests, counts, categories, listed_left=True, nan_left=False, other_left=False
        )
        return tables, column, Codes(sizes, tuple(sparse), tuple(lists))
