"""The functions that write each primitive as ONNX operators.

Each is called as ``function(writer, *operands, **attributes)`` and returns the name of the result.
``emit`` adds ``iterate``, whose body is a program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hbconv.backends.onnx import axes, elementwise, pairwise, shapes, trees

__all__ = ["OPERATORS", "Emit"]

Emit = Callable[..., str]


def _plain(operator: str) -> Emit:
    return lambda w, *xs: w.node(operator, *(x.name for x in xs))


OPERATORS: Mapping[str, Emit] = {
    **{primitive: _plain(operator) for primitive, operator in {
        "neg": "Neg", "abs": "Abs", "sign": "Sign", "sqrt": "Sqrt", "exp": "Exp", "log": "Log",
        "relu": "Relu", "floor": "Floor", "ceil": "Ceil", "rint": "Round",
        "isnan": "IsNaN", "isinf": "IsInf", "not": "Not",
        "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "pow": "Pow",
        "minimum": "Min", "maximum": "Max",
        "lt": "Less", "le": "LessOrEqual", "eq": "Equal", "gt": "Greater", "ge": "GreaterOrEqual",
    }.items()},
    "tanh": elementwise.tanh,
    "asin": elementwise.asin,
    "sin": elementwise.circular("Sin", 0),
    "cos": elementwise.circular("Cos", 1),
    "ne": elementwise.not_equal,
    "and": elementwise.logical("And", "BitwiseAnd"),
    "or": elementwise.logical("Or", "BitwiseOr"),
    "xor": elementwise.logical("Xor", "BitwiseXor"),
    "shift_left": elementwise.shift("LEFT"),
    "shift_right": elementwise.shift("RIGHT"),
    "where": elementwise.where,
    "cast": elementwise.cast,
    "matmul": shapes.matmul,
    "pairwise": pairwise.pairwise,
    "nearest": pairwise.nearest,
    "take": shapes.take,
    "gather": shapes.gather,
    "lookup": shapes.lookup,
    "concat": shapes.concat,
    "reshape": shapes.reshape,
    "scatter": shapes.scatter,
    "expand": shapes.expand,
    "reduce_sum": axes.reduction("ReduceSum"),
    "reduce_prod": axes.reduction("ReduceProd"),
    "reduce_max": axes.extreme("ReduceMax"),
    "reduce_min": axes.extreme("ReduceMin"),
    "argmax": axes.argmax,
    "ordered_sum": axes.ordered_sum,
    "cumsum": axes.cumsum,
    "sort": axes.sort,
    "topk": axes.topk,
    "bucketize": axes.bucketize,
    "tree_scores": trees.tree_scores,
    "tree_leaves": trees.tree_leaves,
}  # fmt: skip
