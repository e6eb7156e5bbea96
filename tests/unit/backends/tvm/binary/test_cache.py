"""The cache of compiled loops: entries need no TVM, and must be whole and the user's own."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import hbconv
from hbconv.backends.reference import evaluate
from hbconv.backends.tvm import BACKEND
from hbconv.backends.tvm import compile as compiler
from hbconv.backends.tvm.binary import build, cache_key
from hbconv.backends.tvm.binary.cache_key import loop_key
from hbconv.backends.tvm.machine.machine import Machine
from hbconv.backends.tvm.machine.schedule import Schedule
from hbconv.system.cache import Cache
from hbconv.target import Target
from hbconv.tensor import Builder

X = np.arange(12, dtype=np.float32).reshape(4, 3)


def scaled(factor, dtype="float32"):
    b = Builder()
    return b.program({"y": b.input("x", dtype, 3) * b.constant(factor, dtype)})


def check(program):
    np.testing.assert_array_equal(
        BACKEND.compile(program, Target("tvm")).run({"x": X})["y"], evaluate(program, {"x": X})["y"]
    )


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty cache, and nothing in memory."""
    monkeypatch.setenv("HBCONV_CACHE", str(tmp_path))
    forget()
    return tmp_path / "1"


def forget():
    build._build.cache_clear()
    build._object.cache_clear()


def count(monkeypatch):
    """Count what is built."""
    built = []
    real = compiler._build_loop
    monkeypatch.setattr(compiler, "_build_loop", lambda *given: built.append(given) or real(*given))
    return built


def test_a_program_is_built_once(folder, monkeypatch):
    built = count(monkeypatch)
    check(scaled(2.0))
    check(scaled(2.0))
    assert (len(built), len(list(folder.iterdir()))) == (
        1,
        2,
    )  # the loop, and the code of its function
    check(scaled(3.0))
    assert len(built) == 2


def test_programs_of_one_structure_share_the_code_on_disk(folder, monkeypatch):
    check(scaled([2.0, 3.0, 4.0]))
    forget()
    monkeypatch.setattr(build, "_compile", None)
    check(scaled([5.0, 6.0, 7.0]))


def test_the_key_of_a_function_holds_the_code_that_compiles_it(monkeypatch):
    digested = []
    monkeypatch.setattr(cache_key, "_code_digest", digested.append)
    cache_key._function_code.__wrapped__()
    assert list(digested[0]) == ["backends/tvm/binary/code_generation.py"]


def test_another_process_needs_no_compiler(folder):
    check(scaled(2.0))
    code = """
import sys, numpy as np
sys.modules["tvm"] = sys.modules["tvm_ffi"] = None
from hbconv.backends.tvm import BACKEND
from hbconv.target import Target
from hbconv.tensor import Builder
b = Builder()
program = b.program({"y": b.input("x", "float32", 3) * b.constant(2.0, "float32")})
print(BACKEND.compile(program, Target("tvm")).run({"x": np.ones((1, 3), np.float32)})["y"])
"""
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert ran.stdout == "[[2. 2. 2.]]\n"


@pytest.mark.parametrize("damage", [b"", b"not that", None])
def test_a_damaged_entry_is_built_anew(folder, monkeypatch, damage):
    check(scaled(2.0))
    whole = {entry: entry.read_bytes() for entry in folder.iterdir()}
    for entry, data in whole.items():
        middle = len(data) // 2
        entry.write_bytes(
            data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
            if damage is None
            else damage
        )
    built = count(monkeypatch)
    forget()
    check(scaled(2.0))
    assert len(built) == 1
    assert {entry: len(entry.read_bytes()) for entry in folder.iterdir()} == {
        entry: len(data) for entry, data in whole.items()
    }


def test_an_entry_of_other_files_is_built_anew(folder, monkeypatch):
    check(scaled(2.0))
    for entry in list(folder.iterdir()):
        Cache.chosen().write(entry.name, {"kernel.so": b"not a library"})
    built = count(monkeypatch)
    forget()
    check(scaled(2.0))
    assert len(built) == 1


def test_an_entry_under_the_name_of_another_is_none(tmp_path):
    cache = Cache(tmp_path)
    cache.write("one", {"a": b"1"})
    cache.write("other", {"a": b"2"})
    assert (cache.read("one"), cache.read("other")) == ({"a": b"1"}, {"a": b"2"})
    (tmp_path / "one").write_bytes((tmp_path / "other").read_bytes())
    assert cache.read("one") is None


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such modes")
@pytest.mark.parametrize("which", ["entry", "folder"])
def test_what_others_may_write_is_not_run(folder, monkeypatch, which):
    check(scaled(2.0))
    for path in list(folder.iterdir()) if which == "entry" else [folder]:
        path.chmod(0o777)
    built = count(monkeypatch)
    forget()
    check(scaled(2.0))
    assert len(built) == 1


