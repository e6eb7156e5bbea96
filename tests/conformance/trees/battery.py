"""The battery: a fitted model of trees against what it was converted to, on every backend, on rows
made to hurt.

Leaves and labels are compared exactly; raw scores to the last bit where the backend adds in the
source's order; what comes after them (sigmoid, softmax, exp) within units in the last place, for
libraries' own exponentials differ.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
from fitted import available_backends
from hypothesis import settings
from sources import compared, dense, library, quietly
from tolerances import ORDERED, ULP, units

import hbconv
from hbconv.containers import CategoryCodes, Graph, TreeEnsemble, TreeLeaves
from hbconv.model import Model
from hbconv.runtime.inputs.read import read_table
from hbconv.runtime.outputs.answers import answer, whole

__all__ = ["BACKENDS", "FEW", "TALLY", "check", "drawn", "hostile_rows"]

BACKENDS = tuple(available_backends())
FEW = ("reference", "torch")
"""Backends that compile in no time."""

drawn = settings.get_profile("battery")
"""Decorator of a test that draws as many models as ``--battery`` says."""

EXACT = ("apply", "decision_path", "transform")
RAW = ("raw_scores", "decision_function", "staged_decision_function", "score_samples")
NOTHING: Mapping[str, float] = MappingProxyType({})


@dataclass
class Figures:
    """What was compared for one library on one backend."""

    models: int = 0
    rows: int = 0
    decisions: int = 0
    flips: int = 0
    raw_ulp: float = 0.0
    transformed_ulp: float = 0.0


@dataclass
class Tally:
    """Figures of all batteries run, by library and backend."""

    figures: defaultdict[tuple[str, str], Figures] = field(
        default_factory=lambda: defaultdict(Figures)
    )


TALLY = Tally()


def check(
    estimator: Any,
    rows: Sequence[Any],
    *,
    backends: Sequence[str] = BACKENDS,
    ask: Callable[[Any, str, Any], Any] = quietly,
    transformed: Sequence[str] = (),
    loose: float = 1.0,
    largest: Mapping[str, float] = NOTHING,
    **options: Any,
) -> None:
    """Assert that the converted estimator answers as the fitted one does.

    Parameters
    ----------
    estimator : object
        Fitted.
    rows : sequence of arrays or tables
        Each is one call.
    backends : sequence of str
    ask : callable
        ``ask(estimator, method, x)`` gives the source's answer.
    transformed : sequence of str
        Methods that are allowed a transformation's rounding beside predict, predict_proba and predict_log_proba.
    loose : float
        Factor of the allowed units in the last place, for an answer that magnifies rounding (an exponential of large scores); say why.
    largest : mapping of str to float
        The largest term of a method's sum, of which the sum keeps the rounding however small it is.
    **options
        Of ``hbconv.convert``.
    """
    models = {
        backend: hbconv.convert(estimator, backend=backend, **options) for backend in backends
    }
    for x in rows:
        want = {
            method: quiet_ask(ask, estimator, method, x) for method in compared(models[backends[0]])
        }
        for backend, model in models.items():
            for method, got in _answers(model, x).items():
                raw, least = (
                    method in RAW and method not in transformed,
                    abs(largest.get(method, 0.0)),
                )
                _compare(
                    library(estimator), backend, method, got, want[method], loose, least, raw=raw
                )
    for backend in backends:
        figures = TALLY.figures[library(estimator), backend]
        figures.models += 1
        figures.rows += sum(len(x) for x in rows)


def quiet_ask(ask: Callable[[Any, str, Any], Any], estimator: Any, method: str, x: Any) -> Any:
    """Ask, and say which method fails."""
    try:
        return ask(estimator, method, x)
    except Exception as error:
        error.add_note(f"asking the source for {method}")
        raise


def _answers(model: Model, x: Any) -> dict[str, Any]:
    """Answer with all methods: those that are tensors as one program, compiled once."""
    model = model.reading(x)
    table = read_table(x, model.reads)
    program = model.programs.program(model.parsed.exported, table.dtypes)
    values = program.checked(table.part(slice(0, table.rows)))
    tensors = {
        method: whole(
            model.parsed.outputs[method], answer(model.parsed.outputs[method], values[method])
        )
        for method in model.parsed.exported
    }
    others = [m for m in compared(model) if m not in tensors] if model.backend in FEW else []
    return tensors | {method: getattr(model, method)(x) for method in others}


def _compare(
    name: str,
    backend: str,
    method: str,
    got: Any,
    want: Any,
    loose: float,
    least: float,
    *,
    raw: bool,
) -> None:
    got, want = dense(got), dense(want)
    what = f"{name}.{method} on {backend}"
    assert (got.shape, got.dtype) == (want.shape, want.dtype), (
        f"{what}: {got.shape} {got.dtype} for {want.shape} {want.dtype}"
    )
    figures = TALLY.figures[name, backend]
    if want.dtype.kind != "f" or method in EXACT:
        wrong = got != want
        figures.decisions, figures.flips = (
            figures.decisions + wrong.size,
            figures.flips + int(wrong.sum()),
        )
        assert not wrong.any(), (
            f"{what}: {wrong.sum()} of {wrong.size} differ, such as {got[wrong][:3]} for {want[wrong][:3]}"
        )
        return
    apart = units(method, got, want, least)
    field_name = "raw_ulp" if raw else "transformed_ulp"
    setattr(figures, field_name, max(getattr(figures, field_name), float(apart.max(initial=0))))
    limit = ULP["raw" if raw else "transformed", backend in ORDERED] * (1.0 if raw else loose)
    far = apart > limit
    assert not far.any(), (
        f"{what}: {far.sum()} of {far.size} beyond {limit} ulp (largest {apart.max()}), such as {got[far][:3]} for {want[far][:3]}"
    )


def hostile_rows(
    graph: Graph,
    rng: np.random.Generator,
    n: int,
    dtype: str = "float64",
    *,
    plain: Any = None,
    nan: bool = True,
    infinite: bool = True,
) -> Any:
    """Rows of a model's own thresholds and their neighbours in both dtypes, category codes seen
    and unseen, zeros, denormals, NaN, infinities.

    Parameters
    ----------
    graph : Graph
        As parsed (``Model.parsed``).
    plain : array, optional
        Ordinary rows, of which about a third of the values are taken.
    nan, infinite : bool
        Whether the source takes such values.
    """
    width = len(graph.schema.columns)
    pools = _pools(graph, width, nan=nan, infinite=infinite)
    with np.errstate(over="ignore"):
        rows = (
            np.stack([rng.choice(pool, n) for pool in pools], axis=1) if width else np.zeros((n, 0))
        )
        if plain is not None:
            chosen = np.asarray(plain, np.float64)[rng.integers(0, len(plain), n)]
            rows = np.where(rng.random(rows.shape) < 0.35, chosen, rows)
        rows = rows.astype(dtype)
    return rows if infinite else np.where(np.isinf(rows), 0, rows).astype(dtype)


def _pools(graph: Graph, width: int, *, nan: bool, infinite: bool) -> list[npt.NDArray[np.float64]]:
    """Values to draw each column from."""
    nodes = [node for node in graph.nodes() if isinstance(node, TreeEnsemble | TreeLeaves)]
    sizes = np.max(
        [
            node.sizes.data
            for node in graph.nodes()
            if isinstance(node, CategoryCodes) and node.type.width == width
        ],
        axis=0,
        initial=0,
    )
    special = [
        0.0,
        -0.0,
        1e-35,
        -1e-35,
        1e-36,
        -1e-36,
        1e-45,
        -1e-45,
        5e-324,
        1e300,
        -1e300,
        3.5e38,
        16777217.0,
    ]
    near_zero = np.float64(np.float32(1e-35))
    special += [
        near_zero,
        np.nextafter(near_zero, 1),
        np.nextafter(near_zero, 0),
        -near_zero,
        np.nextafter(-near_zero, -1),
        np.nextafter(-near_zero, 0),
    ]
    special += [np.nan] * 6 * nan + [np.inf, -np.inf] * infinite
    if not infinite:
        special = [v for v in special if not np.abs(v) > 3e38]
    pools = []
    for column in range(width):
        own = [
            n.forest.threshold.data[
                (n.forest.feature.data == column) | (n.forest.n_features != width)
            ]
            for n in nodes
        ]
        thresholds = np.concatenate([np.zeros(0), *own]).astype(np.float64)
        listed = _categories(
            int(np.broadcast_to(sizes, (width,))[column]), nan=nan, infinite=infinite
        )
        pools.append(
            listed
            if len(listed)
            else np.concatenate([special, *_around(thresholds[np.isfinite(thresholds)])])
        )
    return pools


def _around(thresholds: npt.NDArray[np.float64]) -> list[npt.NDArray[np.float64]]:
    """Thresholds as they are and as float32, and one unit to both sides in both dtypes."""
    with np.errstate(over="ignore"):
        narrow = thresholds.astype(np.float32)
        both = [
            [t, np.nextafter(t, t.dtype.type(np.inf)), np.nextafter(t, t.dtype.type(-np.inf))]
            for t in (thresholds, narrow)
        ]
    return [values.astype(np.float64) for side in both for values in side]


def _categories(size: int, *, nan: bool, infinite: bool) -> npt.NDArray[np.float64]:
    """Category numbers: all that a test knows, beyond, fractions, negative and huge ones; none
    for a column of plain numbers.
    """
    if not size:
        return np.zeros(0)
    odd = [
        -1.0,
        -0.5,
        -0.0,
        0.5,
        1.5,
        -1.5,
        -0.999999,
        size - 0.5,
        size,
        size + 1,
        size + 100,
        2.0**24,
        2.0**24 + 1,
        2.0**31,
        1e10,
        -1e10,
        3e38,
    ]
    return np.concatenate(
        [np.tile(np.arange(size), 3), odd, [np.nan] * 3 * nan, [np.inf, -np.inf] * infinite]
    ).astype(np.float64)
