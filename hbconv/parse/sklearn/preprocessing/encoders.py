"""Encoders: categories become codes, and codes ordinals, zeros and ones, or mean targets.

Inverses read codes, or zeros and ones, back to categories.
Binarizers of labels do the same for targets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    VECTOR,
    Affine,
    ArgMax,
    Cast,
    CategoryColumns,
    Choose,
    Compare,
    ConstantRows,
    IsMissing,
    IsOtherDtype,
    IsOutside,
    LabelColumns,
    Labels,
    Modulo,
    Multiply,
    NameTuples,
    Node,
    OneHot,
    Output,
    Pool,
    Recode,
    Schema,
    Select,
    sparse_form,
)
from hbconv.containers.extractors import Terms, Tokens
from hbconv.parse.common.text_columns import (
    are_numbers,
    category_codes,
    columns_of,
    entry_name,
    extract_entries,
    is_nan,
    item_column,
    object_codes,
)
from hbconv.parse.inverses import inverts
from hbconv.parse.registry import parses
from hbconv.parse.soundness import require_order
from hbconv.parse.step import Step, concat, select

__all__ = ["argmax_of_blocks", "category_matrix", "codes_of_numbers", "object_matrix"]

CodesOf = Callable[[Step, int, Any], Node]

_DTYPES = ("float32", "float64", "int32", "int64")
_SMALL = ("bool", "int8", "uint8", "int16", "uint16")
"""Dtypes that zeros and ones in bool stand for: they mix with other dtypes as bool does."""


def object_matrix(step: Step) -> Node:
    """Return the codes of all columns of an encoder that is given the rows as they come."""
    return category_matrix(step, object_codes)


def category_matrix(step: Step, codes_of: CodesOf = category_codes) -> Node:
    """Return the codes of all columns of an encoder, -1 for unknown values.

    Infinite numbers are refused, and unknown ones where the source model refuses them.
    """
    est = step.estimator
    codes = []
    for j, categories in enumerate(est.categories_):
        node = codes_of(step, j, categories)
        if getattr(est, "handle_unknown", "ignore") == "error":
            name = est.feature_names_in_[j] if hasattr(est, "feature_names_in_") else j
            step.check(
                Compare.of(node, "eq", -1),
                f"Found unknown categories in column {name!r} during transform (step "
                f"{step.where!r}).",
            )
        codes.append(node)
    numbers = [j for j, categories in enumerate(est.categories_) if categories.dtype.kind in "biuf"]
    if numbers:
        step.require_finite(columns_of(step.x, numbers), allow_nan=True)
    return concat(codes)


@parses("sklearn.preprocessing.OneHotEncoder")
def parse_one_hot_encoder(step: Step) -> dict[str, Output]:
    """Group the infrequent, drop the dropped, then one column for each category left."""
    est = step.estimator
    step.require("handle_unknown", "error", "ignore", "infrequent_if_exist", "warn")
    dtype = np.dtype(est.dtype).name
    if dtype not in (*_DTYPES, *_SMALL):
        raise step.refuse("dtype", dtype, f"hbconv handles {', '.join((*_DTYPES, *_SMALL))}.")
    tables = [_one_hot_table(est, j) for j in range(len(est.categories_))]
    positions = object_matrix(step)
    if est.handle_unknown == "warn" or (est.drop is not None and est.handle_unknown != "error"):
        encoded = "all zeros" if est.handle_unknown == "ignore" else "the infrequent category."
        message = (
            "Found unknown categories in columns {columns} during transform. These unknown "
            f"categories will be encoded as {encoded}"
        )
        step.warn(Compare.of(positions, "eq", -1), message)
    codes = _recode(positions, tables)
    sizes = tuple(int(n) for n in est._n_features_outs)
    widths = tuple(int(table.max()) + 1 for table in tables)
    if sizes[: len(widths)] != widths[: len(sizes)]:
        raise step.damaged(
            f"_n_features_outs={list(sizes)[:9]}, but its categories make {list(widths)[:9]} "
            "columns"
        )
    small = dtype in _SMALL
    return {
        "transform": Output(
            OneHot(codes, sizes, "bool" if small else dtype),
            sparse_form(bool(est.sparse_output)),
            dtype if small else None,
        )
    }


@parses("sklearn.preprocessing.OrdinalEncoder")
def parse_ordinal_encoder(step: Step) -> Node:
    """Group the infrequent, then give missing and unknown values their numbers."""
    est = step.estimator
    step.require("handle_unknown", "error", "use_encoded_value")
    dtype = np.dtype(est.dtype)
    if dtype.name not in _DTYPES:
        raise step.refuse("dtype", dtype.name, f"hbconv handles {', '.join(_DTYPES)}.")
    return Recode(
        object_matrix(step),
        tuple(Array(_ordinal_table(est, j, dtype)) for j in range(len(est.categories_))),
    )


@parses("sklearn.preprocessing.LabelEncoder", features=lambda _: Schema.sequence())
def parse_label_encoder(step: Step) -> dict[str, Output]:
    """Encode labels.

    The source model first casts them to the dtype of its classes; an int loses its fraction.
    A text longer than any class is unknown here, where a ``U`` array would cut it short.
    """
    classes = np.asarray(step.estimator.classes_)
    require_order(step.estimator, step.place, classes)
    if classes.dtype.kind in "biu":
        dtype = "bool" if classes.dtype.kind == "b" else "int64"
        # Bools are cast to bool first: all but 0 is True.
        step = replace(step, x=Cast(Cast(step.require_finite(), dtype), "int64"))
        classes = classes.astype(np.int64)
    codes = category_codes(step, 0, classes)
    step.check(
        Compare.of(codes, "eq", -1), f"y contains previously unseen labels (step {step.where!r})."
    )
    return {"transform": Output(Cast(codes, "int64"), VECTOR, of_no_rows=Array(np.empty(0)))}


def _one_hot_table(est: Any, j: int) -> npt.NDArray[np.int32]:
    """Return the output column of the unknown value, then of each category; -1 for none."""
    groups = _infrequent(est, j)
    n_categories = len(est.categories_[j])
    columns = np.arange(n_categories) if groups is None else np.asarray(groups)
    takes_unknown = groups is not None and est.handle_unknown in ("infrequent_if_exist", "warn")
    # The group of infrequent categories has the last column.
    columns = np.array([columns.max() if takes_unknown else -1, *columns])
    dropped = None if est._drop_idx_after_grouping is None else est._drop_idx_after_grouping[j]
    if dropped is not None:
        # Columns behind the dropped one move up.
        columns = np.where(columns == dropped, -1, columns - (columns > dropped))
    return columns.astype(np.int32)


def _recode(codes: Node, tables: list[npt.NDArray[np.int32]]) -> Node:
    if all(np.array_equal(t, np.arange(-1, len(t) - 1)) for t in tables):
        return codes
    return Recode(codes, tuple(Array(t) for t in tables))


def _ordinal_table(est: Any, j: int, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return the number of the unknown value, then of each category."""
    groups = _infrequent(est, j)
    table = np.arange(-1, len(est.categories_[j])).astype(dtype)
    if groups is not None:
        table[1 : len(groups) + 1] = groups
    if j in est._missing_indices:
        table[est._missing_indices[j] + 1] = est.encoded_missing_value
    # Unknown values are refused by a check where they have no number.
    table[0] = est.unknown_value if est.handle_unknown == "use_encoded_value" else 0
    return table


