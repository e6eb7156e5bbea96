"""Folders that YDF saves models in, which its own library opens."""

from __future__ import annotations

import importlib
import io
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from hbconv.errors import MissingPackageError
from hbconv.parse.checks.damage import reading

__all__ = ["open_ydf"]


def open_ydf(path: Path) -> Any:
    """Open the model of a folder with the package ydf.

    Raises
    ------
    MissingPackageError
        The package is not installed.
    ConversionError
        The folder is damaged.
    """
    try:
        ydf = importlib.import_module("ydf")
    except ImportError as error:
        raise MissingPackageError(
            "Reading models of YDF needs the package ydf. Install with: pip install ydf"
        ) from error
    aside = redirect_stdout(io.StringIO())  # it prints what it loads among the answers
    with aside, reading(path.name, "Save the model anew with model.save."):
        return ydf.load_model(str(path))
