"""The C of a library: functions of methods, around their compiled loops."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hbconv.backends.tvm.c_library.function import CAnswer, CFunction, CLoop
from hbconv.backends.tvm.c_library.layout import CallMemory
from hbconv.backends.tvm.c_library.literals import c_text, c_type, numbers
from hbconv.interface import FileInput, label_tables

__all__ = ["answer_names", "function_source", "input_name", "pointer_type", "signature"]


def signature(function: CFunction, prefix: str) -> str:
    """Return the head of a function."""
    inputs = [f"{pointer_type(given)}{input_name(given)}" for given in function.inputs]
    types = [c_type(answer.told.dtype) for answer in function.answers]
    pairs = zip(types, answer_names(function), strict=True)
    arguments = ["int64_t rows", *inputs, *(f"{kind} *{name}" for kind, name in pairs)]
    return f"int32_t {prefix}_{function.name}({', '.join(arguments)})"


def input_name(given: FileInput) -> str:
    """Return the name of an argument, which no word of C and no macro is."""
    return f"text_{given.name}" if given.is_text else given.name


def answer_names(function: CFunction) -> list[str]:
    """Return the names of the arguments that answers are written to."""
    if len(function.answers) == 1:
        return ["answer"]
    return [f"answer_{number}" for number in range(len(function.answers))]


def pointer_type(given: FileInput) -> str:
    """Return C's type of an argument."""
    return "const char *const *" if given.is_text else f"const {c_type(given.dtype)} *"


def function_source(function: CFunction, prefix: str, first_message: int) -> str:
    """Return a function with its tables.

    Parameters
    ----------
    function : CFunction
    prefix : str
        Beginning of the names that the library exports.
    first_message : int
        Status that its first check returns.
    """
    return "\n".join([*_tables(function), *_function(function, prefix, first_message), ""])


def _tables(function: CFunction) -> Iterator[str]:
    for loop in function.loops:
        yield f"HIDDEN extern int32_t {loop.symbol}(const int64_t *call);"
        yield f"HIDDEN extern const char {loop.symbol}_tables[];"
        yield f"INCLUDE({loop.symbol}_tables, {c_text(loop.symbol + '.bin')})"
    for place, given in enumerate(given for given in function.inputs if given.is_text):
        for number, vocabulary in enumerate(given.vocabularies):
            entries = sorted((t.encode("utf-8", "ignore"), c) for t, c in vocabulary.items())
            known = [(t, c) for t, c in entries if b"\0" not in t]
            rows = ", ".join(f"{{{c_text(t.decode())}, {c}}}" for t, c in known) or '{"", -1}'
            name = f"{function.name}_texts_{place}_{number}"
            yield f"static const entry {name}[] = {{{rows}}};"
    for number, answer in enumerate(function.answers):
        yield from _labels(answer, f"{function.name}_{number}")
    yield f"static pool {function.name}_pool;"


def _labels(answer: CAnswer, name: str) -> Iterator[str]:
    tables = label_tables(answer.output)
    if tables is not None:
        flat = np.concatenate([table.astype(answer.told.dtype) for table in tables])
        starts = np.cumsum([0, *(len(table) for table in tables[:-1])])
        yield f"static const {c_type(answer.told.dtype)} {name}_labels[] = {numbers(flat)};"
        yield f"static const int64_t {name}_starts[] = {numbers(starts)};"


def _function(function: CFunction, prefix: str, first_message: int) -> Iterator[str]:
    space = CallMemory.of(function)
    pointers = [*map(input_name, function.inputs), *answer_names(function)]
    yield f"API {signature(function, prefix)} {{"
    yield "    if (!runs_here()) return OTHER_PROCESSOR;"
    yield f"    if (rows < 0 || (rows && !({' && '.join(pointers)}))) return BAD_ARGUMENT;"
    yield "    if (!rows) return 0;"
    yield f"    char *work = take(&{function.name}_pool, {space.bytes});"
    yield "    if (!work) return NO_MEMORY;"
    yield "    int32_t status = 0;"
    yield f"    for (int64_t start = 0; start < rows && !status; start += {space.rows}) {{"
    yield f"        int64_t count = rows - start < {space.rows} ? rows - start : {space.rows};"
    yield from (f"        {line}" for line in _slice(function, space, first_message))
    yield "    }"
    yield f"    give_back(&{function.name}_pool, work);"
    yield "    return status;"
    yield "}"
    yield f"__attribute__((destructor)) static void empty_{function.name}(void) {{"
    yield f"    empty(&{function.name}_pool);"
    yield "}"


