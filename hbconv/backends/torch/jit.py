"""The functions of ``torch.jit`` that hbconv calls, without their deprecation warnings.

TorchScript has no successor that writes files for other runtimes, so the warnings say nothing that
a user of hbconv could heed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

__all__ = ["freeze", "load", "save", "script", "trace", "without_deprecation"]


def without_deprecation(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Call a function of ``torch.jit`` without its warning: a FutureWarning from torch 2.14 on."""
    with warnings.catch_warnings():
        for category in (DeprecationWarning, FutureWarning):
            warnings.filterwarnings("ignore", message=r"`?torch\.jit", category=category)
        return function(*arguments, **options)


def script(module: Any) -> Any:
    """Script a module.

    The constructor of an ``fx.GraphModule`` has an annotation that TorchScript warns of, and does
    not need.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message="The TorchScript type system", category=UserWarning
        )
        return without_deprecation(torch.jit.script, module)


trace = partial(without_deprecation, torch.jit.trace, check_trace=False)
freeze = partial(without_deprecation, torch.jit.freeze)
save = partial(without_deprecation, torch.jit.save)
load = partial(without_deprecation, torch.jit.load)
