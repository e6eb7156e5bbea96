"""Pipelines and ensembles of imbalanced-learn, whose samplers change rows in fitting alone."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any

from hbconv.containers import Output, Schema
from hbconv.parse.common.members import columns_of_first
from hbconv.parse.registry import parses
from hbconv.parse.step import Step

__all__: list[str] = []


@parses("imblearn.ensemble.BalancedBaggingClassifier", "imblearn.ensemble.EasyEnsembleClassifier")
def parse_balanced_bagging(step: Step) -> dict[str, Output]:
    """Predict as bagging of the members behind their samplers."""
    bagging = copy(step.estimator)
    bagging.estimators_ = [_behind_sampler(member) for member in bagging.estimators_]
    return replace(step, estimator=bagging).like("sklearn.ensemble.BaggingClassifier")


@parses("imblearn.ensemble.BalancedRandomForestClassifier")
def parse_balanced_random_forest(step: Step) -> dict[str, Output]:
    """Predict as a random forest, whose trees it has."""
    return step.like("sklearn.ensemble.RandomForestClassifier")


@parses("imblearn.ensemble.RUSBoostClassifier")
def parse_rus_boost(step: Step) -> dict[str, Output]:
    """Predict as AdaBoost, whose members it has."""
    return step.like("sklearn.ensemble.AdaBoostClassifier")


def _behind_sampler(member: Any) -> Any:
    """Return the classifier alone of a pipeline that has a sampler before it."""
    steps = without_samplers(member).steps
    return steps[0][1] if len(steps) == 1 else member


def is_sampler(estimator: object) -> bool:
    """Tell whether a step resamples the rows of fitting, and passes others on as they are."""
    return hasattr(estimator, "fit_resample")


def without_samplers(pipeline: Any) -> Any:
    """Return a copy of a pipeline that has the steps alone that new rows meet."""
    # A shallow copy: the user's pipeline keeps its samplers.
    kept = copy(pipeline)
    kept.steps = [(name, step) for name, step in pipeline.steps if not is_sampler(step)]
    return kept


def _columns(pipeline: Any) -> Sequence[str] | int | Schema | None:
    return columns_of_first(without_samplers(pipeline))


@parses("imblearn.pipeline.Pipeline", features=_columns, takes_sparse=True)
def parse_resampling_pipeline(step: Step) -> dict[str, Output]:
    """Leave the samplers out; the rest predicts as scikit-learn's pipeline does."""
    name, last = step.estimator.steps[-1]
    if is_sampler(last):
        raise step.refuse("steps", name, "A pipeline that ends in a sampler answers no new row.")
    kept = replace(step, estimator=without_samplers(step.estimator))
    return kept.like("sklearn.pipeline.Pipeline")
