"""Departures that the pages name, each with its reason: what is no finding."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from hunt.members import members

__all__ = ["DEPARTURES", "Departure", "is_known"]


@dataclass(frozen=True)
class Departure:
    """A known difference.

    Parameters
    ----------
    kind : str
        FORM, ANSWERS, REFUSES or WRONG.
    rows : str
        Pattern of the names of the rows.
    detail : str
        Pattern of what the source says, or of the forms.
    reason : str
        As a page names it.
    inside : str
        Pattern of the class that must be in the pipeline, or of ``FRAMES_OF_POLARS``.
    """

    kind: str
    rows: str
    detail: str
    reason: str
    inside: str = ""

    def covers(self, kind: str, rows: str, detail: str, classes: Iterable[str]) -> bool:
        """Whether a difference is this one."""
        return (
            kind == self.kind
            and re.fullmatch(self.rows, rows) is not None
            and re.search(self.detail, detail) is not None
            and any(re.search(self.inside, name) for name in classes)
        )


FRAMES_OF_POLARS = "frames of polars"
"""Listed beside the classes of a pipeline in which a step makes them."""

DEPARTURES = (
    Departure("ANSWERS", "no rows", "", "no rows give an empty answer (docs/fidelity.md)"),
    Departure(
        "ANSWERS",
        "array",
        "Specifying the columns using strings is only supported for dataframes",
        "an array for a model that picks columns by name is read by position (docs/fidelity.md)",
    ),
    Departure(
        "ANSWERS",
        "records",
        "Expected 2D array, got 1D array|must be a string or a real number, not 'dict'",
        "records are rows; the source takes them for objects (docs/requests.md)",
    ),
    Departure(
        "ANSWERS",
        "csr|csc|coo float32",
        "Sparse data was passed for X, but dense data is required",
        "sparse rows are refused for all methods alike, and LinearDiscriminantAnalysis and PCA "
        "take them though the source refuses them in one (docs/fidelity.md)",
        inside="^(LinearDiscriminantAnalysis|PCA)$",
    ),
    Departure(
        "ANSWERS",
        "csr|csc|coo float32",
        "The truth value of an array with more than one element is ambiguous",
        "np.sign of sparse rows is answered, at which numpy raises (docs/fidelity.md)",
        inside="^FunctionTransformer$",
    ),
    Departure(
        "ANSWERS",
        "coo float32",
        "'coo_matrix' object is not subscriptable",
        "sparse matrices of every class are answered (docs/fidelity.md)",
    ),
    Departure(
        "ANSWERS",
        ".*",
        "Buffer dtype mismatch",
        "rows of another float dtype than a KMeans was fitted on are answered (docs/fidelity.md)",
        inside="^KMeans$",
    ),
    Departure(
        "ANSWERS",
        ".*",
        "Input data contains `inf`",
        "a model takes rows for all its methods alike, and XGBoost takes infinities in predict "
        "(docs/fidelity.md)",
        inside="^XGB",
    ),
    Departure(
        "FORM",
        ".*",
        r"of float.* for (ndarray of object|DataFrame of .*object)",
        "columns that only pass come back as numbers, not as objects (docs/fidelity.md)",
        inside="^ColumnTransformer$",
    ),
    Departure(
        "ANSWERS",
        "missing column|renamed column",
        "columns are missing",
        "columns that the model does not read may be absent (docs/fidelity.md)",
        inside="^ColumnTransformer$",
    ),
    Departure(
        "ANSWERS",
        "Int64 with NA|Float64|string dtype",
        "uses pandas.NA to represent null values|boolean value of NA is ambiguous",
        "nullable columns that pass are numbers and NaN (docs/fidelity.md)",
        inside="^ColumnTransformer$",
    ),
    Departure(
        "ANSWERS",
        ".*",
        "ufunc '(expit|exp)' not supported|which has no callable exp method",
        "numbers that polars holds as objects are numbers (docs/fidelity.md)",
        inside=FRAMES_OF_POLARS,
    ),
    Departure(
        "REFUSES",
        ".*",
        "Input X contains NaN, infinity or a value too large",
        "infinities that polars holds as objects are refused as numbers are (docs/fidelity.md)",
        inside=FRAMES_OF_POLARS,
    ),
    Departure(
        "FORM",
        ".*",
        "of (float64(, )?)+ for .*float32",
        "what a step computed into a frame of polars is read as float64 (docs/fidelity.md)",
        inside=FRAMES_OF_POLARS,
    ),
    Departure(
        "ANSWERS",
        "category .*|array|reversed columns",
        "tried to convert to|is not an instance of 'str'",
        "polars holds one type in a column (docs/fidelity.md)",
        inside=FRAMES_OF_POLARS,
    ),
    Departure(
        "ANSWERS",
        "category .*",
        "surrogates not allowed",
        "frames between steps hold no half of a surrogate pair (docs/fidelity.md)",
        inside="^ColumnTransformer$",
    ),
    Departure(
        "ANSWERS",
        ".*",
        "truth value of an array with more than one element",
        "np.sign of sparse rows is answered (docs/fidelity.md)",
        inside="^FunctionTransformer$",
    ),
    Departure(
        "ANSWERS",
        ".*",
        "All neighbors of some sample is getting zero weights",
        "rows infinitely far from all neighbours are answered (docs/fidelity.md)",
        inside="^KNeighborsClassifier$",
    ),
    Departure(
        "ANSWERS",
        "object",
        "which has no callable .* method|not supported for the input types",
        "numbers that rows hold as objects are numbers (docs/fidelity.md)",
        inside="^FunctionTransformer$",
    ),
    Departure(
        "REFUSES",
        ".*",
        "computes otherwise with rows of bools or narrow ints",
        "numpy computes in the types of narrow ints, and floats are asked for (docs/functions.md)",
        inside="^FunctionTransformer$",
    ),
    Departure(
        "ANSWERS",
        "list",
        "'list' object has no attribute 'shape'",
        "a model takes rows for all its methods alike (docs/fidelity.md)",
        inside="^GradientBoosting",
    ),
    Departure(
        "ANSWERS",
        "misaligned",
        "Expected a 1-dim C contiguous array",
        "arrays are read wherever they stand in memory (docs/fidelity.md)",
        inside="^SplineTransformer$",
    ),
    Departure(
        "FORM",
        ".*",
        "of float32 for .*float64",
        "float32 columns of a frame of polars stay float32 (docs/fidelity.md)",
        inside=FRAMES_OF_POLARS,
    ),
    Departure(
        "WRONG",
        "big endian",
        "",
        "XGBoost reads the bytes of big-endian numbers in the wrong order (docs/fidelity.md)",
        inside="^XGB",
    ),
    Departure(
        "FORM",
        "bool|uint8|int32|float16|object|big endian",
        r"^ndarray of (\w+) for ndarray of (?!\1)",
        "the dtype of an answer is the source's for float32, float64 and int64 rows "
        "(docs/fidelity.md)",
    ),
)


def is_known(kind: str, rows: str, detail: str, model: Any) -> bool:
    """Whether a difference is one of those."""
    parts = members(model)
    classes = {type(part).__name__ for part in parts}
    outputs = (getattr(part, "_sklearn_output_config", {}) for part in parts)
    if any(output.get("transform") == "polars" for output in outputs):
        classes.add(FRAMES_OF_POLARS)
    return any(departure.covers(kind, rows, detail, classes) for departure in DEPARTURES)
