"""Compare a prediction with the source's: form first, then values within rounding.

Rounding moves sums of products that cancel, or that are divided by nearly 0. How far is found by
computing the model again with each operation rounded otherwise, at random, as far as its bound
allows: Monte Carlo arithmetic (D. S. Parker, "Monte Carlo arithmetic", 1997). A sum of n terms may
be off by ``n + 2`` roundoffs of the sum of their magnitudes (N. J. Higham, "Accuracy and Stability
of Numerical Algorithms", 2002, section 3.1). The source's answer is as uncertain as that.

Rounding alone decides labels whose scores tie, and some neighbours at one distance. The source
itself is asked for its scores, and for the distances of its neighbours.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.containers import (
    Add,
    Cast,
    Clip,
    Distances,
    Graph,
    Linear,
    Nearest,
    NearestPoints,
    Node,
    RowDot,
    SquaredDistances,
    topological,
)
from hbconv.lower import Lowered, lower
from hbconv.model import Model
from hbconv.pipeline import with_dtypes
from hbconv.runtime.inputs.read import read_table
from hbconv.runtime.inputs.table import Table
from hbconv.sources.verification import TOLERANCE, coarsest, compare, is_alike, plain
from hbconv.tensor import PRIMITIVES, Op, OpKind
from hbconv.tensor.program import evaluate
from hbconv.testing.outcomes import Kind, form, parts
from hbconv.testing.watch import Call

__all__ = ["Verdict", "compare_answers", "uncertainty"]

Verdict = tuple[Kind, str, str]
"""The kind of an outcome, its reason, its detail."""


_SUMS = Distances | Linear | Nearest | NearestPoints | RowDot | SquaredDistances
"""What adds products in an order of its own."""

_PROMISED = {"float32", "float64", "int64"}
"""Dtypes of rows for which the dtype of an answer is promised."""


def compare_answers(call: Call, model: Model, answer: Any) -> Verdict:
    """Compare the answer found with the call's.

    Lists that a pipeline without work hands back are compared as the arrays that hbconv makes.
    """
    if _is_handed_back(call):
        call = replace(call, answer=np.asarray(call.answer))
    dtypes = _dtypes(call.rows) <= _PROMISED and 0 not in getattr(call.answer, "shape", ())
    want = form(call.answer, dtypes=dtypes)
    got = form(answer, dtypes=dtypes)
    if want != got:
        return "wrong", "another form", f"{got} instead of {want}"
    dtype = coarsest(model, call.rows)
    scale = _scale(call, model)
    for a, b in zip(parts(call.answer), parts(answer), strict=True):
        difference = compare(call.method, a, b, dtype, scale)
        settled = difference.within or is_tied(call, a, b, dtype)
        if not settled and not _is_within_rounding(call, model, a, b, TOLERANCE[dtype] * scale):
            return "wrong", "other values", str(difference)
    return "right", "", ""


def _is_handed_back(call: Call) -> bool:
    both = isinstance(call.answer, list) and isinstance(call.rows, list)
    return both and np.array_equal(call.answer, call.rows)


def _is_within_rounding(call: Call, model: Model, a: Any, b: Any, tolerance: float) -> bool:
    """Whether two parts of answers are as near as the rounding of sums of products allows."""
    want, got = plain(a), plain(b)
    if want.dtype.kind != "f" or not _adds_products(model):
        return False
    uncertain = uncertainty(call, model)
    if uncertain is None or uncertain.size != want.size:
        return False
    same = (want == got) | (np.isnan(want) & np.isnan(got))
    limit = tolerance * np.maximum(1.0, np.abs(want)) + uncertain.reshape(want.shape)
    with np.errstate(all="ignore"):
        return bool((same | (np.abs(want - got) <= limit)).all())


def _scale(call: Call, model: Model) -> float:
    """Return the largest input, by which the rounding of sums of products grows; else 1."""
    return size(call.rows) if _adds_products(model) else 1.0


def _adds_products(model: Model) -> bool:
    return any(isinstance(node, _SUMS) for node in topological(model.parsed.roots))


def _dtypes(rows: Any) -> set[str]:
    """Dtypes of an array or a frame; none of other rows, whose numbers become one of those."""
    if hasattr(rows, "dtypes"):
        return {str(dtype) for dtype in rows.dtypes} if np.ndim(rows) == 2 else {str(rows.dtypes)}
    return {str(rows.dtype)} if hasattr(rows, "dtype") else set()


Floats = npt.NDArray[np.float64]

# On 12 models the largest difference was a quarter of what 8 draws and a safety of 4 allow.
_DRAWS = 8
"""Ways to round; the opposite of each is tried too, since roots know no negative number."""

_SAFETY = 4.0
"""Times that a difference may exceed the farthest of them."""

_UNITS = {"add": 1.0, "sub": 1.0, "mul": 1.0, "div": 1.0, "sqrt": 1.0, "pairwise": 4.0}
"""Roundoffs of a value that an operation may be off by; functions 4, others none."""

_UNITS_OF_FUNCTION = 4.0


def uncertainty(call: Call, model: Model) -> Floats | None:
    """Return how far rounding may move each entry of an answer.

    None where a last bit may send a row elsewhere, as in trees: rounding excuses no decision. None
    too where the answer is no tensor, and where arguments choose another.
    """
    model = model.reading(call.rows)
    if call.options or call.method not in model.parsed.tensors:
        return None
    graph = model.parsed.only(call.method)
    if any(node.decides for node in topological(graph.output_roots)):
        return None
    groups = read_table(call.rows, model.reads).groups(sparse=False)
    if len(groups) > 1:
        return None
    table = groups[0][1]
    lowered = _as_the_source(graph, table)
    return _SAFETY * _farthest(lowered, table.part(slice(0, table.rows)), call.method)


def _as_the_source(graph: Graph, table: Table) -> Lowered:
    """Write the graph as a program that takes distances from products about the origin."""
    padding = table.padding
    sparse = (padding.matrix or padding.written) and graph.depends_on_form
    typed = with_dtypes(graph, table.dtypes, sparse=sparse)
    return lower(typed.rewritten(_about_the_origin), padding=padding)


def _about_the_origin(node: Node) -> Node:
    """Return ``|x|^2 - 2 x y + |y|^2``, which cancels more than a sum of differences does."""
    if not isinstance(node, SquaredDistances | Distances):
        return node
    if isinstance(node, Distances) and node.kind != "square":
        return node
    x = Cast(node.x, "float64")
    points = node.points.data.astype(np.float64)
    lengths = Linear.of(RowDot(x, x), np.ones((1, len(points))))
    products = Linear.of(x, -2.0 * points.T, (points * points).sum(axis=1))
    return Cast(Clip.of(Add((products, lengths)), 0.0, np.inf), node.type.dtype)


def _farthest(lowered: Lowered, table: Table, method: str) -> Floats:
    """Return how far the program's output moved at most, in some ways to round."""
    inputs = table.inputs(lowered.feeds)
    exact = evaluate(lowered.program, inputs)[method].astype(np.float64)
    moved = np.zeros_like(exact)
    for draw in range(_DRAWS):
        for sign in (1.0, -1.0):
            perturbed = evaluate(lowered.program, inputs, _Rounding(draw, sign))[method]
            # fmax passes over NaN, as of roots of numbers that were rounded below 0.
            moved = np.fmax(moved, np.abs(perturbed.astype(np.float64) - exact))
    return moved


