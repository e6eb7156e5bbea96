"""Tied rows: where others are as near as the nearest taken, rows get the choice of the source.

A program orders equally near rows by position, and tells in which rows that may matter. There the
host makes the choice as the source's search does, and a second program, which is given it, computes
the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hbconv.backends import find_backend
from hbconv.backends.base import Arrays, Artifact, Bound
from hbconv.containers import (
    Cast,
    ChoosesNearest,
    EntriesAt,
    Formula,
    Node,
    WrittenSearch,
    topological,
)
from hbconv.errors import MissingPackageError, log_search
from hbconv.lower import TIED, lower_given, lower_nodes
from hbconv.runtime.batching import rows_per_chunk, run_in_chunks
from hbconv.runtime.outputs.tensors import from_array, on_host
from hbconv.runtime.row_artifact import Variant
from hbconv.target import Target
from hbconv.tensor import TensorProgram
from hbconv.tensor.program import evaluate

if TYPE_CHECKING:
    from hbconv.pipeline import Compilation

__all__ = ["Finisher", "TiedRows", "first_files", "rest_files", "rest_program"]

MATRICES = 8
"""Matrices of all entries that a search and its products hold at once."""
WORTH_COMPILING = 1000
"""Rows that numpy searches in the time in which a search is compiled, half a second."""
REST = "rest-"
"""What the names of the second program's files begin with."""


@dataclass(frozen=True)
class Finisher:
    """Answers rows with the choice of the source.

    Parameters
    ----------
    rounds : sequence of Round
        What is chosen, each round by what those before it chose.
    rest : Variant
        Computes the outputs from the rows and the choices.
    dtypes : mapping of str to str
        Of its inputs.
    """

    rounds: Sequence[Round]
    rest: Variant
    dtypes: Mapping[str, str]

    @staticmethod
    def of(stages: Compilation, rest: Variant) -> Finisher:
        """Write what finds the choices, beside a variant of ``rest_program``."""
        chosen: dict[str, ChoosesNearest] = {}
        rounds = []
        for nodes in _by_depth(stages.choosing):
            rounds.append(Round(stages, nodes, dict(chosen)))
            chosen |= nodes
        inputs = rest_program(stages).types.inputs
        return Finisher(rounds, rest, {name: kind.dtype for name, kind in inputs.items()})

    def __call__(self, inputs: Arrays, batch: int) -> dict[str, npt.NDArray[Any]]:
        """Answer rows of a call of so many."""
        values = dict(inputs)
        for each in self.rounds:
            values |= each.chosen(values, batch)
        rest_inputs = {
            name: values[name].astype(dtype, copy=False) for name, dtype in self.dtypes.items()
        }
        return self.rest.run(rest_inputs)