def _infrequent(est: Any, j: int) -> Any:
    """Return the group of each category but the missing one; infrequent ones share a group.

    None where there are no infrequent categories.
    """
    return (
        est._default_to_infrequent_mappings[j]
        if getattr(est, "_infrequent_enabled", False)
        else None
    )


_NUMBERS = ("float32", "float64", "int64")
"""Dtypes of categories that a program may give itself."""


@inverts("sklearn.preprocessing.OneHotEncoder", takes_sparse=True)
def invert_one_hot_encoder(step: Step) -> Output:
    """Take the category of the largest column of each block.

    A block that adds up to 0 is the dropped category, else an unknown one, else refused.
    """
    est = step.estimator
    kept = [
        np.asarray(est._compute_transformed_categories(j, remove_dropped=False))
        for j in range(len(est.categories_))
    ]
    dtype = np.result_type(*[table.dtype for table in kept])
    step.require_finite()
    blocks = argmax_of_blocks(step.x, [int(size) for size in est._n_features_outs])
    read = [_one_hot_column(step, j, kept[j], *blocks[j]) for j in range(len(kept))]
    tables = [table.astype(dtype) for _, table, _ in read]
    return _categories(
        [codes for codes, _, _ in read], tables, unknown=any(may for _, _, may in read)
    )


