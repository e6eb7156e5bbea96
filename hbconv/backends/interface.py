"""Interface: what goes into a file for another runtime, and what comes out of it.

The arguments of a file's program: matrices of numbers, and text columns or their codes.

Text in files for other runtimes: vocabularies without missing values, and class labels.
"""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hbconv import __version__
from hbconv.containers import Cube, EditedVocabulary, Hashed, Vocabulary
from hbconv.containers.vocabulary import DateCodes
from hbconv.errors import BackendError
from hbconv.lower import CodesFeed, Feed, Lowered, lower_nodes

if TYPE_CHECKING:
    from hbconv.array import Array
    from hbconv.containers import Codes, Graph, Output
    from hbconv.target import Target

__all__ = [
    "FileInput",
    "FileOutput",
    "Interface",
    "answer_dtype",
    "argument_names",
    "inputs_with_codes",
    "inputs_with_text",
    "label_tables",
    "labels",
    "lower_with_checks",
    "require_one_meaning",
    "require_texts",
    "text_codes",
    "text_columns",
]

_WHOLE = {"uint16": "int64", "uint32": "int64", "uint64": "int64", "int32": "int32"}
"""Dtypes of answers that few runtimes count in, and what files give instead."""


@dataclass(frozen=True)
class FileOutput:
    """The answer of one method.

    Parameters
    ----------
    method : str
    dtype : str
    shape : tuple of int
        Of the answer to one row.
    classes : tuple of tuple, or None
        Labels that the answer holds the codes of, for each of its columns; None where it holds
        the answer itself.
    widths : tuple of int
        Widths of the arrays that the source returns as a list, here side by side.
    """

    method: str
    dtype: str
    shape: tuple[int, ...]
    classes: tuple[tuple[Any, ...], ...] | None = None
    widths: tuple[int, ...] = ()


@dataclass(frozen=True)
class Interface:
    """Arguments and answers of a file, and the model behind it.

    Parameters
    ----------
    estimator, kind : str
    features : tuple of str
        Names of all columns, in the order of fitting.
    named : bool
        The source model was fitted on named columns.
    classes : tuple of tuple, or None
        Class labels of a classifier, for each target.
    inputs : tuple of FileInput
    outputs : tuple of FileOutput
    """

    estimator: str
    kind: str
    features: tuple[str, ...]
    named: bool
    classes: tuple[tuple[Any, ...], ...] | None
    inputs: tuple[FileInput, ...]
    outputs: tuple[FileOutput, ...]

    @staticmethod
    def of(graph: Graph, lowered: Lowered, inputs: Iterable[FileInput]) -> Interface:
        """Describe a graph, lowered to a program."""
        program = lowered.program
        return Interface(
            graph.traits.estimator,
            graph.traits.kind,
            graph.schema.names,
            graph.schema.named,
            None if graph.traits.classes is None else _lists(_tables(graph.traits.classes)),
            tuple(inputs),
            tuple(
                _describe(method, output, program.instructions[program.outputs[method]].type.dtype)
                for method, output in graph.outputs.items()
            ),
        )

    def to_json(self, **more: str) -> str:
        """Return it as the text that files carry, with more entries."""
        entries = {"format": 1, "hbconv": __version__, **more, **asdict(self)}
        return json.dumps(entries, allow_nan=False)


def answer_dtype(output: Output, values: str) -> str:
    """Return the dtype of an answer in a file, given that of the program's values."""
    tables = label_tables(output)
    if tables is not None:
        return np.result_type(*tables).name
    if output.classes is not None:
        return "int64"
    wanted = values if output.dtype in (None, "object") else str(output.dtype)
    return _WHOLE.get(wanted, wanted)


def label_tables(output: Output) -> list[npt.NDArray[Any]] | None:
    """Return the labels of each column where they are numbers; None where codes stand for text."""
    if output.classes is None:
        return None
    tables = [labels(table.data) for table in _tables(output.classes)]
    return None if any(table.dtype.kind == "U" for table in tables) else tables


def _describe(method: str, output: Output, values: str) -> FileOutput:
    coded = output.classes is not None and label_tables(output) is None
    return FileOutput(
        method,
        answer_dtype(output, values),
        _row_shape(output),
        _lists(_tables(output.classes)) if coded and output.classes is not None else None,
        output.widths,
    )


def _row_shape(output: Output) -> tuple[int, ...]:
    if output.is_vector:
        return ()
    return output.form.shape if isinstance(output.form, Cube) else (output.node.type.width,)