class _Rounding:
    """One way to round: each value is off by its bound, up or down at random.

    Parameters
    ----------
    seed : int
    sign : float
        -1 rounds each value to the opposite side.
    """

    def __init__(self, seed: int, sign: float) -> None:
        self._random = np.random.default_rng(seed)
        self._sign = sign

    def __call__(
        self, op: Op, operands: Sequence[npt.NDArray[Any]], value: npt.NDArray[Any]
    ) -> npt.NDArray[Any]:
        if value.dtype.kind != "f":
            return value
        side = self._sign * self._random.choice((-1.0, 1.0), value.shape)
        # Rounding to nearest is off by half a unit in the last place.
        roundoff = np.finfo(value.dtype).eps / 2.0
        return np.asarray(value + side * roundoff * _bound(op, operands, value), value.dtype)


def _bound(op: Op, operands: Sequence[npt.NDArray[Any]], value: npt.NDArray[Any]) -> Any:
    """Return the bound of an operation's rounding, in roundoffs."""
    terms = _terms(op, operands)
    if terms:
        sizes = [np.abs(operand) for operand in operands]
        # The sum of magnitudes is the same operation on absolute values.
        return (terms + 2.0) * PRIMITIVES[op.primitive].evaluate(*sizes, **op.attributes)
    functions = op.kind is OpKind.TRANSCENDENTAL
    return (_UNITS_OF_FUNCTION if functions else _UNITS.get(op.primitive, 0.0)) * np.abs(value)