def argmax_of_blocks(x: Node, sizes: Sequence[int]) -> list[tuple[Node, Node]]:
    """Return the place of the largest column of each block, and whether the block adds up to 0."""
    blocks: list[tuple[Node, Node]] = []
    ends = np.cumsum(sizes)
    for size, end in zip(sizes, ends.tolist(), strict=True):
        block = Select(x, Array(np.arange(end - size, end, dtype=np.int32)))
        total = Pool(block, (tuple(range(size)),), "sum") if size else ConstantRows(x, _zero())
        place = ArgMax(block) if size else ConstantRows(x, _zero())
        blocks.append((place, Compare.of(total, "eq", 0.0)))
    return blocks


def _zero() -> Array:
    return Array(np.zeros(1, np.int32))


def _one_hot_column(
    step: Step, j: int, kept: npt.NDArray[Any], place: Node, is_zero: Node
) -> tuple[Node, npt.NDArray[Any], bool]:
    """Return the codes of a column, its categories, and whether a code may be beyond these."""
    est = step.estimator
    shown = np.asarray(est._remove_dropped_categories(kept, j))
    drops = est._drop_idx_after_grouping
    dropped = None if drops is None else drops[j]
    grouped = est._infrequent_enabled and est._infrequent_indices[j] is not None
    takes_unknown = est.handle_unknown == "ignore" or (
        est.handle_unknown in ("infrequent_if_exist", "warn") and not grouped
    )
    if dropped is not None:
        names = est.categories_[j] if takes_unknown or not len(shown) else kept
        beyond = Choose(is_zero, _code(step.x, len(shown)), place)
        table = np.append(shown, np.asarray(names)[[int(dropped)]])
        return beyond, table, False
    if takes_unknown:
        return Choose(is_zero, _code(step.x, len(shown)), place), shown, True
    # Of a single category the source reads zeros as well.
    if drops is None or len(shown) > 1:
        step.check(
            is_zero,
            f"Column {j} holds rows of zeros, which {step.name} (step {step.where!r}) cannot "
            f"invert with drop={est.drop!r} and handle_unknown={est.handle_unknown!r}.",
        )
    return place, shown, False


def _code(x: Node, code: int) -> Node:
    return ConstantRows(x, Array(np.array([code], np.int32)))


@inverts("sklearn.preprocessing.OrdinalEncoder")
def invert_ordinal_encoder(step: Step) -> Output:
    """Take the category of each code; those of unknown values are None.

    A negative code counts from the end, as a position of numpy does.
    """
    est = step.estimator
    step.require_finite(allow_nan=True)
    groups = getattr(est, "_infrequent_indices", None) or [None] * len(est.categories_)
    dtype = np.result_type(*[np.asarray(c).dtype for c in est.categories_])
    read = [
        _ordinal_column(step, j, np.asarray(est.categories_[j]).astype(dtype), groups[j])
        for j in range(len(est.categories_))
    ]
    unknown = est.handle_unknown == "use_encoded_value"
    if unknown or any(group is not None for group in groups):
        dtype = np.dtype(object)
    tables = [table.astype(dtype) for _, table in read]
    return _categories([codes for codes, _ in read], tables, unknown=unknown)


def _ordinal_column(
    step: Step, j: int, categories: npt.NDArray[Any], group: Any
) -> tuple[Node, npt.NDArray[Any]]:
    """Return the codes of a column, and its categories; one code beyond is the unknown value."""
    est = step.estimator
    label: Node = Cast(Select(step.x, Array.of([j], np.int32)), "float64")
    if j in est._missing_indices:
        missing = ConstantRows(label, Array([float(est._missing_indices[j])]))
        label = Choose(_equals(label, est.encoded_missing_value), missing, label)
    kept = categories if group is None else np.delete(categories, group)
    table = kept if group is None else np.append(kept.astype(object), "infrequent_sklearn")
    taken = [] if group is None else [(len(categories) - len(group), len(kept))]
    if est.handle_unknown == "use_encoded_value":
        taken.append((est.unknown_value, len(table)))
    ordinals = label
    for value, _ in taken:
        ordinals = Choose(_equals(label, value), ConstantRows(label, Array([0.0])), ordinals)
    codes = codes_of_numbers(step, ordinals, [len(kept)])
    for value, code in taken:
        codes = Choose(_equals(label, value), _code(label, code), codes)
    return codes, table


def _equals(label: Node, value: Any) -> Node:
    return IsMissing(label, float("nan") if is_nan(value) else float(value))


