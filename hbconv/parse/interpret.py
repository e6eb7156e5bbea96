"""Explainable boosting machines of interpret: sums of look-ups, behind a link.

A column becomes the number of its bin: 0 for a missing value, then its cells or categories in
order, and the last one for a category never seen. The bins of the columns of a term together number
an entry of the term's table.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    VECTOR,
    Add,
    Affine,
    ArgMax,
    Bins,
    Cast,
    Choose,
    Compare,
    ConstantRows,
    IsMissing,
    Labels,
    LookupRows,
    Map,
    Node,
    OrderedLinear,
    Output,
    Quotient,
    Recode,
    Schema,
    Softmax,
)
from hbconv.parse.common.linear_scores import beside_complement
from hbconv.parse.common.text_columns import MISSING, category_codes, columns_of
from hbconv.parse.registry import parses
from hbconv.parse.step import Step, concat, select

__all__: list[str] = []


def _features(machine: Any) -> Schema:
    """Return the columns of a frame, found by name; of an array, whose columns it numbers."""
    names = [str(name) for name in machine.feature_names_in_]
    numbered = [f"feature_{position:04}" for position in range(len(names))]
    return Schema.matrix(len(names)) if names == numbered else Schema.table(names)


@parses("interpret.glassbox.ExplainableBoostingClassifier", features=_features)
def parse_classifier(step: Step) -> dict[str, Output]:
    """Compare the score of two classes with 0, or take the class of the greatest score."""
    step.refuse_sparse("reads categories, which no sparse matrix holds")
    scores = sum_terms(step)
    classes = Labels(Array(np.asarray(step.estimator.classes_)))
    if _link(step, "logit", "mlogit") == "mlogit":
        return {
            "predict": Output(ArgMax(scores), classes),
            "predict_proba": Output(Softmax(scores)),
            "decision_function": Output(scores),
        }
    return {
        "predict": Output(Compare.of(scores, "gt", 0.0, "int32"), classes),
        "predict_proba": Output(beside_complement(_odds_share(scores))),
        "decision_function": Output(scores, VECTOR),
    }


@parses("interpret.glassbox.ExplainableBoostingRegressor", features=_features)
def parse_regressor(step: Step) -> dict[str, Output]:
    """Return the scores, or their exponentials."""
    step.refuse_sparse("reads categories, which no sparse matrix holds")
    scores = sum_terms(step)
    if _link(step, "identity", "log") == "log":
        scores = Map(scores, "exp")
    return {"predict": Output(scores, VECTOR)}


def _link(step: Step, *handled: str) -> str:
    link = str(step.estimator.link_)
    if link not in handled:
        raise step.refuse("link_", link, f"hbconv handles {' and '.join(handled)}.")
    return link


def _odds_share(scores: Node) -> Node:
    """Return ``odds / (1 + odds)``, which is 1 where the odds exceed all floats."""
    odds = Map(scores, "exp")
    share = Quotient((odds, Affine.of(odds, add=1.0)))
    # Infinite odds would be inf / inf, which is NaN.
    return Choose(Compare.of(odds, "eq", np.inf), ConstantRows(odds, Array([1.0])), share)


_KINDS = ("continuous", "nominal", "ordinal")


def sum_terms(step: Step) -> Node:
    """Add the entries of all terms to the intercept, one after another, in float64."""
    est = step.estimator
    intercept = np.atleast_1d(np.asarray(est.intercept_, np.float64))
    tables = [_table(step, scores, len(intercept)) for scores in est.term_scores_]
    if not tables:
        return ConstantRows(step.x, Array(intercept))
    # One table holds all terms, so one look-up reads them.
    starts = np.cumsum([0, *(len(table) for table in tables[:-1])])
    positions = Cast(Affine.of(_entries(step), add=starts.astype(np.float64)), "int32")
    scores = LookupRows(positions, Array(np.concatenate(tables)))
    # An ordered product with ones adds term after term to the intercept, as the source does.
    ones = np.tile(np.eye(len(intercept)), (len(tables), 1))
    return OrderedLinear(scores, Array(ones), Array(intercept))


def _table(step: Step, scores: npt.NDArray[Any], outputs: int) -> npt.NDArray[np.float64]:
    """Return a term's table as rows of scores, which must be numbers."""
    table = np.asarray(scores, np.float64).reshape(-1, outputs)
    if np.isnan(table).any():
        raise step.damaged("a term has NaN among its scores")
    return table


