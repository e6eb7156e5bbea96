"""The instructions that LLVM makes of the kernels on bit planes, for processors of any kind."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
from golden.conftest import CODE
from shaped_forests import grown

from hbconv.array import Array
from hbconv.backends.tvm import BACKEND
from hbconv.backends.tvm.binary.code_generation import compile_functions
from hbconv.backends.tvm.emit.tile_function import write_function
from hbconv.backends.tvm.machine.machine import Machine
from hbconv.backends.tvm.machine.schedule import Schedule
from hbconv.target import Target
from hbconv.tensor import Builder
from hbconv.trees.forest import Forest

pytest.importorskip("tvm")

VERSION = "0.27.0.post1"
"""Of TVM, whose LLVM the figures are of."""
CACHE = 1 << 20
"""Bytes of the second-level cache, which tells how tall planes are."""
MACHINES = {
    "avx2": Machine("x86-64-v3", level2=CACHE),
    "avx512": Machine("x86-64-v4", level2=CACHE),
    "avx512_vbmi": Machine("x86-64-v4", frozenset({"avx512vbmi"}), level2=CACHE),
    "neon": Machine("aarch64", level2=CACHE),
}
X86 = {
    "logic": r"vpternlog[dq]|vp(?:and|andn|or|xor)[dq]?",
    "table of words": r"vperm(?:ps|d|[it]2(?:ps|d))",
    "table of bytes": r"vpermb|vperm[it]2b|vpshufb",
    "pack": r"vpackus(?:wb|dw)",
    "shift": r"vps[lr]l[wdq]",
    "sum": r"vaddp[sd]",
    "lane by lane": r"v\w*gather\w*|vpextr[bw]|vpinsr[bw]",
}
NEON = {
    "logic": r"and|bic|orr|orn|eor|bsl|bit|bif",
    "table of bytes": r"tbl|tbx",
    "shift": r"ushr|shl",
    "sum": r"fadd",
    "lane by lane": r"[us]mov|ins",
}
COUNTED = {"x86-64": X86, "aarch64": NEON}
FORESTS = ((8, "float32"), (31, "float32"), (31, "float64"), (200, "float32"))
"""Leaves of a tree, and the dtype of sums."""


def forest_of(leaves: int, sums: str) -> Forest:
    forest = grown(np.random.default_rng(0), 100, leaves, "random", 8, 20)
    numbers = {name: getattr(forest, name).data.astype(sums) for name in ("values", "start")}
    return replace(forest, **{name: Array(value) for name, value in numbers.items()})


def mnemonics(leaves: int, sums: str, name: str) -> list[str]:
    """Return the mnemonics of the part that has the trees."""
    b = Builder()
    x = b.input("x", "float32", 8)
    scores = b.op("tree_scores", x, forest=forest_of(leaves, sums), strategy="select")
    program = BACKEND.prepare(b.program({"scores": scores}), Target("tvm"))
    machine = MACHINES[name]
    written = write_function(program, Schedule.construct(program, machine), machine)
    code = compile_functions(written.functions, machine).mod.inspect_source("asm")
    (part,) = re.findall(r"^\w*part0:\n(.*?)^\.Lfunc_end", code, re.MULTILINE | re.DOTALL)
    return re.findall(r"^\t([a-z]\w*)", part, re.MULTILINE)


def lines(name: str) -> Iterator[str]:
    """Yield how often each instruction stands in the code of each kind of forest."""
    counted = COUNTED[MACHINES[name].architecture]
    for leaves, sums in FORESTS:
        code = Counter(mnemonics(leaves, sums, name))
        yield f"{leaves} leaves, sums of {sums}"
        for what, pattern in counted.items():
            found = [f"{code[each]} {each}" for each in sorted(code) if re.fullmatch(pattern, each)]
            yield f"    {what}: {', '.join(found) or 0}"


@pytest.mark.rooms(*CODE)
@pytest.mark.parametrize("name", MACHINES)
def test_tree_code(name: str, golden: Callable[[str], None]) -> None:
    """A change of TVM, or of a kernel, shows in the diff of a text file."""
    import tvm

    if tvm.__version__ != VERSION:
        pytest.skip(f"the figures are of TVM {VERSION}, this is {tvm.__version__}")
    golden("\n".join(lines(name)))
