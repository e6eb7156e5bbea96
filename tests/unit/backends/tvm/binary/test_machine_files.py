"""Files of several machines: each has its kernels, and the machine that loads takes its own."""

from __future__ import annotations

import io
import json
import struct
import sys
import warnings
import zipfile
from copy import deepcopy

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMRegressor
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

import hbconv
from hbconv.backends.tvm.binary import machine_files
from hbconv.backends.tvm.binary.machine_files import DESCRIPTION, choose_files, join_files
from hbconv.backends.tvm.compile import compile_loop
from hbconv.backends.tvm.machine.machine import Machine
from hbconv.backends.tvm.machine.schedule import FEW
from hbconv.errors import BackendError, OptionError
from hbconv.runtime.storage import model_file as store
from hbconv.runtime.storage.narrow import inflate_members
from hbconv.tensor import Builder

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="machines= is for Linux")

OWN = Machine.host().architecture
OTHER = {"x86-64": "aarch64", "aarch64": "x86-64"}.get(OWN, "x86-64")
ELF_NUMBERS = {"x86-64": 62, "aarch64": 183}
X = np.random.default_rng(0).normal(size=(300, 6))


@pytest.fixture(scope="module")
def source():
    return RandomForestClassifier(20, random_state=0).fit(X, X[:, 0] * X[:, 1] > 0)


@pytest.fixture(scope="module")
def data(source):
    """The bytes of a file for this architecture and another."""
    return hbconv.convert(source, "tvm", sample=X[:3], machines=[OWN, OTHER]).to_bytes()


@pytest.fixture
def no_compiler(monkeypatch):
    """Take TVM and the cache away, so that stored programs alone answer."""
    monkeypatch.setenv("HBCONV_CACHE", "0")
    for name in ("tvm", "tvm_ffi", "torch"):
        monkeypatch.setitem(sys.modules, name, None)


def written(tmp_path, data):
    (tmp_path / "model.hbc").write_bytes(data)
    return tmp_path / "model.hbc"


