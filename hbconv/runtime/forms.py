"""Graphs and plans as JSON and named arrays, and back."""

from __future__ import annotations

import dataclasses
import importlib
import math
import pkgutil
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

import hbconv.containers
from hbconv.array import Array
from hbconv.containers import NODES, Node, topological
from hbconv.errors import StoreError
from hbconv.forest import Forest, Slopes, Tables
from hbconv.optimize import plan
from hbconv.target import Target

__all__ = ["decode", "encode"]

Arrays = dict[str, npt.NDArray[Any]]


def encode(value: Any) -> tuple[dict[str, Any], Arrays]:
    """Return a JSON document and the numeric arrays it refers to; equal nodes, forests and arrays are written once."""
    encoder = _Encoder()
    root = encoder.value(value)
    return {"shared": encoder.shared, "root": root}, encoder.arrays


def decode(document: Mapping[str, Any], arrays: Arrays) -> Any:
    """Rebuild what encode was given.

    Raises
    ------
    StoreError
        It holds a kind of value that this version does not know.
    """
    decoder = _Decoder(arrays)
    for entry in document["shared"]:
        decoder.shared.append(decoder.value(entry))
    return decoder.value(document["root"])


@cache
def _classes() -> dict[str, type]:
    """Frozen dataclasses that may stand in a graph or plan, by name. No other class is ever made from a file."""
    modules = [importlib.import_module(f"hbconv.containers.{m.name}") for m in pkgutil.iter_modules(hbconv.containers.__path__)]
    found: dict[str, type] = {"Forest": Forest, "Slopes": Slopes, "Tables": Tables, "Target": Target}
    for module in [*modules, plan]:
        found |= {
            name: cls for name, cls in vars(module).items() if isinstance(cls, type) and dataclasses.is_dataclass(cls) and cls.__module__ == module.__name__
        }
    return found


class _Encoder:
    def __init__(self) -> None:
        self.shared: list[Any] = []
        self.arrays: Arrays = {}
        self._places: dict[Any, int] = {}
        self._names: dict[Array, str] = {}

    def value(self, value: Any) -> Any:
        """Write any value."""
        if value is None or isinstance(value, bool | str):
            return value
        if isinstance(value, np.bool_):
            return bool(value)
        if isinstance(value, bytes):
            return {"bytes": value.decode("latin-1")}
        if isinstance(value, int | np.integer):
            return int(value)
        if isinstance(value, float | np.floating):
            return float(value) if math.isfinite(value) else {"float": repr(float(value))}
        if isinstance(value, tuple | list):
            return {"tuple": [self.value(v) for v in value]}
        if isinstance(value, Mapping):
            return {"map": [[self.value(k), self.value(v)] for k, v in value.items()]}
        if isinstance(value, Array):
            return self._array(value)
        if isinstance(value, Node | Forest):
            return self._reference(value)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return self._fields(value)
        raise StoreError(f"{type(value).__name__} {value!r} cannot be saved.")

    def _reference(self, value: Node | Forest) -> dict[str, int]:
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
        name, names = type(value).__name__, [f.name for f in dataclasses.fields(value)]
        if _known(name) is not type(value):
            raise StoreError(f"{name} cannot be saved: it is neither a registered container nor part of one.")
        return {"is": name, **{n: self.value(getattr(value, n)) for n in names}}

    def _array(self, array: Array) -> dict[str, Any]:
        if array.data.dtype.kind not in "biuf":
            return {"text": self.value(tuple(array.data.ravel().tolist())), "dtype": array.data.dtype.str, "shape": list(array.shape)}
        if array not in self._names:
            self._names[array] = f"a{len(self._names)}"
            self.arrays[self._names[array]] = np.ascontiguousarray(array.data).reshape(array.shape)
        return {"array": self._names[array]}


class _Decoder:
    def __init__(self, arrays: Arrays) -> None:
        self.arrays = {name: Array(data) for name, data in arrays.items()}
        self.shared: list[Any] = []

    def value(self, value: Any) -> Any:
        """Read any value."""
        if not isinstance(value, dict):
            return value
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
            return tuple(self.value(v) for v in content)
        if kind == "map":
            return {self.value(k): self.value(v) for k, v in content}
        if kind == "shared":
            return self.shared[content]
        return self.arrays[content]

    def _made(self, fields: dict[str, Any]) -> Any:
        name = fields.pop("is")
        cls = _known(name)
        if cls is None:
            raise StoreError(f"The model file holds a {name!r}, which this hbconv does not know. Upgrade it, or install the package that adds that.")
        return cls(**{key: self.value(v) for key, v in fields.items()})

    def _text(self, value: dict[str, Any]) -> Array:
        if not re.fullmatch(r"\|O|[<>|][US]\d+", value["dtype"]):
            raise StoreError(f"The model file holds text of dtype {value['dtype']!r}.")
        flat = np.empty(math.prod(value["shape"]), dtype=value["dtype"])
        flat[:] = self.value(value["text"])
        return Array(flat.reshape(value["shape"]))


def _known(name: str) -> type | None:
    return NODES.get(name) or _classes().get(name)