def _tables(classes: Array | tuple[Array, ...]) -> tuple[Array, ...]:
    return classes if isinstance(classes, tuple) else (classes,)


def _lists(tables: tuple[Array, ...]) -> tuple[tuple[Any, ...], ...]:
    return tuple(tuple(labels(table.data).tolist()) for table in tables)


@dataclass(frozen=True)
class FileInput:
    """One argument of a file's program.

    Parameters
    ----------
    name : str
    dtype : str
        ``"string"`` for one column of texts, else that of a matrix (n_rows, n_columns).
    columns : tuple of str
        Names of the model's columns that it holds, in order.
    vocabularies : tuple of mapping
        Code of each text, where the argument holds texts or their codes; other texts have code -1.
        Codes have one vocabulary a column, and texts have one for each encoder that reads them.
    """

    name: str
    dtype: str
    columns: tuple[str, ...]
    vocabularies: tuple[Mapping[str, int], ...] = ()

    @property
    def is_text(self) -> bool:
        """Whether it is a list of texts, not a matrix."""
        return self.dtype == "string"


def lower_with_checks(graph: Graph, target: Target) -> Lowered:
    """Write the outputs as one program, and behind them what each check says of each row."""
    roots = {name: output.node for name, output in graph.outputs.items()}
    checks = {f"check {number}": check.node for number, check in enumerate(graph.checks)}
    return lower_nodes(graph, roots | checks, target.precision)


def inputs_with_codes(lowered: Lowered, graph: Graph) -> list[FileInput]:
    """Return the inputs of a program, of which one holds the codes of all text columns."""
    names = graph.schema.names
    coded = [
        FileInput(
            feed.name,
            "int64",
            tuple(names[leaf.column] for leaf in feed.leaves),
            tuple(map(_codes, feed.leaves)),
        )
        for feed in lowered.feeds
        if isinstance(feed, CodesFeed)
    ]
    return [*_matrices(lowered, graph), *coded]


def inputs_with_text(lowered: Lowered, graph: Graph) -> list[FileInput]:
    """Return the inputs of a program with the texts themselves, one input a column."""
    texts: dict[int, list[Codes]] = {column: [] for column in text_columns(lowered)}
    for feed in lowered.feeds:
        for leaf in feed.leaves if isinstance(feed, CodesFeed) else ():
            texts[leaf.column].append(leaf)
    inputs = _matrices(lowered, graph)
    for column, leaves in texts.items():
        name = graph.schema.names[column]
        require_one_meaning((leaf.vocabulary for leaf in leaves), name)
        inputs.append(FileInput(name, "string", (name,), tuple(map(_codes, leaves))))
    names = argument_names(given.name for given in inputs)
    return [replace(given, name=name) for name, given in zip(names, inputs, strict=True)]


def text_columns(lowered: Lowered) -> list[int]:
    """Return the position of the text column of each column of codes."""
    feeds = [feed for feed in lowered.feeds if isinstance(feed, CodesFeed)]
    return [leaf.column for feed in feeds for leaf in feed.leaves]


def argument_names(names: Iterable[str]) -> list[str]:
    """Return names that programs can give to arguments, each once.

    Examples
    --------
    >>> argument_names(["petal length (cm)", "petal_length__cm_", "2nd", "class", "größe"])
    ['petal_length__cm_', 'petal_length__cm__', '_2nd', 'class_', 'gr__e']
    """
    found: list[str] = []
    for name in names:
        word = re.sub(r"^(?=\d|$)", "_", re.sub(r"\W", "_", name, flags=re.ASCII))
        while word in found or keyword.iskeyword(word) or word == "self":
            word += "_"
        found.append(word)
    return found


def _matrices(lowered: Lowered, graph: Graph) -> list[FileInput]:
    """Return the numeric inputs; models of sparse rows are refused before they are written."""
    names = graph.schema.names
    return [
        FileInput(feed.name, feed.dtype, tuple(names[c] for c in feed.columns))
        for feed in lowered.feeds
        if isinstance(feed, Feed)
    ]


def _codes(leaf: Codes) -> dict[str, int]:
    return text_codes(leaf.vocabulary, leaf.schema.columns[leaf.column].name)


