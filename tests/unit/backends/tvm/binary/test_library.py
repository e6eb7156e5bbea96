"""Kernels are loaded and called by ctypes alone, and follow the calling convention."""

from __future__ import annotations

import ctypes
import gc
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from hbconv.backends.tvm.binary import build as builder
from hbconv.backends.tvm.binary.build import build, make_libraries, make_objects
from hbconv.backends.tvm.binary.library import load_library
from hbconv.backends.tvm.binary.loop import CompiledLoop, LoopCode
from hbconv.backends.tvm.emit.tile_function import write_function
from hbconv.backends.tvm.machine import calling_convention
from hbconv.backends.tvm.machine.calling_convention import SYMBOL
from hbconv.backends.tvm.machine.machine import Machine
from hbconv.backends.tvm.machine.schedule import Schedule
from hbconv.tensor import Builder

X = np.arange(12, dtype=np.float32).reshape(4, 3)
PATHS = [
    pytest.param(True, id="memory", marks=pytest.mark.skipif(sys.platform != "linux", reason="")),
    pytest.param(False, id="file"),
]


def written(factors, symbol=SYMBOL):
    b = Builder()
    product = b.input("x", "float32", 3) * b.constant(factors, "float32")
    program = b.program({"y": product})
    return write_function(program, Schedule.construct(program, machine()), machine(), symbol)


def machine():
    return Machine.host()


def made(factors):
    function = written(factors)
    data = build(function.functions, machine())[1]
    if data is None:
        pytest.skip("no linker is installed")
    return data, function


def link(*functions):
    objects = {}
    for function in functions:
        objects |= make_objects(function.functions, machine())
    return next(make_libraries(objects))


def answers(kernel, function):
    loop = CompiledLoop(LoopCode(kernel, function.tables, function.scratch, None))
    y = np.zeros_like(X)
    loop.run(len(X), [X, y])
    return y


def mapped(word="kernel.so"):
    return sum(word in line for line in Path("/proc/self/maps").read_text().splitlines())


@pytest.fixture(params=PATHS)
def way(request, monkeypatch):
    """Load from memory, or from a file."""
    if not request.param:
        monkeypatch.delattr(os, "memfd_create", raising=False)


@pytest.mark.usefixtures("way")
def test_libraries_side_by_side_answer_for_themselves():
    """A path in memory comes again as soon as it is closed."""
    loaded = []
    for factors in ([1, 2, 3], [4.0], [5, 6, 7]):
        data, function = made(factors)
        loaded.append((load_library(data), function, factors))
    for kernel, function, factors in loaded:
        np.testing.assert_array_equal(answers(kernel, function), X * np.float32(factors))


@pytest.mark.skipif(sys.platform != "linux", reason="Linux tells what is mapped")
@pytest.mark.usefixtures("way")
def test_a_library_is_unloaded_when_nothing_refers_to_it():
    data, function = made([2.0, 7.0, 1.0])
    gc.collect()
    before = mapped()
    kernels = [load_library(data) for _ in range(3)]
    assert mapped() > before
    np.testing.assert_array_equal(answers(kernels[1], function), X * np.float32([2, 7, 1]))
    kernels.clear()
    gc.collect()
    assert mapped() == before


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("data", [b"", b"not a library", b"\x7fELF" + bytes(100)])
def test_what_is_no_library_is_an_error(data):
    with pytest.raises(OSError, match=r"kernel\.so|fd"):
        load_library(data)


def test_a_library_of_another_function_is_an_error():
    function = written([1.0], "another")
    data = link(function)
    with pytest.raises(AttributeError, match=SYMBOL):
        load_library(data)


def no_folder():
    raise FileNotFoundError(2, "No usable temporary directory found")


