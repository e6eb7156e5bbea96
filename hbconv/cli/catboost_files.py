"""Open CatBoost's files with CatBoost, which crashes over some that are damaged."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from hbconv.errors import ConversionError, MissingPackageError

__all__ = ["open_catboost", "require_readable"]

PYTHON_EXITS = (0, 1)
"""Exit codes of a process that Python ends: done, or an exception. A crash has another."""


def require_readable(path: Path) -> None:
    """Refuse a file over which CatBoost crashes, by reading it in another process first.

    What that process raises is left to whoever reads the file next.

    Raises
    ------
    ConversionError
    """
    command = [sys.executable, "-m", "hbconv.cli.trial", str(path)]
    code = subprocess.run(command, capture_output=True, check=False).returncode  # noqa: S603
    if code not in PYTHON_EXITS:
        raise ConversionError(
            f"{path.name} is damaged: CatBoost crashes over it (exit code {code}). "
            "Save the model again."
        )


def open_catboost(path: Path) -> Any:
    """Load a .cbm or .json file of CatBoost as the estimator that its objective is for.

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
            f"Reading {path.suffix} files by CatBoost needs it. Install with: pip install catboost."
            " hbconv converts models saved with format='json' without it."
        ) from error
    from hbconv.parse.catboost.objectives import CLASSIFIERS

    kind = path.suffix.removeprefix(".")
    plain = catboost.CatBoost().load_model(str(path), format=kind)
    loss = str(plain.get_param("loss_function")).partition(":")[0]
    estimator = catboost.CatBoostClassifier if loss in CLASSIFIERS else catboost.CatBoostRegressor
    return estimator().load_model(str(path), format=kind)
