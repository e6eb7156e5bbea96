"""Damaged checkpoints and JSON of Treelite: read by name, and answered as ``treelite.gtil``."""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from fuzz.judge import answers_alike, in_child
from fuzz.mutate import mutate_bytes, mutate_text
from fuzz.runner import Subject

import hbconv
from hbconv.errors import HbconvError

__all__ = ["TREELITE"]

WIDEST = 5000
"""Columns of which rows are made."""
ROWS = 9


def write(folder: Path) -> None:
    """Write models of numbers, classes and categories, as checkpoints and as JSON."""
    import lightgbm
    import treelite

    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 4))
    x[:, 3] = rng.integers(0, 8, 120)
    quiet = {"verbose": -1, "num_threads": 1, "num_leaves": 5, "min_data_in_leaf": 5}
    for i, (params, y) in enumerate((
        ({"objective": "regression"}, x[:, 0]),
        ({"objective": "multiclass", "num_class": 3}, np.digitize(x[:, 0], [-0.5, 0.5])),
    )):  # fmt: skip
        data = lightgbm.Dataset(x, y, categorical_feature=[3])
        model = treelite.frontend.from_lightgbm(lightgbm.train({**quiet, **params}, data, 3))
        model.serialize(folder / f"{i}.tl")
        (folder / f"{i}.json").write_text(model.dump_as_json(pretty_print=False))


def mutate(data: bytes, rng: np.random.Generator) -> bytes:
    """Change bytes, or numbers where the file is a text."""
    if data[:1] != b"{" or rng.random() < 0.2:
        return mutate_bytes(data, rng)
    return mutate_text(data.decode(), rng).encode()


def attempt(path: Path, rng: np.random.Generator) -> None:
    """Convert a file, answer, and compare a checkpoint with Treelite where it answers too."""
    warnings.simplefilter("ignore")
    checkpoint = path.read_bytes()[:1] != b"{"
    file = path.with_suffix(".tl" if checkpoint else ".json")
    path.replace(file)
    model = hbconv.convert(file, backend="reference")
    if model.n_features_in_ > WIDEST:
        return
    x = rng.normal(size=(ROWS, model.n_features_in_))
    x[:, 3:] = rng.integers(-1, 9, (ROWS, max(model.n_features_in_ - 3, 0)))
    try:
        ours = {"predict": np.asarray(model.predict(x))}
    except HbconvError:
        return
    if checkpoint:
        answers_alike(in_child(partial(_ask, file, x))[1], ours)


def _ask(file: Path, x: Any) -> Any:
    import treelite

    model = treelite.Model.deserialize(file)
    return {"predict": treelite.gtil.predict(model, x, nthread=1)}


TREELITE = Subject("treelite", write, mutate, attempt)
