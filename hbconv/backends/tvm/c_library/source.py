"""The C of a library: functions around the compiled loops of methods, and their header.

A function keeps codes, flags and scratch in memory of its own call, which ``CallMemory`` lays out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv import __version__
from hbconv.backends.interface import FileInput, is_unicode, label_tables
from hbconv.backends.tvm.c_library.function import CAnswer, CFunction, CLoop, round_up
from hbconv.errors import BackendError

__all__ = [
    "answer_names",
    "c_text",
    "c_type",
    "class_arrays",
    "function_source",
    "header_text",
    "input_name",
    "pointer_type",
    "signature",
    "texts",
]

MOST_LETTERS = 2000
"""Letters of names in one comment."""
MAX_INDEX = 2**31 - 1
"""Row times column stays below this in one call of a loop, since positions are int32."""
# No timings of this choice are kept.
SLICE_ROWS = 4096
"""Rows of one call of a loop: their flags and codes stay in the second-level cache."""
LEAST_ROWS = 256
SLICE_BYTES = 1 << 20
"""Bytes that the codes, flags and values of a slice may take."""
C_TYPES = {
    "bool": "uint8_t",
    "float32": "float",
    "float64": "double",
    **{f"{sign}int{bits}": f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
"""C's type of each dtype; a bool is a byte, as in numpy."""


def signature(function: CFunction, prefix: str) -> str:
    """Return the head of a function."""
    inputs = [f"{pointer_type(argument)}{input_name(argument)}" for argument in function.inputs]
    types = [c_type(answer.file_output.dtype) for answer in function.answers]
    pairs = zip(types, answer_names(function), strict=True)
    arguments = ["int64_t rows", *inputs, *(f"{kind} *{name}" for kind, name in pairs)]
    return f"int32_t {prefix}_{function.name}({', '.join(arguments)})"


def input_name(argument: FileInput) -> str:
    """Return the name of an argument, which no word of C and no macro is."""
    return f"text_{argument.name}" if argument.is_text else argument.name


def answer_names(function: CFunction) -> list[str]:
    """Return the names of the arguments that answers are written to."""
    if len(function.answers) == 1:
        return ["answer"]
    return [f"answer_{number}" for number in range(len(function.answers))]


def pointer_type(argument: FileInput) -> str:
    """Return C's type of an argument."""
    return "const char *const *" if argument.is_text else f"const {c_type(argument.dtype)} *"


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


def texts_of_c(vocabulary: Mapping[str, int]) -> list[tuple[bytes, int]]:
    """Return the texts that C can give, and their codes.

    They are sorted by bytes, as ``code_of`` searches by halving. A text of C ends at its first
    null, and half a character has no bytes in UTF-8: such categories are never found.
    """
    given = {t: c for t, c in vocabulary.items() if "\0" not in t and is_unicode(t)}
    return sorted((text.encode(), code) for text, code in given.items())


def _tables(function: CFunction) -> Iterator[str]:
    for loop in function.loops:
        yield f"HIDDEN extern int32_t {loop.symbol}(const int64_t *call);"
        yield f"HIDDEN extern const char {loop.symbol}_tables[];"
        yield f"INCLUDE({loop.symbol}_tables, {c_text(loop.symbol + '.bin')})"
    for place, argument in enumerate(argument for argument in function.inputs if argument.is_text):
        for number, vocabulary in enumerate(argument.vocabularies):
            # C has no array without entries; the code -1 means an unknown text.
            rows = (
                ", ".join(f"{{{c_text(t.decode())}, {c}}}" for t, c in texts_of_c(vocabulary))
                or '{"", -1}'
            )
            name = f"{function.name}_texts_{place}_{number}"
            yield f"static const entry {name}[] = {{{rows}}};"
    for number, answer in enumerate(function.answers):
        yield from _labels(answer, f"{function.name}_{number}")
    yield f"static pool {function.name}_pool;"


def _labels(answer: CAnswer, name: str) -> Iterator[str]:
    tables = label_tables(answer.output)
    if tables is not None:
        flat = np.concatenate([table.astype(answer.file_output.dtype) for table in tables])
        starts = np.cumsum([0, *(len(table) for table in tables[:-1])])
        yield f"static const {c_type(answer.file_output.dtype)} {name}_labels[] = {numbers(flat)};"
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
    """Write the codes of texts."""
    if not function.coded:
        return
    yield f"int32_t *codes_read = (int32_t *)(work + {space.codes});"
    yield "for (int64_t i = 0; i < count; i++) {"
    for column, code in enumerate(_codes_of(function)):
        yield f"    codes_read[i * {len(function.coded)} + {column}] = {code};"
    yield "}"


