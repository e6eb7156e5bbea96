"""Forests and bagging: the mean of members that were fitted on samples of the rows.

Sums are those of a single job (``n_jobs`` None or 1).
With more jobs the source model adds up the sums of its jobs.
Of the same trees, RandomTreesEmbedding makes a column for each leaf.
IsolationForest measures how short their paths are.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    MATRIX,
    VECTOR,
    Add,
    Affine,
    ArgMax,
    Cast,
    Compare,
    Labels,
    LogAdd,
    LookupRows,
    Map,
    Node,
    OneHot,
    Output,
    TreeEnsemble,
    TreeLeaves,
    sparse_form,
)
from hbconv.parse.common.members import (
    are_trees,
    class_codes,
    columns_of_array,
    read_members,
    spread_classes,
)
from hbconv.parse.common.node_tables import assemble
from hbconv.parse.registry import parses
from hbconv.parse.sklearn.tree import (
    fraction_outputs,
    leaf_outputs,
    read_trees,
    require_own_counts,
    tree_contributions,
    tree_forest,
    tree_input,
)
from hbconv.parse.step import Step, concat
from hbconv.trees.forest import Forest


@parses("sklearn.ensemble.RandomForestClassifier", "sklearn.ensemble.ExtraTreesClassifier")
def parse_forest_classifier(step: Step) -> dict[str, Output]:
    """Average the trees' class fractions in float64; predict takes the largest mean."""
    members = step.estimator.estimators_
    x = tree_input(step, members[0])
    forest = tree_forest(step, members)
    return {
        **fraction_outputs(step, Affine.of(TreeEnsemble(x, forest), div=len(members))),
        **leaf_outputs(x, forest, members),
        **tree_contributions(step, x, forest, members),
    }


@parses("sklearn.ensemble.RandomForestRegressor", "sklearn.ensemble.ExtraTreesRegressor")
def parse_forest_regressor(step: Step) -> dict[str, Output]:
    """Average the trees' values in float64."""
    members = step.estimator.estimators_
    x = tree_input(step, members[0])
    forest = tree_forest(step, members)
    mean = Affine.of(TreeEnsemble(x, forest), div=len(members))
    return {
        "predict": Output(mean, VECTOR if step.estimator.n_outputs_ == 1 else MATRIX),
        **leaf_outputs(x, forest, members),
        **tree_contributions(step, x, forest, members),
    }


@parses("sklearn.ensemble.RandomTreesEmbedding")
def parse_random_trees_embedding(step: Step) -> dict[str, Output]:
    """Set the columns of the leaves that a row reaches.

    A leaf that the encoder has not seen is refused, as the source model does.
    """
    est = step.estimator
    x = tree_input(step, est.estimators_[0])
    forest = tree_forest(step, est.estimators_)
    encoder = est.one_hot_encoder_
    codes = TreeLeaves(
        x, replace(forest, leaf_id=_find_encoded_leaves(forest, encoder.categories_))
    )
    if np.any(codes.forest.leaf_id.data < 0):
        step.check(
            Compare.of(codes, "eq", -1),
            f"Found unknown leaves during transform (step {step.where!r}).",
        )
    sizes = tuple(len(leaves) for leaves in encoder.categories_)
    return {
        "transform": Output(OneHot(codes, sizes), sparse_form(bool(encoder.sparse_output))),
        **leaf_outputs(x, forest, est.estimators_),
    }


def _find_encoded_leaves(forest: Forest, categories: list[np.ndarray]) -> Array:
    """Return the place of each leaf among the leaves that the encoder knows, -1 for none."""
    leaf_numbers = np.split(forest.leaf_id.data, forest.first_leaf.data[1:-1])
    places = [
        np.where(np.isin(leaves, encoded), np.searchsorted(encoded, leaves), -1)
        for leaves, encoded in zip(leaf_numbers, categories, strict=True)
    ]
    return Array.of(np.concatenate(places), np.int32)


Floats = npt.NDArray[np.float64]