def _terms(op: Op, operands: Sequence[npt.NDArray[Any]]) -> int:
    """Return how many terms a sum has; 0 for what is no sum."""
    if op.primitive in ("matmul", "embedding_sum"):
        return int(operands[0].shape[-1])
    if op.primitive in ("reduce_sum", "ordered_sum"):
        return int(operands[0].shape[op.attributes["axis"] + 1])
    return 0


_SCORES = {"decision_function": 0.0, "predict_proba": 0.5}
"""Scores by the limit that decides where there are two classes."""

Answer = npt.NDArray[Any]


def is_tied(call: Call, want: Any, got: Any, dtype: str) -> bool:
    """Whether two parts of answers differ only in rows where the source meets a tie.

    Parameters
    ----------
    call : Call
    want, got : object
        The same part of the source's answer and of the model's.
    dtype : {"float32", "float64"}
        Which tolerance holds.
    """
    want, got = plain(want), plain(got)
    if want.ndim == 0 or not len(want) or want.shape != got.shape:
        return False
    far = _apart(want, got) > TOLERANCE[dtype] * np.maximum(1.0, _largest(want))
    if not far.any():
        return False
    ties = _scores_tie(call, want, dtype) | _neighbors_tie(call, dtype)
    return bool((ties | ~far).all())


def _scores_tie(call: Call, want: Answer, dtype: str) -> npt.NDArray[np.bool_]:
    """Rows whose two best scores are as good as one, or that have a score on its limit."""
    scored = next((m for m in _SCORES if hasattr(call.estimator, m)), None)
    if call.method not in ("predict", scored) or scored is None or isinstance(call.answer, list):
        return np.zeros(1, bool)
    pairs = _by_pairs(call.estimator)
    scores = np.asarray(getattr(pairs or call.estimator, scored)(call.rows))
    limit = TOLERANCE[dtype] * np.maximum(1.0, _largest(scores))
    if scores.ndim == 1 or pairs is not None:
        scores = scores.reshape(len(scores), -1)
        return np.asarray((np.abs(scores - _SCORES[scored]) <= limit[:, None]).any(axis=1))
    if call.method != "predict" or want.ndim != 1:
        return np.zeros(1, bool)
    best = np.sort(scores, axis=1)[:, -2:]
    return np.asarray(best[:, -1] - best[:, 0] <= limit)


def _by_pairs(estimator: Any) -> Any:
    """Return a support vector machine of several classes that shows each pair's score, a vote."""
    if not hasattr(estimator, "decision_function_shape") or len(estimator.classes_) < 3:
        return None
    # A shallow copy: the estimator under test keeps its own settings.
    pairs = copy.copy(estimator)
    pairs.decision_function_shape = "ovo"
    pairs.break_ties = False
    return pairs


