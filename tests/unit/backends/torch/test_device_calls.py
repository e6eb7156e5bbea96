"""Calls of a device: what streams, pinned memory and graphs are told, on a recorder."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from fake_streams import FakeDevice
from torch import Tensor

from hbconv.backends.torch import device_calls
from hbconv.backends.torch.device_calls import DeviceCalls

RNG = np.random.default_rng(0)
MANY = 100


def double(tensors: Any) -> tuple[Tensor, ...]:
    plain = [t.as_subclass(torch.Tensor) for t in tensors]
    return 2.0 * plain[0], (plain[0].sum(1, keepdim=True) + plain[-1][:, :1]).to(torch.int64)


def want(arrays: list[np.ndarray]) -> list[np.ndarray]:
    return [found.numpy() for found in double([torch.from_numpy(a) for a in arrays])]


def rows(n: int) -> list[np.ndarray]:
    return [RNG.standard_normal((n, 3)), RNG.integers(0, 9, (n, 2))]


def check(host: DeviceCalls, n: int) -> None:
    given = rows(n)
    for got, expected in zip(host.run(given), want(given), strict=True):
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got, expected)


@pytest.fixture(autouse=True)
def _small(monkeypatch) -> None:
    monkeypatch.setattr(device_calls, "CHUNK_BYTES", 720)
    monkeypatch.setattr(device_calls, "PAGEABLE_BYTES", 400)
    monkeypatch.setattr(device_calls, "LEAST_ROWS", 8)
    monkeypatch.setattr(device_calls, "GRAPH_ROWS", 8)


def test_chunks_take_two_streams_in_turn():
    device = FakeDevice()
    check(DeviceCalls(device, double, MANY, 32), 45)
    assert device.told == [
        *("use 0", "use 1", "wait 0", "use 0", "wait 1", "use 1", "wait 0", "use 0"),
        *("wait 0", "wait 1"),
    ]
    assert {stream.name for stream in device.streams} == {0, 1}
    assert not any(stream.late for stream in device.streams)


def test_wide_answers_make_small_chunks():
    device = FakeDevice()
    check(DeviceCalls(device, double, MANY, 0), 1000)
    pinned = device.pinned_bytes
    check(DeviceCalls(device, double, MANY, 32), 1000)
    assert device.pinned_bytes - pinned <= 2 * 720 < pinned


@pytest.mark.parametrize("n", [11, 20, 21, 1000])
def test_pinned_memory_is_made_once(n):
    device = FakeDevice()
    host = DeviceCalls(device, double, MANY, 32)
    check(host, n)
    pinned = device.pinned_bytes
    check(host, n)
    assert device.pinned_bytes == pinned
    assert len(device.streams) == 2


def test_less_than_a_chunk_is_pinned_too(monkeypatch):
    monkeypatch.setattr(device_calls, "CHUNK_BYTES", 7200)
    device = FakeDevice()
    check(DeviceCalls(device, double, MANY, 32), 45)
    assert device.told == ["use 0", "wait 0"]
    device.told.clear()
    check(DeviceCalls(device, double, MANY, 32), 10)
    assert not device.told


def test_threads_have_memory_of_their_own():
    host = DeviceCalls(FakeDevice(), double, MANY, 32)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: check(host, n), [3, 50, 60, 5, 70, 80] * 3))


def test_a_failed_call_leaves_nothing_behind():
    calls: list[int] = []

    def failing(tensors: Any) -> tuple[Tensor, ...]:
        calls.append(1)
        if len(calls) == 2:
            raise ValueError("out of memory")
        return double(tensors)

    host = DeviceCalls(FakeDevice(), failing, MANY, 32)
    with pytest.raises(ValueError, match="memory"):
        host.run(rows(45))
    check(host, 45)


def test_small_batches_are_captured_by_buckets_of_rows():
    device = FakeDevice()
    host = DeviceCalls(device, double, MANY, 32)
    for n in (5, 8, 7, 5, 6):
        check(host, n)
    assert device.told == ["capture", "replay", "replay", "replay"]
    for n in (1, 1, 1, 0):
        check(host, n)
    assert device.told.count("capture") == 2


def test_a_capture_that_fails_is_logged_and_not_tried_again(caplog):
    device = FakeDevice(captures=False)
    host = DeviceCalls(device, double, MANY, 32)
    with caplog.at_level(logging.INFO, "hbconv"):
        for _ in range(6):
            check(host, 5)
    assert device.told == ["capture"]
    assert "up to 8 rows run without a CUDA graph: operation not permitted" in caplog.text


def test_graphs_may_be_turned_off(monkeypatch):
    monkeypatch.setenv("HBCONV_CUDA_GRAPHS", "0")
    device = FakeDevice()
    host = DeviceCalls(device, double, MANY, 32)
    for _ in range(6):
        check(host, 5)
    assert not device.told


def check_tensors(device_calls: DeviceCalls, n: int) -> list[Tensor]:
    """Compare with a direct call; return the answer, for a look at it later."""
    given = [torch.from_numpy(array) for array in rows(n)]
    found = list(device_calls.compute(given))
    for got, expected in zip(found, double(given), strict=True):
        assert got.dtype == expected.dtype
        assert torch.equal(got, expected)
    return found


def test_tensors_are_captured_beside_arrays():
    device = FakeDevice()
    calls = DeviceCalls(device, double, MANY, 32)
    for n in (5, 8):
        check_tensors(calls, n)
    check(calls, 7)
    for n in (6, 5, 8):
        check_tensors(calls, n)
    assert device.told == ["capture", "replay", "replay", "replay", "replay"]
    check_tensors(calls, 9)
    check_tensors(calls, 0)
    assert device.told.count("replay") == 4


def test_an_answer_is_not_changed_by_later_calls():
    calls = DeviceCalls(FakeDevice(), double, MANY, 32)
    held = [check_tensors(calls, 5) for _ in range(6)]
    copies = [[tensor.clone() for tensor in answer] for answer in held]
    for n in (5, 6, 7, 8):
        check_tensors(calls, n)
    for answer, copied in zip(held, copies, strict=True):
        assert all(map(torch.equal, answer, copied))
    assert len({tensor.data_ptr() for answer in held for tensor in answer}) == 12


def test_each_stream_has_graphs_of_its_own():
    """Nothing else keeps the device from writing a graph's memory while another stream reads it."""
    device = FakeDevice()
    calls = DeviceCalls(device, double, MANY, 32)
    for stream in (device.stream(), device.stream()):
        for _ in range(4):
            with device.on(stream):
                check_tensors(calls, 5)
    assert device.told.count("capture") == 2


