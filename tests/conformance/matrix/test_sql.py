"""Every estimator as a query that DuckDB answers, against the fitted estimator, or refused by name,
as the table of support has it.
"""

from __future__ import annotations

import pytest
from matrix.case import Case, as_dtype, fitted
from matrix.compare import compare
from matrix.estimators import first_names

import hbconv
from hbconv.cli.support import right_of, support_data
from hbconv.errors import BackendError

ROWS = (40, 0)
FIRST = [name for name in first_names() if not name.same_as]


@pytest.mark.parametrize("case", FIRST, ids=str, indirect=True)
@pytest.mark.share("case")
def test_answers_as_the_source(case: Case) -> None:
    """The same values within tolerance, labels exactly, in both dtypes."""
    if "sql" not in right_of(support_data()[case.estimator]):
        with pytest.raises(BackendError, match=r"cannot run|longer than"):
            hbconv.convert(fitted(case), "sql").compile(case.rows(7))
        return
    model = hbconv.convert(fitted(case), "sql")
    for dtype in case.dtypes:
        for n in ROWS:
            x = as_dtype(case.rows(n), dtype)
            for method in case.names:
                compare(case, method, x, getattr(model, method)(x))
