"""Columns of narrow ints, such as codes of categories: they may be returned, and not computed with.

pandas computes with them in their own dtype, where sums and products overflow.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from hbconv.containers import Cast, Node
from hbconv.parse.tracing.frames import TracedSeries
from hbconv.parse.tracing.functions import convert
from hbconv.parse.tracing.kinds import SERIES
from hbconv.parse.tracing.trace import refuse

__all__ = ["NarrowInts"]

_WAY = "Convert them first: s.astype(int)."
_COMPARISONS = (
    *(np.less, np.less_equal, np.greater, np.greater_equal),
    *(np.equal, np.not_equal),
)


class NarrowInts(TracedSeries):
    """A column of int8 or its like."""

    def _widened(self) -> TracedSeries:
        return TracedSeries(self.node, self.name)

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **keywords: Any
    ) -> Any:
        if ufunc not in _COMPARISONS or method != "__call__" or keywords or out is not None:
            refuse("computes with narrow ints, which overflow", _WAY)
        given: Any = [x._widened() if isinstance(x, NarrowInts) else x for x in inputs]
        return ufunc(*given)

    def astype(self, dtype: Any, **keywords: Any) -> TracedSeries:
        """Convert to wider numbers."""
        if keywords:
            refuse("converts narrow ints with options", _WAY)
        # A node of its own, which is of no narrow kind.
        wide: Node = Cast(Cast(self.node, "float64"), "int64")
        return self.like(convert(wide, dtype))

    def _refuse_method(self, *_: object, **__: object) -> NoReturn:
        refuse("computes with narrow ints, which overflow", _WAY)

    to_numpy = fillna = clip = abs = where = mask = replace = _refuse_method


SERIES["narrow"] = NarrowInts