def test_streams_without_end_fill_no_memory(monkeypatch):
    monkeypatch.setattr(device_calls, "MAX_GRAPHS", 2)
    device = FakeDevice()
    calls = DeviceCalls(device, double, MANY, 32)
    for stream in [device.stream() for _ in range(5)]:
        for _ in range(4):
            with device.on(stream):
                check_tensors(calls, 5)
    assert device.told.count("capture") == 2


def test_graphs_keep_no_more_memory_than_they_may(monkeypatch, caplog):
    """A row's answers take 32 bytes: graphs of eight rows and of two fit, and one of four not."""
    monkeypatch.setattr(device_calls, "MAX_BYTES", 10 * 32)
    device = FakeDevice()
    calls = DeviceCalls(device, double, MANY, 32)
    with caplog.at_level(logging.INFO, "hbconv"):
        for n in (8, 4, 2):
            for _ in range(4):
                check_tensors(calls, n)
    assert device.told == [
        *("capture", "replay", "replay"),
        "capture",
        *("capture", "replay", "replay"),
    ]
    assert "up to 4 rows run without a CUDA graph: it would keep 128 bytes" in caplog.text


def test_a_caller_that_captures_is_left_alone():
    device = FakeDevice()
    calls = DeviceCalls(device, double, MANY, 32)
    for _ in range(4):
        check_tensors(calls, 5)
    device.told.clear()
    device.capturing = True
    for _ in range(4):
        check_tensors(calls, 5)
    assert not device.told


def test_few_operators_are_launched_directly():
    device = FakeDevice()
    calls = DeviceCalls(device, double, device_calls.DIRECT_OPERATORS, 32)
    for _ in range(5):
        check_tensors(calls, 5)
        check(calls, 5)
    assert not device.told


def test_callers_may_be_in_inference_mode_or_not():
    """A graph's memory belongs to neither, whoever comes first."""
    for modes in ((True, False), (False, True)):
        calls = DeviceCalls(FakeDevice(), double, MANY, 32)
        for mode in modes:
            with torch.inference_mode(mode):
                for _ in range(3):
                    (first, _) = check_tensors(calls, 5)
                    assert first.is_inference() == mode


def test_threads_share_graphs():
    device = FakeDevice()
    calls = DeviceCalls(device, double, MANY, 32)
    with ThreadPoolExecutor(4) as pool:
        held = list(pool.map(lambda n: check_tensors(calls, n), [1, 5, 8, 3, 2, 7] * 8))
        list(pool.map(lambda n: check(calls, n), [1, 5, 8, 3, 2, 7] * 8))
    assert device.told.count("capture") == 4
    assert len(held) == 48


def test_an_error_in_a_replay_leaves_the_graph_to_others(monkeypatch):
    calls = DeviceCalls(FakeDevice(), double, MANY, 32)
    for _ in range(3):
        check_tensors(calls, 5)
    with pytest.raises(RuntimeError):
        calls.compute([torch.zeros(5, 9), torch.zeros(5, 9)])
    check_tensors(calls, 5)