@pytest.mark.parametrize("value", ["0", "", "/proc/nowhere", __file__])
def test_without_a_folder_nothing_is_kept(monkeypatch, value):
    monkeypatch.setenv("HBCONV_CACHE", value)
    check(scaled(2.0))
    assert Cache.chosen().read("any") is None


def test_the_longest_unused_go_first(tmp_path):
    cache = Cache(tmp_path / "cache", limit=4000)
    for position in range(6):
        cache.write(f"{position}", {"a": bytes(880)})
        (cache.folder / f"{position}").touch()
        assert cache.read("0") is not None
    assert {path.name for path in cache.folder.iterdir()} == {"0", "3", "4", "5"}
    cache.write("big", {"a": bytes(1500)})
    assert cache.read("big") is None


def test_an_entry_that_vanishes_while_listed_stops_nothing(tmp_path):
    cache = Cache(tmp_path / "cache", limit=4000)
    cache.write("first", {"a": bytes(880)})
    (cache.folder / "gone").symlink_to(cache.folder / "nowhere")
    for position in range(6):
        cache.write(f"{position}", {"a": bytes(880)})
    assert sum(path.is_file() for path in cache.folder.iterdir()) == 4


def test_a_write_that_fails_leaves_nothing(tmp_path):
    cache = Cache(tmp_path / "cache")
    (tmp_path / "cache" / "taken").mkdir(parents=True)
    cache.write("taken", {"a": bytes(880)})
    assert [path.name for path in cache.folder.iterdir()] == ["taken"]


def test_writers_side_by_side_leave_whole_entries(tmp_path):
    code = """
import sys
from pathlib import Path
from hbconv.system.cache import Cache
cache = Cache(Path(sys.argv[1]), limit=40_000)
for i in range(100):
    found = cache.read(f"{i % 7}")
    assert found in (None, {"a": b"x" * 5000}), found
    cache.write(f"{i % 7}", {"a": b"x" * 5000})
"""
    writers = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "cache")]) for _ in range(2)
    ]
    assert [writer.wait() for writer in writers] == [0, 0]
    assert all(len(path.name) == 1 for path in Path(tmp_path / "cache").iterdir())


def test_keys_tell_programs_schedules_and_machines_apart():
    schedule, machine = Schedule(), Machine()
    keys = {
        loop_key(program, schedule, machine)
        for program in (scaled(2.0), scaled(3.0), scaled(-0.0), scaled(0.0), scaled(2.0, "float64"))
    }
    keys |= {
        loop_key(scaled(2.0), Schedule(tile=128), machine),
        loop_key(scaled(2.0), schedule, Machine("x86-64")),
    }
    assert len(keys) == 7
    assert loop_key(scaled(2.0), schedule, machine) in keys


@pytest.mark.skipif(sys.platform != "linux", reason="the variable is that of Linux")
def test_the_default_folder_is_the_platforms(tmp_path, monkeypatch):
    monkeypatch.delenv("HBCONV_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert Cache.chosen().folder == tmp_path / "hbconv" / "1"


def test_a_user_without_a_home_has_no_cache(monkeypatch):
    def no_home(*_, **__):
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("HBCONV_CACHE", raising=False)
    monkeypatch.setattr("platformdirs.user_cache_path", no_home)
    assert Cache.chosen().folder is None


DIGESTS = """
from hbconv.backends.tvm.binary import cache_key
print(cache_key.__file__, cache_key._loop_code(), cache_key._function_code())
"""


def test_keys_are_those_of_the_sources_in_an_archive(tmp_path):
    with zipfile.ZipFile(tmp_path / "installed.zip", "w") as archive:
        for path in Path(hbconv.__file__).parent.rglob("*.py"):
            archive.write(path, Path("hbconv", path.relative_to(Path(hbconv.__file__).parent)))
    ran = subprocess.run(
        [sys.executable, "-c", DIGESTS],
        env=os.environ | {"PYTHONPATH": str(tmp_path / "installed.zip")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    file, *digests = ran.stdout.split()
    assert file.startswith(str(tmp_path / "installed.zip"))
    assert digests == [cache_key._loop_code(), cache_key._function_code()]


def test_keys_are_those_of_compiled_code_without_sources(tmp_path, monkeypatch):
    """Another time of compilation keeps a key; other code changes it, and so does the version."""
    monkeypatch.setattr(cache_key, "PACKAGE", tmp_path)
    digest = cache_key._loop_code.__wrapped__

    def write(code):
        (tmp_path / "tensor").mkdir(exist_ok=True)
        (tmp_path / "tensor" / "types.pyc").write_bytes(code)
        return digest()

    frozen = digest()
    monkeypatch.setattr(cache_key, "__version__", "another")
    digests = [frozen, digest(), write(bytes(16) + b"code"), write(bytes(16) + b"other")]
    assert len(set(digests)) == 4
    assert write(b"another  time...other") == digests[-1]