def _codes_of(function: CFunction) -> Iterator[str]:
    texts = [argument for argument in function.inputs if argument.is_text]
    seen = [0] * len(texts)
    for place in function.coded:
        table = f"{function.name}_texts_{place}_{seen[place]}"
        seen[place] += 1
        size = f"sizeof {table} / sizeof *{table}"
        yield f"code_of({table}, {size}, {input_name(texts[place])}[start + i])"


def _record(function: CFunction, space: CallMemory, loop: CLoop) -> Iterator[str]:
    """Yield the words of a call, in the order of the calling convention."""
    yield "count"
    for argument in function.inputs:
        if not argument.vocabularies:
            yield f"(int64_t)({argument.name} + start * {len(argument.columns)})"
    if function.coded:
        yield "(int64_t)codes_read"
    answers = zip(function.answers, answer_names(function), space.values, strict=True)
    for answer, name, place in answers:
        written = f"{name} + start * {answer.width}" if place is None else f"work + {place}"
        yield f"(int64_t)({written})"
    yield from (f"(int64_t)(work + {place})" for place in space.flags)
    yield from (f"(int64_t)({loop.symbol}_tables + {place})" for place in loop.starts)
    yield from (f"(int64_t)(work + {place})" for place in space.scratch[loop.symbol])
    # No input is given column by column: there are as many words as inputs, or fewer.
    yield from ("0" for _ in (*function.inputs, "codes"))


def _convert(function: CFunction, number: int, place: int) -> Iterator[str]:
    """Write labels for codes, or values in the dtype of the source's answer."""
    answer, name = function.answers[number], f"{function.name}_{number}"
    kind, width = c_type(answer.file_output.dtype), answer.width
    coded = label_tables(answer.output) is not None
    value = f"{name}_labels[from[i] + {name}_starts[i % {width}]]" if coded else f"({kind})from[i]"
    yield "{"
    yield f"    const {c_type(answer.dtype)} *from = (const void *)(work + {place});"
    yield f"    {kind} *to = {answer_names(function)[number]} + start * {width};"
    yield f"    for (int64_t i = 0; i < count * {width}; i++) to[i] = {value};"
    yield "}"


TEXT = """\
/* {estimator}, compiled by hbconv {version}.

   Each function answers `rows` rows and returns 0. Matrices are in C order, one row after another.
   Texts are UTF-8 and end in a null character; NULL is a missing text, as is the empty text.
   Otherwise the function returns a status, and {prefix}_message(status) says why; what stands in
   the answer then means nothing. Functions may be called from any number of threads at once. */

#ifndef {guard}
#define {guard}

#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

{functions}
/* Why a function returned another status than 0; NULL for other numbers. */
const char *{prefix}_message(int32_t status);

#ifdef __cplusplus
}}
#endif

#endif
"""


def header_text(estimator: str, methods: list[CFunction], prefix: str) -> str:
    """Return the text of a header."""
    functions = "".join(f"{line}\n" for method in methods for line in _declare(method, prefix))
    guard = f"{prefix.upper()}_H"
    return TEXT.format(
        estimator=_comment(estimator),
        version=__version__,
        prefix=prefix,
        guard=guard,
        functions=functions,
    )


def _declare(method: CFunction, prefix: str) -> Iterator[str]:
    yield f"/* {method.name}"
    for argument in method.inputs:
        what = "texts" if argument.is_text else f"rows x {len(argument.columns)}"
        yield f"   {input_name(argument)}: {what}, of {_comment(', '.join(argument.columns))}"
    (answer,) = method.answers
    shape = " x ".join(["rows", *map(str, answer.file_output.shape)])
    coded = ", codes of classes" if answer.file_output.classes else ""
    yield f"   answer: {shape}{coded} */"
    yield f"{signature(method, prefix)};"
    for name, values in class_arrays(method, prefix):
        yield f"extern const char *const {name}[{len(values)}]; /* {_comment(texts(values))} */"
    yield ""


def class_arrays(method: CFunction, prefix: str) -> list[tuple[str, tuple[str, ...]]]:
    """Return the names and labels of the arrays that codes are places in, one for each target."""
    tables = method.answers[0].file_output.classes or ()
    name = f"{prefix}_{method.name}_classes"
    names = [name] if len(tables) == 1 else [f"{name}_{i}" for i in range(len(tables))]
    pairs = zip(names, tables, strict=True)
    return [(name, tuple(map(str, table))) for name, table in pairs]


def _comment(text: str) -> str:
    """Return the beginning of a text, without what ends a comment or acts in a terminal."""
    # Names come from users' columns: a long list of them would bury the declarations.
    begin = text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS]} ..."
    return re.sub(r"[\x00-\x1f\x7f-\x9f]", " ", begin.replace("*/", "* /"))


