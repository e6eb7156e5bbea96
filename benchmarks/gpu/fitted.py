"""The models that parts ask: fitted beforehand on any machine, or where a part needs one.

A file of LightGBM or XGBoost, or a saved model of hbconv, needs no library of the machine that
reads it. Forests of scikit-learn are kept for peers too, as Treelite writes them.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression

import hbconv
from benchmarks.gpu.pipeline import mixed_pipeline
from benchmarks.gpu.place import Place
from benchmarks.models import lightgbm, sklearn, xgboost
from benchmarks.paper_models import make_trees
from hbconv.containers import TreeEnsemble
from hbconv.trees.forest import Forest
from hbconv_datasets import generated

__all__ = ["DEEP", "KERNELS", "LINEAR", "MIXED", "MIXED_TREES", "MODELS", "PAPER", "Fitted", "find"]

FORMATS = (".txt", ".ubj", ".hbc")
TREELITE = ".tl"
FORESTS = (RandomForestClassifier, RandomForestRegressor)
FIT_ROWS = 3000
"""Rows that the paper's models are fitted to: seconds, where its own rows take hours."""


Recipe = Callable[[Place], Any]
"""Fits a model; in a rehearsal, few trees to few rows."""


@dataclass(frozen=True)
class Fitted:
    """A model as it was kept.

    Parameters
    ----------
    name : str
    path : Path
        Of LightGBM, XGBoost or hbconv.
    """

    name: str
    path: Path

    def convert(self, place: Place, backend: str) -> hbconv.Model:
        """Compile it for a place."""
        return hbconv.convert(self.on_host(), backend=backend, device=place.name)

    def on_host(self) -> hbconv.Model:
        """Return the model whose numpy meaning judges the others."""
        return _on_host(self.path)

    def forest(self) -> Forest:
        """Return its first forest."""
        nodes = self.on_host().parsed.nodes()
        return next(node.forest for node in nodes if isinstance(node, TreeEnsemble))

    def rows(self, count: int, seed: int = 0) -> npt.NDArray[np.float32]:
        """Draw rows: standard normal values."""
        width = len(self.on_host().parsed.schema.columns)
        return np.random.default_rng(seed).standard_normal((count, width), np.float32)

    def for_peers(self) -> Path | None:
        """Return the file that peers read: of its library, or of Treelite, if there is one."""
        if self.path.suffix != ".hbc":
            return self.path
        path = self.path.with_suffix(TREELITE)
        packed = path.with_suffix(f"{TREELITE}.gz")
        if not path.exists() and packed.exists():
            path.write_bytes(gzip.decompress(packed.read_bytes()))
        return path if path.exists() else None


@cache
def _on_host(path: Path) -> hbconv.Model:
    if path.suffix == ".hbc":
        return hbconv.load(path, backend="reference", device="cpu")
    return hbconv.convert(path, backend="reference")


def find(name: str, folder: Path, place: Place) -> Fitted:
    """Return a kept model; fit and keep it, where none is kept."""
    for suffix in FORMATS:
        path = folder / f"{name}{suffix}"
        if path.exists():
            return Fitted(name, path)
    return keep(name, MODELS[name](place), folder)


def keep(name: str, model: Any, folder: Path) -> Fitted:
    """Write a model in its library's own format, or in hbconv's."""
    folder.mkdir(parents=True, exist_ok=True)
    library = type(model).__module__.partition(".")[0]
    if library == "lightgbm":
        path = folder / f"{name}.txt"
        model.booster_.save_model(path)
        return Fitted(name, path)
    if library == "xgboost":
        path = folder / f"{name}.ubj"
        model.get_booster().save_model(path)
        return Fitted(name, path)
    path = folder / f"{name}.hbc"
    hbconv.convert(model, backend="reference").save(path)
    if isinstance(model, FORESTS) and find_spec("treelite"):
        import treelite

        packed = gzip.compress(treelite.sklearn.import_model(model).serialize_bytes(), 6)
        path.with_suffix(f"{TREELITE}.gz").write_bytes(packed)
    return Fitted(name, path)


def _boosted(fit: Callable[..., Any], *settings: Any) -> Recipe:
    """Fit so many trees to 100,000 rows of the shape of Higgs."""
    trees, *others = settings

    def recipe(place: Place) -> Any:
        data = generated.make("higgs", place.rows(100_000))
        return fit(place.trees(trees), *others)(data.X, data.y)

    return recipe


def _deep(place: Place) -> Any:
    """Fit 100 trees as deep as they grow."""
    data = generated.make("higgs", place.rows(20_000))
    return sklearn("RandomForest", n_estimators=place.trees(100))(data.X, data.y)


def _of_paper(library: str, shape: str, place: Place) -> Any:
    """Fit a fifth of the paper's 500 trees."""
    data = generated.make(shape, place.rows(FIT_ROWS))
    y = data.y if data.task == "regression" else np.unique(data.y, return_inverse=True)[1]
    return make_trees(library, data.task, place.trees(100)).fit(data.X, y)


def _linear(place: Place) -> Any:
    data = generated.make("higgs", place.rows(20_000))
    return LogisticRegression(max_iter=200).fit(data.X, data.y)


KERNELS = ("lightgbm-31", "lightgbm-d8", "xgboost-d6", "lightgbm-8")
DEEP = "deep"
MIXED = "mixed"
MIXED_TREES = "mixed-trees"
LINEAR = "linear"
LIBRARIES = ("RF", "LGBM", "XGB")
PAPER = {
    f"paper-{library}-{shape}": (library, shape)
    for library, shape in product(LIBRARIES, ("fraud", "epsilon", "year", "covtype", "higgs"))
}
"""Models of table 7, by name."""
MODELS: dict[str, Recipe] = {
    "lightgbm-8": _boosted(lightgbm, 500, 8, 3),
    "lightgbm-31": _boosted(lightgbm, 500, 31),
    "lightgbm-d8": _boosted(lightgbm, 500, 200, 8),
    "xgboost-d6": _boosted(xgboost, 100, 6),
    DEEP: _deep,
    LINEAR: _linear,
    MIXED: mixed_pipeline,
    MIXED_TREES: lambda place: mixed_pipeline(place)[-1],
    **{name: partial(_of_paper, *words) for name, words in PAPER.items()},
}
