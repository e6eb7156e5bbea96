"""Answer few rows and more by trees; ``make memcheck`` runs this twice, the second time under
valgrind, by the code that the first one kept.
"""

from __future__ import annotations

import sys

import numpy as np
from forests import hostile_rows, random_forest

ROWS = (0, 1, 7, 9, 65)


def check(dtype: str) -> None:
    """Compare the loop for few rows, and that for batches, with the forest."""
    from hbconv.backends.tvm import BACKEND
    from hbconv.backends.tvm.compile import compile_program
    from hbconv.backends.tvm.machine.machine import Machine
    from hbconv.backends.tvm.machine.schedule import FEW
    from hbconv.target import Target
    from hbconv.tensor import Builder

    b, rng, target = Builder(), np.random.default_rng(0), Target("tvm")
    forest = random_forest(rng, n_trees=17, n_features=20)
    scores = b.op("tree_scores", b.input("x", dtype, 20), forest=forest, strategy="select")
    program = BACKEND.prepare(b.program({"scores": scores}), target)
    for artifact in (
        compile_program(program, FEW, Machine.host(), target),
        BACKEND.emit(program, target),
    ):
        for rows in ROWS:
            x = hostile_rows(rng, forest, dtype, rows)
            np.testing.assert_array_equal(artifact.run({"x": x})["scores"], forest.scores(x))


if __name__ == "__main__":
    sys.modules["torch"] = None  # type: ignore[assignment]  # tvm_ffi would import it, for minutes
    for kind in ("float32", "float64"):
        check(kind)
    print("right, with TVM" if "tvm" in sys.modules else "right, by kept code")
