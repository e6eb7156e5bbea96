"""Forests of scikit-learn: the mean of the trees."""

from __future__ import annotations

from hbconv.containers import MATRIX, VECTOR, Affine, Output, TreeEnsemble
from hbconv.parse.registry import parses
from hbconv.parse.sklearn.tree import (
    classified_fractions,
    leaf_outputs,
    tree_contributions,
    tree_forest,
    tree_input,
)
from hbconv.parse.step import Step


@parses("sklearn.ensemble.RandomForestClassifier", "sklearn.ensemble.ExtraTreesClassifier")
def parse_forest_classifier(step: Step) -> dict[str, Output]:
    """Average the trees' class fractions in float64; predict takes the largest mean."""
    members = step.estimator.estimators_
    x = tree_input(step, members[0])
    forest = tree_forest(step, members)
    return {
        **classified_fractions(step, Affine.of(TreeEnsemble(x, forest), div=len(members))),
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
