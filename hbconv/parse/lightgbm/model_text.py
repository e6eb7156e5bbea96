"""LightGBM's model text, read without lightgbm and to the last bit.

The JSON dump of LightGBM rounds and clips values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hbconv.containers import current_step
from hbconv.errors import ConversionError, UnsupportedError
from hbconv.parse.damage import read_count
from hbconv.parse.lightgbm.trees import DAMAGED, Views, read_trees
from hbconv.system.files import read_json
from hbconv.trees.covered_forest import CoveredForest
from hbconv.trees.forest import Forest

__all__ = [
    "LightGBMModel",
    "category_lists",
    "decode_text",
    "read_lightgbm_text",
    "read_names",
]

_VERSIONS = ("v2", "v3", "v4")
_LISTS = "pandas_categorical:"


@dataclass(frozen=True)
class LightGBMModel:
    """The content of a model text.

    Parameters
    ----------
    forest : Forest
        Trees over the columns that views make.
    views : Views
        What the features become before the trees read them.
    names : tuple of str
        Feature names, ``Column_0, Column_1...`` where the training data had none.
    objective : str
        Name of the objective, empty for a custom one.
    options : mapping of str to str
        Its options, such as ``{"sigmoid": "0.7"}`` or ``{"sqrt": ""}``.
    iterations : int
        Number of trees that an average of the sums is over.
    average : bool
        Whether predictions are averages (random forests).
    categories : mapping of int to sequence
        Values of each feature that was a pandas column of categories, in the order of their codes.
    covered : CoveredForest or None
        The trees with the counts of their training rows, where the text has them.
    """

    forest: Forest
    views: Views
    names: tuple[str, ...]
    objective: str
    options: Mapping[str, str] = field(default_factory=dict)
    iterations: int = 1
    average: bool = False
    categories: Mapping[int, Sequence[Any]] = field(default_factory=dict)
    covered: CoveredForest | None = None


def decode_text(data: bytes) -> str:
    """Decode a model text; only names of features are not ASCII.

    LightGBM writes UTF-8, and reads bytes of any other encoding: Latin-1 holds them all.
    """
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def read_names(text: str) -> list[str]:
    """Return the names of the features of a model text."""
    return text.partition("\nfeature_names=")[2].partition("\n")[0].split(" ")


def read_lightgbm_text(
    text: str, iterations: tuple[int, int] | None = None, categories: Sequence[int] = ()
) -> LightGBMModel:
    """Read what ``Booster.model_to_string`` writes.

    Parameters
    ----------
    text : str
    iterations : tuple of int, optional
        First and last (not included) boosting iteration to keep.
    categories : sequence of int
        Features that are pandas columns of categories, in order; empty where they are not declared.

    Raises
    ------
    ConversionError
        Not a LightGBM model, or a damaged one.
    UnsupportedError
        A version that hbconv does not know, or category columns that the text does not tell apart.
    """
    # Texts written on Windows have other ends of lines; LightGBM reads both.
    text = text.replace("\r\n", "\n")
    header, *blocks = text.split("\nTree=")
    settings = _settings(header)
    if "tree" not in settings or "max_feature_idx" not in settings:
        raise ConversionError(
            "This is not a LightGBM model text: it does not begin with 'tree' and the "
            "model's settings."
        )
    sizes = settings["tree_sizes"].split() if "tree_sizes" in settings else None
    # Without this mark a text that was cut between two trees would be a smaller model.
    if "\nend of trees" not in text or len(blocks) != len(blocks if sizes is None else sizes):
        raise ConversionError(DAMAGED.format("it ends before the last tree"))
    if settings.get("version") not in _VERSIONS:
        raise UnsupportedError(
            "LightGBM",
            current_step(),
            "version",
            settings.get("version"),
            f"hbconv reads versions {', '.join(_VERSIONS)}.",
        )
    model = _model(settings, blocks, iterations)
    if sizes is not None:
        _require_sizes(sizes, blocks)
    infos = settings["feature_infos"].split(" ")
    return replace(model, categories=_categories(infos, text, categories))


def _require_sizes(sizes: list[str], blocks: list[str]) -> None:
    """Require the bytes that each tree is said to take, by which LightGBM finds the next.

    Old versions wrote no sizes.
    """
    # Sizes count bytes, and the line that begins each tree.
    lengths = [str(len(f"\nTree={block}".encode())) for block in blocks[:-1]]
    if sizes[:-1] != lengths:
        raise ConversionError(DAMAGED.format("tree_sizes are not the sizes of its trees"))


def _model(
    settings: dict[str, str], blocks: list[str], iterations: tuple[int, int] | None
) -> LightGBMModel:
    names = settings["feature_names"].split(" ")
    infos = settings["feature_infos"].split(" ")
    width = int(settings["max_feature_idx"]) + 1
    outputs = read_count("num_tree_per_iteration", settings["num_tree_per_iteration"], len(blocks))
    if not len(names) == len(infos) == width:
        raise ConversionError(
            DAMAGED.format(
                f"max_feature_idx={width - 1}, but it names {len(names)} features and "
                f"describes {len(infos)}"
            )
        )
    if not outputs or outputs != int(settings["num_class"]) or len(blocks) % outputs:
        raise ConversionError(
            DAMAGED.format(
                f"num_tree_per_iteration={outputs}, but it has {settings['num_class']} "
                f"outputs and {len(blocks)} trees"
            )
        )
    # At least as many as there are iterations, so that the slice below takes all trees.
    first, last = iterations or (0, len(blocks))
    trees = [_tree(block) for block in blocks[first * outputs : last * outputs]]
    forest, views, covered = read_trees(trees, width, outputs)
    objective, options = _objective(settings, outputs)
    return LightGBMModel(
        forest,
        views,
        tuple(names),
        objective,
        options,
        len(trees) // outputs,
        "average_output" in settings,
        covered=covered,
    )


def _objective(settings: dict[str, str], outputs: int) -> tuple[str, Mapping[str, str]]:
    """Return the objective's name and its options; its classes are as many as the outputs."""
    objective, *options = settings.get("objective", "").split() or [""]
    values = {name: value for name, _, value in (option.partition(":") for option in options)}
    if values.get("num_class", str(outputs)) != str(outputs):
        raise ConversionError(
            DAMAGED.format(
                f"its objective has num_class:{values['num_class']}, but it has {outputs} outputs"
            )
        )
    return objective, values


