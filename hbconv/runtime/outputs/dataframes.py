"""Answers of ``transform`` as frames of pandas or polars."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import Columns, FrameFormat, Node, Output, Select
from hbconv.errors import InputError
from hbconv.runtime.inputs.dataframes import pandas_dtypes

__all__ = ["Framing", "library_of", "returns_rows", "to_frame"]

MOST_SET = 4
"""Columns up to which pandas sets them one by one, in 40 us each, sooner than it joins frames."""


def library_of(frame_format: FrameFormat | None, x: Any) -> str:
    """Return the library whose frames ``transform`` returns for rows x, or "" for arrays.

    The configuration of scikit-learn counts if it is imported.
    """
    if frame_format is None:
        return ""
    if frame_format.library in ("given", "rows"):
        library = type(x).__module__.partition(".")[0]
        return library if library in ("pandas", "polars") and hasattr(x, "columns") else ""
    sklearn = sys.modules.get("sklearn")
    chosen = frame_format.library or (
        sklearn.get_config()["transform_output"] if sklearn is not None else "default"
    )
    return "" if chosen == "default" else chosen


def returns_rows(frame_format: FrameFormat | None, x: Any, library: str = "") -> bool:
    """Whether ``transform`` returns rows x themselves: an array or a frame, and no copy of it.

    ``library`` is that of the frames that it returns for rows x.
    """
    if frame_format is None or frame_format.library != "rows":
        return False
    return type(x) is np.ndarray or bool(library)


@dataclass(frozen=True)
class _Block:
    """Columns of the answer's values from one to another, in a dtype.

    Where they are columns of the rows, ``passing`` has the name and the place of each in fitting.
    """

    start: int
    end: int
    dtype: str
    passing: tuple[tuple[Any, int], ...] = ()


Part = _Block | list[int]
"""Values, or the positions of columns in the frame given."""


@dataclass(frozen=True)
class Framing:
    """What the columns of the frames are that ``transform`` returns: computed, or passed.

    Parameters
    ----------
    library : {"pandas", "polars"}
    blocks : tuple of _Block
        The answer's columns in order.
    """

    library: str
    blocks: tuple[_Block, ...]

    @staticmethod
    def of(output: Output, library: str) -> Framing:
        """Describe an output over columns of the dtypes of the rows; its blocks keep their own."""
        nodes = [node for node, _ in output.blocks]
        dtypes = [dtype or node.type.dtype for node, dtype in output.blocks]
        ends = np.cumsum([0, *(node.type.width for node in nodes)]).tolist()
        passing = [_passing(node, library) for node in nodes]
        blocks = zip(ends[:-1], ends[1:], dtypes, passing, strict=True)
        return Framing(library, tuple(_Block(*block) for block in blocks))

    @property
    def width(self) -> int:
        """Number of columns."""
        return self.blocks[-1].end if self.blocks else 0

    def find_passed(self, x: Any) -> list[list[int]]:
        """Return where the frame x has the columns that each block passes; [] where none."""
        if type(x).__module__.partition(".")[0] != self.library or not hasattr(x, "columns"):
            return [[] for _ in self.blocks]
        # Reversed, so that the first of two columns of one name is taken.
        places = {name: i for i, name in reversed(list(enumerate(_names(x))))}
        return [[places.get(name, i) for name, i in block.passing] for block in self.blocks]

    def passed(self, frame_format: FrameFormat, x: Any) -> Any:
        """Return the columns of the frame x as a frame where all pass unchanged, else None.

        No columns do not pass: taken from a frame of polars, they would lose the number of rows.
        """
        places = self.find_passed(x)
        if not places or not all(places):
            return None
        positions = [place for block in places for place in block]
        return _name_columns(_take(x, positions, self.library), frame_format, self.library)


def to_frame(values: Any, framing: Framing, frame_format: FrameFormat, x: Any) -> Any:
    """Return the answer of ``transform`` as a frame.

    Parameters
    ----------
    values : ndarray
    framing : Framing
    frame_format : FrameFormat
        It has the names of the frame's columns.
    x : table or array
        What the model was given. A frame of pandas has its index, and its own columns where they
        pass unchanged.

    Raises
    ------
    InputError
        The answer is a sparse matrix.
    """
    library = framing.library
    if not isinstance(values, np.ndarray):
        raise InputError(
            "The answer is a sparse matrix, which no frame holds. Call "
            f"set_output(transform='default') or fit with dense output, not {library}."
        )
    values = values.reshape(len(values), framing.width)
    if library == "polars":
        names = x.columns if frame_format.names is None else frame_format.names
        return _polars(_parts(framing, framing.find_passed(x)), values, names, x)
    frame = _pandas(framing, values, x)
    if frame_format.names is None:
        frame.columns = x.columns
    return _name_columns(frame, frame_format, library)


def _names(x: Any) -> list[Any]:
    """Return the names of a frame's columns."""
    return x.columns.tolist() if hasattr(x.columns, "tolist") else list(x.columns)


def _parts(framing: Framing, places: Sequence[list[int]]) -> list[Part]:
    """Return what the columns are, of which some are found in the rows."""
    parts: list[Part] = []
    for block, positions in zip(framing.blocks, places, strict=True):
        part: Part = positions or block
        parts[-1:] = _join(parts[-1], part) if parts else [part]
    return parts


