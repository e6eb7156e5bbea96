"""The battery that each row of the table of versions answers, in the environment at hand.

The first case of every parser is judged as the matrix judges it, each primitive on ONNX Runtime by its
meaning in numpy, and random pipelines as the hunt does. Run it as ``python -m versions.battery``; it prints one line of JSON for each answer.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
from hunt.runner import hunt, preload
from matrix.case import Case, as_dtype, fitted
from matrix.compare import compare
from matrix.estimators import cases_of, modules
from primitive_cases import CASES, require_agreement
from versions.answer import BACKENDS, Answer

import hbconv
from hbconv.backends import find_backend
from hbconv.errors import BackendError, ConversionError

__all__ = ["SEEDS", "first_cases", "judge_case", "judge_pipelines"]

SEEDS = 24
"""Random pipelines that are judged."""

ROWS = (200, 1)
DTYPES = ("float64", "float32")


def first_cases() -> Iterator[Case | Answer]:
    """Yield the first case of each parser whose library is there; answers for other modules."""
    for module in modules():
        try:
            cases = cases_of(module)
        except ImportError as error:
            yield Answer("first case", module, "", "absent", str(error))
            continue
        yield from {case.estimator: case for case in reversed(cases)}.values()


def judge_case(case: Case, backends: Sequence[str]) -> Iterator[Answer]:
    """Compare a model with its source on each backend, on rows that the matrix makes to hurt."""
    try:
        source = fitted(case)
    # Whatever the library raises: these versions of it have no such model.
    except Exception as error:
        yield Answer("first case", str(case), "", "absent", _said(error))
        return
    for backend in backends:
        judged = _judged(partial(_compare, case, source, backend))
        yield Answer("first case", str(case), backend, *judged)


def _compare(case: Case, source: Any, backend: str) -> None:
    model = hbconv.convert(source, backend)
    for dtype in (d for d in DTYPES if d in case.dtypes):
        for n in ROWS:
            rows = as_dtype(case.rows(n), dtype)
            for method in case.names:
                compare(case, method, rows, getattr(model, method)(rows))


def _judged(work: Callable[[], None]) -> tuple[str, str]:
    """Return the verdict of a comparison, and what was said."""
    try:
        work()
    except (ConversionError, BackendError) as error:
        return "refused", _said(error)
    except Exception as error:
        return "differs", _said(error)
    return "agrees", ""


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]


def judge_primitives(backend: str, parts: Sequence[str]) -> Iterator[Answer]:
    """Judge each primitive by its meaning in numpy: a runtime may lack a function of some dtype."""
    own = find_backend(backend)
    for case in (case for case in CASES if _is_asked(case, parts)):
        for dtype in case.dtypes:
            if case.program(dtype).primitives & set(own.refuses):
                continue
            judged = _judged(partial(require_agreement, case, dtype, own))
            yield Answer("primitive", f"{case} in {dtype}", backend, *judged)


def judge_pipelines(seeds: range) -> Iterator[Answer]:
    """Judge the pipelines of some seeds by the hunt."""
    for backend in BACKENDS[: len(seeds)]:
        preload(backend)
    for seed in seeds:
        backend = BACKENDS[seed % len(BACKENDS)]
        (hunted,) = hunt([seed], [backend]).backends
        faults = [finding for finding in hunted.findings if finding.fails]
        # Some rows may be refused, but not all of them.
        refused = [
            f for f in hunted.findings if f.method == "convert" or not hunted.counts["right"]
        ]
        verdict = "differs" if faults else "refused" if refused else "agrees"
        if not hunted.counts["pipelines"]:
            verdict = "absent"
        said = "; ".join(map(str, [*faults, *refused]))[:300]
        yield Answer("pipeline", str(seed), backend, verdict, said)


def main() -> None:
    """Print the answers."""
    options = argparse.ArgumentParser(prog="versions.battery", description=__doc__)
    options.add_argument("--seeds", type=int, default=SEEDS, help="random pipelines")
    options.add_argument("--only", nargs="*", default=[""], metavar="PART", help="of a name")
    options.add_argument("--every", type=int, default=1, help="judge one first case in so many")
    options.add_argument("--backends", nargs="+", default=BACKENDS, help="of first cases")
    chosen = options.parse_args()
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    with tempfile.TemporaryDirectory(prefix="hbconv-cache-") as cache:
        os.environ.setdefault("HBCONV_CACHE", cache)
        for answer in _answers(chosen):
            print(json.dumps(asdict(answer)), flush=True)


def _answers(chosen: argparse.Namespace) -> Iterator[Answer]:
    for found in islice(first_cases(), 0, None, chosen.every):
        if _is_asked(found, chosen.only):
            yield from [found] if isinstance(found, Answer) else judge_case(found, chosen.backends)
    if "onnx" in chosen.backends:
        yield from judge_primitives("onnx", chosen.only)
    yield from judge_pipelines(range(chosen.seeds))


def _is_asked(case: object, parts: Sequence[str]) -> bool:
    return any(part in str(case) for part in parts)


if __name__ == "__main__":
    main()
