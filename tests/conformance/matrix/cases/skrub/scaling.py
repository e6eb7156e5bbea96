"""SquashingScaler of many kinds of columns."""

from __future__ import annotations

import skrub
from matrix.fitting import Entries, fit, missing_rows

CASES = (
    Entries("skrub.SquashingScaler", "default", fit(skrub.SquashingScaler())),
    Entries(
        "skrub.SquashingScaler",
        "missing, a low limit",
        fit(skrub.SquashingScaler(0.5, quantile_range=(40.0, 60.0)), missing=True),
        rows=missing_rows,
    ),
)
