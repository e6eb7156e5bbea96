"""FunctionTransformer: a numpy function of each value, by name."""

from __future__ import annotations

from typing import Any

import numpy as np

from hbconv.containers import FrameFormat, Layout, Map, Node, Output, sparse_form
from hbconv.parse.inverses import inverts
from hbconv.parse.registry import parses
from hbconv.parse.step import Step

__all__ = []

_NAMES: dict[np.ufunc, str] = {
    np.absolute: "abs",
    np.negative: "neg",
    np.sign: "sign",
    np.sqrt: "sqrt",
    np.exp: "exp",
    np.expm1: "expm1",
    np.log: "log",
    np.log1p: "log1p",
    np.log2: "log2",
    np.log10: "log10",
    np.sin: "sin",
    np.cos: "cos",
    np.tan: "tan",
    np.tanh: "tanh",
    np.rint: "rint",
    np.square: "square",
}
"""Universal functions of numpy, and the functions of Map that they are.

Functions that round ints differently from floats are left out. Others may have a function of the
same name: ``scipy.special.log1p`` computes int16 in float64, and numpy in float32.
"""
_SPARSE = frozenset(
    {
        np.absolute,
        np.negative,
        np.positive,
        np.sign,
        np.sqrt,
        np.expm1,
        np.log1p,
        np.sin,
        np.tan,
        np.tanh,
        np.rint,
    }
)
"""Functions that scipy applies to the nonzeros of a sparse matrix: they keep zero."""


def _frames(est: Any) -> FrameFormat | str:
    """Return the rows themselves where nothing is done to them, and no columns are named."""
    is_identity = est.func is None and not est.validate and est.feature_names_out is None
    return FrameFormat("rows", None) if is_identity else ""


@parses("sklearn.preprocessing.FunctionTransformer", frames=_frames)
def parse_function_transformer(step: Step) -> dict[str, Output]:
    """Leave x alone without a function; refuse functions that are not numpy's."""
    return {"transform": _applied(step, "func", "kw_args")}


@inverts("sklearn.preprocessing.FunctionTransformer", takes_sparse=True)
def invert_function_transformer(step: Step) -> Output:
    """Apply ``inverse_func`` as ``transform`` applies ``func``."""
    return _applied(step, "inverse_func", "inv_kw_args")


def _applied(step: Step, parameter: str, keywords: str) -> Output:
    """Apply the function that a parameter of the estimator holds to rows, validated or not."""
    est = step.estimator
    if getattr(est, keywords):
        raise step.refuse(keywords, getattr(est, keywords), "hbconv handles no keyword arguments.")
    x = step.require_finite() if est.validate else step.x
    func = getattr(est, parameter)
    if isinstance(func, np.ufunc) and func not in _SPARSE:
        step.refuse_sparse(f"applies numpy.{func.__name__}, which takes no sparse matrix")
    layout: Layout = "csr" if est.validate else "kept"
    made = _apply_function(step, parameter, x)
    return Output(made, sparse_form(step.x_sparse, layout, arrays=True))


def _apply_function(step: Step, parameter: str, x: Node) -> Node:
    """Apply the function that a parameter of the estimator holds; None is the identity."""
    func = getattr(step.estimator, parameter)
    if func is None or func is np.positive:
        return x
    if not isinstance(func, np.ufunc) or func not in _NAMES:
        known = ", ".join(sorted(function.__name__ for function in _NAMES))
        raise step.refuse(
            parameter,
            func,
            f"hbconv handles None and numpy's {known}. Or register a parser for your own "
            "transformer.",
        )
    return Map(x, _NAMES[func])
