"""Factors from times: a clock that is told what to say decides them."""

import pytest

from hbconv.cost_model.price_record import GROUPS, Factors
from hbconv.optimize.program_cost import program_seconds
from hbconv.runtime.timing.machine_prices import (
    PriceTime,
    find_factors,
    find_trials,
    measure_backend,
    predicted_seconds,
)
from hbconv.target import Target

TORCH = Target("torch")


class FakeClock:
    """Measures the calls of each trial in turn as slower than they are predicted."""

    def __init__(self, slower):
        self.seconds = []
        self.answers = []
        for group, trial in find_trials(TORCH).items():
            target = TORCH.replace(rows=trial.rows)
            programs = [trial.program, trial.base] if trial.base else [trial.program]
            for program in programs:
                predicted = predicted_seconds(program, target, Factors())
                self.answers.append(slower.get(group, 1.0) * predicted)

    def __call__(self, calls, seconds):
        for call in calls.values():
            call()
        self.seconds.append(seconds)
        return dict.fromkeys(calls, self.answers.pop(0))


def factors(slower, seconds=1.0):
    return find_factors(measure_backend("torch", seconds, FakeClock(slower)))["torch"]


@pytest.mark.parametrize("group", GROUPS)
def test_a_slower_group_gets_its_factor(group):
    found = factors({group: 3.0})
    assert getattr(found, group) == pytest.approx(3.0)
    assert found == Factors(**{group: getattr(found, group)})


def test_factors_are_bounded_and_noise_is_none():
    found = factors({"operators": 100.0, "reads": 0.001, "products": 1.09, "trees": 0.92})
    assert found == Factors(operators=8.0, reads=0.125)


def test_the_seconds_are_shared():
    clock = FakeClock({})
    measure_backend("torch", 6.0, clock)
    assert sum(clock.seconds) == pytest.approx(6.0)


def test_a_difference_below_zero_is_the_least_factor():
    assert PriceTime("tvm", "operators", 1e-6, -1e-9).factor == 0.125


@pytest.mark.parametrize("backend", ["torch", "onnx", "tvm"])
@pytest.mark.parametrize("group", GROUPS)
def test_programs_are_predicted_as_those_of_rewrites(backend, group):
    target = Target(backend, rows=2_000)
    program = find_trials(target)[group].program
    assert predicted_seconds(program, target, Factors()) == pytest.approx(
        program_seconds(program, target)
    )