def members(data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        found = {name: archive.read(name) for name in archive.namelist()}
    return inflate_members(found, json.loads(found["manifest.json"])["lengths"], len(data))


def test_each_machine_has_libraries_of_its_architecture(data):
    libraries = {n: d for n, d in members(data).items() if n.endswith("kernel.so")}
    for level in (OWN, OTHER):
        found = [d for n, d in libraries.items() if f"/{level}@" in n]
        assert found
        assert {struct.unpack_from("<H", d, 18)[0] for d in found} == {ELF_NUMBERS[level]}


@pytest.mark.usefixtures("no_compiler")
def test_a_machine_that_loads_takes_its_own(source, data, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = hbconv.load(written(tmp_path, data), trusted=True)
        for rows in (X, X[:1]):
            np.testing.assert_array_equal(model.predict_proba(rows), source.predict_proba(rows))
    assert model.programs.backend == "tvm"


@pytest.mark.usefixtures("no_compiler")
def test_a_loaded_model_is_saved_with_all_its_machines(data, tmp_path):
    model = hbconv.load(written(tmp_path, data), trusted=True)
    model.predict(X)
    assert members(model.to_bytes()).keys() == members(data).keys()
    assert members(deepcopy(model).to_bytes()) == members(model.to_bytes())


def test_the_manifest_of_another_architecture_does_not_matter(data, monkeypatch):
    monkeypatch.setattr(store.platform, "machine", lambda: OTHER)
    assert store.unpack(data, trusted=True).programs


def test_a_file_for_other_machines_is_compiled_anew(source, tmp_path):
    model = hbconv.convert(source, "tvm", sample=X[:3], machines=OTHER)
    np.testing.assert_array_equal(model.predict_proba(X), source.predict_proba(X))
    loaded = hbconv.load(written(tmp_path, model.to_bytes()), trusted=True)
    np.testing.assert_array_equal(loaded.predict_proba(X), source.predict_proba(X))
    assert loaded.programs.backend == "tvm"


@pytest.fixture
def foreign(source, tmp_path):
    model = hbconv.convert(source, "tvm", sample=X[:3], machines=OTHER)
    return written(tmp_path, model.to_bytes())


def test_a_file_for_other_machines_falls_back_with_one_line(source, foreign, request):
    request.getfixturevalue("no_compiler")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model = hbconv.load(foreign, trusted=True)
        np.testing.assert_array_equal(model.predict(X), source.predict(X))
    assert [str(w.message).count("Until then backend 'reference'") for w in told] == [1]


@pytest.mark.skipif(Machine.host().level not in ("x86-64-v3", "x86-64-v4"), reason="needs levels")
@pytest.mark.parametrize(("limit", "level"), [("", "x86-64-v3"), ("x86-64", "x86-64")])
def test_the_best_machine_that_fits_is_taken(source, limit, level, monkeypatch):
    model = hbconv.convert(source, "tvm", machines=["x86-64", "aarch64", "x86-64-v3"])
    model.predict(X)
    ((_, stored),) = model.programs.stored().items()
    monkeypatch.setenv("HBCONV_MACHINE", limit)
    assert json.loads(choose_files(stored.files)[DESCRIPTION])["level"] == level


def test_files_of_another_format_or_system_are_not_taken(monkeypatch):
    host = {"format": 10, "system": "linux", "level": OWN, "extras": []}
    files = join_files({OWN: {DESCRIPTION: json.dumps(host).encode()}})
    assert choose_files(files)
    monkeypatch.setattr(machine_files, "FORMAT", 11)
    assert choose_files(files) is None


def test_equal_tables_are_stored_once(source):
    large = RandomForestClassifier(150, random_state=0).fit(X, source.predict(X))
    one = hbconv.convert(large, "tvm", sample=X, machines=OWN).to_bytes()
    both = members(hbconv.convert(large, "tvm", sample=X, machines=[OWN, OTHER]).to_bytes())
    tables = [data for name, data in both.items() if "constant.safetensors" in name]
    assert tables
    assert len(set(tables)) == len(tables)
    of_one = [n for n in members(one) if "batch" in n and "constant.safetensors" in n]
    assert len([n for n in both if "batch" in n and "constant.safetensors" in n]) == len(of_one)


def test_neighbours_of_ties_are_stored_for_each_machine(tmp_path, request):
    rows = np.round(X[:60])
    source = KNeighborsClassifier(3).fit(rows, rows[:, 0] > 0)
    model = hbconv.convert(source, "tvm", sample=rows, machines=[OWN, OTHER])
    path = written(tmp_path, model.to_bytes())
    request.getfixturevalue("no_compiler")
    loaded = hbconv.load(path, trusted=True)
    np.testing.assert_array_equal(loaded.predict(rows), source.predict(rows))


@pytest.mark.parametrize("methods", [None, ["predict"]])
def test_programs_for_arrays_of_codes_are_stored_too(methods, tmp_path, request):
    table = pd.DataFrame(X, columns=list("abcdef")).assign(a=pd.Categorical(np.arange(300) % 3))
    codes = table.assign(a=table.a.cat.codes).to_numpy(np.float64)
    source = LGBMRegressor(n_estimators=3, verbose=-1).fit(table, X[:, 0])
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "Until then")
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        model = hbconv.convert(source, "tvm", sample=table)
        model.bind("predict")
        model.compile(codes[:3])
        model.export(tmp_path / "model.hbc", methods=methods)
        request.getfixturevalue("no_compiler")
        for _ in range(2):
            loaded = hbconv.load(tmp_path / "model.hbc", trusted=True)
            for rows in (table, codes):
                np.testing.assert_array_equal(loaded.predict(rows), model.predict(rows))
            loaded.save(tmp_path / "model.hbc")


def test_a_kernel_for_another_machine_is_stored_but_not_run():
    b = Builder()
    program = b.program({"y": b.input("x", "float32", 3) * b.constant(2.0, "float32")})
    loop = compile_loop(program, FEW, Machine(OTHER))
    x = np.ones((2, 3), np.float32)
    with pytest.raises(BackendError, match="another machine"):
        loop.run(2, [x, x.copy()])


@pytest.mark.parametrize("machines", [["x86-64-v9"], "x86_64", ["generic"], [3]])
def test_unknown_machines_are_refused_by_a_list(source, machines):
    with pytest.raises(OptionError, match="Known: aarch64, x86-64, x86-64-v3, x86-64-v4"):
        hbconv.convert(source, "tvm", machines=machines)
    with pytest.raises(OptionError, match="Unknown machine"):
        hbconv.convert(source, "tvm").for_target(machines=machines)


def test_backends_without_kernels_refuse_machines(source, monkeypatch):
    monkeypatch.delenv("HBCONV_TORCH_OPERATORS", raising=False)
    for backend, options in (("onnx", {}), ("reference", {}), ("torch", {"native": False})):
        with pytest.raises(OptionError, match="is for kernels of backend 'tvm' on the CPU"):
            hbconv.convert(source, backend, machines=[OTHER], **options)
    converted = hbconv.convert(source, "torch", machines=[OTHER])
    assert converted.programs.target.machines == (OTHER,)


def test_exports_of_a_model_for_machines_take_no_notice(tmp_path):
    model = hbconv.convert(LinearRegression().fit(X, X[:, 0]), "tvm", machines=[OTHER])
    model.export(tmp_path / "model.onnx")
    onnx = model.for_target(backend="onnx")
    assert onnx.programs.target.machines == ()
    onnx.predict(X)
    stored = store.unpack(onnx.to_bytes(), trusted=True)
    assert stored.programs


def test_other_systems_refuse_machines(source, monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(OptionError, match="is for Linux"):
        hbconv.convert(source, "tvm", machines=["aarch64"])


@pytest.mark.parametrize("machines", [None, 3])
def test_what_is_no_sequence_is_named(source, machines):
    with pytest.raises(OptionError, match="is no sequence of names"):
        hbconv.convert(source, "tvm", machines=machines)


def test_a_file_without_programs_says_so(source):
    model = hbconv.convert(source, "tvm", machines=[OTHER])
    with pytest.warns(UserWarning, match="Nothing is compiled yet.*machines="):
        model.to_bytes()


# Programs that this machine does not run are written again.


@pytest.fixture
def elsewhere(monkeypatch, tmp_path):
    """Save as a machine does that runs nothing of a file, and load what it has written."""

    def save_again(data, change=lambda model: None):
        monkeypatch.setenv("HBCONV_MACHINE", "x86-64")
        model = hbconv.load(written(tmp_path, data), trusted=True)
        assert model.compiled == ()
        change(model)
        again = model.to_bytes()
        monkeypatch.delenv("HBCONV_MACHINE")
        return again

    return save_again


needs_levels = pytest.mark.skipif(
    Machine.host().level not in ("x86-64-v3", "x86-64-v4"), reason="needs levels"
)


def programs_in(data):
    return {name: held for name, held in members(data).items() if name.startswith("programs/")}


def named(data):
    """Return the method of each program, and the dtype of its first column."""
    manifest = json.loads(members(data)["manifest.json"])
    return {(*program["methods"], program["dtypes"][0]) for program in manifest["programs"]}


@needs_levels
@pytest.mark.parametrize("precision", ["exact", "fast"])
@pytest.mark.parametrize("machines", [(), ("x86-64-v3",), ("x86-64-v3", "aarch64")])
def test_programs_of_other_machines_are_saved_again(
    source, elsewhere, machines, precision, request, tmp_path
):
    model = hbconv.convert(source, "tvm", sample=X[:3], machines=machines, precision=precision)
    data = model.to_bytes()
    again = elsewhere(data)
    assert programs_in(again) == programs_in(data)
    request.getfixturevalue("no_compiler")
    loaded = hbconv.load(written(tmp_path, again), trusted=True)
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert loaded.programs.backend == "tvm"


@needs_levels
def test_a_substitute_saves_what_the_file_is_for(source, elsewhere, request):
    data = hbconv.convert(source, "tvm", sample=X[:3], machines=["x86-64-v3"]).to_bytes()
    request.getfixturevalue("no_compiler")

    def answer(model):
        assert model.backend == "reference"
        np.testing.assert_array_equal(model.predict(X), source.predict(X))

    with pytest.warns(UserWarning, match="Until then backend 'reference'"):
        again = elsewhere(data, answer)
    assert programs_in(again) == programs_in(data)
    assert store.unpack(again).target == store.unpack(data).target


@needs_levels
def test_programs_of_here_are_saved_beside_those_of_other_machines(source, elsewhere):
    data = hbconv.convert(source, "tvm", sample=X[:3], machines=["x86-64-v3"]).to_bytes()
    again = elsewhere(data, lambda model: model.predict(X.astype(np.float32)))
    assert named(again) == named(data) | {("predict", "float32")}
    assert programs_in(data).items() <= programs_in(again).items()


@needs_levels
def test_what_is_compiled_here_takes_the_place_of_what_is_for_other_machines(source, elsewhere):
    data = hbconv.convert(source, "tvm", sample=X[:3]).to_bytes()
    again = elsewhere(data, lambda model: model.predict(X))
    assert named(again) == named(data)
    levels = {
        json.loads(held)["level"]
        for name, held in programs_in(again).items()
        if name.endswith(DESCRIPTION)
    }
    assert levels == {"x86-64", Machine.host().level}


@needs_levels
def test_another_backend_leaves_the_programs_of_the_file_behind(source, elsewhere):
    data = hbconv.convert(source, "tvm", sample=X[:3]).to_bytes()
    assert programs_in(elsewhere(data, lambda model: model.to("cpu"))) == programs_in(data)
    assert programs_in(hbconv.model._from_bytes(data, "onnx", trusted=True).to_bytes()) == {}


@needs_levels
def test_the_inverse_keeps_its_programs(elsewhere):
    source = StandardScaler().fit(X)
    model = hbconv.convert(source, "tvm", sample=X[:3])
    model.inverse.compile(X[:3])
    data = model.to_bytes()
    assert ("inverse_transform", "float64") in named(data)
    assert programs_in(elsewhere(data)) == programs_in(data)
    again = elsewhere(data, lambda model: model.inverse_transform(X))
    assert named(again) == named(data)
