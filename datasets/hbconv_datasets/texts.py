"""Seeded generators of texts: documents on topics, and a table with a text in each row.

Words are made of syllables, and frequent words are short. They are drawn by Zipf's law, and every
topic has some words of its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv_datasets.dataset import Dataset

__all__ = ["documents", "listings"]

_SYLLABLES = tuple(
    f"{first}{vowel}{last}"
    for last in ("", "n", "r", "s", "lt")
    for vowel in "aeiou"
    for first in ("b", "d", "k", "l", "m", "p", "s", "t", "v", "st")
)
_OWN = 0.15
"""Share of a document's words that are its topic's."""


def documents(
    rows: int = 10_000, topics: int = 20, words: int = 50_000, length: int = 100, seed: int = 0
) -> Dataset:
    """Draw documents, and the topic of each.

    Parameters
    ----------
    rows, topics : int
    words : int
        Words that the language has.
    length : int
        Words of a document, on average.
    seed : int
        State of the generator.

    Examples
    --------
    >>> data = documents(rows=100, length=10)
    >>> data.X.shape, data.X[0][:30], data.y[:3].tolist()
    ((100,), 'Posmu sti bultla servon virste', [17, 12, 10])
    """
    rng = np.random.default_rng(seed)
    topic = rng.integers(0, topics, rows)
    return Dataset(
        "documents",
        _written(topic, words, length, rng),
        topic,
        "multiclass" if topics > 2 else "binary",
    )


def listings(rows: int = 10_000, seed: int = 0) -> Dataset:
    """Draw a pandas table of flats to let, and whether each was let.

    It holds numbers with missing values, categories and a description.

    Examples
    --------
    >>> table = listings(rows=50).X
    >>> list(table), table["description"].isna().any()
    (['rent', 'area', 'rooms', 'age', 'district', 'heating', 'description'], np.False_)
    """
    import pandas as pd

    rng = np.random.default_rng(seed)
    liked = rng.integers(0, 2, rows)
    rooms = rng.integers(1, 7, rows)
    district = rng.integers(0, 12, rows)
    area = 18.0 * rooms + rng.gamma(4.0, 5.0, rows)
    rent = area * (8 + district) * rng.lognormal(0.0, 0.2, rows)
    heating = np.array(["gas", "district heating", "heat pump", "Öl"], object)[
        rng.integers(0, 4, rows)
    ]
    columns: dict[str, Any] = {
        "rent": np.where(rng.random(rows) < 0.05, np.nan, rent),
        "area": area,
        "rooms": rooms,
        "age": np.where(rng.random(rows) < 0.2, np.nan, rng.gamma(2.0, 20.0, rows)).astype(
            np.float32
        ),
        "district": pd.Categorical.from_codes(
            np.where(rng.random(rows) < 0.02, -1, district), [f"district {i}" for i in range(12)]
        ),
        "heating": heating,
        "description": _written(liked, 5_000, 25, rng),
    }
    score = (
        2 * liked
        - rent / area / 10
        + rooms / 4
        + (heating == "heat pump")
        + rng.standard_normal(rows)
    )
    return Dataset(
        "listings", pd.DataFrame(columns), (score > np.median(score)).astype(np.int64), "binary"
    )


def _written(
    topic: npt.NDArray[np.int64], words: int, length: int, rng: np.random.Generator
) -> npt.NDArray[np.object_]:
    """Return a document for each topic: capitalised, with commas, ending in a full stop."""
    counts = 1 + rng.poisson(length - 1, len(topic))
    shares = np.cumsum(1 / np.arange(1, words + 1))
    drawn = np.searchsorted(shares, rng.random(counts.sum()) * shares[-1])
    own = rng.random(len(drawn)) < _OWN
    drawn[own] = (drawn[own] % 100 + 1) * (np.repeat(topic, counts)[own] + 3) % words
    language = np.array([_word(i) for i in range(words)], object)
    tokens = np.where(rng.random(len(drawn)) < 0.1, language[drawn] + ",", language[drawn])
    ends = np.cumsum(counts)
    texts = (" ".join(tokens[first:last]) for first, last in zip(ends - counts, ends, strict=True))
    return np.array([f"{text.rstrip(',').capitalize()}." for text in texts], object)


def _word(rank: int) -> str:
    first, rest = rank % len(_SYLLABLES), rank // len(_SYLLABLES)
    return _SYLLABLES[first] + (_word(rest - 1) if rest else "")
