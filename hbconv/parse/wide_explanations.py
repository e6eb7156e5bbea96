"""Leave out methods on demand whose answers are too wide: interactions grow with the square."""

from __future__ import annotations

from collections.abc import Mapping

from hbconv.containers import Output

__all__ = ["MOST_NUMBERS", "split_by_width"]

MOST_NUMBERS = 1 << 24
"""Numbers of one row that a method on demand may return: 128 MB, 4,095 columns of interactions."""


def split_by_width(
    outputs: Mapping[str, Output], estimator: str
) -> tuple[dict[str, Output], dict[str, str]]:
    """Return the outputs that a model answers, and why it does not answer the others.

    Examples
    --------
    >>> from hbconv.containers import Columns, Schema
    >>> x = Columns.of(Schema.matrix(3))
    >>> kept, why = split_by_width({"contributions": Output(x, on_demand=True)}, "Trees")
    >>> list(kept), why
    (['contributions'], {})
    """
    too_wide = {
        method: output.node.type.width
        for method, output in outputs.items()
        if output.on_demand and output.node.type.width > MOST_NUMBERS
    }
    kept = {method: output for method, output in outputs.items() if method not in too_wide}
    reasons = {
        method: f"This Model of {estimator} has no {method}: a row of them has {width:,} numbers, "
        f"and hbconv gives up to {MOST_NUMBERS:,}. Fit fewer columns, or ask "
        f"{' or '.join(kept)}."
        for method, width in too_wide.items()
    }
    return kept, reasons
