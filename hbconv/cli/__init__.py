"""The command line: ``hbconv convert | explain | score | verify | bench | support``.

Results go to standard output (as JSON with ``--json``), errors and progress to standard error. Exit codes: 0 done; 1 the
command failed (bad model, bad input, answers that differ); 2 wrong usage.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Sequence
from typing import Any

from hbconv.errors import HbconvError

__all__ = ["main"]

COMMANDS = ("convert", "explain", "score", "verify", "bench", "support")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    options = parser().parse_args(argv)
    try:
        code: int = options.run(options)
    except HbconvError as error:
        return fail(str(error), as_json=options.json)
    except OSError as error:
        return fail(f"{error.strerror or error}: {error.filename}" if error.filename else str(error), as_json=options.json)
    except KeyboardInterrupt:
        return fail("Interrupted; nothing was written.", as_json=options.json)
    return code


def parser() -> argparse.ArgumentParser:
    """Build the argument parser; each command adds its own arguments."""
    from hbconv import __version__

    top = argparse.ArgumentParser(prog="hbconv", description="Compile scikit-learn, LightGBM, XGBoost and CatBoost models to tensor programs.")
    top.add_argument("--version", action="version", version=f"hbconv {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in COMMANDS:
        module = importlib.import_module(f"hbconv.cli.{name}")
        command = commands.add_parser(name, help=(module.__doc__ or "").splitlines()[0], description=module.__doc__)
        command.add_argument("--json", action="store_true", help="print the result as JSON on standard output")
        module.arguments(command)
        command.set_defaults(run=module.run)
    return top


def fail(message: str, *, as_json: bool) -> int:
    """Print an error where the user asked for it."""
    if as_json:
        print(json.dumps({"error": message}))
    else:
        print(f"hbconv: {message}", file=sys.stderr)
    return 1


def answer(options: argparse.Namespace, result: dict[str, Any], text: str) -> None:
    """Print a result as JSON or as text."""
    print(json.dumps(result, indent=2, default=str) if options.json else text)
