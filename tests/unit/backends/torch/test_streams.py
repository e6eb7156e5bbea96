"""Captures of a CUDA device by torch's own class, with recorders in place of what it calls."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from hbconv.backends.torch import device_calls
from hbconv.backends.torch.device_calls import Cuda

SECOND = torch.device("cuda", 1)
CALLER = SimpleNamespace(device=SECOND, cuda_stream=7)


class Recorder:
    """The current device and stream of a thread, and which stream a graph captures."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, status: str = "") -> None:
        self.status = status
        self.stream: Any = CALLER
        self.reserved = 1000
        self.captured: list[Any] = []
        monkeypatch.setattr(torch._C, "_host_emptyCache", lambda: None, raising=False)
        for name in ("synchronize", "empty_cache", "device"):
            monkeypatch.setattr(torch.cuda, name, lambda *_: torch.no_grad())
        monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: self)
        monkeypatch.setattr(torch.cuda, "current_stream", lambda _: self.stream)
        monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _: self.reserved)
        monkeypatch.setattr(torch.cuda, "stream", lambda stream: OnStream(self, stream))
        monkeypatch.setattr(torch.cuda, "Stream", new_stream)
        monkeypatch.setattr(torch.cuda.graph, "default_capture_stream", None)
        device_calls._stream_of_captures.cache_clear()

    def capture_begin(self, *_: Any, **options: Any) -> None:
        assert options["capture_error_mode"] == "thread_local"
        self.captured.append(self.stream)

    def capture_end(self) -> None:
        if self.status:
            raise RuntimeError(self.status)

    def reset(self) -> None:
        self.reserved = 1000

    def replay(self) -> None:
        """Compute again."""


class OnStream:
    """What ``torch.cuda.stream`` does."""

    def __init__(self, recorder: Recorder, stream: Any) -> None:
        self.recorder, self.stream = recorder, stream

    def __enter__(self) -> None:
        self.before, self.recorder.stream = self.recorder.stream, self.stream

    def __exit__(self, *_: object) -> None:
        self.recorder.stream = self.before


def new_stream(device: Any = None, priority: int = 0) -> Any:
    return SimpleNamespace(device=device, priority=priority, cuda_stream=8)


def test_a_call_is_captured_on_its_device_on_one_stream_for_each_caller(monkeypatch):
    recorder = Recorder(monkeypatch)
    seen: list[Any] = []

    def run() -> list[Any]:
        seen.append(recorder.stream)
        recorder.reserved += 20
        return []

    for _ in range(2):
        _, replay, n_bytes = Cuda(SECOND).capture(run, 20)
        assert replay == recorder.replay
        assert n_bytes == 20
    first, second = recorder.captured
    assert first is second
    assert (first.device, first.priority) == (SECOND, -1)
    assert seen == [CALLER, first, CALLER, first]
    recorder.stream = SimpleNamespace(device=SECOND, cuda_stream=9)
    Cuda(SECOND).capture(run, 20)
    assert recorder.captured[2] is not first


def test_a_capture_that_fails_leaves_the_caller_on_its_stream(monkeypatch):
    recorder = Recorder(monkeypatch, "operation failed due to a previous error during capture")
    with pytest.raises(RuntimeError, match="previous error"):
        Cuda(SECOND).capture(list, 20)
    assert recorder.stream is CALLER


def test_a_graph_without_room_is_given_back(monkeypatch):
    recorder = Recorder(monkeypatch)

    def run() -> list[Any]:
        recorder.reserved += 20
        return []

    with pytest.raises(RuntimeError, match="would keep 20 bytes"):
        Cuda(SECOND).capture(run, 19)
    assert recorder.reserved == 1000
