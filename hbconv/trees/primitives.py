"""Primitives of a whole forest, which a strategy or a backend's own kernel replaces."""

from hbconv.tensor.primitive import OpKind, define
from hbconv.tensor.types import FLOATS, NumpyArray, TensorType, require
from hbconv.trees.covered_forest import CoveredForest, count_pairs, interaction_matrices, pair_sums
from hbconv.trees.forest import Forest

__all__: list[str] = []


def infer_tree_scores(x: TensorType, forest: Forest, strategy: str) -> TensorType:
    """Type ``tree_scores(x, forest, strategy)``: the sums of the ensemble, one for each output."""
    fits = x.rows and x.shape == (forest.n_features,) and x.dtype in FLOATS
    require(fits, f"forest of {forest.n_features} features over {x}")
    require(bool(strategy), "a strategy is named")
    return TensorType(forest.accumulate, (forest.n_outputs,))


def infer_tree_leaves(x: TensorType, forest: Forest, strategy: str) -> TensorType:
    """Type ``tree_leaves(x, forest, strategy)``: the leaf that each tree reaches.

    Leaves are numbered over the forest.
    """
    infer_tree_scores(x, forest, strategy)
    return TensorType("int32", (forest.n_trees,))


def tree_scores(x: NumpyArray, forest: Forest, strategy: str) -> NumpyArray:  # noqa: ARG001
    """Add up the values of the leaves reached."""
    return forest.scores(x)


def tree_leaves(x: NumpyArray, forest: Forest, strategy: str) -> NumpyArray:  # noqa: ARG001
    """Find the leaves reached."""
    return forest.leaves(x)


def infer_tree_contributions(x: TensorType, covered: CoveredForest) -> TensorType:
    """Type ``tree_contributions(x, covered)``: what each feature adds to each output, float64.

    An output has a column for each feature, then one for the expected value.
    """
    infer_tree_scores(x, covered.forest, "any")
    return TensorType("float64", (covered.start.size,))


def tree_contributions(x: NumpyArray, covered: CoveredForest) -> NumpyArray:
    """Compute path-dependent Shapley values."""
    return covered.contributions(x)


def infer_tree_interactions(x: TensorType, covered: CoveredForest) -> TensorType:
    """Type ``tree_interactions(x, covered)``: what two features add together, float64.

    An output has a column for each pair of ``find_pairs``.
    """
    infer_tree_scores(x, covered.forest, "any")
    return TensorType("float64", (covered.forest.n_outputs * count_pairs(covered),))


def tree_interactions(x: NumpyArray, covered: CoveredForest) -> NumpyArray:
    """Compute Shapley interaction indices."""
    return pair_sums(covered, x)


def infer_tree_interaction_matrices(x: TensorType, covered: CoveredForest) -> TensorType:
    """Type ``tree_interaction_matrices(x, covered)``: a matrix of the features an output, float64.

    What each feature adds alone is in the diagonal, and the expected value is last.
    """
    infer_tree_scores(x, covered.forest, "any")
    outputs, width = covered.shape
    return TensorType("float64", (outputs * width * width,))


def tree_interaction_matrices(x: NumpyArray, covered: CoveredForest) -> NumpyArray:
    """Compute Shapley interaction values."""
    return interaction_matrices(covered, x)


define("tree_scores", infer_tree_scores, tree_scores, OpKind.TREES)
define("tree_leaves", infer_tree_leaves, tree_leaves, OpKind.TREES)
define("tree_contributions", infer_tree_contributions, tree_contributions, OpKind.CONTRIBUTIONS)
define("tree_interactions", infer_tree_interactions, tree_interactions, OpKind.CONTRIBUTIONS)
define(
    "tree_interaction_matrices",
    infer_tree_interaction_matrices,
    tree_interaction_matrices,
    OpKind.CONTRIBUTIONS,
)