@parses("sklearn.ensemble.IsolationForest")
def parse_isolation_forest(step: Step) -> dict[str, Output]:
    """Sum path lengths in float64; the score is ``-2 ** -(sum / expected sum)``.

    NaN and infinity are allowed.
    The decision compares the sum itself, which is exact on every backend, while a power is not.
    """
    est = step.estimator
    if est._max_samples < 1:
        raise step.damaged(f"_max_samples={est._max_samples!r:.30}, which is not a count")
    paths = _paths(step)
    expected = _expected_paths(est)
    # The source takes 1 in place of a division by zero.
    ratio = Affine.of(paths, div=expected) if expected else Affine.of(paths, mul=0.0, add=1.0)
    scores = Affine.of(Map(Affine.of(ratio, mul=-1.0), "exp2"), mul=-1.0)
    # Rounding of a power would decide rows at the offset; sums of paths are exact.
    outlier = Compare.of(paths, "lt", _least_inlier(est.offset_, expected), "float64")
    return {
        "predict": Output(Cast(Affine.of(outlier, mul=-2.0, add=1.0), "int64"), VECTOR),
        "decision_function": Output(Affine.of(scores, sub=est.offset_), VECTOR),
        "score_samples": Output(scores, VECTOR),
    }


def _paths(step: Step) -> Node:
    """Sum the depths of the leaves reached, and the paths expected below them."""
    est = step.estimator
    width = step.x.type.width
    lengths = zip(est._decision_path_lengths, est._average_path_length_per_tree, strict=True)
    # compute_node_depths() counts the root as 1, and a path of no split is 0 long.
    values = [(depth + below - 1.0)[:, None] for depth, below in lengths]
    # With all columns the trees number them as the input does.
    columns = None if est._max_features == width else est.estimators_features_
    trees = read_trees([member.tree_ for member in est.estimators_], values=values, columns=columns)
    return TreeEnsemble(
        Cast(step.x, "float32"), assemble(trees, np.zeros(1), strict=False, n_features=width)
    )


def _expected_paths(est: Any) -> float:
    """Sum the paths expected in trees of as many rows as each was fitted on."""
    rows = np.array([est._max_samples])
    # _average_path_length of the source is 0 for one row and 1 for two.
    if rows <= 2:
        return len(est.estimators_) * float(rows[0] - 1)
    lengths = 2.0 * (np.log(rows - 1.0) + np.euler_gamma) - 2.0 * (rows - 1.0) / rows
    return float((len(est.estimators_) * lengths)[0])


def _least_inlier(offset: float, expected: float) -> float:
    """Return the least sum of paths whose score is at least offset, by bisection.

    It searches all floats from zero; infinity where none is large enough.
    """
    # Positive floats sort as their bits do as ints, so 64 halvings reach the exact one.
    low, high = (int(np.float64(bound).view(np.int64)) for bound in (0.0, np.inf))
    while low < high:
        middle = (low + high) // 2
        low, high = (
            (low, middle)
            if _is_inlier(np.array([middle]).view(np.float64), offset, expected)
            else (middle + 1, high)
        )
    return float(np.int64(low).view(np.float64))


def _is_inlier(paths: Floats, offset: float, expected: float) -> bool:
    ratio = paths / expected if expected else np.ones_like(paths)
    return bool((-(2**-ratio) - offset >= 0)[0])


Numbers = npt.NDArray[Any]


@parses("sklearn.ensemble.BaggingClassifier")
def parse_bagging_classifier(step: Step) -> dict[str, Output]:
    """Average the members' probabilities, or their votes where they have none."""
    est = step.estimator
    sums = _tree_sums(step) if are_trees(step) else _sums(step)
    means = {
        name: replace(output, node=Affine.of(output.node, div=est.n_estimators))
        for name, output in sums.items()
    }
    mean = means["predict_proba"].node
    logarithm = (
        # The source divides sums of probabilities by subtracting a logarithm.
        Affine.of(sums["predict_log_proba"].node, sub=np.log(est.n_estimators))
        if "predict_log_proba" in sums
        else Map(mean, "log")
    )
    return means | {
        "predict": Output(ArgMax(mean), Labels(Array(est.classes_))),
        "predict_log_proba": Output(logarithm),
    }


