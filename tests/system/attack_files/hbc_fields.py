"""``.hbc`` files of which one field holds a value that hurts: each class, each field."""

from __future__ import annotations

import io
import warnings
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from breadth.subjects import subject
from fuzz.estimators import names
from fuzz.hbc import ask, written_again
from fuzz.models import fitted_models
from fuzz.runner import Subject
from model_parts import read_parts
from safetensors.numpy import save

import hbconv
from attack_files.values import hostile, hostile_array

__all__ = ["HBC_FIELDS", "hbc_fields"]

TOLD = 0.03
"""Share of the files whose graph is printed, as text and as a page."""
COMPILED = 0.005
"""Share that tvm compiles, which takes a second."""
ASKED = 0.1
"""Share of which all methods are asked; of others one is."""
LARGEST = 60_000
"""Bytes of a file that is attacked, so that a case takes milliseconds."""

Spot = tuple[str, dict[str, Any], str]
"""Name of a model, an object in its manifest, and a field of that."""


def every_model() -> Iterator[tuple[str, Any]]:
    """Fit the models of the fuzzer, and every estimator that has a parser."""
    yield from fitted_models().items()
    for name in names():
        try:
            yield name, subject(name).fitted()
        except Exception:
            continue


def write(folder: Path, models: Callable[[], Iterator[tuple[str, Any]]]) -> None:
    """Write all models as one archive of ``.hbc`` files."""
    warnings.simplefilter("ignore")
    with zipfile.ZipFile(folder / "all", "w") as archive:
        for name, model in models():
            try:
                hbconv.convert(model, backend="reference").save(folder / "m.hbc")
            except Exception:
                continue
            data = (folder / "m.hbc").read_bytes()
            if len(data) < LARGEST:
                archive.writestr(name, data)
    (folder / "m.hbc").unlink()


@cache
def _models(data: bytes) -> Mapping[str, tuple[Any, dict[str, Any]]]:
    """Return manifest and arrays of each model."""
    found = {}
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for name in archive.namelist():
            found[name] = read_parts(archive.read(name))
    return found


@cache
def _spots(data: bytes) -> Sequence[tuple[tuple[str, str], list[Spot]]]:
    """Return the places of each field of each class."""
    found = defaultdict(list)
    for name, (manifest, _) in _models(data).items():
        for made in _objects(manifest["model"]):
            for field in made.keys() - {"is"}:
                found[made["is"], field].append((name, made, field))
    return sorted(found.items(), key=lambda item: item[0])


def _objects(document: Any) -> Iterator[dict[str, Any]]:
    waiting = [document]
    while waiting:
        held = waiting.pop()
        if isinstance(held, dict):
            if "is" in held:
                yield held
            waiting += held.values()
        elif isinstance(held, list):
            waiting += held


def mutate(data: bytes, rng: np.random.Generator) -> bytes:
    """Write the file of one model with another value in one field."""
    pairs = _spots(data)
    _, places = pairs[rng.integers(len(pairs))]
    name, made, field = places[rng.integers(len(places))]
    manifest, arrays = _models(data)[name]
    kept, arrays = made[field], dict(arrays)
    made[field] = _other(kept, manifest["model"], arrays, rng)
    try:
        return written_again(manifest, save(arrays))
    finally:
        made[field] = kept


def _other(value: Any, model: Any, arrays: dict[str, Any], rng: np.random.Generator) -> Any:
    """Return another value of a field; of an array, another one is added."""
    if not isinstance(value, dict) or rng.random() < 0.1:
        return hostile(value, rng)
    if "array" in value:
        name = sorted(arrays)[rng.integers(len(arrays))] if rng.random() < 0.2 else value["array"]
        arrays["hurt"] = np.ascontiguousarray(hostile_array(arrays[name], rng))
        return {"array": "hurt"}
    if "shared" in value:
        count = len(model["shared"])
        return {"shared": [*range(count), -1, count, 2**60][rng.integers(count + 3)]}
    ((kind, content),) = list(value.items())[:1]
    return {**value, kind: hostile(content, rng)}


def attempt(path: Path, rng: np.random.Generator) -> None:
    """Read a file and let it answer; print some."""
    warnings.simplefilter("ignore")
    model = hbconv.load(path, backend="tvm" if rng.random() < COMPILED else "reference")
    if rng.random() < TOLD:
        explained = model.explain()
        f"{explained}{model!r}".encode()
        explained.to_html().encode()
    methods = model.methods
    if methods and rng.random() >= ASKED:
        methods = [str(rng.choice(methods))]
    ask(model, methods)


def hbc_fields(models: Callable[[], Iterator[tuple[str, Any]]]) -> Subject:
    """Attack the files of some models."""
    return Subject("hbc_fields", partial(write, models=models), mutate, attempt)


HBC_FIELDS = hbc_fields(every_model)
