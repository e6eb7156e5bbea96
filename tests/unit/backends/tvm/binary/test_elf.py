"""The project's own linker makes libraries that answer as those of ``ld``, and need no more."""

from __future__ import annotations

import ctypes
import struct
import subprocess
import sys
from functools import cache

import numpy as np
import pytest
from forests import hostile_rows, random_forest

from hbconv.backends.tvm import BACKEND
from hbconv.backends.tvm.binary import build, elf
from hbconv.backends.tvm.binary.build import link_by_tools, make_libraries
from hbconv.backends.tvm.binary.elf import ElfObject, link_objects
from hbconv.backends.tvm.binary.guards import make_loop
from hbconv.backends.tvm.binary.library import load_library
from hbconv.backends.tvm.binary.loop import LoopCode
from hbconv.backends.tvm.emit.tile_function import write_function
from hbconv.backends.tvm.machine.machine import LEVELS, Machine
from hbconv.backends.tvm.machine.schedule import Schedule
from hbconv.target import Target
from hbconv.tensor import Builder

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems load no ELF")

FOREST = random_forest(np.random.default_rng(0), n_trees=8, max_depth=3)


def program():
    """Return trees, which are a function of their own, and a function of libm."""
    b = Builder()
    x = b.input("x", "float32", FOREST.n_features)
    scores = b.op("tree_scores", x, forest=FOREST, strategy="select")
    return b.program({"y": b.op("sin", scores), "z": b.op("exp", scores)})


@cache
def written(machine):
    prepared = BACKEND.prepare(program(), Target("tvm"))
    return write_function(prepared, Schedule.construct(prepared, machine), machine)


@cache
def objects_of(machine):
    return build.make_objects(written(machine).functions, machine)


def host():
    return Machine.host()


def answers(kernel):
    """Return the bytes that a kernel writes."""
    function = written(host())
    x = hostile_rows(np.random.default_rng(1), FOREST, "float32", 70)
    outputs = [np.zeros((70, *t.shape), t.dtype) for t in program().types.outputs.values()]
    make_loop(LoopCode(kernel, function.tables, function.scratch, None)).run(70, [x, *outputs])
    return [output.tobytes() for output in outputs]


def changed(data, find, replace):
    """Return an object in which one entry of a table is another."""
    at = data.index(find)
    return data[:at] + replace + data[at + len(find) :]


def relocation_entry(data):
    """Return an entry for the code, and where its type stands."""
    o = ElfObject(data)
    code = next(i for i in o.loaded if o.names[i] == ".text")
    table = next(h for h in o.headers if h[1] == elf.RELA and h[7] == code)
    return data[table[4] : table[4] + elf.RELOCATION.size]


@pytest.mark.usefixtures("vector")
@pytest.mark.share("vector")
def test_answers_are_those_of_other_linkers(tmp_path):
    objects = objects_of(host())
    assert len(objects) > 1
    others = list(link_by_tools(objects, tmp_path))
    if not others:
        pytest.skip("no linker is installed")
    own = answers(load_library(link_objects(objects.values())))
    assert own == answers(load_library(others[0]))


def test_a_library_exports_its_kernel_and_asks_for_few_functions():
    sections, read = sections_of(link_objects(objects_of(host()).values()))
    exported, needed = [], []
    for name, info, _, section, _, _ in elf.SYMBOL.iter_unpack(read(".dynsym")):
        text = read(".dynstr")[name:].partition(b"\0")[0].decode()
        (exported if section else needed).append((text, info >> 4))
    assert exported == [("hbconv_kernel", 1)]
    names = {text for text, _ in needed} - {""}
    assert "sin" in names
    assert names <= {"sin", "memcpy", "memset"}
    assert [section[1] for section in sections if section[0] == ".text"] == [elf.PROGBITS]


@pytest.mark.parametrize("function", ["exp", "sin"])
def test_libm_is_needed_for_its_functions_alone(function):
    b = Builder()
    wanted = b.program({"y": b.op(function, b.input("x", "float32", 3))})
    prepared = BACKEND.prepare(wanted, Target("tvm"))
    functions = write_function(prepared, Schedule.construct(prepared, host()), host()).functions
    _, read = sections_of(link_objects(build.make_objects(functions, host()).values()))
    tags = [tag for tag, _ in elf.TAG.iter_unpack(read(".dynamic"))]
    assert (elf.DT_NEEDED in tags) == (function == "sin")


