"""YDF's forests whose trees are averaged: random forests, CART trees and isolation forests."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import VECTOR, Affine, Cast, Clip, ConstantRows, Map, Node, Output
from hbconv.parse.registry import parses
from hbconv.parse.step import Step
from hbconv.parse.ydf.answers import (
    class_answers,
    is_slow,
    number_of_classes,
    require_task,
    sum_trees,
)
from hbconv.parse.ydf.columns import read_columns
from hbconv.parse.ydf.trees import YdfTrees, read_trees

__all__: list[str] = []

Floats = npt.NDArray[Any]

EULER = np.float32(0.5772156649)
"""Euler's constant, as the source rounds it."""


@parses("ydf.RandomForestModel", features=read_columns)
def parse_random_forest(step: Step) -> dict[str, Output]:
    """Average the trees: numbers, or shares of classes clipped to [0, 1]."""
    task = require_task(step, "CLASSIFICATION", "REGRESSION")
    trees = read_trees(step.estimator)
    if task == "REGRESSION":
        values = trees.leaf_values(lambda node: [node.regressor.top_value], 1)
        mean, leaves = _mean(step, trees, values.astype(np.float32), np.float64)
        return {"predict": Output(mean, VECTOR), **leaves}
    mean, leaves = _mean(step, trees, _shares(step, trees), np.float32)
    bounds = (Array(np.full(mean.type.width, bound, np.float32)) for bound in (0, 1))
    answers = class_answers(step, Clip(mean, *bounds))
    if is_slow(step.estimator) and not step.estimator.winner_takes_all():
        del answers["predict_class"]
        hint = "The slow engine rounds sums of shares in its own way, so equal ones may differ."
        step.refuse_method("predict_class", "winner_take_all", False, hint)
    return {**answers, **leaves}


def _mean(
    step: Step, trees: YdfTrees, values: Floats, slow: type[np.floating[Any]]
) -> tuple[Node, dict[str, Output]]:
    """Divide the values by the number of trees before they are added.

    The slow engine adds values first, in the dtype ``slow``.
    """
    count = len(trees.sizes)
    width = values.shape[1]
    if is_slow(step.estimator):
        sums, leaves = sum_trees(step, trees, values, np.zeros(width, slow))
        return Cast(Affine.of(sums, div=slow(count)), "float32"), leaves
    return sum_trees(step, trees, values / values.dtype.type(count), np.zeros(width, np.float32))


def _shares(step: Step, trees: YdfTrees) -> Floats:
    """Return what each leaf gives the classes; of two classes, the second alone.

    It gives all to the class that won it, as float32, or to each by its count, as float64.
    """
    classes = number_of_classes(step)
    kept = [2] if classes == 2 else list(range(1, classes + 1))
    if step.estimator.winner_takes_all():
        winners = trees.leaf_values(lambda node: [node.classifier.top_value], 1)
        if np.any(winners[~trees.splits] < 1) or np.any(winners > classes):
            raise step.damaged(f"a leaf votes for none of the {classes} classes")
        return np.where(winners == kept, np.float32(1), np.float32(0))
    counts = trees.leaf_values(lambda node: list(node.classifier.distribution.counts), classes + 1)
    total = trees.leaf_values(lambda node: [node.classifier.distribution.sum], 1)
    if not np.all(total[~trees.splits] > 0):
        raise step.damaged("a leaf counts no row")
    shares: Floats = (counts / np.where(total, total, 1.0))[:, kept]
    return shares


@parses("ydf.IsolationForestModel", features=read_columns)
def parse_isolation_forest(step: Step) -> dict[str, Output]:
    """Raise 2 to the mean depth of a row, over that of a random tree, made negative.

    A leaf of several rows counts as deep as a random tree of as many would reach below it
    (Liu, Ting and Zhou 2008).
    """
    require_task(step, "ANOMALY_DETECTION")
    trees = read_trees(step.estimator)
    rows = trees.leaf_values(lambda node: [node.anomaly_detection.num_examples_without_weight], 1)
    below = np.array([_random_depth(int(own)) for own in rows[:, 0]], np.float32)
    depth = trees.depth.astype(np.float32) + below
    shares = depth[:, None] / np.float32(len(trees.sizes))
    sums, leaves = sum_trees(step, trees, shares, np.zeros(1, np.float32))
    whole = _random_depth(int(step.estimator.num_examples_per_tree()))
    if not whole:
        none = ConstantRows(sums, Array(np.zeros(1, np.float32)))
        return {"predict": Output(none, VECTOR), **leaves}
    power = Cast(Affine.of(Map(sums, "neg"), div=whole), "float64")
    return {"predict": Output(Cast(Map(power, "exp2"), "float32"), VECTOR), **leaves}


def _random_depth(count: int) -> np.float32:
    """Return the mean depth of a row in a random tree of so many rows, in float32."""
    if count <= 2:
        return np.float32(count == 2)
    n = np.float32(count)
    one = np.float32(1)
    two = np.float32(2)
    harmonic = np.float32(math.log(n - one)) + EULER
    return np.float32(two * harmonic - two * (n - one) / n)
