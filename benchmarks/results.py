"""The short form of a benchmark, and the file that it writes.

Each program that ``bench.py`` runs has the options ``--short`` and ``--json``, and writes figures
of one form: the model, the rows in a call, the contender, and the median and quartiles of seconds.
The first contender of a model and number of rows is the one that others are compared with.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from timing import machine, spread, versions

__all__ = ["facts", "figure", "parse_options", "save"]


def parse_options(parser: argparse.ArgumentParser, **short: Any) -> argparse.Namespace:
    """Read the command line, on which ``--short`` changes the defaults to those given here."""
    told = ", ".join(f"--{name.replace('_', '-')} {value}" for name, value in short.items())
    parser.add_argument("--short", action="store_true", help=f"changes the defaults: {told}")
    if parser.parse_known_args()[0].short:
        parser.set_defaults(**short)
    return parser.parse_args()


def figure(model: str, rows: int, contender: str, times: list[float]) -> dict[str, Any]:
    """Return a figure of several calls, or of one reading that has no spread."""
    facts = {"model": model, "rows": rows, "contender": contender}
    return facts | (spread(times) if len(times) > 1 else {"median": times[0]})


def facts(figures: list[dict[str, Any]], chosen: argparse.Namespace) -> dict[str, Any]:
    """Return figures with the machine, the versions and the options."""
    return {
        "machine": machine(),
        "versions": versions(),
        "options": vars(chosen),
        "figures": figures,
    }


def save(figures: list[dict[str, Any]], chosen: argparse.Namespace) -> None:
    """Write the figures, the machine and the versions to the file of ``--json``."""
    if chosen.json:
        text = json.dumps(facts(figures, chosen), indent=1, default=str)
        chosen.json.write_text(text, encoding="utf-8")
