"""Graphs as JSON and named arrays, and back.

Whether a value from a file is what a field's annotation says.
"""

from __future__ import annotations

import dataclasses
import importlib
import math
import pkgutil
import re
import types
from collections.abc import Mapping, Sequence
from functools import cache
from types import GenericAlias
from typing import Any, ClassVar, ForwardRef, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt

import hbconv.containers
from hbconv.array import Array
from hbconv.containers import NODES, Column, Node, Schema, topological
from hbconv.cost_model.tuning_record import Tuning, TuningRecord
from hbconv.errors import StoreError
from hbconv.lower import CodesFeed, EntriesFeed, Feed, Padding
from hbconv.runtime.program import HostSide
from hbconv.runtime.storage.narrow import (
    MOST_ROW_BYTES,
    narrow_fields,
    narrow_ints,
    narrow_rows,
    wide_fields,
    wide_ints,
    wide_rows,
)
from hbconv.target import Target
from hbconv.tensor import ProgramTypes, TensorType
from hbconv.trees.covered_forest import CoveredForest
from hbconv.trees.forest import CategoryTables, Forest, Slopes
from hbconv.trees.forest_check import check_fields, check_forest

__all__ = ["Decoder", "decode", "encode", "encode_all", "fields_of", "fits"]

Arrays = dict[str, npt.NDArray[Any]]

_ROOM = 1 << 28
"""Bytes that an array of texts may take, however short they are."""
# Each column of texts names the schema, which took 26 MB of 1,000 columns.
_SHARED = (Node, Forest, Schema)
"""What a file holds once."""


def encode(value: Any) -> tuple[dict[str, Any], Arrays]:
    """Return a JSON document, and the numeric arrays that it refers to.

    Equal nodes, forests and arrays are written once.
    """
    (document,), arrays = encode_all((value,))
    return document, arrays


def encode_all(values: Sequence[Any]) -> tuple[list[dict[str, Any]], Arrays]:
    """Return a document for each value; later ones refer to what earlier ones share."""
    encoder = _Encoder()
    documents = []
    for value in values:
        first = len(encoder.shared)
        root = encoder.value(value)
        documents.append({"shared": encoder.shared[first:], "root": root})
    return documents, encoder.arrays


def decode(document: Mapping[str, Any], arrays: Arrays) -> Any:
    """Rebuild what encode was given.

    Each value has the type that its field is annotated with, and ``check_forest`` holds for each
    forest.

    Raises
    ------
    StoreError
        It holds a kind of value that this version does not know, or one where another is expected.
    """
    return Decoder(arrays).read(document)


@cache
def _classes() -> dict[str, type]:
    """Return the frozen dataclasses that a graph may hold, by name. Files make no other class."""
    modules = [
        importlib.import_module(m.name)
        for m in pkgutil.walk_packages(hbconv.containers.__path__, "hbconv.containers.")
    ]
    classes: dict[str, type] = {
        "HostSide": HostSide,
        "ProgramTypes": ProgramTypes,
        "TensorType": TensorType,
        "Feed": Feed,
        "CodesFeed": CodesFeed,
        "EntriesFeed": EntriesFeed,
        "Padding": Padding,
        "Forest": Forest,
        "Slopes": Slopes,
        "CategoryTables": CategoryTables,
        "CoveredForest": CoveredForest,
        "Target": Target,
        "Tuning": Tuning,
        "TuningRecord": TuningRecord,
    }
    for module in modules:
        classes |= {
            name: cls
            for name, cls in vars(module).items()
            if isinstance(cls, type)
            and dataclasses.is_dataclass(cls)
            and cls.__module__ == module.__name__
            and not name.startswith("_")
        }
    return classes