@dataclass(frozen=True)
class CallMemory:
    """Memory that a call has for itself: codes, flags, values to convert, and scratch.

    Parameters
    ----------
    rows : int
        Rows of a slice.
    bytes : int
    codes : int
        Place of the codes of texts.
    flags : tuple of int
        Place of the flags of each check.
    values : tuple of int or None
        Place of the values that are converted to each answer; None where a loop writes it itself.
    scratch : dict of str to tuple of int
        Places of the buffers of each loop, by its symbol. Loops do not run at once.
    """

    rows: int
    bytes: int
    codes: int
    flags: tuple[int, ...]
    values: tuple[int | None, ...]
    scratch: dict[str, tuple[int, ...]]

    @staticmethod
    def of(function: CFunction) -> CallMemory:
        """Lay out the memory of a function."""
        widths = [width for _, width in function.messages]
        items = [_value_bytes(answer) for answer in function.answers]
        row_bytes = 4 * len(function.coded) + sum(widths) + sum(items)
        rows = _slice_rows(function, row_bytes)
        first = round_up(4 * len(function.coded) * rows)
        flags, first = _places([width * rows for width in widths], first)
        values, first = _places([item * rows for item in items], first)
        scratch = {}
        ends = [first]
        for loop in function.loops:
            # Scratch of all loops begins at one place, since a call runs one of them.
            scratch[loop.symbol], end = _places(loop.scratch_bytes, first)
            ends.append(end)
        held = tuple(p if item else None for p, item in zip(values, items, strict=True))
        # Never zero bytes, for which an allocation may return NULL, that is no memory.
        return CallMemory(rows, max(64, *ends), 0, flags, held, scratch)


def _value_bytes(answer: CAnswer) -> int:
    """Return the bytes of a row's values that are converted."""
    return np.dtype(answer.dtype).itemsize * answer.width if answer.converts else 0


def _slice_rows(function: CFunction, row_bytes: int) -> int:
    inputs = [1 if argument.is_text else len(argument.columns) for argument in function.inputs]
    answers = [answer.width for answer in function.answers]
    checks = [width for _, width in function.messages]
    widest = max([*inputs, len(function.coded), *answers, *checks])
    fitting = max(LEAST_ROWS, SLICE_BYTES // max(1, row_bytes))
    return max(1, min(SLICE_ROWS, fitting, MAX_INDEX // (widest + 1)))


def _places(sizes: list[int] | tuple[int, ...], first: int) -> tuple[tuple[int, ...], int]:
    """Return the places of buffers one after another, and where the last one ends."""
    places = []
    for size in sizes:
        places.append(first)
        first = round_up(first + size)
    return tuple(places), first


def c_type(dtype: str) -> str:
    """Return C's type of a dtype, or raise BackendError."""
    if dtype not in C_TYPES:
        raise BackendError(
            f"C has no type for answers of dtype {dtype}. Export .onnx, or save as .hbc."
        )
    return C_TYPES[dtype]


def c_text(text: str) -> str:
    r"""Return a string literal of the UTF-8 bytes of a text.

    Examples
    --------
    >>> print(c_text('a "ü"'))
    "a \042\303\274\042"
    """
    return f'"{"".join(map(_character, text.encode()))}"'


def _character(byte: int) -> str:
    """Return a byte as itself, or by its number where C would read it otherwise."""
    # A question mark may begin a trigraph; an octal escape ends after three digits whatever
    # follows.
    plain = 32 <= byte < 127 and chr(byte) not in '"\\?'
    return chr(byte) if plain else f"\\{byte:03o}"


def texts(values: Iterable[Any]) -> str:
    """Return the initializer of an array of texts."""
    return "{" + ", ".join(c_text(str(value)) for value in values) + "}"


def numbers(values: npt.NDArray[Any]) -> str:
    """Return the initializer of an array of numbers, exactly."""
    if values.dtype.kind == "f":
        return "{" + ", ".join(_float(value) for value in values.tolist()) + "}"
    smallest = np.iinfo(np.int64).min
    # C has no literal of the least int64: its minus is an operator on a number that does not fit.
    plain = [f"({v + 1}LL - 1)" if v == smallest else f"{int(v)}LL" for v in values.tolist()]
    return "{" + ", ".join(plain) + "}"


def _float(value: float) -> str:
    if value != value:
        return '__builtin_nan("")'
    # Hexadecimal floats are exact, while decimal ones depend on the rounding of a compiler.
    return value.hex() if abs(value) < float("inf") else f"{'-' * (value < 0)}__builtin_inf()"