def _tree(block: str) -> dict[str, str]:
    """Read a tree, whose every line holds ``=``.

    LightGBM reads a key up to the next one, even into the next tree.
    It ends a tree at an empty line.
    """
    lines = block.partition("\nend of trees")[0].rstrip("\n").split("\n")[1:]
    # Found by fuzzing: LightGBM reads another tree from such lines, without an error.
    if not all("=" in line for line in lines) or "\r" in block:
        raise ConversionError(DAMAGED.format("a line of a tree is not key=value"))
    return _settings(block)


def _settings(block: str) -> dict[str, str]:
    """Return lines ``key=value`` (or a bare key) up to the end of the trees."""
    lines = [
        line.partition("=") for line in block.partition("\nend of trees")[0].split("\n") if line
    ]
    settings = {key: value for key, _, value in lines}
    # A text with two values for a key has two meanings.
    if len(settings) != len(lines):
        raise ConversionError(DAMAGED.format("a key stands twice"))
    return settings


def category_lists(text: str) -> list[list[Any]]:
    """Return the lists of categories, where LightGBM looks for them.

    It takes twice as many characters from the end until they are two lines, whole or not.
    The lists are the last of these, or the one before.
    """
    # Reproduces LightGBM's own search, since it decides which line is taken for the lists.
    size = len(_LISTS)
    while text.count("\n", max(len(text) - size, 0), len(text) - 1) == 0 and size < len(text):
        size *= 2
    for line in text[-size:].removesuffix("\n").split("\n")[:-3:-1]:
        if line.startswith(_LISTS):
            lists: list[list[Any]] | None = read_json(line.removeprefix(_LISTS))
            return lists or []
    return []


def _categories(
    infos: list[str], text: str, declared: Sequence[int]
) -> Mapping[int, Sequence[Any]]:
    """Match the lists of categories, which the text holds without their columns, to features.

    The user's rows tell the columns where some were given.
    A column of unordered categories is among LightGBM's categorical features, which the text names.
    By default there are no others.
    Else the only assignment is taken in which the values of the features are codes of the lists.
    """
    lists = category_lists(text)
    if not lists:
        return {}
    listed = [
        int(i)
        for i in text.rpartition("\n[categorical_feature: ")[2].partition("]")[0].split(",")
        if i
    ]
    sizes = [len(categories) for categories in lists]
    for columns in (declared, listed):
        if len(columns) == len(lists) and all(
            _may_be_codes(infos[j], size) for j, size in zip(columns, sizes, strict=True)
        ):
            return dict(zip(columns, lists, strict=True))
    # Matched from both ends: where the two agree, there is no other assignment.
    first = _match(list(enumerate(infos)), sizes)
    if first != _match(list(enumerate(infos))[::-1], sizes[::-1])[::-1] or len(first) != len(lists):
        hint = (
            "The model does not tell which columns have dtype category. Give hbconv.convert "
            "sample=, a few rows of the fitted table, or fit with unordered categories and "
            "categorical_feature='auto'."
        )
        raise UnsupportedError(
            "LightGBM", current_step(), "pandas_categorical", str(lists)[:60], hint
        )
    return dict(zip(first, lists, strict=True))


def _match(infos: list[tuple[int, str]], sizes: list[int]) -> list[int]:
    """Give each list in turn the first feature that it may have.

    Examples
    --------
    >>> _match([(0, "[0.5:2]"), (1, "[0:2]"), (2, "-1:1:0"), (3, "none")], [3, 2])
    [1, 2]
    """
    matched: list[int] = []
    for place, info in infos:
        if len(matched) < len(sizes) and _may_be_codes(info, sizes[len(matched)]):
            matched.append(place)
    return matched


def _may_be_codes(info: str, size: int) -> bool:
    """Tell whether the values of a feature may be codes of a list.

    They are ``[least:largest]``, ``a:b:c`` for categories (-1 is missing), or ``none``.
    """
    # Numeric features count missing apart; categorical ones list -1 for it.
    least = 0 if info.startswith("[") else -1
    return info == "none" or all(
        number.lstrip("-").isdigit() and least <= int(number) < size
        for number in info.strip("[]").split(":")
    )
