"""Open the files that other libraries load: those of skops, and CatBoost's binary.

skops makes the objects of a file, and would hand boosters to the loaders of their libraries, which
damaged bytes can crash. So hbconv's own classes stand for boosters of XGBoost and LightGBM. Models
of CatBoost are read by CatBoost, so another process tries the file first:
``python -m hbconv.sources.library_files model.cbm``.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import numpy as np

from hbconv.errors import ConversionError, HbconvError, MissingPackageError
from hbconv.model_formats import ModelFormat, format_of
from hbconv.parse.damage import REFIT, reading
from hbconv.parse.lightgbm.estimators import HeldLightGBM, parse_lightgbm_text
from hbconv.parse.xgboost.estimators import HeldXGBoost, parse_xgboost_bytes
from hbconv.system.files import read_json, require_whole
from hbconv.system.temporary import temporary_folder

__all__ = ["BOOSTERS", "TRUSTED", "load_skops", "open_catboost", "open_cbm"]

BOOSTERS = {
    "lightgbm.basic.Booster": HeldLightGBM,
    "xgboost.core.Booster": HeldXGBoost,
}
"""What stands for the boosters of libraries, so that their loaders see no byte of a file."""

TRUSTED = (
    "catboost.core.CatBoost",
    "catboost.core.CatBoostClassifier",
    "catboost.core.CatBoostRanker",
    "catboost.core.CatBoostRegressor",
    "collections.OrderedDict",
    "functools.partial",
    "lightgbm.sklearn.LGBMClassifier",
    "lightgbm.sklearn.LGBMModel",
    "lightgbm.sklearn.LGBMRanker",
    "lightgbm.sklearn.LGBMRegressor",
    "numpy.dtype",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.tree._tree.Tree",
    "sklearn.utils.validation.check_array",
    "xgboost.sklearn.XGBClassifier",
    "xgboost.sklearn.XGBModel",
    "xgboost.sklearn.XGBRFClassifier",
    "xgboost.sklearn.XGBRFRegressor",
    "xgboost.sklearn.XGBRanker",
    "xgboost.sklearn.XGBRegressor",
)
"""Types beyond skops' own list that a .skops file may hold: exactly those that hbconv converts."""


# numpy pads the header of an array to a multiple of 64 bytes; one dimension needs 128.
_HEADER = 256
"""Bytes in which an array of texts says that it is one."""


def load_skops(data: bytes, name: str, categories: Sequence[int] = ()) -> Any:
    """Return the fitted model of a .skops file, which runs no code but that of known types.

    A booster by itself comes as its Graph.

    Parameters
    ----------
    data : bytes
    name : str
        What messages call the file.
    categories : sequence of int
        Positions of the columns of dtype category, which LightGBM's text does not always tell.

    Raises
    ------
    ConversionError
        The file holds types that hbconv does not convert, shares bytes among its members, or
        CatBoost crashes over it.
    MissingPackageError
        skops is not installed.
    """
    with reading(name, REFIT):
        held, libraries = _without_loaders(data, name)
    if "catboost" in libraries:
        with temporary_folder() as folder:
            path = folder / Path(name).name
            path.write_bytes(held)
            require_readable(path)
    model = _load(held, name)
    if isinstance(model, HeldXGBoost):
        return parse_xgboost_bytes(model.data)
    if isinstance(model, HeldLightGBM):
        return parse_lightgbm_text(model.text, model.iterations, categories)
    return model


def _load(data: bytes, name: str) -> Any:
    try:
        from skops import io as skops
    except ImportError as error:
        raise MissingPackageError(
            "Reading .skops files needs skops. Install with: pip install skops"
        ) from error
    # The file names hbconv's classes by now, in place of the libraries' boosters.
    allowed = [*TRUSTED, *map(_name_of, BOOSTERS.values())]
    with reading(name, REFIT):
        unknown = sorted(set(skops.get_untrusted_types(data=data)) - set(allowed))
    if unknown:
        raise ConversionError(
            f"{name} holds types that are not trusted: {', '.join(unknown)}. "
            "Load it yourself and call hbconv.convert."
        )
    with reading(name, REFIT):
        return skops.loads(data, trusted=allowed)