def _join(before: Part, part: Part) -> list[Part]:
    """Join neighbours of one kind: many columns take the time of one."""
    if isinstance(before, list) and isinstance(part, list):
        return [before + part]
    if isinstance(before, _Block) and isinstance(part, _Block) and before.dtype == part.dtype:
        return [_Block(before.start, part.end, part.dtype)]
    return [before, part]


def _take(x: Any, positions: list[int], library: str) -> Any:
    """Return columns of the frame x by their positions: a frame that no change of x changes."""
    if library == "polars":
        return x[:, positions]
    if positions == list(range(x.shape[1])):
        return x.copy(deep=None)  # None: lazily where pandas copies on write, else now
    return x.take(positions, axis=1)  # in half of the time of iloc


def _values(block: _Block, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return values of the answer in memory of their own."""
    part = values[:, block.start : block.end].astype(block.dtype, copy=False)
    # Constants of a program are read only, and users write to frames.
    return part if part.flags.writeable else part.copy()


def _passing(node: Node, library: str) -> tuple[tuple[Any, int], ...]:
    """Return name and place of the input columns that a node passes unchanged; () if it computes.

    scikit-learn takes selected columns of pandas from the frame itself.
    """
    if isinstance(node, Select) and isinstance(node.x, Columns) and library == "pandas":
        places = node.x.indices.data[node.indices.data]
        return _passing(Columns(node.x.schema, Array(places)), library)
    if not isinstance(node, Columns):
        return ()
    return tuple((node.schema.names[i], i) for i in node.columns)


def _pandas(framing: Framing, values: npt.NDArray[Any], x: Any) -> Any:
    """Return a frame of pandas, of values alone where the columns that pass are the same there."""
    found = framing.find_passed(x)
    if any(found):
        alike = [kind == values.dtype for kind in pandas_dtypes(x)]
        same = [
            block.dtype == values.dtype and all(alike[i] for i in places)
            for block, places in zip(framing.blocks, found, strict=True)
        ]
        if not all(same) and _stay(framing, found, x):
            return _set_columns(framing, found, values, x)
        # Where a passing column has the dtype of the values, these hold the same bits.
        found = [[] if is_same else places for is_same, places in zip(same, found, strict=True)]
    return _side_by_side(_parts(framing, found), values, x)


def _stay(framing: Framing, positions: Sequence[list[int]], x: Any) -> bool:
    """Whether nearly all columns of x pass, and none moves."""
    pairs = list(zip(framing.blocks, positions, strict=True))
    computed = sum(block.end - block.start for block, places in pairs if not places)
    stay = all(places in ([], list(range(block.start, block.end))) for block, places in pairs)
    return stay and computed <= MOST_SET and framing.width == x.shape[1]


def _set_columns(
    framing: Framing, positions: Sequence[list[int]], values: npt.NDArray[Any], x: Any
) -> Any:
    """Return the frame x with the columns of values in their places."""
    frame = _take(x, list(range(x.shape[1])), "pandas")
    for block, places in zip(framing.blocks, positions, strict=True):
        for place in range(block.start, block.end) if not places else ():
            # By position: names may stand twice.
            frame.isetitem(place, values[:, place].astype(block.dtype))
    return frame


def _side_by_side(parts: Sequence[Part], values: npt.NDArray[Any], x: Any) -> Any:
    import pandas as pd

    index = x.index if isinstance(x, pd.DataFrame | pd.Series) else None
    numbered = _number_columns(x) if any(isinstance(part, list) for part in parts) else x
    frames = [
        _take(numbered, part, "pandas")
        if isinstance(part, list)
        else pd.DataFrame(_values(part, values), index=index, copy=False)
        for part in parts
    ]
    return frames[0] if len(frames) == 1 else pd.concat(frames, axis=1, ignore_index=True)


def _number_columns(x: Any) -> Any:
    """Return a frame of pandas with numbers for names: names take two thirds of the time of all."""
    import pandas as pd

    numbered = x.copy(deep=None)
    numbered.columns = pd.RangeIndex(x.shape[1])
    return numbered


@lru_cache(64)
def _pandas_names(names: tuple[str, ...]) -> Any:
    """Return an Index, of which a frame takes a view: whoever names the view names it alone."""
    import pandas as pd

    # Names that are tuples must not become levels.
    return pd.Index(list(names), tupleize_cols=False)


def _polars(parts: Sequence[Part], values: npt.NDArray[Any], names: Sequence[str], x: Any) -> Any:
    import polars as pl

    frames = [
        x[:, part] if isinstance(part, list) else pl.DataFrame(_values(part, values), orient="row")
        for part in parts
    ]
    if not names:
        return frames[0]
    columns = [frame.to_series(i) for frame in frames for i in range(frame.width)]
    return pl.DataFrame([column.alias(name) for column, name in zip(columns, names, strict=True)])


def _name_columns(frame: Any, frame_format: FrameFormat, library: str) -> Any:
    """Return a frame under the names of a format; None are those that it has."""
    names = frame_format.names
    if names is None or (not frame_format.renames and _names(frame) == list(names)):
        return frame
    if library == "polars":
        return frame.rename(dict(zip(frame.columns, names, strict=True)))
    frame.columns = _pandas_names(tuple(names)).view()
    return frame
