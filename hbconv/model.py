"""Model: what the user holds. It answers as the fitted estimator does."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import RLock
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.backends import Artifact, find_backend
from hbconv.containers import Graph, Output
from hbconv.lower import Lowered, lower
from hbconv.optimize.plan import Plan
from hbconv.runtime.batching import chunks, rows_per_chunk
from hbconv.runtime.checks import Checker
from hbconv.runtime.inputs import Reads, Table, read_table
from hbconv.target import Target

__all__ = ["Model"]


class Program:
    """One method, compiled for one combination of column dtypes."""

    def __init__(self, lowered: Lowered, artifact: Artifact, chunk: int) -> None:
        self.lowered, self.artifact, self.chunk = lowered, artifact, chunk

    def run(self, table: Table) -> npt.NDArray[Any]:
        """Compute the one output."""
        inputs = {feed.name: table.feed(feed) for feed in self.lowered.feeds}
        (values,) = self.artifact.run(inputs).values()
        return values


class Model:
    """A compiled model.

    It has the methods of the estimator it came from (``predict``, ``predict_proba``, ``transform``...), and those only.
    """

    def __init__(self, graph: Graph, target: Target, plan: Plan, parsed: Graph) -> None:
        self.graph, self.target, self.plan, self.parsed = graph, target, plan, parsed
        self._reads = Reads.of(parsed)
        self._lock = RLock()
        self._programs: dict[tuple[str, tuple[str, ...]], Program] = {}
        self._checkers: dict[tuple[str, ...], Checker] = {}

    def __getattr__(self, name: str) -> Callable[[Any], Any]:
        graph = self.__dict__.get("graph")
        if graph is None or name not in graph.outputs:
            raise AttributeError(f"This model has no {name!r}")
        return partial(self._call, name)

    def _call(self, method: str, x: Any) -> Any:
        table = read_table(x, self._reads)
        program, check = self._compiled(method, table.dtypes)
        parts = []
        for rows in chunks(table.rows, program.chunk):
            part = table.part(rows)
            check(part)
            parts.append(program.run(part))
        return _answer(self.graph.outputs[method], np.concatenate(parts) if len(parts) > 1 else parts[0])

    def _compiled(self, method: str, dtypes: tuple[str, ...]) -> tuple[Program, Checker]:
        with self._lock:
            if (method, dtypes) not in self._programs:
                self._programs[method, dtypes] = self._compile(method, dtypes)
            if dtypes not in self._checkers:
                self._checkers[dtypes] = Checker(self.graph.with_schema(self.graph.schema.with_dtypes(dtypes)))
            return self._programs[method, dtypes], self._checkers[dtypes]

    def _compile(self, method: str, dtypes: tuple[str, ...]) -> Program:
        graph = self.graph.only(method).with_schema(self.graph.schema.with_dtypes(dtypes))
        lowered = lower(graph, self.target.precision)
        artifact = find_backend(self.target.backend).compile(lowered.program, self.target)
        return Program(lowered, artifact, rows_per_chunk(lowered.program, self.target.memory))

    def compile(self, sample: Any) -> Model:
        """Compile every method for the dtypes of a sample now, rather than at the first call."""
        table = read_table(sample, self._reads)
        for method in self.graph.outputs:
            self._compiled(method, table.dtypes)
        return self


def _answer(output: Output, values: npt.NDArray[Any]) -> Any:
    values = values[:, 0] if output.vector else values
    if output.classes is not None:
        return output.classes.data[values]
    return values if output.dtype is None else values.astype(output.dtype, copy=False)
