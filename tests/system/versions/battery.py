"""The battery that each row of the table of versions answers, in the environment at hand.

The first case of every parser is judged as the matrix judges it, and random pipelines as the hunt
does. Run it as ``python -m versions.battery``; it prints one line of JSON for each answer.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from itertools import islice

import numpy as np
from hunt.runner import hunt
from matrix.case import Case, as_dtype, fitted
from matrix.compare import compare
from matrix.estimators import cases_of, modules
from versions.answer import Answer

import hbconv
from hbconv.errors import BackendError, ConversionError

__all__ = ["BACKENDS", "SEEDS", "first_cases", "judge_case", "judge_pipelines"]

BACKENDS = ("reference", "onnx")
"""What answers each first case, and random pipelines in turns."""

SEEDS = 80
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


def judge_case(case: Case, backend: str) -> Answer:
    """Compare a model with its source, on rows that the matrix makes to hurt."""
    question = "first case", str(case), backend
    try:
        source = fitted(case)
    # Whatever the library raises: these versions of it have no such model.
    except Exception as error:
        return Answer(*question, "absent", _said(error))
    try:
        model = hbconv.convert(source, backend)
        for dtype in (d for d in DTYPES if d in case.dtypes):
            for n in ROWS:
                rows = as_dtype(case.rows(n), dtype)
                for method in case.names:
                    compare(case, method, rows, getattr(model, method)(rows))
    except (ConversionError, BackendError) as error:
        return Answer(*question, "refused", _said(error))
    except Exception as error:
        return Answer(*question, "differs", _said(error))
    return Answer(*question, "agrees")


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]


def judge_pipelines(seeds: range) -> Iterator[Answer]:
    """Judge the pipelines of some seeds by the hunt."""
    for seed in seeds:
        backend = BACKENDS[seed % len(BACKENDS)]
        (hunted,) = hunt([seed], [backend]).backends
        faults = [finding for finding in hunted.findings if finding.fails]
        refused = [finding for finding in hunted.findings if finding.method == "convert"]
        verdict = "differs" if faults else "refused" if refused else "agrees"
        if not hunted.counts["pipelines"]:
            verdict = "absent"
        yield Answer(
            "pipeline", str(seed), backend, verdict, "; ".join(map(str, [*faults, *refused]))[:300]
        )


def main() -> None:
    """Print the answers."""
    options = argparse.ArgumentParser(prog="versions.battery", description=__doc__)
    options.add_argument("--seeds", type=int, default=SEEDS, help="random pipelines")
    options.add_argument("--only", nargs="*", default=[""], metavar="PART", help="of a case's name")
    options.add_argument("--every", type=int, default=1, help="judge one first case in so many")
    options.add_argument("--backends", nargs="+", default=BACKENDS, help="of first cases")
    chosen = options.parse_args()
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    for found in islice(first_cases(), 0, None, chosen.every):
        if not any(part in str(found) for part in chosen.only):
            continue
        judged = partial(judge_case, found)
        for answer in [found] if isinstance(found, Answer) else map(judged, chosen.backends):
            print(json.dumps(asdict(answer)), flush=True)
    for answer in judge_pipelines(range(chosen.seeds)):
        print(json.dumps(asdict(answer)), flush=True)


if __name__ == "__main__":
    main()
