"""Leave ``torch.autocast``: it would compute products in another dtype than the program says."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch

__all__ = ["own_dtypes"]


def own_dtypes(device: str) -> AbstractContextManager[object]:
    """Compute in the dtypes of the program, also where the caller's code runs under autocast.

    Parameters
    ----------
    device : str
        Kind of the device, such as "cpu".
    """
    if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
        return torch.autocast(device, enabled=False)
    return nullcontext()
