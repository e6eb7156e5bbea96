"""The tile compiler as a backend: rows, threads, memory order, machines, errors."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from forests import random_forest
from sklearn.preprocessing import StandardScaler

import hbconv
from hbconv.backends import find_backend
from hbconv.backends.reference import evaluate
from hbconv.backends.tvm import BACKEND
from hbconv.backends.tvm import compile as compiler
from hbconv.backends.tvm.binary import build
from hbconv.backends.tvm.binary.artifact import unpack
from hbconv.backends.tvm.binary.loop import scratch_bytes
from hbconv.backends.tvm.machine import machine
from hbconv.backends.tvm.machine.schedule import TALL_TILES, Schedule
from hbconv.backends.tvm.tir.memory import Scratch
from hbconv.errors import BackendError, MissingPackageError, StoreError
from hbconv.target import Target
from hbconv.tensor import Builder


def affine():
    """A small program of several dtypes."""
    b = Builder()
    x = b.input("x", "float32", 3)
    y = b.cast(x * b.constant([1.5, 0.1, 3.0], "float32") + b.constant(0.7, "float32"), "float64")
    return b.program(
        {"y": y, "sum": b.reduce("ordered_sum", y), "low": x < b.constant(0.0, "float32")}
    )


@pytest.fixture(scope="module")
def artifact():
    return BACKEND.compile(affine(), Target("tvm"))


def rows_of(n, seed=0):
    return np.random.default_rng(seed).standard_normal((n, 3)).astype(np.float32)


def test_finding_the_backend_does_not_import_tvm():
    code = "import sys; from hbconv.backends import find_backend; find_backend('tvm'); assert not {'tvm', 'tvm_ffi'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_compiling_is_quiet(capfd):
    BACKEND.compile(affine(), Target("tvm")).run({"x": rows_of(3)})
    assert capfd.readouterr() == ("", "")


def test_scratch_stays_within_the_memory_of_the_target():
    """A tile of 64 rows of a million codes would take half a gigabyte."""
    b = Builder()
    x = b.input("x", "float32", 300)
    program = b.program({"y": b.op("topk", b.op("exp", x) * x, k=200)})
    whole, few = (BACKEND.compile(program, Target("tvm", memory=m)) for m in (1 << 30, 120_000))
    sizes = [scratch_bytes(artifact.batch.code.scratch) for artifact in (whole, few)]
    assert sizes[1] <= 60_000 < sizes[0]
    rows = np.random.default_rng(0).normal(size=(50, 300)).astype(np.float32)
    np.testing.assert_array_equal(*(a.run({"x": rows})["y"] for a in (whole, few)))
    with pytest.raises(BackendError, match=r"Give convert\(\.\.\., memory=\) more"):
        BACKEND.compile(program, Target("tvm", memory=4_000))


def test_missing_package_is_named(monkeypatch):
    def build(*_):
        raise ModuleNotFoundError(name="tvm")

    monkeypatch.setenv("HBCONV_CACHE", "0")
    monkeypatch.setattr(compiler, "_build_loop", build)
    monkeypatch.setattr(type(BACKEND), "needs", ("tvm_that_is_not_there",))
    with pytest.raises(MissingPackageError, match=r"hbconv\[tvm\]"):
        BACKEND.compile(affine(), Target("tvm"))


def test_many_threads_call_one_artifact(artifact):
    inputs = [rows_of(n, n) for n in (1, 100, 257, 5000)] * 8
    wanted = [evaluate(affine(), {"x": x}) for x in inputs]
    with ThreadPoolExecutor(8) as pool:
        for got, want in zip(
            pool.map(lambda x: artifact.run({"x": x}), inputs), wanted, strict=True
        ):
            for name in want:
                np.testing.assert_array_equal(got[name], want[name])


@pytest.mark.parametrize("rows", [0, 1, 1023, 1024, 5000])
def test_one_call_uses_many_threads(rows):
    parallel = BACKEND.compile(affine(), Target("tvm", threads=3))
    got, want = parallel.run({"x": rows_of(rows)}), evaluate(affine(), {"x": rows_of(rows)})
    for name in want:
        np.testing.assert_array_equal(got[name], want[name])


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("rows", [0, 1, 200, 100_001])
def test_inputs_of_any_memory_order(rows, threads):
    """100,001 rows are copied in three parts where they do not lie as the kernel reads them."""
    parallel = BACKEND.compile(affine(), Target("tvm", threads=threads))
    x = rows_of(rows)
    locked = x.copy()
    locked.setflags(write=False)
    shifted = np.frombuffer(b"\0" * 3 + x.tobytes(), np.uint8)[3:].view(np.float32).reshape(x.shape)
    wide = np.concatenate([x, x], axis=1)
    for given in (
        locked,
        np.asfortranarray(x),
        shifted,
        wide[:, :3],
        np.repeat(x, 2, axis=0)[::2],
        x[::-1].copy()[::-1],
    ):
        np.testing.assert_array_equal(
            parallel.run({"x": given})["y"], evaluate(affine(), {"x": x})["y"]
        )


def test_outputs_are_fresh(artifact):
    first = artifact.run({"x": rows_of(10)})["y"]
    kept = first.copy()
    artifact.run({"x": rows_of(10, 1)})
    np.testing.assert_array_equal(first, kept)
    assert first.flags.writeable


@pytest.mark.parametrize(
    "x", [np.zeros((4, 2), np.float32), np.zeros((4, 3)), np.zeros(3, np.float32)]
)
def test_inputs_that_do_not_fit_are_refused(artifact, x):
    with pytest.raises(BackendError, match="Input 'x'"):
        artifact.run({"x": x})


def test_a_stored_kernel_runs_without_compiling(artifact, monkeypatch):
    files = artifact.files()
    assert files.keys() == {
        "batch.kernel.so",
        "batch.tables.safetensors",
        "batch.loop.json",
        "kernel.json",
    }
    monkeypatch.setattr(type(BACKEND), "compile", None)
    read = BACKEND.load(files, affine().types, Target("tvm"))
    for name, want in artifact.run({"x": rows_of(300)}).items():
        np.testing.assert_array_equal(read.run({"x": rows_of(300)})[name], want)
    assert read.files() == files


def test_storing_is_reproducible(monkeypatch):
    monkeypatch.setenv("HBCONV_CACHE", "0")
    build._build.cache_clear()
    assert (
        BACKEND.compile(affine(), Target("tvm")).files()
        == BACKEND.compile(affine(), Target("tvm")).files()
    )


def test_a_stored_kernel_needs_no_tvm(artifact, tmp_path):
    for name, data in artifact.files().items():
        (tmp_path / name).write_bytes(data)
    code = """
