"""What lies here is marked ``gpu``, and skipped where there is no CUDA device."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent


def has_device() -> bool:
    try:
        import torch
    except ImportError:
        return False
    return torch.cuda.is_available()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark and skip."""
    own = [item for item in items if item.path.is_relative_to(HERE)]
    missing = bool(own) and not has_device()
    for item in own:
        item.add_marker(pytest.mark.gpu)
        if missing:
            item.add_marker(pytest.mark.skip(reason="no CUDA device"))
