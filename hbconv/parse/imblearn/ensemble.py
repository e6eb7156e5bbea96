"""Ensembles whose members are fitted on resampled rows."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any

from hbconv.containers import Output
from hbconv.parse.imblearn.pipeline import without_samplers
from hbconv.parse.registry import parses
from hbconv.parse.step import Step


@parses("imblearn.ensemble.BalancedBaggingClassifier", "imblearn.ensemble.EasyEnsembleClassifier")
def parse_balanced_bagging(step: Step) -> dict[str, Output]:
    """Answer as bagging of the members behind their samplers."""
    bagging = copy(step.estimator)
    bagging.estimators_ = [_behind_sampler(member) for member in bagging.estimators_]
    return replace(step, estimator=bagging).like("sklearn.ensemble.BaggingClassifier")


@parses("imblearn.ensemble.BalancedRandomForestClassifier")
def parse_balanced_random_forest(step: Step) -> dict[str, Output]:
    """Answer as a random forest, whose trees it has."""
    return step.like("sklearn.ensemble.RandomForestClassifier")


@parses("imblearn.ensemble.RUSBoostClassifier")
def parse_rus_boost(step: Step) -> dict[str, Output]:
    """Answer as AdaBoost, whose members it has."""
    return step.like("sklearn.ensemble.AdaBoostClassifier")


def _behind_sampler(member: Any) -> Any:
    """Return the classifier alone of a pipeline that has a sampler before it."""
    steps = without_samplers(member).steps
    return steps[0][1] if len(steps) == 1 else member
