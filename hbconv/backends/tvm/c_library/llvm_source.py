"""The functions of a library in the language of LLVM, for systems without a C compiler.

They answer as those that ``source`` writes in C: TVM's LLVM compiles them, and the project's own
linker joins them with the compiled loops. Each call takes its memory and gives it back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import resources
from itertools import count

import numpy as np
import numpy.typing as npt

from hbconv.backends.interface import label_tables
from hbconv.backends.tvm.c_library.function import ALIGNMENT, CAnswer, CFunction, CLoop
from hbconv.backends.tvm.c_library.source import CallMemory, texts_of_c
from hbconv.backends.tvm.machine.machine import Machine

__all__ = ["FunctionLines", "LlvmFunction", "LlvmModule", "tables_symbol", "write_module"]

BAD_ARGUMENT, NO_MEMORY, OTHER_PROCESSOR = -1, -2, -3
"""Statuses of ``runtime.c``."""
FMA, OSXSAVE = 1 << 12, 1 << 27
AVX2 = 1 << 3 | 1 << 5 | 1 << 8
"""BMI1, AVX2 and BMI2 in the word ebx of leaf 7."""
AVX512 = 1 << 16 | 1 << 17 | 1 << 28 | 1 << 30 | 1 << 31
"""F, DQ, CD, BW and VL there."""
VBMI = 1 << 1
"""In the word ecx of leaf 7."""
SAVED = {"x86-64-v3": 0x6, "x86-64-v4": 0xE6}
"""Registers that the system saves: of 16 and 32 bytes, and with AVX-512 those of 64 and masks."""


def write_module(
    functions: Sequence[CFunction],
    prefix: str,
    machine: Machine,
    messages: dict[int, str],
    class_arrays: Sequence[tuple[str, tuple[str, ...]]],
) -> str:
    """Return the text of a module.

    Parameters
    ----------
    functions : sequence of CFunction
    prefix : str
        Beginning of the names that the library exports.
    machine : Machine
    messages : dict of int to str
        By their statuses; those of checks count up over all functions.
    class_arrays : sequence of pairs
        Names of arrays of texts, and their texts.
    """
    module = LlvmModule(machine)
    first = 1
    for function in functions:
        LlvmFunction(module, function, prefix, first).write()
        first += len(function.messages)
    module.write_messages(prefix, messages)
    for name, labels in class_arrays:
        module.write_texts(name, labels)
    return "\n".join([*module.lines, ""])


class LlvmModule:
    """The lines of a module, and names for its constants.

    Parameters
    ----------
    machine : Machine
    linkage : {"", "internal"}
        Whether programs see the functions that answer.
    """

    def __init__(self, machine: Machine, linkage: str = "") -> None:
        self.linkage = linkage
        self.checks = machine.level in SAVED
        self.masks = _masks(machine)
        self._numbers = count()
        self.lines = [f'target triple = "{machine.triple}"', _resource("runtime.ll")]
        if self.checks:
            self.lines.append(_resource("processor.ll"))

    def constant(self, data: bytes) -> str:
        """Write bytes, and return their address."""
        name = f"@bytes.{next(self._numbers)}"
        text = "".join(f"\\{byte:02X}" for byte in data)
        kind = f"[{len(data)} x i8]"
        self.lines.append(f'{name} = internal constant {kind} c"{text}", align {ALIGNMENT}')
        return name

    def texts(self, texts: Sequence[bytes]) -> tuple[str, list[int]]:
        """Write texts one after another; return their address, and where each one begins."""
        ends = np.cumsum([0, *(len(text) + 1 for text in texts)])
        return self.constant(b"".join(text + b"\0" for text in texts)), ends[:-1].tolist()

    def write_messages(self, prefix: str, messages: dict[int, str]) -> None:
        """Write the function that explains a status: places of texts by it, -1 where none is."""
        least, most = min(messages), max(messages)
        data, places = self.texts([text.encode() for text in messages.values()])
        by_status = dict(zip(messages, places, strict=True))
        table = [by_status.get(status, -1) for status in range(least, most + 1)]
        starts = self.constant(np.array(table, "<i4").tobytes())
        self.lines.append(f"""
