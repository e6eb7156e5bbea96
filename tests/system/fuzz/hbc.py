"""Damaged ``.hbc`` files: bytes at random, and well-formed ones whose values are hostile."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from fuzz.models import write_models
from fuzz.mutate import mutate_array, mutate_bytes, mutate_json
from fuzz.runner import Subject
from model_parts import read_parts
from safetensors.numpy import save

import hbconv
from hbconv.model import Model

__all__ = ["HBC", "ask", "written_again"]

COMPILED = 0.3
"""Share of the files that are compiled, not interpreted."""


def mutate(data: bytes, rng: np.random.Generator) -> bytes:
    """Damage a file: its bytes, its archive, or the values in it with checksums that are right."""
    kind = rng.random()
    if kind < 0.1:
        return mutate_bytes(data, rng)
    manifest: Any
    manifest, arrays = read_parts(data)
    for _ in range(rng.integers(1, 4)):
        manifest, arrays = _changed(manifest, arrays, rng)
    return _archive(manifest, save(arrays), rng)


def _changed(
    manifest: Any, arrays: dict[str, Any], rng: np.random.Generator
) -> tuple[Any, dict[str, Any]]:
    """Change the arrays, the model's values, or what is about them."""
    kind, names = rng.random(), sorted(arrays)
    if kind < 0.4 and names:
        name, other = rng.choice(names, 2)
        changed = arrays[other] if rng.random() < 0.1 else mutate_array(arrays[name], rng)
        return manifest, {**arrays, name: changed}
    if kind < 0.95 and isinstance(manifest, dict) and "model" in manifest:
        return {**manifest, "model": mutate_json(manifest["model"], rng)}, arrays
    return mutate_json(manifest, rng), arrays


def written_again(manifest: Any, arrays: bytes) -> bytes:
    """Write a file of what one holds, with checksums that are right."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in _members(manifest, arrays):
            archive.writestr(zipfile.ZipInfo(name), content)
    return out.getvalue()


def _members(manifest: Any, arrays: bytes) -> list[tuple[str, bytes]]:
    if isinstance(manifest, dict) and isinstance(manifest.get("sha256"), dict):
        manifest["sha256"]["arrays.safetensors"] = hashlib.sha256(arrays).hexdigest()
    return [("manifest.json", json.dumps(manifest).encode()), ("arrays.safetensors", arrays)]


def _archive(manifest: Any, arrays: bytes, rng: np.random.Generator) -> bytes:
    members = _members(manifest, arrays)
    members += [("../outside", b"")] * (rng.random() < 0.01) + members[:1] * (rng.random() < 0.01)
    out = io.BytesIO()
    with zipfile.ZipFile(
        out, "w", zipfile.ZIP_DEFLATED if rng.random() < 0.01 else zipfile.ZIP_STORED
    ) as archive:
        for name, content in members:
            archive.writestr(zipfile.ZipInfo(name), content)
    return out.getvalue()


def attempt(path: Path, rng: np.random.Generator) -> None:
    """Read a file, and let it answer for a few rows."""
    model = hbconv.load(path, backend="tvm" if rng.random() < COMPILED else "reference")
    ask(model, model.methods)


def ask(model: Model, methods: Iterable[str]) -> None:
    """Call some methods of a model, by a row and by seven, and ask for the names of columns."""
    for rows in (1, 7):
        x = _rows(model, rows)
        for method in methods:
            answer = getattr(model, method)(x)
            _ = list(answer) if method.startswith("staged") else answer
    if model.parsed.traits.names_out is not None:
        model.get_feature_names_out()
        model.get_feature_names_out([f"c{j}" for j in range(model.n_features_in_)])


def _rows(model: Model, rows: int) -> Any:
    """Rows of the kind that the model reads."""
    columns = model.schema.columns
    if model.schema.conventions.items:
        return ["a few words of a text", "others", ""][:rows]
    numbers = np.random.default_rng(0).normal(size=(rows, len(columns))) * 3
    if all(column.dtype != "string" for column in columns):
        return numbers
    texts = ["red", "green", "a text of words", "", "other", "blue", "red"]
    return {
        c.name: texts[:rows] if c.dtype == "string" else numbers[:, j]
        for j, c in enumerate(columns)
    }


HBC = Subject("hbc", write_models, mutate, attempt)