def sections_of(library):
    """Return name, type, address and size of each section, and what reads one."""
    header = elf.HEADER.unpack_from(library)
    table = [elf.SECTION_HEADER.unpack_from(library, header[6] + 64 * i) for i in range(header[12])]
    texts = library[table[header[13]][4] :]
    named = [(texts[h[0] :].partition(b"\0")[0].decode(), h[1], h[3], h[5]) for h in table]

    def read(name):
        (found,) = (h for h, (text, *_) in zip(table, named, strict=True) if text == name)
        return library[found[4] : found[4] + found[5]]

    return named, read


BARE = """
import ctypes, os, sys
system = ctypes.CDLL(None)
strict = system.prctl(65, 1, 0, 0, 0) == 0
file = os.memfd_create("kernel")
os.write(file, sys.stdin.buffer.read())
library = ctypes.CDLL(f"/proc/self/fd/{file}")
kernel = ctypes.cast(library.hbconv_kernel, ctypes.c_void_p).value
modes = [line.split()[1] for line in open("/proc/self/maps") if "memfd:kernel" in line]
bases = (ctypes.c_void_p * 3)()
unwinder = ctypes.CDLL("libgcc_s.so.1")
unwinder._Unwind_Find_FDE.restype = ctypes.c_void_p
frame = unwinder._Unwind_Find_FDE(ctypes.c_void_p(kernel + 8), bases)
print(modes, frame is not None, bases[2] == kernel, "numpy" in sys.modules)
"""


def test_a_process_loads_a_library_by_ctypes_alone():
    """No page is writable afterwards, none ever both writable and executable, frames are found.

    Linux from 6.3 on refuses to the process what systemd's MemoryDenyWriteExecute refuses.
    """
    ran = subprocess.run(
        [sys.executable, "-S", "-c", BARE],
        input=link_objects(objects_of(host()).values()),
        capture_output=True,
        check=True,
    )
    assert ran.stdout.decode() == "['r--p', 'r-xp', 'r--p'] True True False\n"


