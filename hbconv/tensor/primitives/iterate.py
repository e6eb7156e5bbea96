"""The primitive ``iterate``: a program repeated on its own result."""

import numpy as np

from hbconv.tensor.evaluate import evaluate
from hbconv.tensor.primitive import OpKind, define
from hbconv.tensor.program import TensorProgram
from hbconv.tensor.types import NumpyArray, TensorType, require

__all__: list[str] = []


def infer_iterate(
    state: TensorType, given: TensorType, body: TensorProgram, steps: int
) -> TensorType:
    """Type ``iterate(state, given, body, steps)``: ``state = body(state, given)``, ``steps`` times.

    The body reads two matrices, ``state`` and ``given``, and returns one, ``state``. A step that
    changes no row may end the loop, since no later step would change one. A row that is done
    keeps its state.
    """
    matrices = len(state.shape) == len(given.shape) == 1
    require(state.rows and given.rows and matrices, f"iterate on {state} and {given}")
    reads = {i.name: i.type for i in body.inputs} == {"state": state, "given": given}
    require(reads, "the body reads state and given")
    require(list(body.outputs) == ["state"], "the body gives a state")
    result = body.instructions[body.outputs["state"]].type
    require(result == state, "the body gives a state")
    require(steps > 0, "at least one step")
    return state


def iterate(state: NumpyArray, given: NumpyArray, body: TensorProgram, steps: int) -> NumpyArray:
    """Repeat, until nothing changes."""
    for _ in range(steps):
        before = state
        state = evaluate(body, {"state": before, "given": given})["state"]
        if np.array_equal(before, state, equal_nan=True):
            break
    return state


define("iterate", infer_iterate, iterate, OpKind.LOOP)
