"""The primitive ``iterate``: a program repeated on its own result."""

from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.tensor.evaluate import evaluate
from hbconv.tensor.primitives import TensorType, define, require
from hbconv.tensor.program import TensorProgram

__all__: list[str] = []


def infer_iterate(
    state: TensorType, given: TensorType, body: TensorProgram, steps: int
) -> TensorType:
    """``iterate(state, given, body, steps)``: ``state = body(state, given)``, so many times.

    The body reads two matrices, ``state`` and ``given``, and gives one, ``state``. A step that changes no row may end it: none
    after that would. So an iteration that ends at each row's own time is one in which rows that are done keep their state.
    """
    require(
        state.rows and given.rows and len(state.shape) == len(given.shape) == 1,
        f"iterate on {state} and {given}",
    )
    require(
        {i.name: i.type for i in body.inputs} == {"state": state, "given": given},
        "the body reads state and given",
    )
    require(
        list(body.outputs) == ["state"] and body.instructions[body.outputs["state"]].type == state,
        "the body gives a state",
    )
    require(steps > 0, "at least one step")
    return state


def iterate(
    state: npt.NDArray[Any], given: npt.NDArray[Any], body: TensorProgram, steps: int
) -> npt.NDArray[Any]:
    """Repeat, until nothing changes."""
    for _ in range(steps):
        before, state = state, evaluate(body, {"state": state, "given": given})["state"]
        if np.array_equal(before, state, equal_nan=True):
            break
    return state


define("iterate", infer_iterate, iterate)