@pytest.mark.parametrize("level", [level for level in LEVELS if level != "generic"])
def test_objects_for_every_machine_are_linked(level):
    """Constants are aligned as vectors need, and segments do not share a page in memory."""
    library = link_objects(objects_of(Machine(level)).values())
    header = elf.HEADER.unpack_from(library)
    assert header[2] == (183 if level == "aarch64" else 62)
    segments = [elf.PROGRAM_HEADER.unpack_from(library, 64 + 56 * i) for i in range(header[10])]
    loaded = [segment for segment in segments if segment[0] == elf.PT_LOAD]
    page = 65536 if level == "aarch64" else 4096
    assert [segment[1] for segment in loaded] == [elf.READABLE, elf.EXECUTABLE, elf.WRITABLE]
    assert all(segment[2] % page == segment[3] % page for segment in loaded)
    ends = [(segment[3] + segment[6]) // page for segment in loaded]
    assert ends[0] < loaded[1][3] // page
    assert ends[1] < loaded[2][3] // page
    assert [s[2] % 16 for s in sections_of(library)[0] if s[0] in (".rodata", ".text")] == [0, 0]
    stack = next(segment for segment in segments if segment[0] == elf.PT_GNU_STACK)
    assert stack[1] == elf.WRITABLE  # not executable


@pytest.mark.parametrize(
    ("kind", "word", "target", "place", "expected"),
    [
        (261, 0, 0x1000, 0x2004, -0x1004 & 0xFFFFFFFF),
        (275, 0x90000000, 0x3_2FFF, 0x1_0FF8, 0xD0000100),  # adrp x0, 34 pages on
        (275, 0x90000001, 0x1_0000, 0x2_0000, 0x90FFFF81),  # adrp x1, 16 pages back
        (277, 0x91000000, 0x1_2345, 0, 0x910D1400),  # add x0, x0, #0x345
        (278, 0x39400000, 0x1_2345, 0, 0x394D1400),  # ldrb w0, [x0, #0x345]
        (285, 0xBD400000, 0x1_2344, 0, 0xBD434400),  # ldr s0, [x0, #0x344]
        (299, 0x3DC00000, 0x1_2340, 0, 0x3DC0D000),  # ldr q0, [x0, #0x340]
        (283, 0x94000000, 0x2000, 0x1000, 0x94000400),  # bl forwards
        (282, 0x14000000, 0x1000, 0x2000, 0x17FFFC00),  # b backwards
    ],
)
def test_instructions_of_aarch64_hold_their_addresses(kind, word, target, place, expected):
    """The expected words are those of GNU's assembler."""
    assert elf.ARCHITECTURES[183].patches[kind](word, target, place) == expected


@pytest.mark.parametrize(
    ("machine", "kind", "target"), [(62, 4, 1 << 31), (183, 283, 1 << 27), (183, 275, 1 << 32)]
)
def test_what_is_too_far_is_refused(machine, kind, target):
    patch = elf.ARCHITECTURES[machine].patches[kind]
    patch(0, target - 4096, 0)
    with pytest.raises(NotImplementedError, match="distance"):
        patch(0, target, 0)


def unknown_relocation(data):
    entry = relocation_entry(data)
    return changed(data, entry, entry[:8] + struct.pack("<I", 38) + entry[12:])


def writable_section(data):
    o = ElfObject(data)
    header = elf.SECTION_HEADER.pack(*o.headers[o.loaded[0]])
    flags = struct.pack("<Q", o.headers[o.loaded[0]][2] | elf.WRITE)
    return changed(data, header, header[:8] + flags + header[16:])


REFUSED = {
    "relocation": (unknown_relocation, "Relocation 38"),
    "section": (writable_section, "flags="),
    "format": (lambda data: b"\xcf\xfa\xed\xfe" + data[4:], "no ELF"),
    "machine": (lambda data: data[:18] + b"\xf3\0" + data[20:], "machine 243"),
    "kind": (lambda data: data[:16] + b"\3\0" + data[18:], "type 3"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_unknown_is_refused(what):
    spoil, message = REFUSED[what]
    first, *others = objects_of(host()).values()
    with pytest.raises(NotImplementedError, match=message):
        link_objects([spoil(first), *others])


STATEFUL = """
@names = constant [2 x ptr] [ptr @first, ptr @second], align 8
@first = internal constant [4 x i8] c"one\\00"
@second = internal constant [4 x i8] c"two\\00"
@counted = internal global i32 -1
@given = external hidden constant i8
define ptr @table() {
  ret ptr @given
}
define i32 @count() {
  %old = load i32, ptr @counted
  %new = add i32 %old, 1
  store i32 %new, ptr @counted
  ret i32 %new
}
"""


def stateful(machine):
    text = f'target triple = "{machine.triple}"\n{STATEFUL}'
    return link_objects([build.compile_text(text)], {"given": b"0123456789"})


def test_a_library_may_have_addresses_variables_and_given_constants(tmp_path):
    path = tmp_path / "stateful.so"
    path.write_bytes(stateful(host()))
    library = ctypes.CDLL(str(path))
    names = (ctypes.c_char_p * 2).in_dll(library, "names")
    assert names[:] == [b"one", b"two"]
    assert [library.count() for _ in range(3)] == [0, 1, 2]
    library.table.restype = ctypes.c_void_p
    assert ctypes.string_at(library.table(), 10) == b"0123456789"
    assert library.table() % elf.LINE == 0


@pytest.mark.parametrize("level", ["x86-64", "aarch64"])
def test_variables_have_a_segment_that_stays_writable(level):
    library = stateful(Machine(level))
    header = elf.HEADER.unpack_from(library)
    segments = [elf.PROGRAM_HEADER.unpack_from(library, 64 + 56 * i) for i in range(header[10])]
    loaded = [segment for segment in segments if segment[0] == elf.PT_LOAD]
    assert [s[1] for s in loaded] == [elf.READABLE, elf.EXECUTABLE, *2 * [elf.WRITABLE]]
    assert all((offset - address) % page == 0 for _, _, offset, address, *_, page in loaded)
    (relro,) = [segment for segment in segments if segment[0] == elf.PT_GNU_RELRO]
    page = loaded[0][-1]
    assert relro[3] + relro[6] <= loaded[3][3] // page * page


def test_objects_of_two_machines_are_refused():
    objects = [*objects_of(host()).values(), *objects_of(Machine("aarch64")).values()]
    if host().architecture == "aarch64":
        pytest.skip("this machine is the other one")
    with pytest.raises(NotImplementedError, match="several machines"):
        link_objects(objects)


@pytest.mark.parametrize("tools", [True, False], ids=["tools", "no tools"])
def test_objects_that_are_refused_answer_all_the_same(monkeypatch, tools):
    """By the linker of the system, and without one by LLVM in this process."""
    monkeypatch.setattr(elf, "KNOWN_FLAGS", 0)
    if not tools:
        monkeypatch.setenv("PATH", "")
    objects = objects_of(host())
    libraries = list(make_libraries(objects))
    if tools and not libraries:
        pytest.skip("no linker is installed")
    assert bool(libraries) == tools
    functions = written(host()).functions
    kernel, library = build._build.__wrapped__(build._structures(functions), host())
    assert (library is None) != tools
    monkeypatch.undo()
    assert answers(kernel) == answers(load_library(link_objects(objects.values())))
