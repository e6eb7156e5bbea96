"""Model files that XGBoost 1.7 to 3.2 wrote, read without it, against the answers of the
version that wrote them.
"""

from pathlib import Path

import numpy as np
import pytest
from sources import compared
from tolerances import FUNCTION, assert_units

import hbconv
from hbconv.errors import ConversionError
from hbconv.parse.xgboost.estimators import parse_xgboost_bytes

FILES = sorted((Path(__file__).parent / "files").glob("xgboost_*.npz"))
MODELS = [
    (file, name)
    for file in FILES
    for name in np.load(file).files
    if name.endswith((".json", ".ubj"))
]

EXPONENTIALS = ("binary", "poisson", "three")
"""Kinds of models whose predictions are an exponential of the raw scores."""


def test_versions():
    """One file for each form of the format."""
    assert [file.stem for file in FILES] == [
        f"xgboost_{version}" for version in ("1.7", "2.1", "3.0", "3.1", "3.2")
    ]


@pytest.mark.parametrize("backend", ["reference", "torch"])
@pytest.mark.parametrize(
    ("file", "name"), MODELS, ids=[f"{file.stem}-{name}" for file, name in MODELS]
)
def test_answers_as_the_version_that_wrote_the_file(file, name, backend):
    """Leaves and raw scores are equal, predictions within rounding."""
    stored, (kind, _, _) = np.load(file), name.rpartition(".")
    model = hbconv.convert(parse_xgboost_bytes(stored[name].tobytes()), backend=backend)
    methods = compared(model)
    assert methods == ("predict", "raw_scores", "apply")[: 2 if kind == "linear" else 3]
    for method in methods:
        got, want = getattr(model, method)(stored["rows"]), stored[f"{kind}.{method}"]
        assert_units(
            method, got, want, FUNCTION if method == "predict" and kind in EXPONENTIALS else 0
        )


@pytest.mark.parametrize(
    ("start", "what"), [(b"binf\x00\x00\x00\x3f", "damaged"), (b"bs64\tAAAA", "in base64.*save it")]
)
def test_what_is_no_whole_binary_is_refused_with_a_way_out(start, what):
    with pytest.raises(ConversionError, match=what):
        hbconv.convert(start + bytes(200))
