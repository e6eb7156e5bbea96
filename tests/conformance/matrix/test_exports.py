"""Every exported file loads in its bare runtime and answers as the source does, for none, one,
few and many rows.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matrix.case import Case, as_dtype
from matrix.compare import ask, compare_values
from matrix.compiled import compiled
from matrix.estimators import case_names
from matrix.exports import SUFFIXES, exported
from sources import dense

import hbconv
from hbconv.containers import Codes, Hashes, topological
from hbconv.containers.vocabulary import DateCodes
from hbconv.errors import BackendError

ROWS = (1000, 7, 1, 0)

SHARES = {".onnx": "emulated", ".pt": "traced", ".pt2": "captured", ".so": "linked"}
"""The share of settings that an ordinary run exports: a tracer or a compiler takes its time."""

NEAR = {
    "LatentDirichletAllocation[fitted on float32]": "Iterations in float32 end a round apart, as on the backend.",
    "GaussianProcessRegressor[no kernel, normalized]": "Ill-conditioned; ONNX Runtime folds the scale that follows a product into it.",
}
"""Cases that ONNX Runtime answers to three digits alone, and why."""


PAIRS = [
    pytest.param(name, suffix, id=f"{name}-{suffix}", marks=pytest.mark.share(SHARES[suffix]))
    for name in case_names()
    for suffix in SUFFIXES
]


@pytest.mark.parametrize(("case", "suffix"), PAIRS, indirect=["case"])
def test_a_file_answers_as_the_source(case: Case, suffix: str, tmp_path: Path) -> None:
    """In each dtype that the source takes; a model of which no method gives a tensor, or whose
    texts become tokens on the host, or that reads dates, is refused.
    """
    model = compiled(case, "reference")
    if model.reads.entries or not model.parsed.exported or _is_hosted(model):
        with pytest.raises(
            BackendError,
            match=r"its texts become tokens on the host|neighbors is none|no operator that hashes text"
            r"|does not read",
        ):
            exported(case, suffix, case.dtypes[0], tmp_path)
        return
    for dtype in case.dtypes:
        answers = exported(case, suffix, dtype, tmp_path)
        for n in ROWS:
            x: Any = as_dtype(case.rows(n), dtype)
            found = answers(x)
            for method, got in found.items():
                if str(case) in NEAR and suffix == ".onnx" and n:
                    np.testing.assert_allclose(dense(got), dense(ask(case, method, x)), rtol=1e-3)
                else:
                    compare_values(case, method, x, dense(got))
        assert set(found) == set(model.parsed.exported)


def _is_hosted(model: hbconv.Model) -> bool:
    """Whether the model reads dates, or knows categories by hashes of their texts alone."""
    return any(
        isinstance(node, Codes) and isinstance(node.vocabulary, DateCodes | Hashes)
        for node in topological(model.parsed.roots)
    )
