"""Kernels in vectors of every length, on whatever machine they are tested."""

from __future__ import annotations

import os

import pytest

from hbconv.backends.tvm.machine.machine import VECTORS


@pytest.fixture(params=VECTORS)
def vector(request, monkeypatch):
    """Write kernels in vectors of so many bytes, for the level that the tests run at."""
    level = os.environ.get("HBCONV_MACHINE", "").partition("/")[0]
    monkeypatch.setenv("HBCONV_MACHINE", f"{level}/{request.param}")
    return request.param
