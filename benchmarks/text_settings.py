"""Time the counting of tokens beside scikit-learn, for many settings of its vectorizers.

    taskset -c 0 python benchmarks/text_settings.py [--only words ...] [--documents 2000 16 1]
        [--json FILE]

Counting alone is timed, in one process by turns: what a vectorizer's ``transform`` does, and what
hbconv does on the host. Of weights, which a program computes, ``transform`` of the model is timed.
The documents are generated, 100 words on average. Their other scripts are the same words in other
letters. Figures are the least processor time of a pass over documents, a new one each time; quote
ratios of one run.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import (
    CountVectorizer,
    HashingVectorizer,
    TfidfVectorizer,
)
from timing import least_processor_seconds, machine

import hbconv
from hbconv.containers import Entries, topological
from hbconv.parse import parse
from hbconv.runtime.inputs.records import read_items
from hbconv.runtime.text.vectorize import extract
from hbconv_datasets import texts

MOST = 2**17
LEAST_DOCUMENTS = 100
"""Documents of a pass."""
CYRILLIC = {ord("a") + i: chr(0x430 + i) for i in range(26)}
ACCENTED = {ord("a"): "é", ord("o"): "Ö"}

SETTINGS: dict[str, tuple[Any, dict[int, str]]] = {
    "words": (CountVectorizer(max_features=MOST), {}),
    "pairs of words": (CountVectorizer(max_features=MOST, ngram_range=(1, 2)), {}),
    "binary": (CountVectorizer(binary=True), {}),
    "capitals kept": (CountVectorizer(lowercase=False), {}),
    "stop words": (CountVectorizer(stop_words="english"), {}),
    "[a-z]{3,}": (CountVectorizer(token_pattern="[a-z]{3,}"), {}),
    "accents": (CountVectorizer(strip_accents="unicode"), ACCENTED),
    "accents, ascii": (CountVectorizer(strip_accents="ascii"), ACCENTED),
    "Cyrillic words": (CountVectorizer(), CYRILLIC),
    "Cyrillic pairs": (CountVectorizer(ngram_range=(1, 2)), CYRILLIC),
    "characters, 2 to 4": (CountVectorizer(analyzer="char", ngram_range=(2, 4)), {}),
    "within words, 2 to 4": (CountVectorizer(analyzer="char_wb", ngram_range=(2, 4)), {}),
    "within words, 3 to 5": (CountVectorizer(analyzer="char_wb", ngram_range=(3, 5)), {}),
    "hashed words": (HashingVectorizer(norm=None), {}),
    "hashed pairs": (HashingVectorizer(norm=None, ngram_range=(1, 2)), {}),
    "hashed characters": (
        HashingVectorizer(norm=None, analyzer="char", ngram_range=(2, 4)),
        {},
    ),
    "tf-idf": (TfidfVectorizer(), {}),
    "tf-idf, sublinear": (TfidfVectorizer(sublinear_tf=True), {}),
    "tf-idf, norm l1": (TfidfVectorizer(norm="l1"), {}),
}
"""Settings, and letters to write instead of others."""


def main() -> None:
    """Run the benchmark."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--only", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    options.add_argument(
        "--documents", type=int, nargs="+", default=[2000, 16, 1], help="in a call"
    )
    options.add_argument("--seconds", type=float, default=2.0)
    options.add_argument("--json", type=Path)
    chosen = options.parse_args()
    drawn = texts.documents(4000 + max([2000, *chosen.documents]), 20, words=400_000).X
    figures = []
    for name in chosen.only:
        for count in chosen.documents:
            row = measure(name, drawn, count, chosen.seconds)
            print(row, flush=True)
            figures.append(row)
    if chosen.json:
        told = {"machine": machine(), "figures": figures}
        chosen.json.write_text(json.dumps(told, indent=1) + "\n")


def measure(name: str, drawn: Any, count: int, seconds: float) -> dict[str, Any]:
    """Time one setting for so many documents that it was not fitted on."""
    vectorizer, letters = SETTINGS[name]
    documents = np.array([text.translate(letters) for text in drawn], dtype=object)
    vectorizer.fit(documents[:4000])
    new = documents[4000:]
    calls = {
        "scikit-learn": by_turns(vectorizer.transform, count),
        "hbconv": by_turns(counting(vectorizer), count),
    }
    passes = max(1, LEAST_DOCUMENTS // count)
    timed = {who: partial(repeated, call, new, passes) for who, call in calls.items()}
    least = least_processor_seconds(timed, seconds)
    times = {who: t / passes for who, t in least.items()}
    return {
        "setting": name,
        "documents": count,
        **{f"{who}, us a document": round(t / count * 1e6, 1) for who, t in times.items()},
        "ratio": round(times["scikit-learn"] / times["hbconv"], 2),
    }


def repeated(call: Callable[[Any], Any], documents: Any, times: int) -> None:
    """Call several times."""
    for _ in range(times):
        call(documents)


def by_turns(call: Callable[[Any], Any], count: int) -> Callable[[Any], Any]:
    """Return a call that takes the next documents each time: none comes again soon."""
    turn = itertools.count()

    def call_with_next(documents: Any) -> Any:
        first = next(turn) * count % len(documents)
        return call(documents[first : first + count])

    return call_with_next


def counting(vectorizer: Any) -> Callable[[Any], Any]:
    """Return what hbconv does on the host, from documents to the entries of rows; or the model."""
    if isinstance(vectorizer, TfidfVectorizer):
        return hbconv.convert(vectorizer).transform
    (found,) = entries(vectorizer)
    return lambda documents: extract(read_items(list(documents)).read(0), found.extractor, "x")


def entries(vectorizer: Any) -> Iterator[Entries]:
    """Find where a model counts tokens."""
    return (
        node for node in topological(parse(vectorizer).output_roots) if isinstance(node, Entries)
    )


if __name__ == "__main__":
    main()
