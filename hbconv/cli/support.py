"""List the estimators that hbconv converts, the backends and the tree strategies.

For an estimator it lists how each backend runs the methods.
"""

from __future__ import annotations

import argparse
import difflib
import importlib.resources
import json
from typing import Any

from hbconv.backends import EXPORTS, backend_names, find_backend
from hbconv.cli import answer
from hbconv.errors import MissingPackageError, OptionError
from hbconv.trees.strategy import strategies

__all__ = ["BACKENDS", "count", "refused_by_reason", "right_of", "support_data", "support_page"]

BACKENDS = ("reference", "torch", "torchscript", "onnx", "tvm", "sql")
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
        answer(options, {name: estimators[name]}, "\n".join(_describe(name, estimators[name])))
        return 0
    backends = {name: _backend(name) for name in (*backend_names(), *EXPORTS)}
    result = {
        "estimators": estimators,
        "right": count(estimators),
        "backends": backends,
        "strategies": sorted(strategies()),
    }
    lines = [
        *_counts(estimators),
        "",
        *(line for name, facts in estimators.items() for line in _summarize(name, facts)),
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
    values_of: dict[str, list[str]] = {}
    for value, why in facts["refused"].items():
        values_of.setdefault(why, []).append(value)
    return values_of


def count(estimators: Estimators) -> dict[str, dict[str, int]]:
    """Estimators right on each backend, and all there are, by library."""
    libraries = sorted(
        {name.partition(".")[0] for name in estimators},
        # scikit-learn first, since it has most of the rows.
        key=lambda library: (library != "sklearn", library),
    )
    facts_of = {
        library: [facts for name, facts in estimators.items() if name.startswith(f"{library}.")]
        for library in libraries
    }
    return {
        library: {b: sum(b in right_of(f) for f in each) for b in BACKENDS} | {"all": len(each)}
        for library, each in facts_of.items()
    }


def _find(wanted: str, estimators: Estimators) -> str:
    by_class = {name.rpartition(".")[2].lower(): name for name in estimators} | {
        name.lower(): name for name in estimators
    }
    if wanted.lower() in by_class:
        return by_class[wanted.lower()]
    # The start of a name, as people remember it, then names that are spelt alike.
    asked = wanted.lower()
    held = [name for name in by_class if "." not in name and asked in name]
    held.sort(key=lambda name: (not name.startswith(asked), len(name)))
    near = held[:5] or difflib.get_close_matches(wanted.lower(), list(by_class), n=3)
    names = ", ".join(by_class[name].rpartition(".")[2] for name in near)
    hint = f" Near it: {names}." if near else ""
    raise OptionError(f"No estimator {wanted!r} is known.{hint}")


def _counts(estimators: Estimators) -> list[str]:
    lines = [f"{'estimators right on':<20}{''.join(f'{b:>13}' for b in BACKENDS)}{'of':>8}"]
    return lines + [
        f"  {library:<18}{''.join(f'{n[b]:>13}' for b in BACKENDS)}{n['all']:>8}"
        for library, n in count(estimators).items()
    ]


def _summarize(name: str, facts: dict[str, Any]) -> list[str]:
    """Return a line: its methods and the backends where they are right, or why it is refused."""
    if "why" in facts:
        return [f"{name:<58} {facts['why']}"]
    right = right_of(facts)
    wrong = [b for b in BACKENDS if b not in right]
    exceptions = f" (not on {','.join(wrong)})" if wrong else ""
    return [f"{name:<58} {', '.join(facts['methods'])}{exceptions}"]


def _describe(name: str, facts: dict[str, Any]) -> list[str]:
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


_HEAD = """# Support

What hbconv converts: every estimator, method and backend.
`hbconv support KMeans` prints one estimator, with the parameter values that it refuses.

- **native**: the backend has every primitive of the method's program.
- **lowered**: some primitives are first written as others.
- **cannot**, **not yet**: refused by name, with the reason.
  *cannot* stays so, *not yet* is not written.
- An estimator counts as right on a backend if all its methods answer as the source model's do.
  The tolerance is that of docs/fidelity.md, for float64 and float32 rows made to hurt.
  `tests/conformance/breadth` changes every constructor parameter and compares with the source.
- The column `sql` is of [queries](sql.md) as DuckDB answers them.

Generated by `pytest tests/conformance/breadth --update-support`.
A test fails when a status changes unnoticed.
"""


def support_page(estimators: Estimators) -> str:
    """Write the page."""
    converted = {name: facts for name, facts in estimators.items() if "methods" in facts}
    others = {name: facts["why"] for name, facts in estimators.items() if "why" in facts}
    parts = [
        _HEAD,
        _count_line(estimators),
        "## Methods\n",
        _table([_row(*row) for row in _methods(converted)]),
    ]
    parts += [
        "## Not converted\n",
        "| estimator | why |\n| --- | --- |\n"
        + "\n".join(f"| `{name}` | {why} |" for name, why in others.items())
        + "\n",
    ]
    return "\n".join([*parts, "## Parameter values refused\n", _refused(converted)])


def _count_line(estimators: Estimators) -> str:
    rows = [
        _row(f"{library}", *(numbers[b] for b in BACKENDS), numbers["all"])
        for library, numbers in count(estimators).items()
    ]
    return (
        "\n".join(
            [_row("estimators right", *BACKENDS, "of"), _row(*["---"] * (len(BACKENDS) + 2)), *rows]
        )
        + "\n"
    )


def _methods(converted: Estimators) -> list[tuple[str, ...]]:
    """Rows of the table, methods that run alike in one."""
    rows = []
    for name, facts in converted.items():
        alike: dict[tuple[str, ...], list[str]] = {}
        for method, statuses in facts["methods"].items():
            cells = (statuses,) * len(BACKENDS) if isinstance(statuses, str) else tuple(statuses)
            shown = tuple(
                cell if b in right_of(facts) or ":" in cell else f"{cell}, not compared"
                for b, cell in zip(BACKENDS, cells, strict=True)
            )
            alike.setdefault(shown, []).append(method)
        rows += [(f"`{name}`", ", ".join(methods), *shown) for shown, methods in alike.items()]
    return rows


def _table(rows: list[str]) -> str:
    return (
        "\n".join(
            [_row("estimator", "methods", *BACKENDS), _row(*["---"] * (len(BACKENDS) + 2)), *rows]
        )
        + "\n"
    )


def _refused(converted: Estimators) -> str:
    reasons = [
        (name, why, values)
        for name, facts in converted.items()
        for why, values in refused_by_reason(facts).items()
    ]
    rows = [
        _row(f"`{name}`", ", ".join(f"`{_escape(value)}`" for value in values), _escape(why))
        for name, why, values in reasons
    ]
    return (
        "\n".join(
            [_row("estimator", "values", "why, or what to do"), _row("---", "---", "---"), *rows]
        )
        + "\n"
    )


def _row(*cells: Any) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def _escape(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
