"""Machine prices: time small programs on a backend, and compare them with the shipped prices."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hbconv.backends import find_backend
from hbconv.cost_model import GROUPS, Factors, count_work, scaled_prices, settled
from hbconv.cost_model.count import counted_operators
from hbconv.optimize.program_cost import tree_work
from hbconv.runtime.timing.measure import Measure, measure
from hbconv.runtime.timing.price_programs import Trial, find_trials
from hbconv.target import Target
from hbconv.tensor import Op, OpKind, TensorProgram

__all__ = ["PriceTime", "find_factors", "measure_backend", "predicted_seconds"]


@dataclass(frozen=True)
class PriceTime:
    """What a group of units took on a backend.

    Parameters
    ----------
    backend, group : str
    predicted, measured : float
        Seconds of a call, without those of the program that is subtracted.
    """

    backend: str
    group: str
    predicted: float
    measured: float

    @property
    def factor(self) -> float:
        """What to multiply prices of the group by."""
        return settled(self.measured / self.predicted)


def measure_backend(name: str, seconds: float, timed: Measure = measure) -> list[PriceTime]:
    """Time the programs of a backend for about so many seconds; compiling comes on top."""
    target = Target(name)
    share = seconds / len(GROUPS)
    return [
        PriceTime(name, group, _predict(trial, target), _time(trial, target, share, timed))
        for group, trial in find_trials(target).items()
    ]


def find_factors(times: Iterable[PriceTime]) -> dict[str, Factors]:
    """Return the factors of each backend."""
    found: dict[str, dict[str, float]] = {}
    for time in times:
        found.setdefault(time.backend, {})[time.group] = time.factor
    return {backend: Factors(**factors) for backend, factors in found.items()}


def predicted_seconds(program: TensorProgram, target: Target, factors: Factors) -> float:
    """Predict the seconds of a program at the shipped prices times factors."""
    return sum(_operator_seconds(program, op, target, factors) for op in counted_operators(program))


def _operator_seconds(program: TensorProgram, op: Op, target: Target, factors: Factors) -> float:
    if op.kind is not OpKind.TREES:
        prices = scaled_prices(target.backend, "", factors, native=False)
        return prices.seconds(count_work(program, op), target)
    backend, strategy = find_backend(target.backend), op.attributes["strategy"]
    dtype = program.instructions[op.operands[0]].type.dtype
    native = strategy in backend.native_trees(target)
    work = tree_work(op.attributes["forest"], strategy, target, backend, dtype)
    return scaled_prices(target.backend, strategy, factors, native=native).seconds(work, target)


def _predict(trial: Trial, target: Target) -> float:
    fitted = target.replace(rows=trial.rows)
    base = predicted_seconds(trial.base, fitted, Factors()) if trial.base else 0.0
    return predicted_seconds(trial.program, fitted, Factors()) - base


def _time(trial: Trial, target: Target, seconds: float, timed: Measure) -> float:
    """Return the least time of a call, less that of the program that is subtracted."""
    inputs = trial.inputs()
    backend = find_backend(target.backend)
    programs = [trial.program, trial.base] if trial.base else [trial.program]
    least = []
    for program in programs:
        artifact = backend.compile(program, target)
        calls = {"call": lambda artifact=artifact: artifact.run(inputs)}
        least.append(timed(calls, seconds / len(programs))["call"])
    return least[0] - sum(least[1:])
