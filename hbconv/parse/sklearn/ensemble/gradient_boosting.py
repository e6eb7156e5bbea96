"""Gradient boosting of scikit-learn: sums over stages, then a link.

The exact one reads float32 columns, the one over histograms float64 columns and categories.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    FIRST_CODE,
    MATRIX,
    VECTOR,
    Affine,
    ArgMax,
    Cast,
    Clip,
    Compare,
    Concat,
    ConstantRows,
    Cube,
    Labels,
    LeafSums,
    Map,
    Node,
    Output,
    Recode,
    Schema,
    Select,
    Softmax,
    StagedLeafSums,
    Stages,
    SymmetricLogit,
    TreeEnsemble,
    TreeLeaves,
)
from hbconv.parse.class_names import is_named
from hbconv.parse.common.linear_scores import beside_complement
from hbconv.parse.common.node_tables import (
    FlatTrees,
    NodeTable,
    assemble,
    category_tables,
    contribution_outputs,
    cover_forest,
    node_shares,
)
from hbconv.parse.common.text_columns import columns_of
from hbconv.parse.registry import parses
from hbconv.parse.schema import picked_by_name
from hbconv.parse.sklearn.preprocessing.encoders import category_matrix
from hbconv.parse.sklearn.tree import read_trees, shares_of
from hbconv.parse.step import Step
from hbconv.trees.forest import CategoryTables, Forest

CONSTANT_INITS = {
    "sklearn.dummy.DummyRegressor": ("mean", "median", "quantile", "constant"),
    "sklearn.dummy.DummyClassifier": ("prior", "most_frequent", "uniform", "constant"),
    "sklearnex.dummy.DummyRegressor": ("mean", "median", "quantile", "constant"),
}
"""First estimators that predict the same for every row, by class and strategy.

Where sklearnex patches scikit-learn, boosting starts from its DummyRegressor.
"""

LINKS: dict[str, Callable[[Node], Node]] = {
    "LogitLink": lambda p: Map(p, "logit"),
    "HalfLogitLink": lambda p: Affine.of(Map(p, "logit"), mul=0.5),
    "MultinomialLogit": SymmetricLogit,
}
"""From a first estimator's probabilities to raw scores, by the class name of the loss's link."""

EPS = float(np.finfo(np.float64).eps)
"""Probabilities are held this far from 0 and 1 before their link."""


@parses("sklearn.ensemble.GradientBoostingClassifier")
def parse_gradient_boosting_classifier(step: Step) -> dict[str, Output]:
    """Return labels, probabilities and scores, also after each stage.

    A score of exactly zero is the second of two classes. The scores of a stage stay a column.
    """
    x, boosted = _boost_exact(step, _classifier_scores)
    outputs = classifier_outputs(step, boosted, "ge")
    return {
        **outputs,
        "predict_log_proba": Output(Map(outputs["predict_proba"].node, "log")),
        "staged_decision_function": Output(boosted.staged, Stages(boosted.stages)),
        "apply": Output(
            TreeLeaves(x, boosted.forest), Cube(step.estimator.estimators_.shape), "float64"
        ),
    }


@parses("sklearn.ensemble.GradientBoostingRegressor")
def parse_gradient_boosting_regressor(step: Step) -> dict[str, Output]:
    """Predict the sums: all losses have the identity as link."""
    x, boosted = _boost_exact(step, _regressor_scores)
    return {
        **regressor_outputs(step, boosted),
        "apply": Output(TreeLeaves(x, boosted.forest), dtype="float64"),
    }


def _boost_exact(step: Step, first_scores: Callable[[Step, Node], Node]) -> tuple[Node, Boosted]:
    """Add learning rate times leaf to the first scores."""
    est = step.estimator
    x = step.require_finite(Cast(step.x, "float32"))
    members = [tree.tree_ for tree in est.estimators_.ravel()]
    trees = read_trees(members, scale=est.learning_rate)
    first = _constant_scores(step, x) or first_scores(step, x)
    return x, boost(x, trees, shares_of(members), first)


def _constant_scores(step: Step, x: Node) -> Node | None:
    """Return first scores that are the same for every row; None where they differ."""
    est = step.estimator
    init = step.estimator.init_
    names = (name for name in CONSTANT_INITS if is_named(type(init), name))
    strategies = CONSTANT_INITS.get(next(names, ""))
    if strategies and init.strategy not in strategies:
        raise step.refuse(
            "init",
            init,
            "It predicts at random. Use a strategy that predicts the same for every row.",
        )
    if not strategies and init != "zero":
        return None
    # Any row does: such an estimator ignores what is in it.
    row = np.zeros((1, est.n_features_in_), np.float32)
    return ConstantRows(x, Array.of(est._raw_predict_init(row)[0], np.float64))


def _classifier_scores(step: Step, x: Node) -> Node:
    """Link the first estimator's probabilities, or that of the second of two classes."""
    p = _initial(step, x, "predict_proba").node
    # One score is for the second of two classes.
    if step.estimator.estimators_.shape[1] == 1:
        p = Select(p, Array(np.array([1], np.int32)))
    link = type(step.estimator._loss.link).__name__
    return LINKS[link](Clip.of(Cast(p, "float64"), EPS, 1 - EPS))


