"""NVRTC: where it is found, what is cached, and what is said where it fails."""

from __future__ import annotations

import importlib.util
from types import SimpleNamespace

import pytest

from hbconv.backends.cuda import compile as nvrtc
from hbconv.backends.cuda.plan import CudaKernel
from hbconv.errors import BackendError

KERNEL = CudaKernel("vectors", (("SUM", "double"),))


@pytest.fixture(autouse=True)
def _forget(monkeypatch, tmp_path):
    monkeypatch.setenv("HBCONV_CACHE", str(tmp_path))
    remembering = (nvrtc.find_nvrtc, nvrtc.compile_kernel)
    for function in remembering:
        function.cache_clear()
    yield
    for function in remembering:
        function.cache_clear()


def test_a_wheel_is_found_before_the_system(monkeypatch, tmp_path):
    library = tmp_path / "cu13" / "lib" / "libnvrtc.so.13"
    library.parent.mkdir(parents=True)
    library.touch()
    spec = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    assert nvrtc.find_nvrtc() == str(library)


def test_a_missing_compiler_is_named(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(nvrtc, "SYSTEM_NAMES", ("no-such-library.so",))
    with pytest.raises(BackendError, match="Install with: pip install nvidia-cuda-nvrtc"):
        nvrtc.compile_kernel(KERNEL, "sm_90")


def test_code_is_cached_by_source_options_and_architecture(monkeypatch):
    made = []

    class Fake:
        def __init__(self, path):
            pass

        def version(self):
            return 13, 5

        def compile(self, source, name, options):
            made.append(options)
            return {"kernel.cubin": b"code", "log.txt": b"log"}

    monkeypatch.setattr(nvrtc, "_Nvrtc", Fake)
    monkeypatch.setattr(nvrtc, "find_nvrtc", lambda: "libnvrtc.so")
    other = CudaKernel("vectors", (("SUM", "float"),))
    for kernel, architecture in [(KERNEL, "sm_90"), (KERNEL, "sm_80"), (other, "sm_90")] * 2:
        nvrtc.compile_kernel.cache_clear()
        assert nvrtc.compile_kernel(kernel, architecture).code == b"code"
    assert len(made) == 3
    assert "--gpu-architecture=sm_80" in made[1]
    assert "-DSUM=float" in made[2]
    assert "--fmad=false" in made[0]


def test_an_architecture_that_nvrtc_does_not_know_is_named():
    try:
        nvrtc.find_nvrtc()
    except BackendError:
        pytest.skip("NVRTC of tests/clients.txt is not installed")
    with pytest.raises(BackendError, match=r"cannot compile vectors.cu with .*sm_1"):
        nvrtc.compile_kernel(KERNEL, "sm_1")
