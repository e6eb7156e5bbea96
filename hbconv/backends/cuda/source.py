"""The source of a kernel, and the options that it is compiled with."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from hbconv.backends.cuda.plan import CudaKernel

__all__ = ["macros", "source_of"]

FOLDER = Path(__file__).parent / "kernels"


@cache
def source_of(name: str) -> str:
    """Return the source of a kernel's file, after what all kernels use."""
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