def _entries(step: Step) -> Node:
    """Return the entry of each term's table, in C order over the bins of its columns.

    Terms of as many columns are computed together.
    """
    terms = list(step.estimator.term_features_)
    orders = sorted({len(features) for features in terms})
    groups = [[t for t, features in enumerate(terms) if len(features) == n] for n in orders]
    parts = [_entries_of(step, group) for group in groups]
    # Back from the groups to the order of the terms, in which they are added.
    places = np.argsort(np.concatenate(groups), kind="stable")
    return select(concat(parts), places.tolist())


def _entries_of(step: Step, terms: list[int]) -> Node:
    """Return the entries of terms that have the same number of columns."""
    est = step.estimator
    features = np.array([est.term_features_[term] for term in terms])
    sizes = np.array([est.term_scores_[term].shape[: features.shape[1]] for term in terms])
    used = np.unique(features).tolist()
    bins = _bins(step, used, features.shape[1])
    columns = [
        select(bins, np.searchsorted(used, column_of_each).tolist())
        for column_of_each in features.T
    ]
    entry = columns[0]
    for size, column in zip(sizes.T[1:], columns[1:], strict=True):
        # float64 holds these positions exactly; they become int32 at the end.
        entry = Add((Affine.of(entry, mul=size.astype(np.float64)), column))
    return entry


def _bins(step: Step, features: list[int], n_features: int) -> Node:
    """Return the bins of columns, in float64, by the bins for terms of so many columns."""
    est = step.estimator
    levels = [est.bins_[feature] for feature in features]
    # interpret keeps coarser bins for terms of more columns; the
    # last level serves all further ones.
    bins = [level[min(len(level), n_features) - 1] for level in levels]
    kinds = [est.feature_types_in_[feature] for feature in features]
    odd = next((kind for kind in kinds if kind not in _KINDS), None)
    if odd is not None:
        raise step.refuse("feature_types_in_", odd, f"hbconv handles {', '.join(_KINDS)}.")
    numbers = [i for i, kind in enumerate(kinds) if kind == "continuous"]
    others = [i for i, kind in enumerate(kinds) if kind != "continuous"]
    parts = [_category(step, features[i], bins[i]) for i in others]
    if numbers:
        x = columns_of(step.x, [features[i] for i in numbers])
        parts = [_cells(x, [bins[i] for i in numbers]), *parts]
    return select(concat(parts), np.argsort([*numbers, *others]).tolist())


def _cells(x: Node, edges: list[npt.NDArray[np.float64]]) -> Node:
    """Count the edges that each number reaches, and one more; a missing one is in bin 0."""
    # NaN is reached by no number, so padding adds nothing to a count.
    padded = np.full((len(edges), max(map(len, edges))), np.nan)
    for row, of_column in zip(padded, edges, strict=True):
        row[: len(of_column)] = of_column
    number = Cast(x, "float64")
    cells = Affine.of(Bins(number, Array(padded)), add=1.0)
    return Choose(IsMissing(number), ConstantRows(number, Array(np.zeros(len(edges)))), cells)


def _category(step: Step, feature: int, bins: dict[str, int]) -> Node:
    """Look up the bin of a category; one never seen has the last bin.

    Categories are texts.
    The source writes a number as text before it looks it up, so a number is known by its text.
    """
    numbers = {_as_number(text): place for text, place in bins.items()}
    # Texts that are no number share the key None.
    numbers.pop(None, None)
    place_of: dict[Any, int] = {**bins, **numbers, MISSING: 0}
    categories = np.empty(len(place_of), dtype=object)
    categories[:] = list(place_of)
    table = [max(bins.values(), default=0) + 1, *place_of.values()]
    codes = category_codes(step, feature, categories)
    return Recode(codes, (Array(np.array(table, np.float64)),))


def _as_number(text: str) -> float | None:
    """Return the number that the source writes as this text; None where there is none."""
    try:
        number = float(text)
    except ValueError:
        return None
    # Adding 0 makes 0 of -0, which the source writes as "0".
    return number if str(np.float64(number) + 0.0).removesuffix(".0") == text else None