define {self.linkage} ptr @{prefix}_message(i32 %status) {{
start:
  %number = sub i32 %status, {least}
  %is_known = icmp ult i32 %number, {len(table)}
  br i1 %is_known, label %look, label %none
look:
  %place = zext i32 %number to i64
  %begin_at = getelementptr i32, ptr {starts}, i64 %place
  %begin = load i32, ptr %begin_at
  %is_none = icmp slt i32 %begin, 0
  br i1 %is_none, label %none, label %found
found:
  %offset = zext i32 %begin to i64
  %text = getelementptr i8, ptr {data}, i64 %offset
  ret ptr %text
none:
  ret ptr null
}}""")

    def write_texts(self, name: str, labels: Sequence[str]) -> None:
        """Write an array of texts that programs read."""
        items = [f"ptr {self.constant(label.encode() + bytes(1))}" for label in labels]
        kind = f"[{len(labels)} x ptr]"
        self.lines.append(f"@{name} = constant {kind} [{', '.join(items)}], align 8")


class FunctionLines:
    """The lines of a function, and names for its values and blocks."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._numbers = count()
        self._block = "start"

    def _do(self, line: str) -> None:
        self.lines.append(f"  {line}")

    def _let(self, value: str) -> str:
        name = f"%v{next(self._numbers)}"
        self._do(f"{name} = {value}")
        return name

    def _at(self, base: str, offset: str) -> str:
        return self._let(f"getelementptr i8, ptr {base}, i64 {offset}")

    def _begin(self, block: str) -> None:
        self.lines.append(f"{block}:")
        self._block = block

    def _return_unless(self, condition: str, result: str) -> None:
        """Return a value, with its type, where a condition does not hold."""
        number = next(self._numbers)
        self._do(f"br i1 {condition}, label %go{number}, label %end{number}")
        self._begin(f"end{number}")
        self._do(f"ret {result}")
        self._begin(f"go{number}")

    @contextmanager
    def _where(self, condition: str) -> Iterator[None]:
        number = next(self._numbers)
        self._do(f"br i1 {condition}, label %do{number}, label %done{number}")
        self._begin(f"do{number}")
        yield
        self._do(f"br label %done{number}")
        self._begin(f"done{number}")


