"""Misspelt names meet the nearest that exist."""

import pytest

from hbconv.errors import OptionError
from hbconv.names import unknown
from hbconv.trees.strategy import find_strategy


def test_names_the_nearest():
    error = unknown("precision", "exakt", ["fast", "exact"])
    assert isinstance(error, OptionError)
    assert str(error) == "Unknown precision 'exakt'. Did you mean 'exact'? Known: exact, fast."


def test_names_two_that_are_near():
    assert "Did you mean 'torchscript' or 'torch'?" in str(
        unknown("backend", "torchscrip", ["torch", "torchscript", "onnx"])
    )


@pytest.mark.parametrize("name", ["zzz", "", 3])
def test_guesses_nothing_far_away(name):
    assert (
        str(unknown("backend", name, ["onnx", "torch"]))
        == f"Unknown backend {name!r}. Known: onnx, torch."
    )


def test_helpers_are_no_strategies():
    with pytest.raises(OptionError, match="Unknown strategy '_tests'"):
        find_strategy("_tests")
