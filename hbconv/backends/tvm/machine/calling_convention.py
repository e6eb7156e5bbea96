"""CallingConvention: how compiled kernels are called, from Python, C or any other language.

A kernel is one function over rows, in a shared library or in object files::

    #include <stdint.h>

    typedef struct {
        int64_t rows;    /* rows to compute, from 0 to 2**31 / (1 + columns of the widest matrix) */
        void *buffers[]; /* one address each, in the order below */
    } hbconv_call;

    typedef struct {
        void *first;     /* the column's entry in the first row; the others follow without gaps */
        int64_t dtype;   /* position of its dtype in COLUMN_DTYPES */
    } hbconv_column;

    int32_t hbconv_kernel(const hbconv_call *call);

The function returns 0: a kernel has nothing to refuse. Rows that the source may refuse are marked
in an output of their own, ``hbconv.lower.FLAGGED``.

======= ============================================= ============================ ===========
buffers what                                          size in entries              alignment
======= ============================================= ============================ ===========
inputs  the program's inputs, in its order            rows x columns, C order      of an entry
outputs the program's outputs, in its order           rows x columns, C order      of an entry
tables  constants: one buffer a dtype of ``TABLES``   as written                   64 bytes
numbers runtime parameters, int32                     as written                   64 bytes
scratch memory to work in: one a dtype of ``SCRATCH`` as written, for any ``rows`` 64 bytes
columns columns of each input, or 0: see below        one ``hbconv_column`` each   of an entry
======= ============================================= ============================ ===========

- A function whose ``takes_columns`` is true reads an input column by column where its word of
  ``columns`` is not 0: then the input's own word is not read. Other functions read no such words.

- ``hbconv.backends.tvm.emit.tile_function.write_function`` returns the tables, the numbers after
  them, and the entries of scratch. Bools are bytes. No buffer overlaps another one.
- Tables and numbers are read only, so that all threads share them. Scratch needs no contents, and
  belongs to one call at a time. Nothing else is shared: calls on scratch of their own may run at
  once in any number of threads.
- Outside its object files a kernel needs ``memcpy``, ``memset`` and functions of libm, no runtime.
- ``binary.build.make_objects`` makes its object files, for any machine, and
  ``binary.elf.link_objects`` links them without a tool. Any linker does too:
  ``ld -shared -Bsymbolic kernel.o part*.o -l:libm.so.6 -o kernel.so``, or
  ``cc -shared kernel.o part*.o -lm -o kernel.so``. Each kernel of a library
  needs a symbol of its own: ``write_function(..., symbol="predict_few")`` names the function, and
  begins the names of its subroutines.

Python calls kernels by ctypes, which passes an array by its address. A record is such an array: one
argument that was made before is the cheapest call that ctypes has.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

__all__ = [
    "COLUMN_DTYPES",
    "SYMBOL",
    "KernelFunction",
    "Record",
    "column_dtypes",
    "make_record",
]

SYMBOL = "hbconv_kernel"
"""Name of the function of a kernel."""
COLUMN_DTYPES = (
    "float64",
    "float32",
    "int64",
    "int32",
    "int16",
    "int8",
    "uint32",
    "uint16",
    "uint8",
    "bool",
)
"""What columns may hold, by the numbers that ``hbconv_column`` has for it."""

Record = ctypes.Array[ctypes.c_int64]
"""An ``hbconv_call``: the number of rows, then the addresses."""
KernelFunction = Callable[[Record], object]
"""A kernel in Python."""


@cache
def column_dtypes(dtype: str) -> tuple[str, ...]:
    """Return the dtypes that columns of an input of some dtype may have.

    Each conversion rounds as numpy's does. float64 to float32 stays with numpy, which warns of what
    becomes infinite.

    Examples
    --------
    >>> column_dtypes("float32")[:3], column_dtypes("int32")
    (('float32', 'int64', 'int32'), ('int32', 'int16', 'int8', 'uint16', 'uint8', 'bool'))
    """
    return tuple(
        source
        for source in COLUMN_DTYPES
        if source == dtype
        or np.can_cast(source, dtype, "safe")
        or (dtype == "float32" and np.dtype(source).kind in "iu")
    )


def make_record(rows: int, addresses: Sequence[int]) -> Record:
    """Write the record of a call; it keeps no buffer alive.

    Examples
    --------
    >>> list(make_record(5, [64, 128]))
    [5, 64, 128]
    """
    # An empty call with a record made before takes 113 ns by ctypes, 110 by tvm_ffi and 176 by
    # cffi.
    return (ctypes.c_int64 * (1 + len(addresses)))(rows, *addresses)
