"""Pipelines as users write them, over one drawn table, at any size.

They measure and judge the optimizer: each has steps that a rule may rewrite, or must leave alone.

>>> from hbconv_datasets.pipelines import PIPELINES
>>> fitted = PIPELINES[0].fitted(rows=200, trees=2)
>>> fitted.case.name, fitted.method, fitted.rows(3).shape
('01 impute+scale+LightGBM', 'predict_proba', (3, 16))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hbconv_datasets.pipelines import linear, others, tables, trees
from hbconv_datasets.pipelines.case import Fitted, PipelineCase
from hbconv_datasets.pipelines.stress import STRESS

__all__ = ["PIPELINES", "STRESS", "Fitted", "PipelineCase"]

Columns = Callable[[int, int], Any]


def _case(name: str, columns: Columns, target: Columns, make: Callable[[int], Any]) -> PipelineCase:
    def draw(rows: int, seed: int) -> tuple[Any, Any]:
        return columns(rows, seed), target(rows, seed)

    return PipelineCase(name, draw, make)


PIPELINES = tuple(
    _case(*fields)
    for fields in (
        ("01 impute+scale+LightGBM", tables.missing, tables.labels, trees.imputed_lightgbm),
        ("02 impute+scale+HGB", tables.missing, tables.labels, trees.imputed_histogram_boosting),
        ("03 impute+scale+RF", tables.missing, tables.labels, trees.imputed_forest),
        ("04 scale, one-hot+LightGBM", tables.mixed, tables.labels, trees.one_hot_lightgbm),
        ("05 scale, ordinal+LightGBM", tables.mixed, tables.labels, trees.ordinal_lightgbm),
        ("06 scale, target+RF", tables.mixed, tables.labels, trees.target_encoded_forest),
        ("07 scale, one-hot+logistic", tables.mixed, tables.labels, linear.one_hot_logistic),
        ("08 bins one-hot+logistic", tables.matrix, tables.labels, linear.binned_logistic),
        ("09 bins+LightGBM", tables.matrix, tables.labels, trees.binned_lightgbm),
        ("10 scale+PCA+logistic", tables.matrix, tables.labels, linear.projected_logistic),
        ("11 scale+PCA+RF", tables.matrix, tables.labels, trees.projected_forest),
        ("12 scale+poly2+L1", tables.matrix, tables.labels, linear.polynomial_l1),
        ("13 scale+poly3+ridge", tables.few_numbers, tables.scores, linear.polynomial_ridge),
        ("14 scale+poly2+select", tables.matrix, tables.labels, linear.selected_polynomial),
        ("15 three branches", tables.mixed_partly_filled, tables.labels, trees.three_branches),
        ("16 union+logistic", tables.matrix, tables.labels, linear.union_logistic),
        ("17 scale+Nystroem", tables.matrix, tables.labels, others.nystroem),
        ("18 scale+RBFSampler", tables.matrix, tables.scores, others.random_cosines),
        ("19 voting of 5", tables.matrix, tables.labels, linear.voting),
        ("20 calibrated LightGBM", tables.matrix, tables.labels, trees.calibrated),
        ("21 stacking of 3", tables.matrix, tables.labels, trees.stacked),
        ("22 bagged logistic", tables.matrix, tables.labels, linear.bagged_logistic),
        ("23 five logistics", tables.matrix, tables.many_labels, linear.many_logistics),
        ("24 five LightGBMs", tables.matrix, tables.many_labels, trees.many_lightgbms),
        ("25 scale+MLP", tables.matrix, tables.labels, others.neurons),
        ("26 scale+KNN", tables.matrix, tables.labels, others.neighbours),
        ("27 scale+GaussianNB", tables.matrix, tables.three_labels, others.bayes),
        ("28 scale+QDA", tables.matrix, tables.three_labels, others.discriminant),
        ("29 scale+SVC", tables.few_numbers, tables.labels, others.support_vectors),
        ("30 quantile+XGBoost", tables.matrix, tables.labels, trees.quantile_xgboost),
        ("31 impute+power+HGB", tables.missing, tables.labels, trees.power_histogram_boosting),
        ("32 one versus rest", tables.matrix, tables.three_labels, trees.one_versus_rest),
        ("33 bagged trees", tables.missing, tables.labels, trees.bagged_trees),
        ("34 voting regressor", tables.matrix, tables.scores, linear.voting_regressor),
    )
)
"""34 pipelines, in the order of their numbers."""