class _Encoder:
    def __init__(self) -> None:
        self.shared: list[Any] = []
        self.arrays: Arrays = {}
        self._places: dict[Any, int] = {}
        self._written: dict[Array, dict[str, Any]] = {}

    def value(self, value: Any) -> Any:
        """Write any value."""
        if value is None or isinstance(value, bool | str):
            return value
        if isinstance(value, np.bool_):
            return bool(value)
        if isinstance(value, bytes):
            # Latin-1 gives each byte a character of its own.
            return {"bytes": value.decode("latin-1")}
        if isinstance(value, int | np.integer):
            return int(value)
        if isinstance(value, float | np.floating):
            # JSON has no NaN and no infinity.
            return float(value) if math.isfinite(value) else {"float": repr(float(value))}
        if isinstance(value, tuple | list):
            return self._tuple(value)
        if isinstance(value, frozenset):
            return {"set": [self.value(v) for v in sorted(value)]}
        if isinstance(value, Mapping):
            return {"map": [[self.value(k), self.value(v)] for k, v in value.items()]}
        if isinstance(value, Array):
            return self._array(value)
        if isinstance(value, _SHARED):
            return self._reference(value)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return self._fields(value)
        raise StoreError(f"{type(value).__name__} {value!r} cannot be saved.")

    def _tuple(self, values: Sequence[Any]) -> dict[str, Any]:
        """Write a tuple item by item; texts as they are, and columns field by field.

        A vocabulary and the columns that it makes may be a million.
        """
        kinds = set(map(type, values))
        if kinds <= {str}:
            return {"tuple": list(values)}
        if kinds != {Column}:
            return {"tuple": [self.value(v) for v in values]}
        names = [f.name for f in dataclasses.fields(Column)]
        return {"columns": {name: [getattr(v, name) for v in values] for name in names}}

    def _reference(self, value: Node | Forest | Schema) -> dict[str, int]:
        if isinstance(value, Node):
            for node in topological((value,)):
                if node not in self._places:
                    self._add(node, node)
            return {"shared": self._places[value]}
        if id(value) not in self._places:
            self._add(id(value), value)
        return {"shared": self._places[id(value)]}

    def _add(self, key: Any, value: Any) -> None:
        written = self._fields(value)
        self._places[key] = len(self.shared)
        self.shared.append(written)

    def _fields(self, value: Any) -> dict[str, Any]:
        name = type(value).__name__
        # A class of another module may have the name of a registered one.
        if _known(name) is not type(value):
            raise StoreError(
                f"{name} cannot be saved: it is neither a registered container nor part of one."
            )
        return {"is": name, **{n: self.value(v) for n, v in narrow_fields(value).items()}}

    def _array(self, array: Array) -> dict[str, Any]:
        if array.data.dtype.kind not in "biuf":
            return {
                "text": self.value(tuple(array.data.ravel().tolist())),
                "dtype": array.data.dtype.str,
                "shape": list(array.shape),
            }
        # Equal arrays are written once, whatever holds them.
        if array not in self._written:
            self._written[array] = self._numbers(array.data)
        return self._written[array]

    def _numbers(self, array: npt.NDArray[Any]) -> dict[str, Any]:
        if (rows := narrow_rows(array)) is not None:
            return {"rows": [self._name(part) for part in rows]}
        if (steps := narrow_ints(array)) is not None:
            return {"steps": self._name(steps)}
        return {"array": self._name(array)}

    def _name(self, array: npt.NDArray[Any]) -> str:
        name = f"a{len(self.arrays)}"
        self.arrays[name] = np.ascontiguousarray(array).reshape(array.shape)
        return name


