"""Compare contenders on one model: make them, compare their answers, time them by turns.

``trees.py`` and ``operators.py`` share this.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
from models import Fitted, Subject
from peers import PEERS, Call, Contender, Setting, answer, contenders
from timing import interleaved, spread, use_threads

if TYPE_CHECKING:
    from typical_models import FittedWorkload, Workload

__all__ = ["compare", "options"]

TOLERANCE = 1e-4
"""Difference to the source, relative to values above one, beyond which a row's answer is wrong.

float32 sums of hundreds of trees explain less.
"""
WRONG_SHARE = 1e-3
"""A contender is wrong if a larger share of its rows is wrong."""


Times = Callable[[Mapping[str, Call], Any, float], dict[str, dict[str, float]]]
"""Times calls for some rows and seconds; returns what it found of each by name."""


def interleaved_times(
    calls: Mapping[str, Call], rows: Any, seconds: float
) -> dict[str, dict[str, float]]:
    """Return the median and quartiles of each, of the wall's clock."""
    return {name: spread(times) for name, times in interleaved(calls, rows, seconds).items()}


def options(
    description: str | None,
    subjects: Mapping[str, Subject | Workload],
    models: Sequence[str],
    peers: Sequence[str],
    rows: Sequence[int],
) -> argparse.ArgumentParser:
    """Describe a command line with the given defaults."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", default=models, choices=subjects, metavar="NAME")
    parser.add_argument("--peers", nargs="+", default=peers, choices=PEERS, metavar="NAME")
    parser.add_argument(
        "--rows", type=int, nargs="+", default=rows, help="rows in a call; up to 1000000"
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=2.0, help="time spent on each figure")
    parser.add_argument(
        "--longest",
        type=float,
        default=10.0,
        help="leave out a figure whose calls would take more seconds",
    )
    parser.add_argument(
        "--compile-limit",
        type=float,
        default=60.0,
        help="seconds that a peer may compile for; 0 takes what was compiled before",
    )
    parser.add_argument(
        "--folder", type=Path, help="keep fitted models, and what peers compile of them, here"
    )
    parser.add_argument("--json", type=Path)
    return parser


def compare(
    subjects: Sequence[Subject | Workload],
    chosen: argparse.Namespace,
    times: Times = interleaved_times,
) -> list[dict[str, Any]]:
    """Time all contenders on each model by a function, and return the figures."""
    use_threads(chosen.threads)
    with TemporaryDirectory() as temporary:
        folder = chosen.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        return [
            figure
            for subject in subjects
            for figure in run(
                subject,
                Setting(subject.fitted(folder), chosen.threads, chosen.compile_limit),
                chosen,
                times,
            )
        ]


def run(
    subject: Subject | Workload, setting: Setting, chosen: argparse.Namespace, times: Times
) -> list[dict[str, Any]]:
    """Time one model."""
    print(
        f"\n{subject.name}: {subject.about}; {setting.threads} thread{'s' * (setting.threads > 1)}"
    )
    made: dict[str, Contender] = {}
    checks: dict[str, dict[str, Any]] = {}
    for found in contenders(setting, chosen.peers):
        if not isinstance(found, Contender):
            print(f"  {found[0]:<20} left out: {found[1]}")
            continue
        made[found.name] = found
        checks[found.name] = check(setting.fitted, made, found)
        print(
            f"  {found.name:<20} made in {found.seconds:.2f} s; {verdict(checks[found.name])}",
            flush=True,
        )
    figures: list[dict[str, Any]] = []
    for rows in sorted(chosen.rows):
        figures += time_rows(
            setting,
            {
                name: found
                for name, found in made.items()
                if predicted(figures, name, rows) < chosen.longest
            },
            rows,
            chosen.seconds,
            times,
        )
    return [figure | checks[figure["contender"]] for figure in figures]


def check(
    fitted: Fitted | FittedWorkload, made: Mapping[str, Contender], found: Contender
) -> dict[str, Any]:
    """Compare the answers to a thousand rows with those of the first contender."""
    x = fitted.rows(1000)
    first = next(iter(made.values()))
    asked = first.call(x)
    told = found.call(x)
    facts = {"seconds_to_make": found.seconds, "dtype": str(np.asarray(told).dtype)}
    expected, given = answer(asked), answer(told)
    if expected.shape != given.shape:
        return facts | {"difference": np.inf, "flipped": len(expected), "wrong": True}
    difference = np.abs(given - expected) / np.maximum(1, np.abs(expected))
    wrong = bool((difference > TOLERANCE).any(axis=1).mean() > WRONG_SHARE)
    flipped = int((labels(given, fitted.method) != labels(expected, fitted.method)).sum())
    return facts | {"difference": float(difference.max()), "flipped": flipped, "wrong": wrong}


def labels(answers: np.ndarray, method: str) -> np.ndarray:
    """Return the class that an answer decides for, of a method that scores classes; else zeros."""
    if method not in ("predict_proba", "decision_function"):
        return np.zeros(len(answers))
    if answers.shape[1] > 1:
        return answers.argmax(axis=1)
    return answers[:, 0] > (0.5 if method == "predict_proba" else 0.0)


def verdict(found: Mapping[str, Any]) -> str:
    """Describe the result of a check."""
    return f"{'WRONG, ' if found['wrong'] else ''}largest difference {found['difference']:.1e}"


def predicted(figures: list[dict[str, Any]], name: str, rows: int) -> float:
    """Predict the seconds of a call from the figure with the most rows so far."""
    last = next((figure for figure in reversed(figures) if figure["contender"] == name), None)
    return last["median"] / last["rows"] * rows if last else 0.0


def time_rows(
    setting: Setting, made: Mapping[str, Contender], rows: int, seconds: float, times: Times
) -> list[dict[str, Any]]:
    """Time calls of ``rows`` rows, and print a line for each contender."""
    x = setting.fitted.rows(rows)
    calls = {name: found.call for name, found in made.items()}
    facts = {"model": setting.fitted.name, "rows": rows, "threads": setting.threads}
    timed = times(calls, x, seconds) if calls else {}
    figures = [facts | {"contender": name} | found for name, found in timed.items()]
    for figure in figures:
        ratio = figures[0]["median"] / figure["median"]
        print(
            f"  {figure['contender']:<20} {rows:>9,} rows",
            f"{figure['median'] / rows * 1e9:>12,.0f} ns a row",
            f"{figure['median'] * 1e6:>14,.1f} us a call{_quartiles(figure)} {ratio:>7.1f}x",
            flush=True,
        )
    return figures


def _quartiles(figure: Mapping[str, Any]) -> str:
    """Print the quartiles of a figure that has them."""
    if "lower" not in figure:
        return ""
    return f" ({figure['lower'] * 1e6:,.1f} to {figure['upper'] * 1e6:,.1f})"
