"""Measure what operators cost on this machine, and keep it for the cost model.

Small programs are timed on each backend, for a few seconds in all; compiling them comes on top. The
factors between these times and the shipped prices are kept with the compiled code (HBCONV_CACHE).
Predictions use them from then on, until a version changes. A new run replaces what was kept.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from hbconv.backends import find_backend
from hbconv.cli import answer, seconds
from hbconv.cost_model import (
    Factors,
    PriceRecord,
    describe_host,
    find_record,
    forget_record,
    keep_record,
)
from hbconv.cost_model.price_record import describe_versions
from hbconv.errors import MissingPackageError, OptionError
from hbconv.names import unknown
from hbconv.runtime.timing.machine_prices import PriceTime, find_factors, measure_backend
from hbconv.system.cache import Cache

__all__ = ["BACKENDS", "arguments", "run"]

BACKENDS = ("tvm", "torch", "onnx")
"""Those that have prices of their own; TorchScript takes torch's."""
SECONDS = 5.0

EXAMPLES = """
examples:
  hbconv tune-machine
"""


def arguments(command: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    command.add_argument(
        "--backends", type=_names, help="backends, separated by commas (default: those installed)"
    )
    command.add_argument(
        "--seconds", type=seconds, default=SECONDS, help=f"time in all (default: {SECONDS:g})"
    )
    instead = command.add_mutually_exclusive_group()
    instead.add_argument("--show", action="store_true", help="print what is kept; measure nothing")
    instead.add_argument("--forget", action="store_true", help="delete what is kept")


def run(options: argparse.Namespace) -> int:
    """Measure, show or forget."""
    if options.show:
        return _show(options)
    if options.forget:
        return _forget(options)
    return _measure(options)


def _measure(options: argparse.Namespace) -> int:
    """Time each backend, keep the factors, and print them."""
    cache = Cache.chosen()
    if cache.folder is None:
        raise OptionError("HBCONV_CACHE keeps nothing, so prices would be lost. Name a folder.")
    names = _find_installed(options.backends)
    # Each backend gets the same time, whatever its speed.
    share = options.seconds / len(names)
    times = [time for name in names for time in measure_backend(name, share)]
    today = datetime.now(UTC).date().isoformat()
    record = PriceRecord(describe_host(), describe_versions(), find_factors(times), today)
    if not keep_record(record, cache):
        raise OptionError(
            f"The prices cannot be kept in {cache.folder}. "
            "Let HBCONV_CACHE name a folder that you alone may write to."
        )
    figures = [{**asdict(time), "factor": time.factor} for time in times]
    answer(options, {**_facts(record), "times": figures}, _table(times))
    return 0


def _show(options: argparse.Namespace) -> int:
    """Print the record that counts here."""
    record = find_record()
    if record is None:
        text = "No prices of this machine and these versions are kept; the shipped ones count."
        answer(options, {"measured": None, "factors": {}}, text)
        return 0
    lines = [_row("backend", "units", "factor")]
    lines += [
        _row(name, group, f"{factor:.2f}")
        for name, factors in record.factors.items()
        for group, factor in asdict(factors).items()
    ]
    answer(options, _facts(record), "\n".join([f"measured {record.day}", *lines]))
    return 0


def _forget(options: argparse.Namespace) -> int:
    """Delete the record, whatever it holds."""
    forgotten = forget_record(Cache.chosen())
    text = "Forgotten; the shipped prices count." if forgotten else "No prices were kept."
    answer(options, {"forgotten": forgotten}, text)
    return 0


def _find_installed(asked: list[str] | None) -> list[str]:
    """Return the backends to time.

    Raises
    ------
    MissingPackageError
        One that was asked for is not installed, or none is.
    """
    if asked:
        for name in asked:
            find_backend(name).require_packages()
        return asked
    installed = [name for name in BACKENDS if _is_installed(name)]
    if not installed:
        raise MissingPackageError(
            f"None of the backends {', '.join(BACKENDS)} is installed. "
            "Install with: pip install 'hbconv[tvm]'"
        )
    return installed


def _is_installed(name: str) -> bool:
    try:
        find_backend(name).require_packages()
    except MissingPackageError:
        return False
    return True


def _facts(record: PriceRecord) -> dict[str, Any]:
    """Return what JSON holds of a record."""
    factors: dict[str, Factors] = dict(record.factors)
    shown = {name: asdict(each) for name, each in factors.items()}
    return {"measured": record.day, "factors": shown}


def _table(times: list[PriceTime]) -> str:
    """Write each time beside its prediction, in microseconds of a call."""
    lines = [_row("backend", "units", "predicted", "measured", "factor")]
    for time in times:
        shown = f"{time.predicted * 1e6:,.1f} us", f"{time.measured * 1e6:,.1f} us"
        lines.append(_row(time.backend, time.group, *shown, f"{time.factor:.2f}"))
    return "\n".join([*lines, "Kept; model.explain() says when predictions use them."])


def _row(backend: str, group: str, *cells: str) -> str:
    return f"{backend:<10} {group:<12}" + "".join(f"{cell:>14}" for cell in cells)


def _names(text: str) -> list[str]:
    """Read backends for argparse, each once."""
    names = list(dict.fromkeys(text.split(",")))
    for name in names:
        if name not in BACKENDS:
            raise argparse.ArgumentTypeError(str(unknown("backend", name, BACKENDS)))
    return names
