"""Kinds of primitives, by how the tile compiler computes them."""

from __future__ import annotations

__all__ = ["CALLED", "ELEMENTWISE", "TRANSCENDENTAL"]

CALLED = frozenset({"sin", "cos", "tan", "asin", "pow"})
"""Elementwise primitives that call the C mathematics library, one row at a time."""
ELEMENTWISE = CALLED | frozenset(
    {"sqrt", "floor", "ceil", "rint", "neg", "abs", "sign", "isnan", "isinf"}
    | {"add", "sub", "mul", "div", "minimum", "maximum", "not", "and", "or", "xor"}
    | {"shift_left", "shift_right", "lt", "le", "gt", "ge", "eq", "ne", "where", "cast"}
)
"""Primitives that compute each entry from the entries at the same position."""
TRANSCENDENTAL = frozenset(
    {"exp", "expm1", "sigmoid", "tanh", "erf", "log", "log1p", "log2", "log10"}
)
"""Elementwise primitives that are computed in vectors of their own width."""