class Round:
    """Nodes that choose at once: none of them reads another's choice.

    Parameters
    ----------
    stages : Compilation
    nodes : mapping of str to ChoosesNearest
        By the names that their choices have as inputs.
    known : mapping of str to ChoosesNearest
        Those that have chosen before.
    """

    def __init__(
        self,
        stages: Compilation,
        nodes: Mapping[str, ChoosesNearest],
        known: Mapping[str, ChoosesNearest],
    ) -> None:
        self._stages, self._nodes, self._known = stages, nodes, known
        # One program computes what all nodes of a round read, and shares what they have in common.
        read = {f"{part} of {name}": of for name, node in nodes.items() for part, of in _read(node)}
        self._program = self._lowered(read, known)
        self._searches: dict[tuple[tuple[str, ...], tuple[bool, ...]], _Search] = {}
        widest = max(node.entries.type.width for node in nodes.values())
        # 8 bytes for each entry of float64.
        most = max(1, stages.target.memory // (8 * MATRICES * widest))
        self._size = min(most, rows_per_chunk(self._program, stages.target))

    def _lowered(self, roots: dict[str, Node], given: Mapping[str, Node]) -> TensorProgram:
        graph, _ = self._stages.written
        padding, like = self._stages.padding, self._stages.lowered
        return lower_nodes(graph, roots, padding=padding, like=like, given=given).program

    def chosen(self, inputs: Arrays, batch: int) -> dict[str, npt.NDArray[Any]]:
        """Choose for rows of a call of so many, and tell the entries at the choices."""
        return run_in_chunks(partial(self._chosen, batch=batch), inputs, self._size)

    def _chosen(self, inputs: Arrays, batch: int) -> dict[str, npt.NDArray[Any]]:
        values = evaluate(self._program, inputs)
        by_formula = _Entries(batch)
        entries_of: dict[str, npt.NDArray[Any]] = {}
        choices: dict[str, npt.NDArray[Any]] = {}
        for name, node in self._nodes.items():
            parts = {part: values[f"{part} of {name}"] for part, _ in _read(node)}
            formula = node.by_formula
            # Written searches need the costly formula only where its rounding decides.
            if formula and (not _is_written(node) or formula.rounds(parts["rows"])):
                parts["entries"] = by_formula.entries(formula, parts["rows"])
            if _is_written(node):
                entries_of |= (
                    {name: parts["entries"].astype(np.float64)} if "entries" in parts else {}
                )
                continue
            choices[name] = node.choose(parts)
            choices[_near(name)] = node.entries_at(parts["entries"], choices[name])
        searched = {f"entries of {name}": array for name, array in entries_of.items()}
        return choices | self._search(tuple(entries_of), batch)({**inputs, **searched})

    def _search(self, given: tuple[str, ...], batch: int) -> _Search:
        """Return what searches where some entries are given, in a call of so many rows."""
        nodes = {name: node for name, node in self._nodes.items() if _is_written(node)}
        shared = tuple(node.is_shared(batch) for node in nodes.values())
        if (given, shared) not in self._searches:
            entries = {name: Cast(node.entries, "float64") for name, node in nodes.items()}
            chosen = {name: node.searched(entries[name], batch) for name, node in nodes.items()}
            near = {_near(name): EntriesAt(entries[name], node) for name, node in chosen.items()}
            stand_in = {f"entries of {name}": entries[name] for name in given}
            program = self._lowered({**chosen, **near}, {**self._known, **stand_in})
            host = replace(self._stages.target, backend="tvm", device="cpu")
            self._searches[given, shared] = _Search(program, host)
        return self._searches[given, shared]


class _Search:
    """A program that searches: numpy runs it until its rows are worth compiling it.

    Parameters
    ----------
    program : TensorProgram
    target : Target
    """

    def __init__(self, program: TensorProgram, target: Target) -> None:
        self._program, self._target = program, target
        self._names = [given.name for given in program.inputs]
        self._rows = 0

    def __call__(self, inputs: Arrays) -> dict[str, npt.NDArray[Any]]:
        """Choose, and tell the entries at the choices."""
        if not self._program.outputs:
            return {}
        self._rows += len(next(iter(inputs.values())))
        # Compiling takes half a second, in which numpy searches a thousand rows.
        if self._rows < WORTH_COMPILING or self._artifact is None:
            return evaluate(self._program, inputs)
        return self._artifact.run({name: inputs[name] for name in self._names})

    @cached_property
    def _artifact(self) -> Artifact | None:
        """The program compiled by the one backend that searches; None where that cannot."""
        try:
            return find_backend("tvm").compile(self._program, self._target)
        except MissingPackageError:
            return None
        except Exception as error:  # numpy answers alike, if later
            log_search(error)
            return None


class _Entries:
    """Distances by formulas, computed once for all nodes that choose among some of the points."""

    def __init__(self, batch: int) -> None:
        self._batch = batch
        self._known: dict[tuple[Any, ...], npt.NDArray[Any]] = {}

    def entries(self, formula: Formula, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the entries of rows that outlive this."""
        # By identity, as an array has no hash; the rows outlive this.
        key = (replace(formula, of=None), id(rows))
        if key not in self._known:
            self._known[key] = formula.entries(rows, self._batch)
        whole = self._known[key]
        return whole if formula.of is None else whole[:, formula.of.data]


def _is_written(node: ChoosesNearest) -> bool:
    return isinstance(node.by_dtype, WrittenSearch)


def _read(node: ChoosesNearest) -> list[tuple[str, Node]]:
    """Return what numpy reads of a node: the rows of products, else entries that it partitions."""
    read: list[tuple[str, Node]] = []
    if node.by_formula and node.rows:
        read.append(("rows", node.rows))
    elif not _is_written(node):
        read.append(("entries", node.entries))
    return read if node.where is None or _is_written(node) else [*read, ("where", node.where)]


def _near(choice: str) -> str:
    return choice.replace("choice", "near")


def _by_depth(choosing: Sequence[ChoosesNearest]) -> list[dict[str, ChoosesNearest]]:
    """Group nodes by how many choices they build on, inputs before their users, and name them."""
    depths: dict[Node, int] = {}
    groups: list[dict[str, ChoosesNearest]] = []
    for i, node in enumerate(choosing):
        before = (depths[n] for n in topological(node.inputs) if n in depths)
        depths[node] = max(before, default=-1) + 1
        if depths[node] == len(groups):
            groups.append({})
        groups[depths[node]][f"choice{i}"] = node
    return groups


def rest_program(stages: Compilation) -> TensorProgram:
    """Return the outputs as a program that is given the choices, and the entries read there."""
    graph, flags = stages.written
    choices = {f"choice{i}": node for i, node in enumerate(stages.choosing)}
    near = {_near(name): node.near for name, node in choices.items()}
    there = set(topological(graph.output_roots))
    given = choices | {name: node for name, node in near.items() if node in there}
    precision, padding = stages.target.precision, stages.padding
    return lower_given(graph, stages.lowered, given, precision, padding, flags)


class TiedRows(Artifact):
    """A program whose tied rows are finished.

    Parameters
    ----------
    first : Artifact
        Tells which rows are tied.
    make : callable
        Makes what finishes them, at the first tied row.
    rest : mapping of str to bytes
        Files of the second program.
    """

    def __init__(
        self, first: Artifact, make: Callable[[], Finisher], rest: Mapping[str, bytes]
    ) -> None:
        self.first = first
        self.sizes = first.sizes
        self._make = make
        self._rest = rest
        self._made: Finisher | None = None

    def run(self, inputs: Arrays) -> dict[str, npt.NDArray[Any]]:
        """Compute the outputs."""
        values = self.first.run(inputs)
        tied = values.pop(TIED)
        if not tied.any():
            return values
        values = {name: np.require(array, requirements="W") for name, array in values.items()}
        self._finish(inputs, values, tied)
        return values

    def bind(self, rows: int) -> Bound | None:
        """Bind the first program; its outputs are finished where they lie."""
        bound = self.first.bind(rows)
        if bound is None:
            return None
        outputs = {name: array for name, array in bound.outputs.items() if name != TIED}
        tied = bound.outputs[TIED]

        def run(record: tuple[Any, int]) -> None:
            own, count = record
            bound.run(own)
            if tied[:count].any():
                inputs, values = (
                    {name: array[:count] for name, array in arrays.items()}
                    for arrays in (bound.inputs, outputs)
                )
                self._finish(inputs, values, tied[:count])

        return Bound(bound.inputs, outputs, run, lambda count: (bound.record(count), count))

    def compute(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Compute the outputs as ``run`` does, for tensors on the device."""
        first: Any = self.first
        values: dict[str, Any] = first.compute(inputs)
        tied = values.pop(TIED)
        if not self._are_tied(tied):
            return values
        given, found = (
            {name: on_host(tensor) for name, tensor in tensors.items()}
            for tensors in (inputs, values)
        )
        self._finish(given, found, on_host(tied))
        return {name: from_array(array, values[name].device) for name, array in found.items()}

    def _are_tied(self, tied: Any) -> bool:
        """Ask the device whether any row is tied."""
        return bool(tied.any())

    def files(self) -> dict[str, bytes]:
        """Return the files of both programs; none where one has none."""
        first = self.first.files()
        if not (first and self._rest):
            return {}
        return {**first, **{REST + name: data for name, data in self._rest.items()}}

    def _finish(self, inputs: Arrays, values: Arrays, tied: npt.NDArray[np.bool_]) -> None:
        """Write the answers of the tied rows over those by position."""
        if self._made is None:
            self._made = self._make()
        rows = np.flatnonzero(tied)
        found = self._made({name: array[rows] for name, array in inputs.items()}, len(tied))
        for name, array in found.items():
            values[name][rows] = array


def first_files(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return those of stored files that are of the first program."""
    return {name: data for name, data in files.items() if not name.startswith(REST)}


def rest_files(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return those of stored files that are of the second program."""
    return {name.removeprefix(REST): files[name] for name in files if name.startswith(REST)}