def codes_of_numbers(step: Step, x: Node, sizes: Sequence[int]) -> Node:
    """Return numbers as positions in tables of these sizes; refuse those beyond.

    A number is truncated to an integer, and a negative one counts from the end.
    """
    n = np.asarray(sizes, dtype=np.float64)
    # NaN is not outside of any bounds, infinity is.
    refused = Choose(IsMissing(x, float("nan")), ConstantRows(x, Array(np.full(len(n), np.inf))), x)
    step.check(
        # Numbers are truncated: all strictly between -n - 1 and n are positions.
        IsOutside.of(refused, np.nextafter(-n - 1, 0), np.nextafter(n, 0)),
        f"Input X holds codes of no category, which {step.name} (step {step.where!r}) refuses.",
    )
    whole = Cast(Cast(x, "int32"), "float64")
    return Cast(Choose(Compare.of(whole, "lt", 0.0), Affine.of(whole, add=n), whole), "int32")


def _categories(
    codes: Sequence[Node], tables: Sequence[npt.NDArray[Any]], *, unknown: bool
) -> Output:
    """Return the category of each code as one array, of numbers where all are such."""
    node = concat(codes)
    if unknown:
        return Output(node, CategoryColumns(tuple(Array(table) for table in tables)))
    if tables[0].dtype.name not in _NUMBERS:
        return Output(node, LabelColumns(tuple(Array(table) for table in tables)))
    return Output(Recode(node, tuple(Array(np.append(table[:1], table)) for table in tables)))


def _labels(encoder: Any, width: int) -> Schema:  # noqa: ARG001
    return Schema.sequence("int64")


@inverts("sklearn.preprocessing.LabelEncoder", columns=_labels)
def invert_label_encoder(step: Step) -> Output:
    """Take the class of each code; the source model takes ints alone."""
    classes = np.asarray(step.estimator.classes_)
    step.check(
        IsOtherDtype(step.x, "int64"),
        f"{step.name} (step {step.where!r}) inverts ints alone.",
    )
    codes = Cast(step.x, "int64")
    step.check(
        IsOutside.of(codes, 0, len(classes) - 1),
        f"y contains previously unseen labels (step {step.where!r}).",
    )
    nothing = Array(np.empty(0))
    return Output(Cast(codes, "int32"), Labels(Array(classes)), of_no_rows=nothing)


@parses("sklearn.preprocessing.TargetEncoder")
def parse_target_encoder(step: Step) -> Node:
    """Look up the encoding of each category, for each class where there are several.

    The unknown category gets the mean over all rows.
    """
    est = step.estimator
    # encodings_ has each column once for each class.
    means = np.atleast_1d(est.target_mean_)
    codes = select(
        object_matrix(step), np.repeat(np.arange(len(est.categories_)), len(means)).tolist()
    )
    tables = (
        np.append(means[k % len(means)], encoding) for k, encoding in enumerate(est.encodings_)
    )
    return Recode(codes, tuple(Array(np.asarray(table, dtype=np.float64)) for table in tables))


def _features(binarizer: Any) -> Schema:
    """Return one sequence of labels, or a column of zeros and ones for each class."""
    return (
        Schema.matrix(len(binarizer.classes_)) if _is_multilabel(binarizer) else Schema.sequence()
    )


@parses("sklearn.preprocessing.LabelBinarizer", features=_features, takes_sparse=True)
def parse_label_binarizer(step: Step) -> dict[str, Output]:
    """Give ``pos_label`` for a row's class and ``neg_label`` for the others, as int64."""
    if not _is_multilabel(step.estimator):
        step.refuse_sparse()
    codes = _indicators(step) if _is_multilabel(step.estimator) else _class_codes(step)
    return {"transform": Output(codes, sparse_form(bool(step.estimator.sparse_output)))}


def _is_multilabel(binarizer: Any) -> bool:
    return bool(binarizer.y_type_.startswith("multilabel"))


def _class_codes(step: Step) -> Node:
    """Look up the class.

    Two classes share a column, and other labels are refused: they would add a second column.
    """
    classes = np.asarray(step.estimator.classes_)
    require_order(step.estimator, step.place, classes)
    if are_numbers(classes):
        classes = classes.astype(np.int64) if classes.dtype.kind == "b" else classes
        _require_whole(step)
    codes = category_codes(step, 0, classes)
    if len(classes) > 2:
        return _show_labels(
            step, select(codes, [0] * len(classes)), np.eye(len(classes), dtype=bool)
        )
    step.check(
        Compare.of(codes, "eq", -1), f"y contains previously unseen labels (step {step.where!r})."
    )
    return _show_labels(step, codes, np.arange(len(classes))[None] == 1)