class Decoder:
    """Rebuilds the values of ``encode_all`` one after another."""

    def __init__(self, arrays: Arrays) -> None:
        self.arrays = {name: Array(data) for name, data in arrays.items()}
        self.shared: list[Any] = []
        self._links: dict[Array, dict[str, Array]] = {}
        self._wide: dict[tuple[str, ...], Array] = {}
        self._room = MOST_ROW_BYTES * sum(data.nbytes for data in arrays.values())

    def read(self, document: Mapping[str, Any]) -> Any:
        """Rebuild the value of the next document."""
        for entry in document["shared"]:
            self.share(entry)
        return self.value(document["root"])

    def share(self, entry: Any) -> None:
        """Read a node, a forest or a schema that others refer to.

        Nothing else is shared: tuples of the same tuples, nested, would take endless time.
        """
        value = self.value(entry)
        if not isinstance(value, _SHARED):
            raise StoreError(
                f"The model file shares a {type(value).__name__}, which is no container, no forest "
                "and no schema."
            )
        if isinstance(value, Node):
            misfit = value.check()
            if misfit:
                raise StoreError(f"The model file holds a {value.name} that {misfit:.200}.")
            _ = (
                value.type,
                value.key,
            )  # which ask the inputs for theirs: none is asked for many at once
        self.shared.append(value)

    def value(self, value: Any) -> Any:
        """Read any value."""
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if not isinstance(value, dict):
            raise StoreError(f"The model file holds a {type(value).__name__} where it has a value.")
        if "is" in value:
            return self._made({**value})
        if "text" in value:
            return self._text(value)
        ((kind, content),) = value.items()
        if kind == "float":
            return float(content)
        if kind == "bytes":
            return bytes(content, "latin-1")
        if kind == "tuple":
            plain = set(map(type, content)) <= {str}
            return tuple(content if plain else map(self.value, content))
        if kind == "columns":
            return self._columns(content)
        if kind == "set":
            return frozenset(self.value(v) for v in content)
        if kind == "map":
            return {self.value(k): self.value(v) for k, v in content}
        # A negative index would count from the end, and True is an int.
        if kind == "shared" and type(content) is int and content >= 0:
            return self.shared[content]
        if kind == "array":
            return self.arrays[content]
        if kind in ("rows", "steps"):
            return self._wide_array(kind, content)
        raise StoreError(
            f"The model file holds a value of kind {kind!r:.50}, which this hbconv does not know."
        )

    def _made(self, fields: dict[str, Any]) -> Any:
        name = fields.pop("is")
        cls = _known(name)
        if cls is None:
            raise StoreError(
                f"The model file holds a {name!r}, which this hbconv does not know. Upgrade it, or "
                "install the package that adds that."
            )
        read = {key: self.value(v) for key, v in fields.items()}
        value = cls(**wide_fields(cls, read, self._links))
        for field, hint in fields_of(cls).items():
            # A file may hold anything, and an annotation alone keeps nothing out.
            if not fits(item := getattr(value, field), hint):
                raise StoreError(
                    f"The model file holds a {name} whose {field} is a {type(item).__name__}, or "
                    "holds what it may not."
                )
        if not isinstance(value, Forest):
            return value
        # Bits of preorder make trees, or nothing.
        return check_fields(value) if "preorder" in read else check_forest(value)

    def _wide_array(self, kind: str, content: Any) -> Array:
        # Equal arrays were written once, and are one again.
        key = (kind, *content)
        if key not in self._wide:
            if kind == "rows":
                numbers, distinct = (self.arrays[name] for name in content)
                self._take(len(numbers) * distinct.data[:1].nbytes)
                self._wide[key] = wide_rows(numbers, distinct)
            else:
                self._wide[key] = wide_ints(self.arrays[content])
        return self._wide[key]

    def _take(self, size: int) -> None:
        """Refuse rows that take far more memory than the file: many may share their numbers."""
        self._room -= size
        if self._room < 0:
            raise StoreError("The model file holds rows that take far more memory than it.")

    def _columns(self, fields: dict[str, Any]) -> tuple[Column, ...]:
        hints = fields_of(Column)
        rows = [tuple(fields[name]) for name in hints]
        tuples = [GenericAlias(tuple, (hint, ...)) for hint in hints.values()]
        if not all(map(fits, rows, tuples)):
            raise StoreError("The model file holds columns with fields of other types.")
        return tuple(Column(*row) for row in zip(*rows, strict=True))

    def _text(self, value: dict[str, Any]) -> Array:
        dtype, texts = value["dtype"], self.value(value["text"])
        # A dtype from a file could ask for records, or for any memory.
        if not re.fullmatch(r"\|O|[<>|][US]\d{1,9}", dtype) or not fits(
            texts, tuple[str | bytes | float | bool | None, ...]
        ):
            raise StoreError(f"The model file holds text of dtype {dtype!r:.50}.")
        longest = max((len(text) for text in texts if isinstance(text, str | bytes)), default=0)
        # A width beyond that of the longest text would only take memory.
        if len(texts) * np.dtype(dtype).itemsize > max(_ROOM, 4 * len(texts) * longest):
            raise StoreError(
                f"The model file holds text of dtype {dtype}, where the longest has {longest} "
                "characters."
            )
        flat = np.empty(len(texts), dtype=dtype)
        flat[:] = texts
        return Array(flat.reshape(value["shape"]))


def _known(name: str) -> type | None:
    return NODES.get(name) or _classes().get(name)


@cache
def fields_of(cls: type) -> dict[str, Any]:
    """Annotation of each field of a dataclass.

    Raises
    ------
    NameError
        An annotation names what its module imports only for type checkers.
    """
    return {
        name: hint for name, hint in get_type_hints(cls).items() if get_origin(hint) is not ClassVar
    }


def fits(value: Any, hint: Any) -> bool:
    """Whether a value has an annotated type; an int passes for a float, a bool for neither.

    Examples
    --------
    >>> fits((1, 2), tuple[int, ...]), fits((1, "a"), tuple[int, ...])
    (True, False)
    >>> fits(None, int | None), fits(True, float)
    (True, False)
    """
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin in (Union, types.UnionType):
        return any(fits(value, arg) for arg in args)
    if origin is Literal:
        return any(type(value) is type(arg) and value == arg for arg in args)
    if origin is tuple:
        return isinstance(value, tuple) and _items_fit(value, args)
    if origin is Mapping:
        return isinstance(value, dict) and all(
            fits(k, args[0]) and fits(v, args[1]) for k, v in value.items()
        )
    if origin is frozenset:
        return isinstance(value, frozenset) and all(fits(v, args[0]) for v in value)
    if isinstance(hint, ForwardRef):
        return _is_plain(value)
    if hint in (int, float):
        # ``isinstance`` would let a bool pass for an int.
        return type(value) is int or type(value) is hint
    return isinstance(value, hint)


def _is_plain(value: Any) -> bool:
    """Whether a value is a feature name, the only recursive type."""
    return (
        all(map(_is_plain, value))
        if isinstance(value, tuple)
        else value is None or isinstance(value, str | int | float)
    )


def _items_fit(values: tuple[Any, ...], hints: tuple[Any, ...]) -> bool:
    if len(hints) == 2 and hints[1] is ...:
        alike = {
            type(value): value for value in values
        }  # one stands for all of its type, but for what holds others
        return all(fits(value, hints[0]) for value in alike.values()) and all(
            fits(v, hints[0]) for v in values if isinstance(v, tuple | dict)
        )
    return len(values) == len(hints) and all(
        fits(value, hint) for value, hint in zip(values, hints, strict=True)
    )
