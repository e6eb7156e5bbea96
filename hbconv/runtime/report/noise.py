"""The structure of a model without its data: values and names are replaced by made-up ones.

A graph is written as a file would hold it, and read back with other leaves. MadeNumbers keep their
order, their signs and their equality, and 0, 1, infinities and NaN stay: tables are sorted and
thresholds met as before, so the same plan, rules and kernels follow.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from hbconv.containers import Cast, Columns, FindCode, Graph
from hbconv.parse.registry import parser_names
from hbconv.runtime.storage.codec import decode, encode

__all__ = ["make_noise", "without_data"]

USERS = frozenset(
    {"classes", "key", "keys", "message", "name", "names", "source", "stop_words", "step", "text"}
    | {"empty", "nulls", "parts", "values"}
)
"""Fields whose texts are the user's, even where they are words of hbconv too."""
WHOLE = frozenset({"classes", "keys", "values"})
"""Fields whose whole numbers are the user's: labels and categories, not places."""
PATTERN = r"(?u)\b\w\w+\b"
"""Takes the place of a tokenizer's expression, so that it stays one."""


def without_data(graph: Graph) -> Graph:
    """Return a graph of the same nodes, whose numbers and texts tell nothing of the user's.

    Raises
    ------
    StoreError
        A node does not take values of another model.
    """
    document, arrays = encode(graph)
    writer = NoiseWriter(
        MadeNumbers.of(_floats(document, arrays)),
        MadeTexts.of(_texts(document)),
        _whole(document, arrays),
    )
    kept = {
        name: writer.numbers(a) if a.dtype.kind == "f" else writer.whole(name, a)
        for name, a in arrays.items()
    }
    decoded: Graph = decode(writer.value(document, ""), kept)
    return decoded


def make_noise(graph: Graph, rows: int) -> Any:
    """Return rows for a model: normal numbers, and texts that it knows of, as it finds columns."""
    import pandas as pd

    rng = np.random.default_rng(0)
    texts, numbers = _known_texts(graph), _known_numbers(graph)

    def made(place: int, dtype: str) -> Any:
        if dtype == "string":
            return rng.choice(texts.get(place, ["a", "b"]), rows)
        if place in numbers:
            return rng.choice(numbers[place], rows).astype(dtype or "float64")
        return rng.standard_normal(rows).astype(dtype or "float64")

    columns = [made(i, column.dtype) for i, column in enumerate(graph.schema.columns)]
    names = graph.schema.names if graph.schema.named else range(len(columns))
    frame = pd.DataFrame(dict(zip(names, columns, strict=True)))
    if graph.schema.conventions.takes_column:
        return columns[0].tolist()
    return frame if graph.schema.named else frame.to_numpy()


def _known_numbers(graph: Graph) -> dict[int, Any]:
    """Return the numbers that some encoder knows, by the column that it reads."""
    found: dict[int, Any] = {}
    for node in graph.nodes():
        source = node.x if isinstance(node, FindCode) else None
        while isinstance(source, Cast):
            source = source.x
        if isinstance(node, FindCode) and isinstance(source, Columns):
            places = zip(source.indices.data.tolist(), node.values, strict=True)
            found |= {place: values.data for place, values in places}
    return found


def _known_texts(graph: Graph) -> dict[int, list[str]]:
    """Return the texts that some node knows, by the column that it reads."""
    found: dict[int, list[str]] = {}
    for node in graph.nodes():
        values = getattr(getattr(node, "vocabulary", None), "values", ())
        texts = [value for value in values if isinstance(value, str)]
        if texts:
            found.setdefault(node.column, texts)  # type: ignore[attr-defined]
    return found


@dataclass(frozen=True)
class MadeNumbers:
    """A map of magnitudes that keeps their order; 0 and 1 stay.

    Parameters
    ----------
    known, made : numpy.ndarray
        Sorted magnitudes, and what takes their places.
    """

    known: Any
    made: Any

    @staticmethod
    def of(values: Any) -> MadeNumbers:
        """Make random steps: below 1 on a grid of (0, 1), beyond on one of (1, 9)."""
        known = np.unique(np.abs(values[np.isfinite(values)]))
        known = known[(known != 0) & (known != 1)]
        rng = np.random.default_rng()
        below = int(np.count_nonzero(known < 1))
        parts = [
            _grid(below, rng),
            1 + 8 * _grid(len(known) - below, rng),
        ]
        return MadeNumbers(known, np.concatenate(parts))

    def __call__(self, values: Any) -> Any:
        """Replace the values of an array, in its dtype."""
        wide = np.asarray(values, np.float64)
        place = np.searchsorted(self.known, np.abs(wide))
        place = np.minimum(place, max(len(self.known) - 1, 0))
        if not len(self.known):
            return values
        held = self.known[place] == np.abs(wide)
        return np.where(held, np.copysign(self.made[place], wide), wide).astype(values.dtype)


def _grid(count: int, rng: np.random.Generator) -> Any:
    """Return increasing fractions with few bits, which float32 holds too."""
    bits = int(np.ceil(np.log2(4 * count + 4)))
    return (4 * np.arange(count) + rng.integers(1, 5, count)) / 2.0**bits


@dataclass(frozen=True)
class MadeTexts:
    """Made-up texts by those of the user's, in the same order."""

    made: Mapping[str, str]

    @staticmethod
    def of(texts: Iterable[str]) -> MadeTexts:
        """Make a text for each, in their order."""
        known = sorted(set(texts) - {""})
        width = len(str(len(known)))
        return MadeTexts({text: f"t{i:0{width}}" for i, text in enumerate(known)} | {"": ""})

    def __call__(self, text: str) -> str:
        """Return what takes the place of a text."""
        return self.made[text]


