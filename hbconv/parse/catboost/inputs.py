"""What CatBoost's trees read: the columns, and the splits of them that trees name by number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from hbconv.containers import current_step
from hbconv.errors import ConversionError, UnsupportedError
from hbconv.parse.catboost.statistics import (
    CATEGORY,
    ONE,
    TEST,
    Statistic,
    read_statistics,
    require_ascending,
)

__all__ = ["ONE_HOT", "TOLD", "Inputs", "Split"]


class Split(NamedTuple):
    """A test of one column.

    Parameters
    ----------
    kind : str
    named : int
        What a tree names beside the kind: a feature of numbers or categories by its number among
        these, or for a statistic the class whose share it is.
    value : float
        The border, or the hash of the category.
    column : int
    """

    kind: str
    named: int
    value: float
    column: int


NUMBER, ONE_HOT, STATISTIC = "FloatFeature", "OneHotFeature", "OnlineCtr"
TOLD: Mapping[str, tuple[str, str]] = {
    NUMBER: ("float_feature_index", "border"),
    ONE_HOT: ("cat_feature_index", "value"),
    STATISTIC: ("ctr_target_border_idx", "border"),
}
"""Where a tree says the two numbers of a split, by its kind."""
SPLITS: Mapping[str, str] = {TEST: NUMBER, ONE: ONE_HOT}
"""Kind of the split that an element of a statistic is the outcome of."""


@dataclass(frozen=True)
class Inputs:
    """The columns that trees read: numbers, categories that some split knows, then statistics.

    Parameters
    ----------
    names : tuple of str
        Of all features, as the model was fitted; empty texts where they have no names.
    numbers : tuple of int
        Place of each numeric feature among all.
    nan_right : tuple of bool
        Whether NaN in it is larger than all numbers; else it is smaller.
    categories : mapping of int to tuple of int
        Place of a feature of categories among all, and the hashes that tests know, ascending.
    places : tuple of int
        Place of each feature of categories among all.
    statistics : tuple of Statistic
    splits : tuple of Split
        Those that CatBoost knows by their numbers.
    """

    names: tuple[str, ...]
    numbers: tuple[int, ...]
    nan_right: tuple[bool, ...]
    categories: Mapping[int, tuple[int, ...]]
    places: tuple[int, ...]
    statistics: tuple[Statistic, ...]
    splits: tuple[Split, ...]

    @staticmethod
    def of(features: Mapping[str, Any], tables: Mapping[str, Any] | None) -> Inputs:
        """Read ``features_info`` and ``ctr_data``."""
        numeric = features.get("float_features") or ()
        listed = features.get("categorical_features") or ()
        _require_once("flat_feature_index", (*numeric, *listed))
        _require_once("feature_index", numeric)
        _require_once("feature_index", listed)
        names = {
            int(f["flat_feature_index"]): str(f.get("feature_id", "")) for f in (*numeric, *listed)
        }
        if sorted(names) != list(range(len(names))) or [
            f["feature_index"] for f in numeric
        ] != list(range(len(numeric))):
            hint = (
                "The model lacks features that it was fitted on. Convert the model as it was "
                "before drop_unused_features."
            )
            raise UnsupportedError(
                "CatBoost", current_step(), "feature_names_", sorted(names)[:9], hint
            )
        known = [f for f in listed if f.get("values")]
        statistics = read_statistics(features, tables)
        splits = tuple(_numbered(numeric, known, statistics))
        _require_known(statistics, splits, len(listed))
        return Inputs(
            tuple(names[i] for i in range(len(names))),
            tuple(int(f["flat_feature_index"]) for f in numeric),
            tuple(f["nan_value_treatment"] == "AsTrue" for f in numeric),
            {
                int(f["flat_feature_index"]): tuple(sorted({int(v) for v in f["values"]}))
                for f in known
            },
            tuple(int(f["flat_feature_index"]) for f in listed),
            statistics,
            splits,
        )

    @property
    def width(self) -> int:
        """Return the number of columns."""
        return len(self.numbers) + len(self.categories) + len(self.statistics)

    @property
    def features(self) -> tuple[tuple[int, ...], ...]:
        """Return the features that each column is of: a statistic is of its categories alone."""
        of_statistics = (
            {self.places[e.feature] for e in statistic.elements if e.kind == CATEGORY}
            for statistic in self.statistics
        )
        alone = ((place,) for place in (*self.numbers, *self.categories))
        return (*alone, *(tuple(sorted(places)) for places in of_statistics))

    @property
    def shared(self) -> tuple[tuple[int, ...], ...]:
        """Return the sets of several features that columns are of, each once."""
        return tuple(dict.fromkeys(places for places in self.features if len(places) > 1))


def _require_once(key: str, features: Sequence[Mapping[str, Any]]) -> None:
    """Refuse a file in which two features have one place: its library reads one of them."""
    ((place, count),) = Counter(int(f[key]) for f in features).most_common(1) or [(0, 1)]
    if count > 1:
        raise ValueError(f"{count} features have {key} {place}")


def _numbered(
    numeric: Sequence[Mapping[str, Any]],
    known: Sequence[Mapping[str, Any]],
    statistics: Sequence[Statistic],
) -> Iterator[Split]:
    """List the splits as CatBoost numbers them; the borders of a feature must ascend."""
    for column, feature in enumerate(numeric):
        borders = feature.get("borders") or ()
        require_ascending(borders, f"feature {feature['feature_index']}")
        yield from (Split(NUMBER, feature["feature_index"], border, column) for border in borders)
    for column, feature in enumerate(known, len(numeric)):
        if len(set(feature["values"])) != len(feature["values"]):
            raise ConversionError(
                "The CatBoost model is damaged: the values of category feature "
                f"{feature['feature_index']} hold one twice."
            )
        yield from (
            Split(ONE_HOT, feature["feature_index"], value, column) for value in feature["values"]
        )
    for column, statistic in enumerate(statistics, len(numeric) + len(known)):
        yield from (
            Split(STATISTIC, statistic.target, border, column) for border in statistic.borders
        )


def _require_known(
    statistics: Sequence[Statistic], splits: Sequence[Split], categories: int
) -> None:
    """Refuse statistics of features, borders and categories that the model does not list."""
    listed = {split[:3] for split in splits}
    for element in {e for statistic in statistics for e in statistic.elements}:
        if element.kind == CATEGORY:
            is_known = type(element.feature) is int and 0 <= element.feature < categories
        else:
            is_known = (SPLITS[element.kind], element.feature, element.value) in listed
        if not is_known:
            raise ConversionError(
                f"The CatBoost model is damaged: a statistic is about {element.kind} "
                f"{element.feature!r:.20} {'' if element.value is None else element.value!r:.20}, "
                "which its features do not list."
            )
