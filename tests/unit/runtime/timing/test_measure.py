"""The clock of tuning: by turns, the least of all, and no more of what is hopeless."""

from hbconv.runtime.timing.tune import FIRST_ROUNDS, measure


class Machine:
    """Calls that take given seconds of a clock of their own, and the order they came in."""

    def __init__(self, **seconds):
        self.now = 0.0
        self.order = []
        self.calls = {label: self._call(label, iter(taken)) for label, taken in seconds.items()}

    def _call(self, label, taken):
        def call():
            self.order.append(label)
            self.now += next(taken)

        return call

    def clock(self):
        return self.now


def test_the_least_of_all_times_counts():
    machine = Machine(a=[9.0, 2.0, 3.0, 4.0], b=[5.0, 5.0, 1.5, 5.0])
    assert measure(machine.calls, 1.0, machine.clock) == {"a": 2.0, "b": 1.5}


def test_calls_come_by_turns():
    machine = Machine(a=[1.0] * 9, b=[1.0] * 9)
    measure(machine.calls, 12.0, machine.clock)
    assert "".join(machine.order) == "ab" * 6


def test_what_is_hopeless_is_not_called_again():
    machine = Machine(a=[1.0] * 50, b=[4.0] * FIRST_ROUNDS)
    assert measure(machine.calls, 40.0, machine.clock) == {"a": 1.0, "b": 4.0}
    assert machine.order.count("b") == FIRST_ROUNDS
    assert machine.order.count("a") == 40 - 4 * FIRST_ROUNDS


def test_a_clock_that_stands_still_gives_no_zero():
    found = measure({"a": lambda: None}, -1.0, lambda: 0.0)
    assert found["a"] > 0