@parses("sklearn.ensemble.BaggingRegressor")
def parse_bagging_regressor(step: Step) -> dict[str, Output]:
    """Average the members' predictions."""
    est = step.estimator
    total = (
        _tree_total(step)
        if are_trees(step)
        else _total([output["predict"] for output in read_members(step, est.estimators_features_)])
    )
    return {"predict": replace(total, node=Affine.of(total.node, div=est.n_estimators))}


def _tree_total(step: Step) -> Output:
    members = step.estimator.estimators_
    return Output(
        TreeEnsemble(*_forest(step, [member.tree_.value[:, :, 0] for member in members])),
        VECTOR if members[0].n_outputs_ == 1 else MATRIX,
    )


def _total(outputs: list[Output]) -> Output:
    return replace(outputs[0], node=Add(tuple(output.node for output in outputs)))


def _forest(step: Step, values: list[Numbers]) -> tuple[Node, Forest]:
    """Make one forest of all trees, each over its own columns.

    Its leaves are numbered, and rows are checked in those columns alone.
    """
    members = step.estimator.estimators_
    columns = step.estimator.estimators_features_
    require_own_counts(step, members)
    tree_input(
        replace(step, x=columns_of_array(step.x, np.unique(np.concatenate(columns)))), members[0]
    )
    x = Cast(step.x, "float32")
    trees = read_trees([member.tree_ for member in members], values=values, columns=columns)
    forest = assemble(trees, np.zeros(values[0].shape[1]), strict=False, n_features=x.type.width)
    # The sum of logarithms looks leaves up, so each needs a number of its own.
    return x, forest.with_numbered_leaves()


def _tree_sums(step: Step) -> dict[str, Output]:
    """Sum class fractions, and return what the sum of their logarithms needs."""
    est = step.estimator
    values = [np.zeros((member.tree_.node_count, est.n_classes_)) for member in est.estimators_]
    for fractions, member in zip(values, est.estimators_, strict=True):
        fractions[:, member.classes_] = member.tree_.value[:, 0]
    x, forest = _forest(step, values)
    with np.errstate(divide="ignore"):
        logarithms = LookupRows(TreeLeaves(x, forest), Array(np.log(forest.values.data)))
    return {
        "predict_proba": Output(TreeEnsemble(x, forest)),
        "predict_log_proba": Output(LogAdd(logarithms, len(values))),
    }


def _sums(step: Step) -> dict[str, Output]:
    """Sum over members, which may know only some of the classes.

    There are no decisions where the members have different numbers of them.
    """
    est = step.estimator
    outputs = read_members(step, est.estimators_features_)
    classes = [member.classes_ for member in est.estimators_]
    fractions = [
        _fractions(step, output, labels) for output, labels in zip(outputs, classes, strict=True)
    ]
    sums = {"predict_proba": Output(Add(tuple(fractions)))}
    if all("predict_log_proba" in output for output in outputs):
        logarithms = [
            _spread(step, output["predict_log_proba"].node, labels, -np.inf)
            for output, labels in zip(outputs, classes, strict=True)
        ]
        sums["predict_log_proba"] = Output(LogAdd(concat(logarithms), len(outputs)))
    # The source adds up arrays, which must have one shape.
    scores = [output["decision_function"] for output in outputs if "decision_function" in output]
    if len(scores) == len(outputs) and len({score.node.type.width for score in scores}) == 1:
        sums["decision_function"] = _total(scores)
    return sums


def _fractions(step: Step, output: dict[str, Output], classes: Numbers) -> Node:
    """Return probabilities, or a one for the class predicted."""
    if "predict_proba" in output:
        return _spread(step, output["predict_proba"].node, classes, 0.0)
    n_classes = step.estimator.n_classes_
    return OneHot(class_codes(step, output["predict"], np.arange(n_classes)), (n_classes,))


def _spread(step: Step, values: Node, classes: Numbers, fill: float) -> Node:
    """Return columns of a member's classes as columns of all classes, in float64."""
    return spread_classes(Cast(values, "float64"), classes, step.estimator.n_classes_, fill)
