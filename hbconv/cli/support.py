"""List the estimators that hbconv converts, the backends and the tree strategies.

For an estimator it lists how each backend runs the methods.
"""

from __future__ import annotations

import argparse
import difflib
import importlib.resources
import json
from typing import Any

from hbconv.backends import backend_names, find_backend
from hbconv.cli import answer
from hbconv.errors import MissingPackageError, OptionError
from hbconv.trees.strategy import strategies

__all__ = ["BACKENDS", "count", "refused_by_reason", "right_of", "support_data"]

BACKENDS = ("reference", "torch", "torchscript", "onnx", "tvm")
"""In the order of the table's columns."""

Estimators = dict[str, dict[str, Any]]

EXAMPLES = """
examples:
  hbconv support
  hbconv support KMeans
"""


def arguments(command: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    command.add_argument(
        "estimator",
        nargs="?",
        help="class name, such as KMeans: its methods, and the parameter values refused",
    )


def run(options: argparse.Namespace) -> int:
    """Print the table, or one estimator."""
    estimators = support_data()
    if options.estimator:
        name = _find(options.estimator, estimators)
        answer(options, {name: estimators[name]}, "\n".join(_one(name, estimators[name])))
        return 0
    backends = {name: _backend(name) for name in backend_names()}
    result = {
        "estimators": estimators,
        "right": count(estimators),
        "backends": backends,
        "strategies": sorted(strategies()),
    }
    lines = [
        *_counts(estimators),
        "",
        *(line for name, facts in estimators.items() for line in _short(name, facts)),
        "",
        "backends:",
    ]
    lines += [f"  {name:<12} {', '.join(facts)}" for name, facts in backends.items()]
    answer(
        options,
        result,
        "\n".join([*lines, "tree strategies:", f"  {', '.join(sorted(strategies()))}"]),
    )
    return 0


def support_data() -> Estimators:
    """Read the results of the tests by estimator.

    An entry has ``methods`` (a status for each of ``BACKENDS``), ``right`` and ``refused``. An
    estimator that is not converted has ``why``.
    """
    data: Estimators = json.loads(
        importlib.resources.files("hbconv").joinpath("support.json").read_text(encoding="utf-8")
    )
    return data


def right_of(facts: dict[str, Any]) -> list[str]:
    """Backends on which every method of an estimator answers as the source does."""
    return list(facts.get("right", []))


def refused_by_reason(facts: dict[str, Any]) -> dict[str, list[str]]:
    """Parameter values that hbconv refuses, those of one reason together."""
    found: dict[str, list[str]] = {}
    for value, why in facts["refused"].items():
        found.setdefault(why, []).append(value)
    return found


def count(estimators: Estimators) -> dict[str, dict[str, int]]:
    """Estimators right on each backend, and all there are, by library."""
    libraries = sorted(
        {name.partition(".")[0] for name in estimators},
        key=lambda library: (library != "sklearn", library),
    )
    own = {
        library: [facts for name, facts in estimators.items() if name.startswith(f"{library}.")]
        for library in libraries
    }
    return {
        library: {b: sum(b in right_of(f) for f in each) for b in BACKENDS} | {"all": len(each)}
        for library, each in own.items()
    }


def _find(wanted: str, estimators: Estimators) -> str:
    by_class = {name.rpartition(".")[2].lower(): name for name in estimators} | {
        name.lower(): name for name in estimators
    }
    if wanted.lower() in by_class:
        return by_class[wanted.lower()]
    near = difflib.get_close_matches(wanted.lower(), list(by_class), n=3)
    names = ", ".join(by_class[name].rpartition(".")[2] for name in near)
    hint = f" Near it: {names}." if near else ""
    raise OptionError(f"No estimator {wanted!r} is known.{hint}")


def _counts(estimators: Estimators) -> list[str]:
    lines = [f"{'estimators right on':<20}{''.join(f'{b:>13}' for b in BACKENDS)}{'of':>8}"]
    return lines + [
        f"  {library:<18}{''.join(f'{n[b]:>13}' for b in BACKENDS)}{n['all']:>8}"
        for library, n in count(estimators).items()
    ]


def _short(name: str, facts: dict[str, Any]) -> list[str]:
    """Return a line: its methods and the backends where they are right, or why it is refused."""
    if "why" in facts:
        return [f"{name:<58} {facts['why']}"]
    right = right_of(facts)
    wrong = [b for b in BACKENDS if b not in right]
    exceptions = f" (not on {','.join(wrong)})" if wrong else ""
    return [f"{name:<58} {', '.join(facts['methods'])}{exceptions}"]


def _one(name: str, facts: dict[str, Any]) -> list[str]:
    if "why" in facts:
        return [f"{name}: {facts['why']}"]
    rows = {"method": list(BACKENDS), **facts["methods"]}
    lines = [name]
    for method, cells in rows.items():
        row = cells if isinstance(cells, str) else "".join(f"{cell:<13}" for cell in cells)
        lines.append(f"  {method:<26}{row}".rstrip())
    lines.append(f"  right on: {', '.join(right_of(facts))}")
    return lines + [
        f"  refused: {', '.join(values)}. {why}" for why, values in refused_by_reason(facts).items()
    ]


def _backend(name: str) -> list[str]:
    """Whether it is ready here, and the primitives it refuses."""
    try:
        backend = find_backend(name)
        backend.require_packages()
    except MissingPackageError as error:
        return [str(error)]
    return [
        "ready",
        *(f"no {primitive}: {reason}" for primitive, reason in backend.refuses.items()),
    ]