class LlvmFunction(FunctionLines):
    """Writes a function: its loop over slices of rows, and what it does with each."""

    def __init__(self, module: LlvmModule, function: CFunction, prefix: str, first: int) -> None:
        super().__init__()
        self.module, self.function, self.first = module, function, first
        self.symbol = f"{prefix}_{function.name}"
        self.space = CallMemory.of(function)
        self.inputs = [f"%input{i}" for i in range(len(function.inputs))]
        self.answers = [f"%answer{i}" for i in range(len(function.answers))]

    def write(self) -> None:
        """Write what the function calls, then itself."""
        for loop in self.function.loops:
            self.module.lines.append(f"declare i32 @{loop.symbol}(ptr)")
            self.module.lines.append(f"@{tables_symbol(loop)} = external hidden constant i8")
        self._write_body()
        arguments = ", ".join(f"ptr {name}" for name in (*self.inputs, *self.answers))
        head = f"define {self.module.linkage} i32 @{self.symbol}(i64 %rows, {arguments}) {{\nstart:"
        self.module.lines += [head, *self.lines, "}"]

    def _write_body(self) -> None:
        space = self.space
        self._do("%status = alloca i32")
        for loop in self.function.loops:
            self._do(f"%call.{loop.symbol} = alloca [{len(self._record(loop))} x i64]")
        if self.module.checks:
            fits = self._let(f"call i1 @runs_here_by({self.module.masks})")
            self._return_unless(fits, f"i32 {OTHER_PROCESSOR}")
        self._return_unless(self._let("icmp sge i64 %rows, 0"), f"i32 {BAD_ARGUMENT}")
        self._return_unless(self._let("icmp ne i64 %rows, 0"), "i32 0")
        for pointer in (*self.inputs, *self.answers):
            self._return_unless(self._let(f"icmp ne ptr {pointer}, null"), f"i32 {BAD_ARGUMENT}")
        self._do(f"%work = call ptr @aligned_alloc(i64 {ALIGNMENT}, i64 {space.bytes})")
        self._return_unless(self._let("icmp ne ptr %work, null"), f"i32 {NO_MEMORY}")
        self._do("store i32 0, ptr %status")
        with self._loop("%rows", space.rows) as start:
            left = self._let(f"sub i64 %rows, {start}")
            is_last = self._let(f"icmp slt i64 {left}, {space.rows}")
            rows = self._let(f"select i1 {is_last}, i64 {left}, i64 {space.rows}")
            self._write_slice(start, rows)
        self._do("call void @free(ptr %work)")
        self._do(f"ret i32 {self._let('load i32, ptr %status')}")

    def _write_slice(self, start: str, rows: str) -> None:
        """Encode texts, run a loop, look at the flags, and convert the values of some rows."""
        if self.function.coded:
            self._encode(start, rows)
        # Loops trust codes, and those of the caller are written up to one that is out of range.
        with self._where(self._is_well()):
            for loop in self.function.loops:
                self._run(loop, start, rows)
            for number, (_, width) in enumerate(self.function.messages):
                self._look(number, width, rows)
            for number, place in enumerate(self.space.values):
                if place is not None:
                    self._convert(number, place, start, rows)

    def _run(self, loop: CLoop, start: str, rows: str) -> None:
        """Call a loop where it is the one for so many rows."""
        few = next((other.most_rows for other in self.function.loops if other.most_rows), 0)
        condition = "sle" if loop.most_rows else "sgt"
        with self._where(self._let(f"icmp {condition} i64 {rows}, {few}")):
            call = f"%call.{loop.symbol}"
            for number, (base, offset, step) in enumerate(self._record(loop)):
                word = rows if base == "rows" else self._word(base, offset, step, start)
                place = self._let(f"getelementptr i64, ptr {call}, i64 {number}")
                self._do(f"store i64 {word}, ptr {place}")
            self._do(f"call i32 @{loop.symbol}(ptr {call})")

    def _record(self, loop: CLoop) -> list[tuple[str, int, int]]:
        """Return the words of a call: a pointer, an offset, and bytes for each row before."""
        function, space = self.function, self.space
        words = [("rows", 0, 0)]
        for pointer, argument in zip(self.inputs, function.inputs, strict=True):
            if not argument.vocabularies:
                row = len(argument.columns) * np.dtype(argument.dtype).itemsize
                words.append((pointer, 0, row))
        words += [("%work", space.codes, 0)] if function.coded else []
        for pointer, answer, place in zip(
            self.answers, function.answers, space.values, strict=True
        ):
            direct = (pointer, 0, answer.width * np.dtype(answer.dtype).itemsize)
            words.append(direct if place is None else ("%work", place, 0))
        words += [("%work", place, 0) for place in space.flags]
        words += [(f"@{tables_symbol(loop)}", place, 0) for place in loop.starts]
        words += [("%work", place, 0) for place in space.scratch[loop.symbol]]
        # No input is given column by column: there are as many words as inputs, or fewer.
        return [*words, *[("", 0, 0)] * (len(function.inputs) + 1)]

    def _word(self, base: str, offset: int, step: int, start: str) -> str:
        if not base:
            return "0"
        at = self._let(f"mul i64 {start}, {step}") if step else str(offset)
        return self._let(f"ptrtoint ptr {self._at(base, at)} to i64")

    def _encode(self, start: str, rows: str) -> None:
        """Write the codes of texts, or those of the caller where they are in range."""
        texts = [argument for argument in self.function.inputs if argument.is_text]
        with self._loop(rows) as row:
            at = self._let(f"add i64 {start}, {row}")
            first = self._let(f"mul i64 {row}, {len(self.function.coded)}")
            found = self._codes_of_texts(at) if texts else self._codes_of_caller(at)
            for column, code in enumerate(found):
                index = self._let(f"add i64 {first}, {column}")
                codes = self._at("%work", str(self.space.codes))
                to = self._let(f"getelementptr i32, ptr {codes}, i64 {index}")
                self._do(f"store i32 {code}, ptr {to}")

    def _codes_of_texts(self, at: str) -> Iterator[str]:
        """Yield the codes of a row."""
        seen = [0] * len(self.function.inputs)
        places = [i for i, argument in enumerate(self.function.inputs) if argument.is_text]
        for text in self.function.coded:
            place = places[text]
            vocabulary = self.function.inputs[place].vocabularies[seen[place]]
            seen[place] += 1
            data, entries, size = self._vocabulary(vocabulary)
            slot = self._let(f"getelementptr ptr, ptr {self.inputs[place]}, i64 {at}")
            given = self._let(f"load ptr, ptr {slot}")
            yield self._let(
                f"call i32 @code_of(ptr {data}, ptr {entries}, i32 {size}, ptr {given})"
            )

    def _codes_of_caller(self, at: str) -> Iterator[str]:
        """Yield the codes of a row, and set the status where one is out of range."""
        argument, pointer = self.function.inputs[-1], self.inputs[-1]
        kind = _llvm_type(argument.dtype)
        first = self._let(f"mul i64 {at}, {len(argument.columns)}")
        for column, vocabulary in enumerate(argument.vocabularies):
            index = self._let(f"add i64 {first}, {column}")
            place = self._let(f"getelementptr {kind}, ptr {pointer}, i64 {index}")
            code = self._cast(self._let(f"load {kind}, ptr {place}"), argument.dtype, "int64")
            end = max(vocabulary.values(), default=-1) + 1
            yield self._let(f"call i32 @code_within(i64 {code}, i64 {end}, ptr %status)")

    def _vocabulary(self, vocabulary: Mapping[str, int]) -> tuple[str, str, int]:
        """Write sorted texts and their codes."""
        kept = texts_of_c(vocabulary)
        data, starts = self.module.texts([text for text, _ in kept])
        table = np.array([[s, c] for s, (_, c) in zip(starts, kept, strict=True)], "<i4")
        return data, self.module.constant(table.tobytes()), len(kept)

    def _look(self, number: int, width: int, rows: str) -> None:
        """Set the status of a check where a flag is set, and no check before has."""
        flags = self._at("%work", str(self.space.flags[number]))
        size = self._let(f"mul i64 {rows}, {width}")
        is_set = self._let(f"call i1 @any(ptr {flags}, i64 {size})")
        known = self._let("load i32, ptr %status")
        is_free = self._let(f"icmp eq i32 {known}, 0")
        is_first = self._let(f"and i1 {is_set}, {is_free}")
        status = self._let(f"select i1 {is_first}, i32 {self.first + number}, i32 {known}")
        self._do(f"store i32 {status}, ptr %status")

    def _convert(self, number: int, place: int, start: str, rows: str) -> None:
        """Write labels for codes, or values in the dtype of the source's answer."""
        answer = self.function.answers[number]
        labels = label_tables(answer.output)
        kind, to = _llvm_type(answer.dtype), answer.file_output.dtype
        size = self._let(f"mul i64 {rows}, {answer.width}")
        first = self._let(f"mul i64 {start}, {answer.width}")
        table, starts = self._labels(answer) if labels is not None else ("", "")
        source = self._at("%work", str(place))
        with self._loop(size) as i:
            at = self._let(f"getelementptr {kind}, ptr {source}, i64 {i}")
            value = self._let(f"load {kind}, ptr {at}")
            if table:
                value = self._label(answer, value, table, starts, i)
            else:
                value = self._cast(value, answer.dtype, to)
            index = self._let(f"add i64 {first}, {i}")
            target = self._let(
                f"getelementptr {_llvm_type(to)}, ptr {self.answers[number]}, i64 {index}"
            )
            self._do(f"store {_llvm_type(to)} {value}, ptr {target}")

    def _labels(self, answer: CAnswer) -> tuple[str, str]:
        tables: Sequence[npt.NDArray[np.generic]] = label_tables(answer.output) or ()
        flat = np.concatenate([table.astype(answer.file_output.dtype) for table in tables])
        starts = np.cumsum([0, *(len(table) for table in tables[:-1])])
        return self.module.constant(flat.tobytes()), self.module.constant(
            starts.astype("<i8").tobytes()
        )

    def _label(self, answer: CAnswer, code: str, table: str, starts: str, i: str) -> str:
        wide = self._cast(code, answer.dtype, "int64")
        column = self._let(f"srem i64 {i}, {answer.width}")
        begin_at = self._let(f"getelementptr i64, ptr {starts}, i64 {column}")
        begin = self._let(f"load i64, ptr {begin_at}")
        place = self._let(f"add i64 {wide}, {begin}")
        kind = _llvm_type(answer.file_output.dtype)
        at = self._let(f"getelementptr {kind}, ptr {table}, i64 {place}")
        return self._let(f"load {kind}, ptr {at}")

    def _cast(self, value: str, dtype: str, to: str) -> str:
        """Convert a value as C does."""
        own, other = np.dtype(dtype), np.dtype(to)
        a, b = _llvm_type(dtype), _llvm_type(to)
        if a == b:
            return value
        if own.kind == other.kind == "f":
            how = "fpext" if own.itemsize < other.itemsize else "fptrunc"
        elif own.kind == "f":
            how = "fptosi" if other.kind == "i" else "fptoui"
        elif other.kind == "f":
            how = "sitofp" if own.kind == "i" else "uitofp"
        elif own.itemsize > other.itemsize:
            how = "trunc"
        else:
            how = "sext" if own.kind == "i" else "zext"
        return self._let(f"{how} {a} {value} to {b}")

    def _is_well(self) -> str:
        """Return whether no status is set."""
        return self._let(f"icmp eq i32 {self._let('load i32, ptr %status')}, 0")

    @contextmanager
    def _loop(self, end: str, step: int = 1) -> Iterator[str]:
        """Write a loop from 0, which ends early where a status is set."""
        n, before = next(self._numbers), self._block
        self._do(f"br label %head{n}")
        self._begin(f"head{n}")
        self._do(f"%i{n} = phi i64 [ 0, %{before} ], [ %next{n}, %last{n} ]")
        in_range = self._let(f"icmp slt i64 %i{n}, {end}")
        goes_on = self._let(f"and i1 {in_range}, {self._is_well()}")
        self._do(f"br i1 {goes_on}, label %body{n}, label %done{n}")
        self._begin(f"body{n}")
        yield f"%i{n}"
        self._do(f"br label %last{n}")
        self._begin(f"last{n}")
        self._do(f"%next{n} = add i64 %i{n}, {step}")
        self._do(f"br label %head{n}")
        self._begin(f"done{n}")


def tables_symbol(loop: CLoop) -> str:
    """Return the name of the constants of a loop."""
    return f"{loop.symbol}_tables"


def _llvm_type(dtype: str) -> str:
    """Return LLVM's type of a dtype; a bool is a byte, as in numpy."""
    kind = np.dtype(dtype)
    if kind.kind == "f":
        return {4: "float", 8: "double"}[kind.itemsize]
    return f"i{8 * kind.itemsize}"


def _masks(machine: Machine) -> str:
    """Return what ``processor.ll`` asks for."""
    wide = machine.level == "x86-64-v4"
    masks = (
        FMA | OSXSAVE,
        AVX2 | (AVX512 if wide else 0),
        VBMI if "avx512vbmi" in machine.extras else 0,
        SAVED.get(machine.level, 0),
    )
    return ", ".join(f"i32 {mask}" for mask in masks)


def _resource(name: str) -> str:
    return resources.files("hbconv.backends.tvm.c_library").joinpath(name).read_text()
