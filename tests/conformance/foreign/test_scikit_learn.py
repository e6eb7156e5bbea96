"""scikit-learn's own tests, with every answer of a fitted model asked of hbconv too.

``make test`` runs a share of them, which their names choose; ``make foreign`` all. Their results
must be what they are without hbconv, and no answer wrong.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import sklearn

from hbconv.testing import Outcome

HOME = Path(sklearn.__file__).parent

AREAS = {
    "trees": ("tree", "ensemble"),
    "linear": ("linear_model", "svm", "neural_network", "cross_decomposition", "covariance"),
    "rows": ("preprocessing", "impute", "feature_extraction", "feature_selection", "compose"),
    "points": ("neighbors", "cluster", "mixture", "gaussian_process", "manifold", "decomposition"),
    "others": ("tests", "model_selection", "semi_supervised", "inspection", "frozen"),
}
"""Folders whose tests ask fitted models something."""


LEFT_OUT = (
    "model_selection/tests/test_search.py::test_grid_search_cv_results_multimetric",
    "model_selection/tests/test_search.py::test_random_search_cv_results_multimetric",
)
"""They assert that scoring takes less than a second, in which hbconv converts now."""


def asked(folder, area, share):
    """Run the tests of an area; return what pytest printed, its exit code, and the outcomes."""
    (folder / "pytest.ini").touch()
    file = folder / "outcomes.jsonl"
    places = [str(HOME / place) for place in AREAS[area]]
    plugins = ("-p", "hbconv.testing", "-p", "foreign.share", "-p", "no:cacheprovider")
    left_out = [f"--deselect={test}" for test in LEFT_OUT]
    options = (
        "-q",
        *left_out,
        f"--share={share}",
        "--hbconv-report-only",
        f"--hbconv-report={file}",
    )
    command = [
        sys.executable,
        "-m",
        "pytest",
        *plugins,
        "-c",
        str(folder / "pytest.ini"),
        f"--rootdir={HOME}",
        f"--confcutdir={HOME}",  # the environment may lie in the project
        *options,
        *places,
    ]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    return (
        done.stdout + done.stderr,
        done.returncode,
        [Outcome(**json.loads(line)) for line in file.read_text().splitlines()],
    )


@pytest.mark.share("sweep")
@pytest.mark.parametrize("area", AREAS)
def test_scikit_learns_own_tests(area, tmp_path, request, record_property):
    share = request.config.getoption("--foreign")
    printed, code, outcomes = asked(tmp_path, area, share)
    assert code == 0, printed
    counts = Counter(o.kind for o in outcomes)
    assert counts["right"]
    record_property("outcomes", dict(counts))
    assert [str(o) for o in outcomes if o.fails] == []
