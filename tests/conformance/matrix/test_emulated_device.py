"""Every estimator on an emulated CUDA device: the whole program by generated kernels, or refused
by name.
"""

from __future__ import annotations

import pytest
from emulated_rows import emulate_device
from matrix.case import Case, as_dtype
from matrix.compare import compare
from matrix.compiled import compiled
from matrix.estimators import case_names

import hbconv
from hbconv.errors import BackendError

ROWS = (60, 1, 0)
TOO_WIDE = "gives each row to a thread of a CUDA device, which holds"


@pytest.mark.share("emulated")
@pytest.mark.parametrize("case", case_names(), ids=str, indirect=True)
def test_answers_as_the_source(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    emulate_device(monkeypatch)
    model = hbconv.convert(compiled(case, "reference").parsed, backend="tvm", device="cuda")
    for dtype in case.dtypes:
        for n in ROWS:
            x = as_dtype(case.rows(n), dtype)
            for method in case.names:
                try:
                    got = getattr(model, method)(x)
                except BackendError as error:
                    assert TOO_WIDE in str(error)  # noqa: PT017  (others are no error)
                    return
                compare(case, method, x, got)
