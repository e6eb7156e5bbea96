"""The tables of docs/gpu.md, from a file of results: predicted beside measured.

python -m benchmarks.gpu.page FILE docs/gpu.md
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from benchmarks.gpu.record import Record, Row

__all__ = ["TABLES", "table", "write"]

BATCH = 1_000_000
H100 = "H100"


def predicted(record: Record) -> Iterator[Row]:
    """Yield what each chosen form is predicted to take for the most rows that it is chosen for."""
    kept = (
        "device", "kernel", "up to rows", "microseconds", "clocks a row", "limit", "shared bytes",
    )  # fmt: skip
    for row in record.rows("predicted"):
        yield {"model": row["what"], **{name: row[name] for name in kept}}


def beside(record: Record) -> Iterator[Row]:
    """Yield a million rows by each form: predicted, of an H100 or the device, and measured."""
    known = {
        (row["what"], row["kernel"]): (row["microseconds"], "")
        for row in record.rows("predicted")
        if row["device"] == H100 and row["up to rows"] == BATCH
    }
    for row in record.rows("kernels"):
        if row.get("rows") == BATCH and "predicted" in row and "microseconds" in row:
            known[row["what"], row["way"]] = row["predicted"], row["microseconds"]
    for (model, kernel), (expected, found) in known.items():
        yield {
            "model": model,
            "kernel": kernel,
            "predicted microseconds": expected,
            "measured microseconds": found,
            "times the prediction": round(found / expected, 1) if found else "",
        }


def kernels(record: Record) -> Iterator[Row]:
    """Name for each model and number of rows the fastest kernel, and the fastest peer."""
    timed = [row for row in record.rows("kernels") if "microseconds" in row]
    for (what, count), found in by_size(timed):
        figures = sorted(found, key=lambda row: row["microseconds"])
        own = next((row for row in figures if not row.get("peer") and row["way"] != "chosen"), None)
        peer = next((row for row in figures if row.get("peer")), None)
        if own is None:
            continue
        chosen = [row["microseconds"] for row in figures if row["way"] == "chosen"]
        yield {
            "model": what,
            "rows": count,
            "fastest kernel": own["way"],
            "microseconds": own["microseconds"],
            "quartiles": spread(own),
            "the chosen one": chosen[0] if chosen else "",
            "rows a second": f"{count / own['microseconds'] * 1e6:.3g}",
            "fastest peer": peer["way"] if peer else "",
            "its microseconds": peer["microseconds"] if peer else "",
            "times as fast": f"{peer['microseconds'] / own['microseconds']:.1f}" if peer else "",
        }


def calls(record: Record) -> Iterator[Row]:
    """Yield calls, with a column for each way."""
    yield from across(record.rows("calls"))


def paper(record: Record) -> Iterator[Row]:
    """Yield the paper's models, with a column for each way."""
    yield from across(row for row in record.rows("paper") if not row["way"].endswith("made"))


def made(record: Record) -> Iterator[Row]:
    """Yield seconds of conversion and peak memory of the paper's models."""
    for row in record.rows("paper"):
        if row.get("way", "").endswith("made"):
            yield {
                "model": row["what"],
                "way": row["way"].removesuffix(", made"),
                "seconds to convert and call": row["seconds"],
                "rows": row["rows"],
                "peak bytes": row["peak bytes"],
            }


def score(record: Record) -> Iterator[Row]:
    """Yield rows a second of files."""
    for row in record.rows("score"):
        if "failed" not in row:
            yield {
                "model": row["what"],
                "on": row["way"],
                "rows": row["rows"],
                "rows a second": row["rows a second"],
                "seconds to start": row.get("start seconds", ""),
            }


def products(record: Record) -> Iterator[Row]:
    """Yield products, with their time over that by hand in float64."""
    timed = [row for row in record.rows("products") if "microseconds" in row]
    for (what, count), found in by_size(timed):
        figures = list(found)
        hand = [row["microseconds"] for row in figures if row["way"] == "by hand, float64"]
        for row in figures:
            yield {
                "model": what,
                "rows": count,
                "way": row["way"],
                "microseconds": row["microseconds"],
                "quartiles": spread(row),
                "times by hand": round(row["microseconds"] / hand[0], 2) if hand else "",
            }


def tests(record: Record) -> Iterator[Row]:
    """Yield what became of tests, sanitizers and a thousand batches."""
    for part in ("unproven", "sanitize", "kernels", "memory"):
        for row in record.rows(part):
            if "outcome" in row:
                told, seconds = row["outcome"], row.get("seconds", "")
                yield {"asked": row["what"], "by": row["way"], "outcome": told, "seconds": seconds}
            elif row.get("differing") is not None and part == "memory":
                told = f"{row['differing']} of {row['rows']:,} batches differ"
                more = f"; {row['device bytes more']:,} bytes of the device more"
                yield {
                    "asked": row["what"],
                    "by": row["way"],
                    "outcome": told + more,
                    "seconds": "",
                }


TABLES = {
    "predicted": predicted, "beside": beside, "measured": kernels, "calls": calls, "paper": paper,
    "made": made, "score": score, "products": products, "tests": tests,
}  # fmt: skip
"""What stands between the marks of the page, by their names."""


def across(rows: Iterable[Row]) -> Iterator[Row]:
    """Yield a line for each model and number of rows, with the microseconds of each way."""
    timed = [row for row in rows if "microseconds" in row]
    ways = dict.fromkeys(row["way"] for row in timed)
    for (what, count), found in by_size(timed):
        times = {row["way"]: row["microseconds"] for row in found}
        yield {"model": what, "rows": count, **{way: times.get(way, "") for way in ways}}


def by_size(rows: Iterable[Row]) -> Iterator[tuple[tuple[str, int], Iterator[Row]]]:
    """Group figures by model and number of rows."""
    return iter(groupby(sorted(rows, key=_size), key=_size))


def _size(row: Row) -> tuple[str, int]:
    return row["what"], row["rows"]


def spread(row: Row) -> str:
    """Write quartiles."""
    return f"{row['low']} to {row['high']}"


def table(rows: Iterable[Row]) -> str:
    """Write rows as a table of a page."""
    found = list(rows)
    if not found:
        return "Not measured yet."
    head = list(found[0])
    body = [[_shown(value) for value in row.values()] for row in found]
    lines = [head, ["---"] * len(head), *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _shown(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def write(page: Path, record: Record) -> None:
    """Replace the tables of a page; one for which nothing is known stays as it is."""
    text = page.read_text(encoding="utf-8")
    told = [record.facts.get(name, "") for name in ("device", "date")]
    device = ", ".join(filter(None, told))
    for title, find in TABLES.items():
        rows = list(find(record))
        if rows:
            named = "" if title in ("predicted", "beside") else f"{device}.\n\n"
            text = _replaced(text, title, f"{named}{table(rows)}")
    page.write_text(text, encoding="utf-8")


def _replaced(text: str, title: str, content: str) -> str:
    """Put content between a title's marks, if the page has them."""
    head, opening, rest = text.partition(f"<!-- {title} -->\n")
    _, closing, tail = rest.partition(f"<!-- end of {title} -->")
    return f"{head}{opening}\n{content}\n\n{closing}{tail}" if closing else text


def main() -> None:
    """Write the tables."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("file", type=Path)
    options.add_argument("page", type=Path)
    chosen = options.parse_args()
    write(chosen.page, Record.read(chosen.file))


if __name__ == "__main__":
    main()