def _regressor_scores(step: Step, x: Node) -> Node:
    return Cast(_initial(step, x, "predict").node, "float64")


def _initial(step: Step, x: Node, method: str) -> Output:
    """Parse the first estimator, which reads what the trees read."""
    init = step.estimator.init_
    output = step.child(init, x, "init", x_sparse=step.x_sparse).get(method)
    if output is None or output.classes is not None or output.widths:
        raise step.refuse("init", init, f"Its {method} must give numbers, for one output.")
    return output


Floats = npt.NDArray[np.float64]

INVERSE_LINKS: dict[str, Callable[[Node, int], Node]] = {
    "IdentityLink": lambda raw, _: raw,
    "LogLink": lambda raw, _: Map(raw, "exp"),
    "LogitLink": lambda raw, _: beside_complement(Map(raw, "sigmoid")),
    "HalfLogitLink": lambda raw, _: beside_complement(Map(Affine.of(raw, mul=2.0), "sigmoid")),
    "MultinomialLogit": lambda raw, stages: Softmax(raw, groups=stages),
}
"""By the class name of a link: from raw scores of several stages to predictions."""


@dataclass(frozen=True)
class Boosted:
    """Raw scores of a boosted forest.

    Parameters
    ----------
    forest : Forest
        All trees, stage after stage.
    raw : Node
        Sums over all stages, a column for each output.
    staged : Node
        Sums after each stage, all stages side by side.
    contributions : dict of str to Output
        The method ``contributions``; empty where the first scores differ from row to row.
    """

    forest: Forest
    raw: Node
    staged: Node
    contributions: dict[str, Output]

    @property
    def stages(self) -> int:
        """Return the number of stages."""
        return self.staged.type.width // self.raw.type.width


def boost(
    x: Node,
    trees: FlatTrees,
    shares: tuple[Floats, Floats],
    first: Node,
    order: npt.NDArray[np.int64] | None = None,
) -> Boosted:
    """Start from the first scores and add the leaves, stage after stage, in float64.

    Parameters
    ----------
    x : Node
    trees : FlatTrees
    shares : two arrays of float64, shape (n_tests,)
        Part of the training rows that each split sends left, and right.
    first : Node
        Scores before the first stage.
    order : array of int, optional
        Feature behind each column of x, where they are in another order.
    """
    outputs = first.type.width
    constants = first.values.data if isinstance(first, ConstantRows) else None
    # Constant first scores are where the sums start, so no addition is left for rows.
    start = np.zeros(outputs) if constants is None else constants
    # The trees of a stage are one after another, one for each output.
    target = np.arange(len(trees.roots)) % outputs
    forest = assemble(trees, start, strict=False, n_features=x.type.width, target=target)
    leaves = TreeLeaves(x, forest.with_numbered_leaves())
    raw = LeafSums(leaves, forest.values, first) if constants is None else TreeEnsemble(x, forest)
    feature = forest.feature if order is None else order[forest.feature.data]
    # Contributions add up to the prediction only from a constant start.
    covered = None if constants is None else cover_forest(forest, shares, feature)
    staged = StagedLeafSums(leaves, forest.values, first)
    return Boosted(forest, raw, staged, contribution_outputs(x, covered))


def regressor_outputs(step: Step, boosted: Boosted) -> dict[str, Output]:
    """Return the predictions, also after each stage."""
    return {
        "predict": Output(inverse_link(step, boosted.raw), VECTOR),
        "staged_predict": Output(
            inverse_link(step, boosted.staged, boosted.stages),
            Stages(boosted.stages, VECTOR),
        ),
        **boosted.contributions,
    }


def classifier_outputs(step: Step, boosted: Boosted, positive: str) -> dict[str, Output]:
    """Return labels, probabilities and scores, also after each stage.

    ``positive`` is the comparison with zero that a score of the second of two classes passes.
    """
    raw = boosted.raw
    staged = boosted.staged
    stages = boosted.stages
    classes = Array(step.estimator.classes_)
    outputs = raw.type.width

    def codes(scores: Node, groups: int) -> Node:
        return (
            Compare.of(scores, positive, 0.0, "int32") if outputs == 1 else ArgMax(scores, groups)
        )

    return {
        "predict": Output(codes(raw, 1), Labels(classes)),
        "predict_proba": Output(inverse_link(step, raw)),
        "decision_function": Output(raw, VECTOR if outputs == 1 else MATRIX),
        "staged_predict": Output(codes(staged, stages), Stages(stages, Labels(classes))),
        "staged_predict_proba": Output(inverse_link(step, staged, stages), Stages(stages)),
        "staged_decision_function": Output(
            staged, Stages(stages, VECTOR if outputs == 1 else MATRIX)
        ),
        **boosted.contributions,
    }


def inverse_link(step: Step, raw: Node, stages: int = 1) -> Node:
    """Map raw scores to the values that the loss compares."""
    link = type(step.estimator._loss.link).__name__
    if link not in INVERSE_LINKS:
        raise step.refuse(
            "loss", step.estimator.loss, "hbconv handles the losses of scikit-learn itself."
        )
    return INVERSE_LINKS[link](raw, stages)