import sys, pathlib, numpy as np
sys.modules["tvm"] = sys.modules["tvm_ffi"] = None
from hbconv.backends.tvm.binary.artifact import unpack
from hbconv.backends.tvm.binary.loop import scratch_bytes
files = {p.name: p.read_bytes() for p in pathlib.Path(sys.argv[1]).iterdir()}
print(unpack(files, 1).run({"x": np.zeros((2, 3), np.float32)})["sum"])
"""
    ran = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], check=True, capture_output=True, text=True
    )
    assert ran.stdout.strip() == str(artifact.run({"x": np.zeros((2, 3), np.float32)})["sum"])


@pytest.mark.parametrize(
    "facts",
    [
        {"format": 0},
        {"system": "plan9"},
        {"level": "x86-64-v9"},
        {"level": "aarch64"},
        {"extras": ["amx"]},
    ],
)
def test_a_kernel_for_another_machine_is_not_run(artifact, facts):
    files = artifact.files()
    files["kernel.json"] = json.dumps(json.loads(files["kernel.json"]) | facts).encode()
    assert unpack(files, 1) is None
    assert BACKEND.load(files, affine().types, Target("tvm")) is None


def test_a_damaged_kernel_is_told(artifact):
    for name in artifact.files():
        with pytest.raises(StoreError, match="cannot be read"):
            unpack(artifact.files() | {name: b"not that"}, 1)


def test_without_a_library_a_file_holds_no_kernel_and_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv("HBCONV_CACHE", "0")
    monkeypatch.setattr(build, "make_libraries", lambda _: ())
    monkeypatch.setattr(build, "_build", build._build.__wrapped__)  # it keeps libraries
    x = rows_of(9)
    model = hbconv.convert(StandardScaler().fit(x), "tvm")
    scaled = model.transform(x)
    with pytest.warns(UserWarning, match="cannot make a library .* set TMPDIR"):
        model.save(tmp_path / "model.hbc")
    assert zipfile.ZipFile(tmp_path / "model.hbc").namelist() == [
        "manifest.json",
        "arrays.safetensors",
    ]
    np.testing.assert_array_equal(
        hbconv.load(tmp_path / "model.hbc", trusted=True).transform(x), scaled
    )


def test_programs_of_one_structure_share_a_kernel():
    def scaled(factor):
        b = Builder()
        return b.program({"y": b.input("x", "float32", 3) * b.constant(factor, "float32")})

    BACKEND.compile(scaled(2.0), Target("tvm"))
    compiled = build._build.cache_info().misses
    second = BACKEND.compile(scaled(3.0), Target("tvm"))
    assert build._build.cache_info().misses == compiled
    np.testing.assert_array_equal(second.run({"x": rows_of(4)})["y"], rows_of(4) * np.float32(3))


def test_a_program_without_inputs_is_refused():
    b = Builder()
    with pytest.raises(BackendError, match="no input"):
        BACKEND.emit(b.program({}), Target("tvm"))


def test_schedule_fits_tiles_to_the_cache():
    def construct(width):
        b = Builder()
        x = b.input("x", "float64", width)
        return Schedule.construct(b.program({"y": x + x}), machine.Machine())

    assert construct(10).tile == 256
    assert construct(100).tile == 128
    assert construct(5000).tile == 32


def test_tiles_count_only_values_that_are_alive_at_once():
    b = Builder()
    x = b.input("x", "float64", 100)
    for _ in range(20):
        x = x + x
    program = b.program({"y": x})
    assert Schedule.construct(program, machine.Machine()).tile == 128


def test_large_forests_have_taller_tiles():
    def tile(n_trees, strategy):
        b = Builder()
        forest = random_forest(np.random.default_rng(0), n_trees=n_trees, max_depth=6)
        scores = b.op(
            "tree_scores",
            b.input("x", "float32", forest.n_features),
            forest=forest,
            strategy=strategy,
        )
        return Schedule.construct(b.program({"y": scores}), machine.Machine(level2=1 << 16)).tile

    assert tile(500, "tree_traversal") > tile(10, "tree_traversal")
    assert tile(500, "select") == TALL_TILES[-1] > tile(10, "select")


def test_leaves_of_many_trees_are_found_on_planes():
    b = Builder()
    forest = random_forest(np.random.default_rng(0), n_trees=900, max_depth=3)
    leaves = b.op(
        "tree_leaves", b.input("x", "float32", forest.n_features), forest=forest, strategy="select"
    )
    assert Schedule.construct(b.program({"y": leaves}), machine.Machine()).tile == 256


def test_wide_programs_run():
    b = Builder()
    rng = np.random.default_rng(0)
    x = b.input("x", "float64", 2000)
    program = b.program({"y": b.matmul(x, b.constant(rng.integers(-3, 3, (2000, 100)), "float64"))})
    rows = rng.integers(-9, 9, (70, 2000)).astype(np.float64)
    np.testing.assert_array_equal(
        BACKEND.compile(program, Target("tvm")).run({"x": rows})["y"],
        evaluate(program, {"x": rows})["y"],
    )


def test_scratch_is_reused():
    scratch = Scratch()
    a, b, c = (scratch.take(n) for n in (4, 2, 3))
    scratch.give(b, 2)
    scratch.give(a, 4)
    assert scratch.take(6) == a
    assert (scratch.take(1), scratch.size) == (9, 10)
    scratch.give(c, 3)
    assert scratch.take(2) == c


def test_long_chains_take_the_scratch_of_a_few_values():
    b = Builder()
    x = b.input("x", "float32", 4)
    for i in range(50):
        x = x * b.constant([i], "float32")
    chained = compiler.compile_loop(b.program({"y": x}), Schedule(tile=64), machine.Machine.host())
    assert chained.code.scratch["float32"] == 2 * 4 * 64


@pytest.mark.parametrize(
    ("flags", "level"),
    [(set(), "x86-64"), (machine.LEVELS["x86-64-v3"], "x86-64-v3"), (machine.LEVELS["x86-64-v3"] - {"fma"}, "x86-64"),
     (machine.LEVELS["x86-64-v4"], "x86-64-v4")],
)  # fmt: skip
def test_a_level_needs_every_flag(monkeypatch, flags, level):
    monkeypatch.setattr(machine, "find_flags", lambda: frozenset(flags))
    monkeypatch.setattr(machine.platform, "machine", lambda: "x86_64")
    assert machine._detect.__wrapped__().level == level


def test_an_architecture_without_levels_is_generic(monkeypatch):
    monkeypatch.setattr(machine, "find_flags", lambda: frozenset(machine.LEVELS["x86-64-v4"]))
    for name, level in (("arm64", "aarch64"), ("riscv64", "generic")):
        monkeypatch.setattr(machine.platform, "machine", lambda name=name: name)
        assert (machine._detect.__wrapped__().level, machine._detect.__wrapped__().vector) == (
            level,
            16,
        )


def test_backend_is_found_by_name():
    assert find_backend("tvm") is BACKEND