def _slice(function: CFunction, space: CallMemory, first_message: int) -> Iterator[str]:
    """Encode texts, run the loop, look at the flags, and convert the values of some rows."""
    yield from _encode(function, space)
    for number, loop in enumerate(function.loops):
        condition = f"if (count <= {loop.most_rows}) " if loop.most_rows else ""
        otherwise = "else " if number else ""
        yield f"{otherwise}{condition}{{"
        yield f"    const int64_t call[] = {{{', '.join(_record(function, space, loop))}}};"
        yield f"    {loop.symbol}(call);"
        yield "}"
    for number, (_, width) in enumerate(function.messages):
        flags = f"(const uint8_t *)(work + {space.flags[number]})"
        status = first_message + number
        yield f"if (!status && any({flags}, count * {width})) status = {status};"
    for number, place in enumerate(space.values):
        if place is not None:
            yield from _convert(function, number, place)


def _encode(function: CFunction, space: CallMemory) -> Iterator[str]:
    """Write the codes of texts, or those of the caller where they are in range."""
    if not function.coded:
        return
    texts = [given for given in function.inputs if given.is_text]
    found = _codes_of(function, texts) if texts else _codes_given(function.inputs[-1])
    yield f"int32_t *codes_read = (int32_t *)(work + {space.codes});"
    yield "for (int64_t i = 0; i < count; i++) {"
    for column, code in enumerate(found):
        yield f"    codes_read[i * {len(function.coded)} + {column}] = {code};"
    yield "}"


def _codes_of(function: CFunction, texts: list[FileInput]) -> Iterator[str]:
    seen = [0] * len(texts)
    for place in function.coded:
        table = f"{function.name}_texts_{place}_{seen[place]}"
        seen[place] += 1
        size = f"sizeof {table} / sizeof *{table}"
        yield f"code_of({table}, {size}, {input_name(texts[place])}[start + i])"


def _codes_given(given: FileInput) -> Iterator[str]:
    width = len(given.columns)
    for column, vocabulary in enumerate(given.vocabularies):
        end = max(vocabulary.values(), default=-1) + 1
        place = f"(start + i) * {width} + {column}"
        yield f"code_within({given.name}[{place}], {end}, &status)"


def _record(function: CFunction, space: CallMemory, loop: CLoop) -> Iterator[str]:
    """Yield the words of a call, in the order of the calling convention."""
    yield "count"
    for given in function.inputs:
        if not given.vocabularies:
            yield f"(int64_t)({given.name} + start * {len(given.columns)})"
    if function.coded:
        yield "(int64_t)codes_read"
    answers = zip(function.answers, answer_names(function), space.values, strict=True)
    for answer, name, place in answers:
        written = f"{name} + start * {answer.width}" if place is None else f"work + {place}"
        yield f"(int64_t)({written})"
    yield from (f"(int64_t)(work + {place})" for place in space.flags)
    yield from (f"(int64_t)({loop.symbol}_tables + {place})" for place in loop.starts)
    yield from (f"(int64_t)(work + {place})" for place in space.scratch[loop.symbol])


def _convert(function: CFunction, number: int, place: int) -> Iterator[str]:
    """Write labels for codes, or values in the dtype of the source's answer."""
    answer, name = function.answers[number], f"{function.name}_{number}"
    kind, width = c_type(answer.told.dtype), answer.width
    coded = label_tables(answer.output) is not None
    value = f"{name}_labels[from[i] + {name}_starts[i % {width}]]" if coded else f"({kind})from[i]"
    yield "{"
    yield f"    const {c_type(answer.dtype)} *from = (const void *)(work + {place});"
    yield f"    {kind} *to = {answer_names(function)[number]} + start * {width};"
    yield f"    for (int64_t i = 0; i < count * {width}; i++) to[i] = {value};"
    yield "}"