MISSING = FIRST_CODE - 1
"""Code of a missing value, and of a category never seen."""


def _columns(est: Any) -> Schema | None:
    """Return the input columns, found by name, where there are categories.

    The model then has a ColumnTransformer inside, which picks columns by name.
    """
    return None if est.is_categorical_ is None else picked_by_name(est)


@parses("sklearn.ensemble.HistGradientBoostingClassifier", features=_columns)
def parse_histogram_classifier(step: Step) -> dict[str, Output]:
    """Return labels and probabilities; a score of exactly zero is the first class."""
    return classifier_outputs(step, _boost_histograms(step), "gt")


@parses("sklearn.ensemble.HistGradientBoostingRegressor", features=_columns)
def parse_histogram_regressor(step: Step) -> dict[str, Output]:
    """Follow the sums by the loss's inverse link."""
    return regressor_outputs(step, _boost_histograms(step))


def _boost_histograms(step: Step) -> Boosted:
    """Add the leaves to the baseline; infinite values are allowed."""
    est = step.estimator
    x = Cast(step.x, "float") if est.is_categorical_ is None else _with_categories(step)
    if any(len(iteration) != est.n_trees_per_iteration_ for iteration in est._predictors):
        raise step.damaged(
            f"an iteration has other than n_trees_per_iteration_={est.n_trees_per_iteration_} trees"
        )
    trees = [tree for iteration in est._predictors for tree in iteration]
    baseline = Array.of(np.ravel(est._baseline_prediction), np.float64)
    table = _table(trees)
    count = np.concatenate([tree.nodes["count"] for tree in trees])
    shares = node_shares(table.sizes, table.left, table.right, count)
    return boost(x, table.split(), shares, ConstantRows(x, baseline), _order(est))


def _order(est: Any) -> npt.NDArray[np.int64]:
    """Return the feature behind each column of the trees: those of categories come first."""
    if est.is_categorical_ is None:
        return np.arange(est.n_features_in_)
    # A stable sort keeps the order within both groups, as the inner ColumnTransformer does.
    return np.argsort(~est.is_categorical_, kind="stable")


def _with_categories(step: Step) -> Node:
    """Return codes of the categorical columns, then the others, as the trees count them."""
    listed = step.estimator.is_categorical_
    encoder = step.estimator._preprocessor.named_transformers_["encoder"]
    codes = _codes(
        replace(step, estimator=encoder, x=columns_of(step.x, np.flatnonzero(listed).tolist()))
    )
    if listed.all():
        return Cast(codes, "float32")
    numbers = Cast(columns_of(step.x, np.flatnonzero(~listed).tolist()), "float")
    return Concat((Cast(codes, "float32"), numbers))


def _codes(step: Step) -> Node:
    """Recode the encoder's categories to the codes of the forest's tables."""
    est = step.estimator
    tables = []
    for j, categories in enumerate(est.categories_):
        codes = FIRST_CODE + np.arange(len(categories))
        # The encoder has NaN as a category; trees send it by their own rule for missing.
        codes[codes == FIRST_CODE + est._missing_indices.get(j, -1)] = MISSING
        tables.append(Array.of(np.append(MISSING, codes), np.int32))
    return Recode(category_matrix(step), tuple(tables))


def _table(trees: list[Any]) -> NodeTable:
    nodes = np.concatenate([tree.nodes for tree in trees])
    left, right = (
        np.where(nodes["is_leaf"], -1, nodes[side].astype(np.int64)) for side in ("left", "right")
    )
    sizes = [len(tree.nodes) for tree in trees]
    columns = nodes["feature_idx"], nodes["num_threshold"], nodes["missing_go_to_left"]
    return NodeTable(
        sizes, *columns, left, right, nodes["value"][:, None], tables=_sets(trees, nodes)
    )


def _sets(trees: list[Any], nodes: npt.NDArray[Any]) -> CategoryTables | None:
    """Return the category sets: categories of a set go left, other known ones right.

    Unknown categories go where missing values go.
    """
    bits = np.concatenate([tree.raw_left_cat_bitsets for tree in trees])
    first = np.cumsum([0, *(len(tree.raw_left_cat_bitsets) for tree in trees)])[:-1]
    # In little-endian bytes, bit b of word w is category 32 w + b on every machine.
    listed = np.unpackbits(bits.astype("<u4").view(np.uint8), axis=1, bitorder="little")
    # Sets are numbered within a tree, so those of the trees before are added.
    set_numbers = np.repeat(first, [len(tree.nodes) for tree in trees]) + nodes["bitset_idx"]
    tests = np.where(nodes["is_categorical"] & ~nodes["is_leaf"].astype(bool), set_numbers, -1)
    missing_left = np.zeros(len(bits), np.bool_)
    missing_left[tests[tests >= 0]] = nodes["missing_go_to_left"][tests >= 0]
    return category_tables(
        tests,
        listed.sum(axis=1, dtype=np.int64),
        np.nonzero(listed)[1],
        listed_left=True,
        nan_left=missing_left,
        other_left=False,
    )