def _indicators(step: Step) -> Node:
    """Return zeros and ones as the two labels."""
    _require_whole(step)
    step.check(
        IsOutside.of(step.x, 0.0, 1.0), f"y holds other values than 0 and 1 (step {step.where!r})."
    )
    return _show_labels(
        step, Compare.of(step.x, "ne", 0.0, "int32"), np.tile([False, True], (step.x.type.width, 1))
    )


def _require_whole(step: Step) -> None:
    """Refuse numbers with a fraction, which cannot be labels."""
    x = step.require_finite()
    fraction = Modulo(x, Array(np.ones(x.type.width)))
    step.check(
        Compare.of(fraction, "ne", 0.0),
        f"y holds numbers with a fraction, which are not labels (step {step.where!r}).",
    )


def _show_labels(step: Step, codes: Node, is_positive: npt.NDArray[np.bool_]) -> Node:
    """Return ``pos_label`` or ``neg_label`` for each code.

    Row j of ``is_positive`` shows which codes of column j get ``pos_label``.
    An unknown code gets ``neg_label``.
    """
    est = step.estimator
    values = np.where(np.insert(is_positive, 0, values=False, axis=1), est.pos_label, est.neg_label)
    return Recode(codes, tuple(Array(row.astype(np.int64)) for row in values))


def _columns_of_labels(binarizer: Any, width: int) -> Schema:
    """Return a sequence where two classes share a column, else a column for each class."""
    return Schema.sequence() if _has_one_column(binarizer) else Schema.matrix(width)


def _has_one_column(binarizer: Any) -> bool:
    return not _is_multilabel(binarizer) and binarizer.y_type_ != "multiclass"


@inverts("sklearn.preprocessing.LabelBinarizer", takes_sparse=True, columns=_columns_of_labels)
def invert_label_binarizer(step: Step) -> Output:
    """Take the class of the largest column, or compare with the middle of the two labels.

    Two columns for two classes, and another ``threshold``, are not taken.
    """
    est = step.estimator
    if est.sparse_input_:
        raise step.refuse("sparse_input_", True, "Fit it on an array to invert it.")
    x = step.require_finite()
    if est.y_type_ == "multiclass":
        return Output(_largest(step, x), Labels(Array(np.asarray(est.classes_))))
    threshold = Array(np.full(x.type.width, (est.pos_label + est.neg_label) / 2.0))
    above = Compare(Cast(x, "float"), "gt", threshold, "int32", weak=True)
    if _is_multilabel(est):
        return Output(Cast(above, "int64"))
    codes = above if len(est.classes_) > 1 else ConstantRows(x, Array(np.zeros(1, np.int32)))
    return Output(codes, Labels(Array(np.asarray(est.classes_))))


def _largest(step: Step, x: Node) -> Node:
    """Return the place of the largest column.

    The source model confuses classes in sparse rows that hold negative numbers and none above 0.
    """
    groups = (tuple(range(x.type.width)),)
    highest, lowest = (Pool(x, groups, name) for name in ("max", "min"))
    # Negative numbers below and none above 0: the product is negative.
    beside = Compare.of(Multiply((Compare.of(highest, "le", 0.0, "float64"), lowest)), "lt", 0.0)
    step.check_sparse(beside, f"A sparse row holds no number above 0 (step {step.where!r}).")
    return ArgMax(x)


@parses("sklearn.preprocessing.MultiLabelBinarizer", features=item_column)
def parse_multi_label_binarizer(step: Step) -> dict[str, Output]:
    """Set the column of each label of a row; unknown labels are left out.

    A text is refused: the source model takes its letters for labels.
    """
    labels = step.estimator.classes_.tolist()
    cached = step.estimator._cached_dict
    if cached is not None and cached != {label: j for j, label in enumerate(labels)}:
        raise step.damaged("_cached_dict does not hold the places of classes_")
    classes = Terms(tuple(entry_name(step, label) for label in labels))
    return {
        "transform": Output(
            extract_entries(step, Tokens(), classes, "int64", binary=True),
            sparse_form(bool(step.estimator.sparse_output)),
        )
    }


@inverts("sklearn.preprocessing.MultiLabelBinarizer", takes_sparse=True)
def invert_multi_label_binarizer(step: Step) -> Output:
    """List the labels of each row as a tuple; other numbers than 0 and 1 are refused."""
    x = step.require_finite()
    # x (x - 1) is 0 for 0 and 1 alone.
    is_other = Compare.of(Multiply((x, Affine.of(x, sub=1.0))), "ne", 0.0)
    step.check(is_other, f"Expected only 0s and 1s in label indicator (step {step.where!r}).")
    return Output(x, NameTuples(Array(np.asarray(step.estimator.classes_))))
