"""hbconv: a compiler for classical machine learning.

>>> import hbconv
>>> model = hbconv.convert(pipeline, backend="torch")  # doctest: +SKIP
>>> model.predict(X)                                   # doctest: +SKIP
"""

import importlib
from typing import TYPE_CHECKING, Any

from hbconv.errors import (
    ArgumentError,
    BackendError,
    ConversionError,
    HbconvError,
    InputError,
    MissingPackageError,
    NotFittedError,
    OptionError,
    StoreError,
    UnsupportedError,
    VerificationError,
)

if TYPE_CHECKING:
    from hbconv.compiler import convert
    from hbconv.engines.scorer import Scorer
    from hbconv.model import Model, load
    from hbconv.parse import parses
    from hbconv.sources.verification import Report, verify
    from hbconv.target import Target

__version__ = "0.1.0"

__all__ = [
    "ArgumentError",
    "BackendError",
    "ConversionError",
    "HbconvError",
    "InputError",
    "MissingPackageError",
    "Model",
    "NotFittedError",
    "OptionError",
    "Report",
    "Scorer",
    "StoreError",
    "Target",
    "UnsupportedError",
    "VerificationError",
    "__version__",
    "convert",
    "load",
    "parses",
    "verify",
]

_HOMES = {
    "convert": "hbconv.compiler",
    "load": "hbconv.model",
    "Model": "hbconv.model",
    "parses": "hbconv.parse",
    "Report": "hbconv.sources.verification",
    "Scorer": "hbconv.engines.scorer",
    "Target": "hbconv.target",
    "verify": "hbconv.sources.verification",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'hbconv' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
