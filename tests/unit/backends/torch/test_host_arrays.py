"""Host arrays on a device: what streams, pinned memory and graphs are told, on a recorder."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from fake_streams import FakeDevice
from torch import Tensor

from hbconv.backends.torch import host_arrays
from hbconv.backends.torch.host_arrays import HostArrays

RNG = np.random.default_rng(0)


def double(tensors: Any) -> tuple[Tensor, ...]:
    plain = [t.as_subclass(torch.Tensor) for t in tensors]
    return 2.0 * plain[0], (plain[0].sum(1, keepdim=True) + plain[-1][:, :1]).to(torch.int64)


def want(arrays: list[np.ndarray]) -> list[np.ndarray]:
    return [found.numpy() for found in double([torch.from_numpy(a) for a in arrays])]


def rows(n: int) -> list[np.ndarray]:
    return [RNG.standard_normal((n, 3)), RNG.integers(0, 9, (n, 2))]


def check(host: HostArrays, n: int) -> None:
    given = rows(n)
    for got, expected in zip(host.run(given), want(given), strict=True):
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got, expected)


@pytest.fixture(autouse=True)
def _small(monkeypatch) -> None:
    monkeypatch.setattr(host_arrays, "CHUNK_BYTES", 400)
    monkeypatch.setattr(host_arrays, "GRAPH_ROWS", 8)


def test_chunks_take_two_streams_in_turn():
    device = FakeDevice()
    check(HostArrays(device, double), 45)
    assert device.told == [
        *("use 0", "use 1", "wait 0", "use 0", "wait 1", "use 1", "wait 0", "use 0"),
        *("wait 0", "wait 1"),
    ]
    assert {stream.name for stream in device.streams} == {0, 1}
    assert not any(stream.late for stream in device.streams)


@pytest.mark.parametrize("n", [11, 20, 21, 1000])
def test_pinned_memory_is_made_once(n):
    device = FakeDevice()
    host = HostArrays(device, double)
    check(host, n)
    pinned = device.pinned_bytes
    check(host, n)
    assert device.pinned_bytes == pinned
    assert len(device.streams) == 2


def test_threads_have_memory_of_their_own():
    host = HostArrays(FakeDevice(), double)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: check(host, n), [3, 50, 60, 5, 70, 80] * 3))


def test_a_failed_call_leaves_nothing_behind():
    calls: list[int] = []

    def failing(tensors: Any) -> tuple[Tensor, ...]:
        calls.append(1)
        if len(calls) == 2:
            raise ValueError("out of memory")
        return double(tensors)

    host = HostArrays(FakeDevice(), failing)
    with pytest.raises(ValueError, match="memory"):
        host.run(rows(45))
    check(host, 45)


def test_small_batches_are_captured_by_buckets_of_rows():
    device = FakeDevice()
    host = HostArrays(device, double)
    for n in (5, 8, 7, 5, 6):
        check(host, n)
    assert device.told == ["capture", "replay", "replay", "replay"]
    for n in (1, 1, 1, 0):
        check(host, n)
    assert device.told.count("capture") == 2


def test_a_capture_that_fails_is_logged_and_not_tried_again(caplog):
    device = FakeDevice(captures=False)
    host = HostArrays(device, double)
    with caplog.at_level(logging.INFO, "hbconv"):
        for _ in range(6):
            check(host, 5)
    assert device.told == ["capture"]
    assert "up to 8 rows run without a CUDA graph: operation not permitted" in caplog.text


def test_graphs_may_be_turned_off(monkeypatch):
    monkeypatch.setenv("HBCONV_CUDA_GRAPHS", "0")
    device = FakeDevice()
    host = HostArrays(device, double)
    for _ in range(6):
        check(host, 5)
    assert not device.told
