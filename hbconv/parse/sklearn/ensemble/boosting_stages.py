"""What the two gradient boostings of scikit-learn share: sums over stages, and links."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    MATRIX,
    VECTOR,
    Affine,
    ArgMax,
    Compare,
    ConstantRows,
    Labels,
    LeafSums,
    Map,
    Node,
    Output,
    Softmax,
    StagedLeafSums,
    Stages,
    TreeEnsemble,
    TreeLeaves,
)
from hbconv.parse.common.covers import contribution_outputs, cover_forest
from hbconv.parse.common.node_tables import FlatTrees, assemble
from hbconv.parse.common.probabilities import beside_complement
from hbconv.parse.step import Step
from hbconv.trees.forest import Forest

__all__ = ["Boosted", "boost", "classified", "inverse_link", "regressed"]

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
        Feature behind each column of x, where they stand in another order.
    """
    outputs = first.type.width
    known = first.values.data if isinstance(first, ConstantRows) else None
    start = np.zeros(outputs) if known is None else known
    target = np.arange(len(trees.roots)) % outputs
    forest = assemble(trees, start, strict=False, n_features=x.type.width, target=target)
    leaves = TreeLeaves(x, forest.with_numbered_leaves())
    raw = LeafSums(leaves, forest.values, first) if known is None else TreeEnsemble(x, forest)
    feature = forest.feature if order is None else order[forest.feature.data]
    covered = None if known is None else cover_forest(forest, shares, feature)
    staged = StagedLeafSums(leaves, forest.values, first)
    return Boosted(forest, raw, staged, contribution_outputs(x, covered))


def regressed(step: Step, boosted: Boosted) -> dict[str, Output]:
    """Return the predictions, also after each stage."""
    return {
        "predict": Output(inverse_link(step, boosted.raw), VECTOR),
        "staged_predict": Output(
            inverse_link(step, boosted.staged, boosted.stages),
            Stages(boosted.stages, VECTOR),
        ),
        **boosted.contributions,
    }


def classified(step: Step, boosted: Boosted, positive: str) -> dict[str, Output]:
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
