"""Write ``docs/develop/primitives.md``: each primitive with the rules of all backends side by side.

python docs/site/primitives_page.py
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from hbconv.backends.base import Backend
from hbconv.backends.onnx import BACKEND as ONNX
from hbconv.backends.onnx.emit import EMITS
from hbconv.backends.torch import BACKEND as TORCH
from hbconv.backends.torch.functions import FUNCTIONS
from hbconv.backends.tvm import BACKEND as TVM
from hbconv.backends.tvm.emit.program import EMITTERS
from hbconv.backends.tvm.emit.row_loop import ROW_EMITTERS
from hbconv.tensor.decompositions import DECOMPOSITIONS
from hbconv.tensor.primitive import PRIMITIVES, OpKind, Primitive
from hbconv.trees import contributions

PAGE = Path(__file__).parents[1] / "develop/primitives.md"
HEAD = """# Primitives

<!-- Written by docs/site/primitives_page.py. -->

A tensor program is written in these operators.
Each row shows where the rules of one primitive stand, from its meaning to its code on each backend.
"numpy" is its meaning, which the reference backend runs and tests compare with.
"otherwise" is the rule that writes it as other primitives, for a backend that has no operator.
"own" is code of the backend outside its table of functions.
"row" in the column of tvm is a second form, for few rows of wide values.
CUDA devices run the rules of tvm, one thread a row, and trees by `hbconv/backends/cuda`.
[Tasks](tasks.md) says how to add one.
"""

KINDS: dict[OpKind, str] = {
    OpKind.ARITHMETIC: "words of the result, at the price of an elementwise word",
    OpKind.TRANSCENDENTAL: "words of the result, each at the price of its function",
    OpKind.VIEW: "nothing",
    OpKind.COPY: "words copied; a `concat` and runs of positions copy whole stretches",
    OpKind.READ: "entries read, and the bytes of the table they come from",
    OpKind.PRODUCT: "multiplications, and words made by one product at a time",
    OpKind.REDUCTION: "words of the operand, twice an elementwise word",
    OpKind.TREES: "what the strategy counts for the forest",
    OpKind.CONTRIBUTIONS: "nodes of all paths of the forest",
    OpKind.LOOP: "the work of its body, times its steps",
}
"""What ``hbconv/cost_model/work.py`` counts for each kind."""

RULES: dict[str, Callable[..., Any]] = {**DECOMPOSITIONS, **contributions.DECOMPOSITIONS}
"""The shared rules, and those of forests."""


def write_page() -> str:
    """Return the page: for each kind its price, and a table of its primitives."""
    return "\n".join([HEAD, *(line for kind in OpKind for line in _section(kind))])


def _section(kind: OpKind) -> Iterator[str]:
    yield from (f"## {kind.value}", "", f"Cost: {KINDS[kind]}.", "")
    yield "| primitive | numpy | tvm | torch | onnx | otherwise |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for primitive in PRIMITIVES.values():
        if primitive.kind is kind:
            yield f"| {' | '.join(_cells(primitive))} |"
    yield ""


def _cells(primitive: Primitive) -> Iterator[str]:
    yield _meaning(primitive)
    yield _place(primitive.evaluate)
    yield _of_tvm(primitive.name)
    yield _of(TORCH, FUNCTIONS, primitive.name)
    yield _of(ONNX, EMITS, primitive.name)
    yield _place(RULES[primitive.name]) if primitive.name in RULES else "-"


def _meaning(primitive: Primitive) -> str:
    """Return the first line of its type rule where that names it; else its name."""
    first = (primitive.infer.__doc__ or "").split("\n")[0].removeprefix("Type ").rstrip(".")
    signature, _, rest = first.partition(":")
    if not first.startswith(f"``{primitive.name}("):
        return f"`{primitive.name}`"
    return f"`{signature.strip('`')}`: {rest.strip().replace('``', '`')}"


def _of_tvm(name: str) -> str:
    if name not in EMITTERS:
        return _of(TVM, EMITTERS, name)
    row = f", row: {_place(ROW_EMITTERS[name])}" if name in ROW_EMITTERS else ""
    return f"{_place(EMITTERS[name])}{row}"


def _of(backend: Backend, functions: Mapping[str, Callable[..., Any]], name: str) -> str:
    """Return where a backend writes it, or what becomes of it there."""
    if name in functions:
        return _place(functions[name])
    if name in backend.rules:
        return "otherwise"
    return "own" if name in backend.emits else "refused"


def _place(function: Callable[..., Any]) -> str:
    """Return the module and the name of a function; of one made in a table, the module."""
    function = getattr(function, "func", function)
    module = getattr(function, "__module__", None) or "numpy"
    name = getattr(function, "__name__", "<lambda>")
    short = module.removeprefix("hbconv.").removeprefix("backends.").removeprefix("tensor.")
    if module.startswith("torch"):
        short = "torch"
    return f"`{short}`" if name in ("<lambda>", "emit") else f"`{short}.{name}`"


if __name__ == "__main__":
    PAGE.write_text(write_page(), encoding="utf-8")