def require_texts(vocabulary: Vocabulary | Hashed | DateCodes, column: str) -> Vocabulary:
    """Return the vocabulary, or raise BackendError where it is no plain list of texts."""
    if isinstance(vocabulary, DateCodes):
        raise BackendError(
            f"Column {column!r} holds dates, which a file for another runtime does not read. Use "
            "Model, or fit on numbers made of the dates."
        )
    if isinstance(vocabulary, Hashed):
        raise BackendError(
            f"Column {column!r} holds categories of which the model kept hashes alone, "
            "and a file for another runtime has no operator that hashes text. Use Model."
        )
    if isinstance(vocabulary, EditedVocabulary):
        raise BackendError(
            f"Texts of column {column!r} are edited before they are looked up, by the host, and a "
            "file for another runtime has no operators for that. Use Model."
        )
    if not vocabulary.is_text:
        raise BackendError(
            f"Column {column!r} holds objects of several types, which a file for another runtime "
            "cannot compare. Use Model, or make them all text before fitting."
        )
    if vocabulary.blank != -1:
        raise BackendError(
            f"The model takes each text of whitespace alone in column {column!r} for missing, and "
            "a file for another runtime holds a list of texts. Use Model, or fit on a column "
            "without missing values."
        )
    return vocabulary


def text_codes(
    vocabulary: Vocabulary | Hashed | DateCodes,
    column: str,
    missing: Mapping[str, str] | None = None,
) -> dict[str, int]:
    """Return texts and their codes, for runtimes that have no missing text.

    The empty text stands for a missing value, if the model has one code for all of them. A category
    of the same text takes precedence.

    Parameters
    ----------
    vocabulary : Vocabulary, Hashed or DateCodes
    column : str
        Its name, for messages.
    missing : mapping of str to {"none", "nan"}, optional
        More texts that stand for None or for NaN.

    Raises
    ------
    BackendError
        The column holds dates, the model kept hashes alone, has categories that are not text, or
        knows missing values for which no text is left.

    Examples
    --------
    >>> text_codes(Vocabulary(("a", "b"), nan=2), "city")
    {'a': 0, 'b': 1, '': 2}
    >>> text_codes(Vocabulary(("a", "b")), "city")
    {'a': 0, 'b': 1}
    """
    vocabulary = require_texts(vocabulary, column)
    keys = {value: int(code) for value, code in zip(*vocabulary.texts, strict=True)}
    known = {vocabulary.none, vocabulary.nan} - {-1}
    for text, field in (missing or {}).items():
        if getattr(vocabulary, field) != -1:
            keys.setdefault(text, getattr(vocabulary, field))
    if len(known) == 1:
        keys.setdefault("", *known)
    if known - set(keys.values()):
        raise BackendError(
            f"Text column {column!r} has missing values, and categories named as every text that "
            "could stand for them in a file. Rename those, or use Model."
        )
    return keys


def require_one_meaning(
    vocabularies: Iterable[Vocabulary | Hashed | DateCodes], column: str
) -> None:
    """Refuse vocabularies of one column that disagree on the empty text.

    To one of them it is a category, and to another it would stand for a missing value.

    Raises
    ------
    BackendError
    """
    known = [v for v in vocabularies if isinstance(v, Vocabulary)]
    as_category = [v for v in known if "" in v.values]
    as_missing = [v for v in known if "" not in v.values and {v.none, v.nan} != {-1}]
    if as_category and as_missing:
        raise BackendError(
            f"The empty text of column {column!r} is a category to one encoder, and would stand "
            "for missing values of another. Use Model, or rename the category."
        )


def is_unicode(text: str) -> bool:
    """Whether a text has bytes in UTF-8: half of a surrogate pair has none."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def labels(classes: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return class labels in a dtype that files hold: text, int32, int64, float or bool."""
    if classes.dtype.kind == "O":
        kinds = {type(label) for label in classes.tolist()}
        if len(kinds) != 1 or not kinds <= {str, int, float, bool}:
            raise BackendError(
                "A file for another runtime cannot hold the class labels "
                f"{classes.tolist()[:5]}: they must all be text, or all numbers."
            )
        classes = np.array(classes.tolist())
    if classes.dtype == np.uint64 and classes.max(initial=0) > np.iinfo(np.int64).max:
        raise BackendError(
            f"A file for another runtime cannot hold the class label {classes.max()}: it holds "
            "int64. Encode labels before fitting (LabelEncoder)."
        )
    if classes.dtype.kind in "iu" and classes.dtype != np.int32:
        return classes.astype(np.int64)
    if classes.dtype.kind == "U" or classes.dtype.name in ("int32", "float32", "float64", "bool"):
        return classes
    raise BackendError(
        f"A file for another runtime cannot hold class labels of dtype {classes.dtype}. "
        "Encode them before fitting (LabelEncoder)."
    )
