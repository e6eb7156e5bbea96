"""Compile kernels by NVRTC, which torch's CUDA wheels bring: no nvcc, no host compiler."""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

from hbconv.backends.cuda.plan import CudaKernel
from hbconv.errors import BackendError
from hbconv.system.cache import Cache

__all__ = ["Compiled", "compile_kernel", "find_nvrtc", "macros", "nvrtc_version", "source_of"]

WHEEL_FOLDERS = ("cu13/lib", "cuda_nvrtc/lib")
"""Where wheels of CUDA 13 and 12 put their libraries, below ``nvidia``."""
SYSTEM_NAMES = ("libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12")
BUILTINS = "libnvrtc-builtins.so*"
OPTIONS = ("--std=c++17", "--fmad=false", "--ptxas-options=-v")
"""Products and sums are never fused: each rounds, as the source's do."""
OTHERWISE = "Or name backend='torch', strategy='tree_traversal': plain operators."
CODE = "kernel.cubin"
LOG = "log.txt"


@dataclass(frozen=True)
class Compiled:
    """Machine code of a kernel, and what the assembler says of its registers and memory."""

    code: bytes
    log: str

    @property
    def registers(self) -> int:
        """Registers of a thread."""
        return self._number(r"Used (\d+) registers")

    @property
    def stack_bytes(self) -> int:
        """Memory of a thread for what fits no registers."""
        return self._number(r"(\d+) bytes stack frame")

    def _number(self, pattern: str) -> int:
        match = re.search(pattern, self.log)
        return int(match[1]) if match else 0


@lru_cache(maxsize=256)
def compile_kernel(kernel: CudaKernel, architecture: str) -> Compiled:
    """Take a kernel's code from the cache, or compile it: a few seconds, once on a machine.

    Parameters
    ----------
    kernel : CudaKernel
    architecture : str
        Such as ``"sm_90"``.

    Raises
    ------
    BackendError
        NVRTC is not there, or does not know the architecture.
    """
    options = [*OPTIONS, f"--gpu-architecture={architecture}", *macros(kernel)]
    nvrtc = _Nvrtc(find_nvrtc())
    cache_of_user = Cache.chosen()
    # All that the code comes from: another version of NVRTC may assemble other code.
    text = repr([nvrtc.version(), options, source_of(kernel)])
    key = hashlib.sha256(text.encode()).hexdigest()
    kept = cache_of_user.read(key)
    if kept is None:
        kept = nvrtc.compile(source_of(kernel), f"{kernel.name}.cu", options)
        cache_of_user.write(key, kept)
    return Compiled(kept[CODE], kept[LOG].decode())


@cache
def find_nvrtc() -> str:
    """Return the path or name of the library: of a wheel, else of the system.

    Raises
    ------
    BackendError
        There is none.
    """
    for path in _wheels():
        return str(path)
    for name in SYSTEM_NAMES:
        try:
            ctypes.CDLL(name)
        except OSError:
            continue
        return name
    raise BackendError(
        "NVRTC, which compiles the CUDA kernels of trees, is not installed. "
        f"Install with: pip install nvidia-cuda-nvrtc. {OTHERWISE}"
    )


def _wheels() -> Iterator[Path]:
    package = importlib.util.find_spec("nvidia")
    for root in (package and package.submodule_search_locations) or ():
        for folder in WHEEL_FOLDERS:
            yield from sorted(Path(root, folder).glob("libnvrtc.so.*"))


def nvrtc_version() -> tuple[int, int]:
    """Return the major and minor version of NVRTC, such as (13, 5)."""
    return _Nvrtc(find_nvrtc()).version()


class _Nvrtc:
    """NVRTC's functions, as its header declares them."""

    def __init__(self, path: str) -> None:
        self.library = ctypes.CDLL(path)
        # Older wheels do not find these in their own folder.
        if "/" in path:
            for builtins in sorted(Path(path).parent.glob(BUILTINS)):
                ctypes.CDLL(str(builtins), ctypes.RTLD_GLOBAL)

    def version(self) -> tuple[int, int]:
        major = ctypes.c_int()
        minor = ctypes.c_int()
        self.library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
        return major.value, minor.value

    def compile(self, source: str, name: str, options: list[str]) -> dict[str, bytes]:
        program = ctypes.c_void_p()
        self.library.nvrtcCreateProgram(
            ctypes.byref(program), source.encode(), name.encode(), 0, None, None
        )
        try:
            arguments = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
            status = self.library.nvrtcCompileProgram(program, len(options), arguments)
            log = self._read(program, "ProgramLog").rstrip(b"\0")
            if status:
                raise BackendError(
                    f"NVRTC {'.'.join(map(str, self.version()))} cannot compile {name} with "
                    f"{' '.join(options)}: {log.decode(errors='replace').strip()[:2000]} "
                    f"{OTHERWISE}"
                )
            return {CODE: self._read(program, "CUBIN"), LOG: log}
        finally:
            self.library.nvrtcDestroyProgram(ctypes.byref(program))

    def _read(self, program: ctypes.c_void_p, what: str) -> bytes:
        size = ctypes.c_size_t()
        getattr(self.library, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        getattr(self.library, f"nvrtcGet{what}")(program, buffer)
        return buffer.raw


FOLDER = Path(__file__).parent / "kernels"


def source_of(kernel: CudaKernel) -> str:
    """Return the source of a kernel: its own, or that of its file."""
    return kernel.text or _file(kernel.name)


@cache
def _file(name: str) -> str:
    """Read the file of a kernel, after what all kernels use."""
    return "".join(
        f'#line 1 "{file}"\n{(FOLDER / file).read_text(encoding="utf-8")}'
        for file in ("common.cuh", f"{name}.cu")
    )


def macros(kernel: CudaKernel) -> list[str]:
    """Return the options that define a kernel's constants.

    Examples
    --------
    >>> macros(CudaKernel("bin", (("INPUT", "float"),)))
    ['-DINPUT=float']
    """
    return [f"-D{name}={value}" for name, value in kernel.constants]
