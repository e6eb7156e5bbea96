"""The programs that are timed compute what they say, on every backend."""

import numpy as np
import pytest

from hbconv.backends import find_backend
from hbconv.backends.reference import evaluate
from hbconv.cost_model.price_record import GROUPS
from hbconv.runtime.timing.machine_prices import DEPTH, find_trials, make_forest
from hbconv.target import Target
from hbconv.trees.forest_check import check_forest


def test_each_group_has_a_trial():
    assert tuple(find_trials(Target("torch"))) == GROUPS


def test_the_forest_is_complete():
    forest = make_forest()
    check_forest(forest)
    assert set(forest.depth_of_tests) == set(range(DEPTH))


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("backend", ["torch", "onnx", "tvm"])
def test_backends_answer_as_the_reference_does(backend, group):
    target = Target(backend)
    trial = find_trials(target)[group]
    inputs = {name: rows[:20] for name, rows in trial.inputs().items()}
    answered = find_backend(backend).compile(trial.program, target).run(inputs)
    np.testing.assert_allclose(
        answered["y"], evaluate(trial.program, inputs)["y"], rtol=1e-5, atol=1e-6
    )
    assert np.isfinite(answered["y"]).all()
