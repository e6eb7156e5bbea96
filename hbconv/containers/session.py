"""Session: the inputs and outputs of a file, under its own names and in its own shapes."""

from __future__ import annotations

from dataclasses import dataclass

from hbconv.array import Array

__all__ = ["InputPort", "OutputPort", "PassedPort", "Session"]


@dataclass(frozen=True)
class InputPort:
    """One input of the file.

    Parameters
    ----------
    name : str
    columns : tuple of int
        Columns of the schema that it is cut into.
    shape : tuple of int
        Shape of what it holds of each row; () for a vector over the rows.
    """

    name: str
    columns: tuple[int, ...]
    shape: tuple[int, ...]


@dataclass(frozen=True)
class OutputPort:
    """One output of the file.

    Parameters
    ----------
    name : str
    method : str
        Output of the graph that holds its values.
    shape : tuple of int
        Its shape, with -1 for the rows.
    keys : Array or None
        Keys of the dicts of an output that has a dict for each row.
    """

    name: str
    method: str
    shape: tuple[int, ...]
    keys: Array | None = None


@dataclass(frozen=True)
class PassedPort:
    """One output of the file that repeats an input.

    Parameters
    ----------
    name : str
    source : str
        Name of the input.
    """

    name: str
    source: str


@dataclass(frozen=True)
class Session:
    """Inputs and outputs of the file, in its order."""

    inputs: tuple[InputPort, ...]
    outputs: tuple[OutputPort | PassedPort, ...]

    @property
    def computed(self) -> tuple[OutputPort, ...]:
        """Outputs that are computed of the rows."""
        return tuple(port for port in self.outputs if isinstance(port, OutputPort))
