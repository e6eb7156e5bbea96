"""The arguments of a file's program: matrices of numbers, and text columns or their codes."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hbconv.interface.text import require_one_meaning, text_codes
from hbconv.lower import CodesFeed, Feed, Lowered, lower_nodes

if TYPE_CHECKING:
    from hbconv.containers import Codes, Graph
    from hbconv.target import Target

__all__ = [
    "FileInput",
    "argument_names",
    "inputs_with_codes",
    "inputs_with_text",
    "lower_with_checks",
    "text_columns",
]


@dataclass(frozen=True)
class FileInput:
    """One argument of a file's program.

    Parameters
    ----------
    name : str
    dtype : str
        ``"string"`` for one column of texts, else that of a matrix (n_rows, n_columns).
    columns : tuple of str
        Names of the model's columns that it holds, in order.
    vocabularies : tuple of mapping
        Code of each text, where the argument holds texts or their codes; other texts have code -1.
        Codes have one vocabulary a column, and texts have one for each encoder that reads them.
    """

    name: str
    dtype: str
    columns: tuple[str, ...]
    vocabularies: tuple[Mapping[str, int], ...] = ()

    @property
    def is_text(self) -> bool:
        """Whether it is a list of texts, not a matrix."""
        return self.dtype == "string"


def lower_with_checks(graph: Graph, target: Target) -> Lowered:
    """Write the outputs as one program, and behind them what each check says of each row."""
    roots = {name: output.node for name, output in graph.outputs.items()}
    checks = {f"check {number}": check.node for number, check in enumerate(graph.checks)}
    return lower_nodes(graph, roots | checks, target.precision)


def inputs_with_codes(lowered: Lowered, graph: Graph) -> list[FileInput]:
    """Return the inputs of a program, of which one holds the codes of all text columns."""
    names = graph.schema.names
    coded = [
        FileInput(
            feed.name,
            "int64",
            tuple(names[leaf.column] for leaf in feed.leaves),
            tuple(map(_codes, feed.leaves)),
        )
        for feed in lowered.feeds
        if isinstance(feed, CodesFeed)
    ]
    return [*_matrices(lowered, graph), *coded]


def inputs_with_text(lowered: Lowered, graph: Graph) -> list[FileInput]:
    """Return the inputs of a program with the texts themselves, one input a column."""
    texts: dict[int, list[Codes]] = {column: [] for column in text_columns(lowered)}
    for feed in lowered.feeds:
        for leaf in feed.leaves if isinstance(feed, CodesFeed) else ():
            texts[leaf.column].append(leaf)
    inputs = _matrices(lowered, graph)
    for column, leaves in texts.items():
        name = graph.schema.names[column]
        require_one_meaning((leaf.vocabulary for leaf in leaves), name)
        inputs.append(FileInput(name, "string", (name,), tuple(map(_codes, leaves))))
    names = argument_names(given.name for given in inputs)
    return [replace(given, name=name) for name, given in zip(names, inputs, strict=True)]


def text_columns(lowered: Lowered) -> list[int]:
    """Return the position of the text column of each column of codes."""
    feeds = [feed for feed in lowered.feeds if isinstance(feed, CodesFeed)]
    return [leaf.column for feed in feeds for leaf in feed.leaves]


def argument_names(names: Iterable[str]) -> list[str]:
    """Return names that programs can give to arguments, each once.

    Examples
    --------
    >>> argument_names(["petal length (cm)", "petal_length__cm_", "2nd", "class", "größe"])
    ['petal_length__cm_', 'petal_length__cm__', '_2nd', 'class_', 'gr__e']
    """
    found: list[str] = []
    for name in names:
        word = re.sub(r"^(?=\d|$)", "_", re.sub(r"\W", "_", name, flags=re.ASCII))
        while word in found or keyword.iskeyword(word) or word == "self":
            word += "_"
        found.append(word)
    return found


def _matrices(lowered: Lowered, graph: Graph) -> list[FileInput]:
    """Return the numeric inputs; models of sparse rows are refused before they are written."""
    names = graph.schema.names
    return [
        FileInput(feed.name, feed.dtype, tuple(names[c] for c in feed.columns))
        for feed in lowered.feeds
        if isinstance(feed, Feed)
    ]


def _codes(leaf: Codes) -> dict[str, int]:
    return text_codes(leaf.vocabulary, leaf.schema.columns[leaf.column].name)
