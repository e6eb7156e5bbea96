"""List the estimators that hbconv converts, the backends and the tree strategies, and what each lacks here."""

from __future__ import annotations

import argparse

from hbconv.backends import backend_names, find_backend
from hbconv.cli import answer
from hbconv.errors import MissingPackageError
from hbconv.parse import parser_names
from hbconv.strategy import strategies


def arguments(command: argparse.ArgumentParser) -> None:
    """Add the command's arguments (none but --json)."""


def run(options: argparse.Namespace) -> int:
    """Print the lists."""
    backends = {name: _backend(name) for name in backend_names()}
    result = {"estimators": list(parser_names()), "backends": backends, "strategies": sorted(strategies())}
    lines = [f"{len(parser_names())} estimators:", *(f"  {name}" for name in parser_names()), "backends:"]
    lines += [f"  {name:<12} {', '.join(facts)}" for name, facts in backends.items()]
    answer(options, result, "\n".join([*lines, "tree strategies:", f"  {', '.join(sorted(strategies()))}"]))
    return 0


def _backend(name: str) -> list[str]:
    """Whether it is ready here, and the primitives it refuses."""
    try:
        backend = find_backend(name)
        backend.require_packages()
    except MissingPackageError as error:
        return [str(error)]
    except ModuleNotFoundError as error:
        return [f"needs {error.name}"]
    return ["ready", *(f"no {primitive}: {reason}" for primitive, reason in backend.refuses.items())]
