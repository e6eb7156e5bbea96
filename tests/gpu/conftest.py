"""What lies here is marked ``gpu``, and skipped where there is no CUDA device."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from hbconv.backends.cuda.driver import count_devices
from hbconv.errors import BackendError

HERE = Path(__file__).parent


def is_missing(item: pytest.Item) -> bool:
    """Whether torch sees no device, or, for tests of backend ``tvm``, the driver."""
    if item.path.name != "test_tvm.py":
        return not torch.cuda.is_available()
    try:
        return count_devices() == 0
    except BackendError:
        return True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark and skip."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.gpu)
            if is_missing(item):
                item.add_marker(pytest.mark.skip(reason="no CUDA device"))