def _without_loaders(data: bytes, name: str) -> tuple[bytes, set[str]]:
    """Return the file with classes of hbconv in the place of boosters, and the libraries it names.

    Members take as many bytes as there are, so that no byte is unpacked twice.
    """
    out, libraries = io.BytesIO(), set()
    with zipfile.ZipFile(io.BytesIO(data)) as stored, zipfile.ZipFile(out, "w") as archive:
        infos = stored.infolist()
        # Overlapping members would unpack one part of a small file many times.
        if sum(info.compress_size for info in infos) > len(data):
            raise ConversionError(f"{name} is damaged: its members share bytes.")
        for info in infos:
            content = stored.read(info)
            if info.filename.endswith(".npy"):
                _require_whole_array(content)
            if info.filename == "schema.json":
                schema = read_json(content)
                for entry in _entries(schema):
                    libraries.add(entry["__module__"].partition(".")[0])
                    _put_held_booster(entry)
                    if entry.get("__loader__") == "JsonNode":
                        read_json(entry["content"])
                content = json.dumps(schema).encode()
            archive.writestr(info.filename, content)
    return out.getvalue(), libraries


def _require_whole_array(data: bytes) -> None:
    """Refuse texts of an array that hold half a character."""
    if b"'<U" in data[:_HEADER] or b"'>U" in data[:_HEADER]:
        texts = np.load(io.BytesIO(data), allow_pickle=False)
        require_whole("".join(texts.ravel().tolist()))


def _entries(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield each entry of a schema that names a class."""
    # A stack: schemas of strangers may be nested deeper than Python recurses.
    waiting = [schema]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict | list):
            waiting += value.values() if isinstance(value, dict) else value
        if isinstance(value, dict) and isinstance(value.get("__module__"), str):
            yield value


def _put_held_booster(entry: dict[str, Any]) -> None:
    held = BOOSTERS.get(f"{entry['__module__']}.{entry.get('__class__')}")
    if held is not None:
        entry |= {"__module__": held.__module__, "__class__": held.__qualname__}


def _name_of(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


# A crash ends by a signal: a negative code, or above 128 from a shell.
PYTHON_EXITS = (0, 1)
"""Exit codes of a process that Python ends: done, or an exception. A crash has another."""


def open_cbm(path: Path) -> Any:
    """Load a binary file that may be damaged.

    Raises
    ------
    MissingPackageError
        CatBoost is not installed.
    ConversionError
        CatBoost crashes over the file.
    """
    require_readable(path)
    return open_catboost(path, "cbm")


def require_readable(path: Path) -> None:
    """Refuse a file over which CatBoost crashes, by reading it in another process first.

    What that process raises is left to whoever reads the file next.

    Raises
    ------
    ConversionError
    """
    command = [sys.executable, "-m", "hbconv.sources.library_files", str(path)]
    code = subprocess.run(command, capture_output=True, check=False).returncode  # noqa: S603
    if code not in PYTHON_EXITS:
        raise ConversionError(
            f"{path.name} is damaged: CatBoost crashes over it (exit code {code}). "
            "Save the model again."
        )


def open_catboost(path: Path, kind: Literal["cbm", "json"]) -> Any:
    """Load a file of CatBoost as the estimator that its objective is for.

    A damaged file can end the process.

    Raises
    ------
    MissingPackageError
        CatBoost is not installed.
    """
    try:
        import catboost
    except ImportError as error:
        raise MissingPackageError(
            f"Reading {path.name} by CatBoost needs it. Install with: pip install catboost. "
            "hbconv converts models saved with format='json' without it."
        ) from error
    from hbconv.parse.catboost.estimators import CLASSIFIERS

    # Twice: the class of the estimator follows from the loss, which the file has.
    plain = catboost.CatBoost().load_model(str(path), format=kind)
    loss = str(plain.get_param("loss_function")).partition(":")[0]
    estimator = catboost.CatBoostClassifier if loss in CLASSIFIERS else catboost.CatBoostRegressor
    return estimator().load_model(str(path), format=kind)


def _try(path: Path) -> None:
    """Do what comes before a model's answers; a refusal is no crash."""
    from hbconv.parse import parse

    with suppress(HbconvError):
        if format_of(path) is ModelFormat.CATBOOST:
            parse(open_catboost(path, "cbm"))
        else:
            parse(_load(path.read_bytes(), path.name))


if __name__ == "__main__":
    _try(Path(sys.argv[1]))
