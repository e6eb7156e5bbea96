"""The C of a library: a function for each method, around its compiled loops."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hbconv.backends.tvm.c_library.layout import CallMemory
from hbconv.backends.tvm.c_library.literals import c_text, c_type, numbers
from hbconv.backends.tvm.c_library.method import CLoop, CMethod
from hbconv.interface import label_tables

__all__ = ["method_source", "signature"]


def signature(method: CMethod, prefix: str) -> str:
    """Return the head of a method's function."""
    arguments = [
        f"const char *const *{given.name}"
        if given.is_text
        else f"const {c_type(given.dtype)} *{given.name}"
        for given in method.inputs
    ]
    answer = f"{c_type(method.told.dtype)} *answer"
    return f"int32_t {prefix}_{method.name}({', '.join(['int64_t rows', *arguments, answer])})"


def method_source(method: CMethod, prefix: str, first_message: int) -> str:
    """Return a method's tables and function.

    Parameters
    ----------
    method : CMethod
    prefix : str
        Beginning of the names that the library exports.
    first_message : int
        Status that its first check returns.
    """
    return "\n".join([*_tables(method), *_function(method, prefix, first_message), ""])


def _tables(method: CMethod) -> Iterator[str]:
    for loop in method.loops:
        yield f"HIDDEN extern int32_t {loop.symbol}(const int64_t *call);"
        yield f"HIDDEN extern const char {loop.symbol}_tables[];"
        yield f"INCLUDE({loop.symbol}_tables, {c_text(loop.symbol + '.bin')})"
    texts = [given for given in method.inputs if given.is_text]
    for place, given in enumerate(texts):
        for number, vocabulary in enumerate(given.vocabularies):
            entries = sorted((t.encode("utf-8", "ignore"), c) for t, c in vocabulary.items())
            known = [(t, c) for t, c in entries if b"\0" not in t]
            rows = ", ".join(f"{{{c_text(t.decode())}, {c}}}" for t, c in known) or '{"", -1}'
            name = f"{method.name}_texts_{place}_{number}"
            yield f"static const entry {name}[] = {{{rows}}};"
    tables = label_tables(method.output)
    if tables is not None:
        kind = c_type(method.told.dtype)
        flat = np.concatenate([table.astype(method.told.dtype) for table in tables])
        starts = np.cumsum([0, *(len(table) for table in tables[:-1])])
        yield f"static const {kind} {method.name}_labels[] = {numbers(flat)};"
        yield f"static const int64_t {method.name}_starts[] = {numbers(starts)};"
    yield f"static pool {method.name}_pool;"


def _function(method: CMethod, prefix: str, first_message: int) -> Iterator[str]:
    space = CallMemory.of(method)
    pointers = [given.name for given in method.inputs] + ["answer"]
    yield f"API {signature(method, prefix)} {{"
    yield "    if (!runs_here()) return OTHER_PROCESSOR;"
    yield f"    if (rows < 0 || (rows && !({' && '.join(pointers)}))) return BAD_ARGUMENT;"
    yield "    if (!rows) return 0;"
    yield f"    char *work = take(&{method.name}_pool, {space.bytes});"
    yield "    if (!work) return NO_MEMORY;"
    yield "    int32_t status = 0;"
    yield f"    for (int64_t start = 0; start < rows && !status; start += {space.rows}) {{"
    yield f"        int64_t count = rows - start < {space.rows} ? rows - start : {space.rows};"
    yield from (f"        {line}" for line in _slice(method, space, first_message))
    yield "    }"
    yield f"    give_back(&{method.name}_pool, work);"
    yield "    return status;"
    yield "}"
    yield f"__attribute__((destructor)) static void empty_{method.name}(void) {{"
    yield f"    empty(&{method.name}_pool);"
    yield "}"


def _slice(method: CMethod, space: CallMemory, first_message: int) -> Iterator[str]:
    """Encode texts, run the loop, look at the flags, and convert the values of some rows."""
    yield from _encode(method, space)
    for number, loop in enumerate(method.loops):
        condition = f"if (count <= {loop.most_rows}) " if loop.most_rows else ""
        otherwise = "else " if number else ""
        yield f"{otherwise}{condition}{{"
        yield f"    const int64_t call[] = {{{', '.join(_record(method, space, loop))}}};"
        yield f"    {loop.symbol}(call);"
        yield "}"
    for number, (_, width) in enumerate(method.messages):
        flags = f"(const uint8_t *)(work + {space.flags[number]})"
        status = first_message + number
        yield f"if (!status && any({flags}, count * {width})) status = {status};"
    if space.values is not None:
        yield from _convert(method, space.values)


def _encode(method: CMethod, space: CallMemory) -> Iterator[str]:
    if not method.coded:
        return
    texts = [given for given in method.inputs if given.is_text]
    seen = [0] * len(texts)
    yield f"int32_t *codes = (int32_t *)(work + {space.codes});"
    yield "for (int64_t i = 0; i < count; i++) {"
    for column, place in enumerate(method.coded):
        table = f"{method.name}_texts_{place}_{seen[place]}"
        seen[place] += 1
        found = f"code_of({table}, sizeof {table} / sizeof *{table}, "
        yield (
            f"    codes[i * {len(method.coded)} + {column}] = "
            f"{found}{texts[place].name}[start + i]);"
        )
    yield "}"


def _record(method: CMethod, space: CallMemory, loop: CLoop) -> Iterator[str]:
    """Yield the words of a call, in the order of the calling convention."""
    yield "count"
    for given in method.inputs:
        if not given.is_text:
            yield f"(int64_t)({given.name} + start * {len(given.columns)})"
    if method.coded:
        yield "(int64_t)codes"
    answer = f"(answer + start * {method.width})"
    yield f"(int64_t){answer if space.values is None else f'(work + {space.values})'}"
    yield from (f"(int64_t)(work + {place})" for place in space.flags)
    yield from (f"(int64_t)({loop.symbol}_tables + {place})" for place in loop.starts)
    yield from (f"(int64_t)(work + {place})" for place in space.scratch[loop.symbol])


def _convert(method: CMethod, place: int) -> Iterator[str]:
    """Write labels for codes, or values in the dtype of the source's answer."""
    kind = c_type(method.told.dtype)
    width = method.width
    yield f"const {c_type(method.dtype)} *values = (const void *)(work + {place});"
    yield f"{kind} *to = answer + start * {width};"
    yield f"for (int64_t i = 0; i < count * {width}; i++)"
    if label_tables(method.output) is None:
        yield f"    to[i] = ({kind})values[i];"
    else:
        name = method.name
        yield f"    to[i] = {name}_labels[values[i] + {name}_starts[i % {width}]];"