@pytest.fixture
def nowhere(monkeypatch):
    """Take away all folders for temporary files, and what was kept of former builds."""
    monkeypatch.setenv("HBCONV_CACHE", "0")
    monkeypatch.setattr(tempfile, "gettempdir", no_folder)
    builder._object.cache_clear()
    builder._build.cache_clear()


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="only Linux has files in memory")
@pytest.mark.usefixtures("nowhere")
def test_no_folder_and_no_process_is_needed_where_memory_serves(monkeypatch):
    monkeypatch.setattr(subprocess, "run", None)
    data, function = made([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(answers(load_library(data), function), X * np.float32([1, 2, 3]))


@pytest.mark.usefixtures("nowhere")
def test_without_any_place_for_files_kernels_run_in_this_process(monkeypatch):
    monkeypatch.delattr(os, "memfd_create", raising=False)
    function = written([1.0, 2.0, 3.0])
    kernel, library = build(function.functions, machine())
    assert library is None
    np.testing.assert_array_equal(answers(kernel, function), X * np.float32([1, 2, 3]))
    builder._build.cache_clear()


FULL = """
import os, resource, warnings
from hbconv.backends.tvm import BACKEND
from hbconv.target import Target
from hbconv.tensor import Builder
import numpy as np
def answer(size):
    b = Builder()
    program = b.program({"y": b.input("x", "float32", size) * b.constant(2.0, "float32")})
    artifact = BACKEND.compile(program, Target("tvm"))
    print(artifact.run({"x": np.ones((1, size), np.float32)})["y"])
    return artifact
# A write beyond the limit fails as one to a full disk does.
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
answer(2)
if hasattr(os, "memfd_create"):
    del os.memfd_create
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    print(len(answer(3).files()), "TMPDIR" in str(seen[0].message))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit")
def test_a_full_disk_ends_no_process():
    """LLVM ends the process where it cannot write an object, to memory or to a folder."""
    ran = subprocess.run(
        [sys.executable, "-c", FULL],
        env=os.environ | {"HBCONV_CACHE": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (0, "[[2. 2.]]\n[[2. 2. 2.]]\n0 True\n"), ran.stderr


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="only Linux has files in memory")
def test_files_in_memory_that_must_not_be_executed_hold_libraries(monkeypatch):
    """As with vm.memfd_noexec=2, which wants the flag 8."""
    real = os.memfd_create

    def create(name, flags):
        if not flags & 8:
            raise PermissionError("executable file in memory")
        return real(name, flags)

    monkeypatch.setattr(os, "memfd_create", create)
    data, function = made([4.0, 2.0, 3.0])
    np.testing.assert_array_equal(answers(load_library(data), function), X * np.float32([4, 2, 3]))


@pytest.mark.skipif(not shutil.which("nm"), reason="nm, which lists symbols, is not installed")
def test_a_library_needs_no_runtime(tmp_path):
    Path(tmp_path, "kernel.so").write_bytes(made([3.0])[0])
    listed = subprocess.run(
        ["nm", "-D", str(tmp_path / "kernel.so")], capture_output=True, check=True, text=True
    ).stdout.splitlines()
    needed = {line.split()[-1] for line in listed if " U " in line}
    assert SYMBOL in {line.split()[-1] for line in listed if " T " in line}
    assert {name.partition("@")[0] for name in needed} <= {"memcpy", "memset"}


def test_kernels_under_names_of_their_own_stand_in_one_library(tmp_path):
    functions = {name: written([i + 2.0], name) for i, name in enumerate(("first", "second"))}
    Path(tmp_path, "both.so").write_bytes(link(*functions.values()))
    loaded = ctypes.CDLL(str(tmp_path / "both.so"))
    for i, (name, function) in enumerate(functions.items()):
        np.testing.assert_array_equal(answers(loaded[name], function), X * np.float32(i + 2))


CALLER = """
#include <stdio.h>
{declared}
{buffers}
int main(void) {{
    static float x[] = {{1, 2, 3, 4, 5, 6}};
    static float y[6];
    struct {{ int64_t rows; void *buffers[32]; }} call = {{2, {{x, y, {names}}}}};
    int32_t code = hbconv_kernel((const hbconv_call *)&call);
    for (int i = 0; i < 6; i++) printf("%g ", y[i]);
    return code;
}}
"""


@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler is installed")
def test_c_calls_a_kernel_as_the_convention_says(tmp_path):
    """The declarations are those of the documentation."""
    text = calling_convention.__doc__
    declared = text[text.index("    #include") : text.index("The function returns 0")]
    function = written([2, 3, 4])
    contents = [table.tobytes() for table in function.tables]
    contents += [bytes(size * np.dtype(kind).itemsize) for kind, size in function.scratch.items()]
    buffers = {f"b{i}": data or b"\0" for i, data in enumerate(contents)}
    aligned = [
        f"_Alignas(64) static unsigned char {name}[] = {{{', '.join(map(str, data))}}};"
        for name, data in buffers.items()
    ]
    source = CALLER.format(declared=declared, buffers="\n".join(aligned), names=", ".join(buffers))
    Path(tmp_path, "caller.c").write_text(source)
    for name, data in make_objects(function.functions, machine()).items():
        Path(tmp_path, f"{name}.o").write_bytes(data)
    objects = [str(path) for path in tmp_path.glob("*.o")]
    program = str(tmp_path / "caller")
    subprocess.run(["cc", str(tmp_path / "caller.c"), *objects, "-lm", "-o", program], check=True)
    ran = subprocess.run([program], check=True, capture_output=True, text=True)
    assert ran.stdout.split() == ["2", "6", "12", "8", "15", "24"]