@dataclass(frozen=True)
class NoiseWriter:
    """Writes a document anew, leaf by leaf.

    Parameters
    ----------
    numbers : MadeNumbers
    texts : MadeTexts
    labels : mapping of str to bool
        Whole arrays that are labels or categories.
    """

    numbers: MadeNumbers
    texts: MadeTexts
    labels: frozenset[str]

    def whole(self, name: str, array: Any) -> Any:
        """Replace labels by their ranks; places and bits stay."""
        if name not in self.labels or array.dtype.kind == "b":
            return array
        return np.unique(array, return_inverse=True)[1].reshape(array.shape).astype(array.dtype)

    def value(self, value: Any, field: str) -> Any:
        """Write the value of a field."""
        if isinstance(value, bool) or value is None:
            return value
        if isinstance(value, str):
            return self.text(value, field)
        if isinstance(value, float):
            return float(self.numbers(np.float64(value)))
        if isinstance(value, list):
            return [self.value(v, field) for v in value]
        if isinstance(value, dict):
            return self.entry(value, field)
        return value

    def entry(self, value: dict[str, Any], field: str) -> dict[str, Any]:
        """Write a node, or what stands for a value that JSON does not have."""
        if "bytes" in value:
            return {"bytes": "\0" * len(value["bytes"])}
        if "text" in value:
            made = self.value(value["text"], "text")
            # A narrower type would cut the texts, and make one of two.
            return {**value, "text": made, "dtype": re.sub(r"U\d+", "U24", value["dtype"])}
        if "map" in value:
            return {"map": [[self.value(k, field), self.value(v, field)] for k, v in value["map"]]}
        if "tuple" in value and field in WHOLE and _are_whole(value["tuple"]):
            ranks = np.unique(value["tuple"], return_inverse=True)[1]
            return {"tuple": ranks.tolist()}
        return {k: v if k in RAW else self.value(v, _inner(k, field)) for k, v in value.items()}

    def text(self, text: str, field: str) -> str:
        """Return a word of hbconv as it is, and a made-up one for others."""
        if field == "pattern":
            return PATTERN
        if field in ("step", "source", "estimator"):
            parts = text.split("/")
            return "/".join(p if p in class_words() else self._part(p) for p in parts)
        if field == "message":
            return "The row is refused."
        return self.texts(text) if _is_users(text, field) else text

    @staticmethod
    def _part(part: str) -> str:
        """Keep the numbers of a step, which tell members apart, and no more."""
        return re.sub(r"[^\d\[\]]+", "step", part)


RAW = frozenset({"is", "array", "dtype", "shape", "float"})
"""Keys whose values hold no data."""


def _inner(key: str, field: str) -> str:
    """Return the field that a value belongs to: items of a tuple are of the tuple's."""
    return field if key in ("tuple", "set", "columns", "text", "root") and field else key


def _are_whole(values: list[Any]) -> bool:
    return bool(values) and all(type(value) is int for value in values)


def _is_users(text: str, field: str) -> bool:
    return field in USERS or text not in words()


def _walk(value: Any, field: str, see: Callable[[Any, str], None]) -> None:
    """Show each leaf of a document with its field."""
    if isinstance(value, list):
        for item in value:
            _walk(item, field, see)
    elif isinstance(value, dict):
        if "array" in value:
            see(value, field)
        for key, item in value.items():
            if key not in RAW:
                _walk(item, _inner(key, field), see)
    else:
        see(value, field)


def _floats(document: Any, arrays: Mapping[str, Any]) -> Any:
    found: list[float] = []
    _walk(document, "", lambda value, _: found.append(value) if isinstance(value, float) else None)
    parts = [a.ravel().astype(np.float64) for a in arrays.values() if a.dtype.kind == "f"]
    return np.concatenate([np.array(found, np.float64), *parts])


def _texts(document: Any) -> list[str]:
    found: list[str] = []

    def see(value: Any, field: str) -> None:
        if isinstance(value, str) and _is_users(value, field):
            found.append(value)

    _walk(document, "", see)
    return found


def _whole(document: Any, arrays: Mapping[str, Any]) -> frozenset[str]:
    """Return the arrays that hold labels or categories."""
    found: set[str] = set()

    def see(value: Any, field: str) -> None:
        if isinstance(value, dict) and field in WHOLE and arrays[value["array"]].dtype.kind in "iu":
            found.add(value["array"])

    _walk(document, "", see)
    return frozenset(found)


WORD = re.compile(r'(?<!\w)"([A-Za-z0-9_+ -]{1,40})"')
"""A short text in quotes, as code names an operator."""


@cache
def words() -> frozenset[str]:
    """Return the texts that stand in hbconv's own code: names of operators, methods and kinds."""
    import hbconv

    # A search takes 0.1 s for all files, where their syntax trees take seconds.
    files = Path(hbconv.__file__).parent.rglob("*.py")
    texts = (path.read_text(encoding="utf-8") for path in files)
    return frozenset({"", *(word for text in texts for word in WORD.findall(text))})


@cache
def class_words() -> frozenset[str]:
    """Return the names of the classes that hbconv reads, also as pipelines number them."""
    classes = {name.rpartition(".")[2] for name in parser_names()}
    return frozenset(classes | {name.lower() for name in classes})
