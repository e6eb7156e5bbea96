"""The source of a kernel, and the options that it is compiled with."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from hbconv.backends.cuda.plan import CudaKernel

__all__ = ["macros", "source_of"]

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