def _neighbors_tie(call: Call, dtype: str) -> npt.NDArray[np.bool_]:
    """Rows whose neighbours the source's rounding decides (docs/fidelity.md).

    They are those equal to one fitted on, by brute force: products of matrices leave some
    distance. By metrics with weights they are those two of whose neighbours, or the last and the
    next, are as near as each other.
    """
    last, rows = _last(call.estimator, call.rows)
    searcher = _searcher(last)
    if not (_is_brute(searcher) or _is_weighted(searcher)):
        return np.zeros(1, bool)
    # One more than asked for, to see whether the next is as near as the last.
    distances, _ = searcher.kneighbors(
        rows, min(_count_asked(searcher) + 1, searcher.n_samples_fit_)
    )
    tie = np.zeros(len(distances), bool)
    if _is_brute(searcher):
        tie |= distances[:, 0] <= _own_distance(searcher, rows)
    if _is_weighted(searcher):
        limit = max(1e-8, TOLERANCE[dtype]) * np.maximum(1.0, distances[:, 1:])
        tie |= (np.diff(distances) <= limit).any(axis=1)
    return tie


def _searcher(estimator: Any) -> Any:
    """Return what finds the neighbours: of a manifold or a label propagation, its own searcher."""
    searchers = (getattr(estimator, name, None) for name in ("nbrs_", "nn_fit"))
    return next((searcher for searcher in searchers if searcher is not None), estimator)


def _count_asked(searcher: Any) -> int:
    """Return how many neighbours are asked for; a transformer to distances asks for one more."""
    count = int(getattr(searcher, "n_neighbors_", searcher.n_neighbors))
    return count + 1 if getattr(searcher, "mode", "") == "distance" else count


def _own_distance(searcher: Any, rows: Any) -> float:
    """Bound the distance that brute force leaves between a row and itself (docs/fidelity.md).

    No row is longer than its largest number allows.
    """
    width = searcher.n_features_in_
    return float(np.sqrt(4.0 * (width + 2) * np.finfo(np.float64).eps * width) * size(rows))


def _is_brute(searcher: Any) -> bool:
    """Whether distances come from products: not from a tree, and not given."""
    precomputed = getattr(searcher, "effective_metric_", "") == "precomputed"
    return getattr(searcher, "_fit_method", "") == "brute" and not precomputed


def _is_weighted(searcher: Any) -> bool:
    """Whether a metric has weights, which hbconv multiplies into the columns."""
    params = getattr(searcher, "effective_metric_params_", None) or {}
    named = getattr(searcher, "effective_metric_", "") in ("seuclidean", "mahalanobis")
    return named or params.get("w") is not None


def _last(estimator: Any, rows: Any) -> tuple[Any, Any]:
    """Return the last step of a pipeline, a stack or a search, and what it reads."""
    if hasattr(estimator, "best_estimator_"):
        return _last(estimator.best_estimator_, rows)
    if hasattr(estimator, "final_estimator_"):
        return _last(estimator.final_estimator_, estimator.transform(rows))
    if hasattr(estimator, "steps"):
        return estimator[-1], estimator[:-1].transform(rows) if len(estimator) > 1 else rows
    return estimator, rows


def _apart(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return the largest difference in each row; of what is no float, one for any."""
    if a.dtype.kind != "f":
        return np.asarray((~is_alike(a, b)).reshape(len(a), -1).any(axis=1), np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    gap = np.where(same, 0.0, np.nan_to_num(np.abs(a - b), nan=np.inf))
    return np.asarray(gap.reshape(len(a), -1).max(axis=1, initial=0.0))


def _largest(values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    if values.dtype.kind != "f":
        return np.zeros(len(values))
    finite = np.abs(np.where(np.isfinite(values), values, 0.0))
    return np.asarray(finite.reshape(len(values), -1).max(axis=1, initial=0.0))


def size(rows: Any) -> float:
    """Return the largest number of the rows, at least 1; of rows without numbers, 1."""
    values = getattr(rows, "data", rows) if hasattr(rows, "tocsr") else rows
    if hasattr(values, "select_dtypes"):
        values = values.select_dtypes("number")
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        return 1.0
    return float(np.abs(numbers[np.isfinite(numbers)]).max(initial=1.0))
