"""Time how long a column of categories takes to become codes, for each kind of table.

    taskset -c 0 python benchmarks/encoding.py [--rows 1000000] [--categories 1000] [--json FILE]

The last line is the same column through the OneHotEncoder that the categories came from.
Figures are medians of repeated runs, in milliseconds of the processor.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from sklearn.preprocessing import OneHotEncoder

from hbconv.containers import Vocabulary
from hbconv.runtime.inputs.dataframes import read_frame
from hbconv.runtime.text.categories import encode

SOURCE = "scikit-learn, objects"


def forms(words: np.ndarray) -> dict[str, Any]:
    """Return a table of one column for each kind of table."""
    arrow = pa.array(words)
    return {
        "Arrow string": pa.table({"t": arrow}),
        "Arrow string view": pa.table({"t": arrow.cast(pa.string_view())}),
        "Arrow dictionary": pa.table({"t": arrow.dictionary_encode()}),
        "polars String": pl.DataFrame({"t": words}),
        "polars Categorical": pl.DataFrame({"t": pl.Series(words, dtype=pl.Categorical)}),
        "pandas str": pd.DataFrame({"t": pd.array(words, dtype="str")}),
        "pandas category": pd.DataFrame({"t": pd.Categorical(words)}),
        "pandas objects": pd.DataFrame({"t": pd.Series(words, dtype=object)}),
        "numpy text": {"t": words.astype(str)},
        "list of texts": {"t": words.tolist()},
    }


def milliseconds(call: Callable[[], Any], repeat: int) -> list[float]:
    """Time a call after a first one that is not timed."""
    call()
    times = []
    for _ in range(repeat):
        began = time.process_time()
        call()
        times.append((time.process_time() - began) * 1e3)
    return times


def main() -> None:
    """Time every form and print a line for each."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--rows", type=int, default=1_000_000)
    options.add_argument("--categories", type=int, default=1000)
    options.add_argument("--repeat", type=int, default=7)
    options.add_argument("--json", type=Path)
    chosen = options.parse_args()
    known = np.array([f"c{i}" for i in range(chosen.categories)], dtype=object)
    words = known[np.random.default_rng(0).integers(0, len(known), chosen.rows)]
    vocabulary = Vocabulary(tuple(known.tolist()))
    calls: dict[str, Callable[[], Any]] = {
        name: lambda table=table: encode(read_frame(table).read(0), vocabulary, "Column 't'")
        for name, table in forms(words).items()
    }
    encoder = OneHotEncoder().fit(known[:, None])
    calls[SOURCE] = lambda: encoder.transform(words[:, None])
    figures = []
    for name, call in calls.items():
        times = milliseconds(call, chosen.repeat)
        figures.append(
            {
                "form": name,
                "rows": chosen.rows,
                "categories": chosen.categories,
                "median": median(times),
                "fastest": min(times),
                "slowest": max(times),
            }
        )
        print(
            f"{name:<22} {median(times):8.1f} ms ({min(times):.1f} to {max(times):.1f})", flush=True
        )
    if chosen.json:
        chosen.json.write_text(json.dumps(figures, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
