"""Open CatBoost's files with CatBoost, which crashes over some that are damaged.

So another process reads a binary file first: ``python -m hbconv.sources.catboost_files model.cbm``.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from hbconv.errors import ConversionError, HbconvError, MissingPackageError

__all__ = ["open_catboost", "open_cbm", "require_readable"]

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
    require_readable(path, "hbconv.sources.catboost_files")
    return open_catboost(path, "cbm")


def require_readable(path: Path, module: str) -> None:
    """Refuse a file over which CatBoost crashes, by reading it in another process first.

    What that process raises is left to whoever reads the file next.

    Parameters
    ----------
    path : Path
    module : str
        What reads the file of the path that it is given, run as a program.

    Raises
    ------
    ConversionError
    """
    command = [sys.executable, "-m", module, str(path)]
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
    from hbconv.parse.catboost.objectives import CLASSIFIERS

    plain = catboost.CatBoost().load_model(str(path), format=kind)
    loss = str(plain.get_param("loss_function")).partition(":")[0]
    estimator = catboost.CatBoostClassifier if loss in CLASSIFIERS else catboost.CatBoostRegressor
    return estimator().load_model(str(path), format=kind)


def _try(path: Path) -> None:
    """Do what comes before a model's answers; a refusal is no crash."""
    from hbconv.parse import parse

    with suppress(HbconvError):
        parse(open_catboost(path, "cbm"))


if __name__ == "__main__":
    _try(Path(sys.argv[1]))
