"""Saved models: the same answers after reading, on every backend, without the training library;
damage is told.
"""

from __future__ import annotations

import json
import pickle
import random
import subprocess
import sys
import zipfile
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from fitted import NAMES, available_backends, fit, matrix, rows
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import Ridge
from sklearn.preprocessing import OneHotEncoder
from sources import dense

import hbconv
from hbconv.backends import find_backend
from hbconv.containers import Schema
from hbconv.errors import StoreError
from hbconv.runtime.storage import model_file as store
from hbconv.runtime.storage.codec import decode, encode

BACKENDS = available_backends()


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "model.hbc"
    hbconv.convert(fit("mixed"), "reference", sample=rows("mixed")[:2]).save(path)
    return path


def test_columns_are_written_field_by_field():
    """A vocabulary makes as many columns as it has terms."""
    schema = Schema.table(["a", "\u00e9"]).with_dtypes(["float32", "int16"])
    document, arrays = encode(schema)
    fields = document["shared"][0]["columns"]["columns"]
    assert fields == {
        "name": ["a", "\u00e9"],
        "dtype": ["float32", "int64"],
        "weak_int": [False, True],
    }
    assert decode(document, arrays) == schema
    for name, values in (("dtype", ["float32", 7]), ("weak_int", [0, 1])):
        damaged = json.loads(json.dumps(document))
        damaged["shared"][0]["columns"]["columns"][name] = values
        with pytest.raises(StoreError, match="fields of other types"):
            decode(damaged, arrays)


def test_a_file_grows_with_its_columns_of_texts():
    """Each has a container of its own, and all have one schema, which is written once."""
    sizes = []
    for columns in (20, 200):
        x = np.array([["a"] * columns, ["b"] * columns], dtype=object)
        model = hbconv.convert(OneHotEncoder().fit(x), "reference")
        sizes.append(len(model.to_bytes()))
    assert sizes[1] < 12 * sizes[0]


def same_answers(one, two, x):
    for method in one.methods:
        expected, found = dense(getattr(one, method)(x)), dense(getattr(two, method)(x))
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == expected.dtype


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", NAMES)
def test_a_read_model_answers_the_same(name, backend, tmp_path):
    model = hbconv.convert(fit(name), backend, sample=rows(name)[:2])
    model.save(tmp_path / "m.hbc")
    read = hbconv.load(tmp_path / "m.hbc")
    assert (read.graph.outputs, read.graph.schema, read.target, read.methods) == (
        model.graph.outputs,
        model.graph.schema,
        model.target,
        model.methods,
    )
    assert read.parsed.roots == model.parsed.roots
    assert str(read.explain()) == str(model.explain())
    same_answers(model, read, rows(name))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_model_is_read_for_another_backend(backend, tmp_path):
    model = hbconv.convert(fit("forest"), "reference")
    model.save(tmp_path / "m.hbc")
    read = hbconv.load(tmp_path / "m.hbc", backend=backend)
    assert read.backend == backend
    assert hbconv.verify(fit("forest"), read, matrix()).ok
    assert hbconv.load(tmp_path / "m.hbc", device="cpu").target == model.target


def test_models_are_pickled_as_what_save_writes():
    model = hbconv.convert(fit("mixed"), "reference")
    same_answers(model, pickle.loads(pickle.dumps(model)), rows("mixed"))


def test_equal_models_give_equal_bytes(tmp_path):
    for name in ("a", "b"):
        hbconv.convert(fit("mixed"), "reference").save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_file_holds_data_only(saved):
    with zipfile.ZipFile(saved) as archive:
        assert set(archive.namelist()) == {"manifest.json", "arrays.safetensors"}
        manifest = json.loads(archive.read("manifest.json"))
    assert manifest["format"] == store.FORMAT
    assert manifest["versions"]["hbconv"] == hbconv.__version__


WITHOUT_LIBRARIES = """
import sys
for name in ("sklearn", "lightgbm", "xgboost", "pandas", "scipy", "pyarrow"):
    sys.modules[name] = None
import json, hbconv
model = hbconv.load(sys.argv[1], backend=sys.argv[2])
x = {"age": [1.0, float("nan")], "colour": ["red", None], "fare": [0.5, 2.0]}
print(json.dumps([model.predict(x).tolist(), model.predict_proba(x).tolist()]))
"""


@pytest.mark.parametrize("backend", ["reference", "torch"])
def test_a_model_predicts_where_the_training_library_is_not_installed(saved, backend):
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", WITHOUT_LIBRARIES, str(saved), backend],
        capture_output=True,
        text=True,
        check=True,
    )
    x = {"age": [1.0, float("nan")], "colour": ["red", None], "fare": [0.5, 2.0]}
    model = hbconv.load(saved)
    assert json.loads(run.stdout) == [model.predict(x).tolist(), model.predict_proba(x).tolist()]


def rewrite(path, change):
    """Write the zip again with its members changed."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def edit_manifest(path, change):
    def edit(members):
        manifest = json.loads(members["manifest.json"])
        change(manifest)
        members["manifest.json"] = json.dumps(manifest).encode()

    rewrite(path, edit)


def test_a_file_of_a_newer_format(saved):
    edit_manifest(saved, lambda m: m.update(format=store.FORMAT + 1))
    with pytest.raises(
        hbconv.StoreError,
        match=rf"has format {store.FORMAT + 1}, written by hbconv .*; this hbconv reads up to "
        rf"{store.FORMAT}. Upgrade hbconv",
    ):
        hbconv.load(saved)


def test_a_container_that_this_version_does_not_know(saved):
    edit_manifest(saved, lambda m: m["model"]["shared"][0].update({"is": "Telepathy"}))
    with pytest.raises(
        hbconv.StoreError, match=r"holds a 'Telepathy', which this hbconv does not know. Upgrade it"
    ):
        hbconv.load(saved)


def test_a_container_with_other_fields(saved):
    edit_manifest(saved, lambda m: m["model"]["shared"][0].update({"colour": 1}))
    with pytest.raises(hbconv.StoreError, match="cannot be read: TypeError"):
        hbconv.load(saved)


def test_a_missing_member(saved):
    rewrite(saved, lambda members: members.pop("arrays.safetensors"))
    with pytest.raises(hbconv.StoreError, match=r"arrays.safetensors is missing"):
        hbconv.load(saved)


def test_a_missing_manifest(saved):
    rewrite(saved, lambda members: members.pop("manifest.json"))
    with pytest.raises(hbconv.StoreError, match=r"manifest.json is missing"):
        hbconv.load(saved)


def test_a_changed_member(saved):
    rewrite(
        saved,
        lambda members: members.update(
            {"arrays.safetensors": members["arrays.safetensors"][:-1] + b"\x7f"}
        ),
    )
    with pytest.raises(hbconv.StoreError, match="its checksum differs"):
        hbconv.load(saved)


def test_a_damaged_manifest(saved):
    rewrite(saved, lambda members: members.update({"manifest.json": b"{"}))
    with pytest.raises(hbconv.StoreError, match=r"manifest.json cannot be read"):
        hbconv.load(saved)


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x03\x04 nor this"])
def test_a_file_that_is_no_model(content, tmp_path):
    (tmp_path / "m.hbc").write_bytes(content)
    with pytest.raises(hbconv.StoreError, match=r"not a model file|damaged or truncated"):
        hbconv.load(tmp_path / "m.hbc")


def test_compressed_members_are_refused(saved, tmp_path):
    with (
        zipfile.ZipFile(saved) as source,
        zipfile.ZipFile(tmp_path / "m.hbc", "w", zipfile.ZIP_DEFLATED) as target,
    ):
        for name in source.namelist():
            target.writestr(name, source.read(name))
    with pytest.raises(hbconv.StoreError, match="its members are compressed"):
        hbconv.load(tmp_path / "m.hbc")


def test_truncation_at_any_place_is_told(saved):
    data = saved.read_bytes()
    for size in random.Random(0).sample(range(len(data)), 40):
        with pytest.raises(hbconv.StoreError):
            store.unpack(data[:size])


def test_a_flipped_bit_is_told_or_harmless(saved):
    """No flip crashes; one that is not told leaves the model as it was (a timestamp, say)."""
    data, places = bytearray(saved.read_bytes()), random.Random(1)
    whole = store.unpack(bytes(data))
    for _ in range(150):
        place, bit = places.randrange(len(data)), 1 << places.randrange(8)
        data[place] ^= bit
        try:
            read = store.unpack(bytes(data))
        except hbconv.StoreError:
            pass
        else:
            assert (read.parsed.roots, read.target) == (whole.parsed.roots, whole.target)
        data[place] ^= bit


def test_no_file_is_an_error_of_the_system(tmp_path):
    with pytest.raises(FileNotFoundError):
        hbconv.load(tmp_path / "none.hbc")


def test_a_failed_write_leaves_the_old_file_and_nothing_else(saved, monkeypatch):
    before = saved.read_bytes()

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(store.os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        hbconv.convert(fit("scaler"), "reference").save(saved)
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]


def test_artifacts_of_other_versions_are_compiled_again(tmp_path, monkeypatch):
    path = tmp_path / "m.hbc"
    model = hbconv.convert(fit("linear"), "torchscript", sample=matrix()[:2])
    model.save(path)
    assert store.unpack(path.read_bytes(), trusted=True).programs
    monkeypatch.setattr(store, "_versions", lambda packages: {"hbconv": "other"})
    assert not store.unpack(path.read_bytes(), trusted=True).programs
    same_answers(model, hbconv.load(path), matrix())


@pytest.mark.parametrize(
    "value",
    [None, True, -3, 2**70, 0.1, -0.0, 5e-324, "é\x00", (), ((1,), "a"), {"a": 1.5, 2: (None,)}],
)
def test_plain_values_come_back_as_they_were(value):
    document, arrays = encode(value)
    found = decode(json.loads(json.dumps(document, allow_nan=False)), arrays)
    assert found == value
    assert str(found) == str(value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_floats_that_json_has_not_come_back(value):
    document, arrays = encode((value,))
    assert str(decode(json.loads(json.dumps(document, allow_nan=False)), arrays)) == str((value,))


@pytest.mark.parametrize(
    "data",
    [
        np.array(1.5), np.zeros((0, 3), np.float32), np.array([True, False]),
        np.arange(3, dtype=np.uint8), np.array(["a", "日本"]),
        np.array(["a", 1, None, 2.5, True], dtype=object), np.array([np.nan, -0.0, np.inf]),
        np.array([], dtype="<U4"), np.arange(6).reshape(2, 3).T,
    ],
    ids=lambda a: f"{a.dtype} {a.shape}",
)  # fmt: skip
def test_arrays_come_back_as_they_were(data):
    from hbconv.array import Array

    document, arrays = encode(Array(data))
    found = decode(json.loads(json.dumps(document, allow_nan=False)), arrays)
    assert found == Array(data)


def test_other_objects_are_not_written():
    with pytest.raises(hbconv.StoreError, match="cannot be saved"):
        encode(object())


@pytest.mark.parametrize("backend", ["torchscript", "tvm", "onnx"])
def test_stored_programs_run_only_from_trusted_files(backend, tmp_path, monkeypatch):
    loads = []
    compiler = type(find_backend(backend))
    monkeypatch.setattr(
        compiler,
        "load",
        lambda self, files, types, target: loads.append(sorted(files)),
    )
    model = hbconv.convert(fit("linear"), backend, sample=matrix()[:2])
    model.save(tmp_path / "m.hbc")
    same_answers(model, hbconv.load(tmp_path / "m.hbc"), matrix())
    assert not loads
    same_answers(model, hbconv.load(tmp_path / "m.hbc", trusted=True), matrix())
    assert loads


def test_what_programs_share_is_stored_once(tmp_path):
    """Each method has a program, and all of a forest's hold the same tables."""
    model = hbconv.convert(fit("linear"), "onnx", sample=matrix()[:2])
    stored = store.unpack(model._bytes(), trusted=True)
    (_, dtypes, padding), program = next(iter(stored.programs.items()))
    twice = {((method,), dtypes, padding): program for method in ("predict", "transform")}
    path = tmp_path / "m.hbc"
    path.write_bytes(store.pack(replace(stored, programs=twice)))
    with zipfile.ZipFile(path) as archive:
        assert len(archive.namelist()) == 2 + len(program.files)
    read = store.unpack(path.read_bytes(), trusted=True).programs
    assert {key: one.files for key, one in read.items()} == dict.fromkeys(twice, program.files)


@pytest.mark.parametrize("backend", ["torchscript", "tvm", "onnx"])
def test_a_file_of_some_methods_has_their_programs(backend, tmp_path):
    x = matrix()
    source = RandomForestClassifier(3, max_depth=3, random_state=0).fit(x, x[:, 0] > 0)
    model = hbconv.convert(source, backend, sample=x[:2])
    model.save(tmp_path / "all.hbc")
    for origin in (model, hbconv.load(tmp_path / "all.hbc", trusted=True)):
        origin.export(tmp_path / "one.hbc", methods=["predict_proba"])
        assert [key[0] for key in programs_in(tmp_path / "one.hbc")] == [("predict_proba",)]
        read = hbconv.load(tmp_path / "one.hbc", trusted=True)
        with mock.patch.object(type(find_backend(backend)), "emit", side_effect=AssertionError):
            np.testing.assert_array_equal(read.predict_proba(x), model.predict_proba(x))


def test_what_a_bound_call_has_compiled_is_saved(tmp_path):
    x = matrix()
    model = hbconv.convert(fit("linear"), "onnx")
    model.bind("predict", dtype="float32")
    model.save(tmp_path / "m.hbc")
    ((methods, dtypes, _),) = programs_in(tmp_path / "m.hbc")
    assert (methods, {*dtypes}) == (("predict",), {"float32"})
    read = hbconv.load(tmp_path / "m.hbc", trusted=True)
    read.bind("predict", dtype="float32")(x.astype(np.float32))
    read.save(tmp_path / "again.hbc")
    assert (tmp_path / "again.hbc").read_bytes() == (tmp_path / "m.hbc").read_bytes()


def programs_in(path):
    return store.unpack(path.read_bytes(), trusted=True).programs


def test_an_untrusted_file_answers_as_its_graph_says(tmp_path):
    """The author may have stored another program than that of the graph, which ``explain``
    shows.
    """
    path = tmp_path / "m.hbc"
    honest, other = (
        hbconv.convert(Ridge().fit(matrix(), matrix()[:, 0] * k), "onnx", sample=matrix()[:2])
        for k in (1, 100)
    )
    stored = store.unpack(honest._bytes(), trusted=True)
    programs = store.unpack(other._bytes(), trusted=True).programs
    path.write_bytes(store.pack(replace(stored, programs=programs)))
    same_answers(hbconv.load(path, trusted=True), honest, matrix())  # of another graph: not used
    forged = {
        key: replace(program, digest=stored.programs[key].digest)
        for key, program in programs.items()
    }
    path.write_bytes(store.pack(replace(stored, programs=forged)))
    same_answers(hbconv.load(path), honest, matrix())
    same_answers(hbconv.load(path, trusted=True), other, matrix())


LARGE = 1 << 14
"""Bytes of a member that holds the nodes of a forest."""


def test_loops_and_methods_of_a_forest_share_its_nodes(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3000, 6))
    y = x[:, 0] * x[:, 1] + rng.standard_normal(3000) > 0
    forest = RandomForestClassifier(8, random_state=0).fit(x, y)
    model = hbconv.convert(forest, "tvm", sample=x[:2])
    model.save(tmp_path / "m.hbc")
    with zipfile.ZipFile(tmp_path / "m.hbc") as archive:
        sizes = {i.filename: i.file_size for i in archive.infolist() if "constant" in i.filename}
        patches = json.loads(archive.read("manifest.json"))["patches"]
    # Those that sums number by their values, each for many rows and few; of those of ``apply``
    # what differs.
    (nodes,) = [name for name, size in sizes.items() if size > LARGE]
    (patched,) = [name for name, (source, _) in patches.items() if source == nodes]
    assert sizes[patched] < sizes[nodes] / 2
    read = hbconv.load(tmp_path / "m.hbc", trusted=True)
    for n in (1, 3, 100):
        same_answers(model, read, x[:n])
        np.testing.assert_array_equal(read.predict_proba(x[:n]), forest.predict_proba(x[:n]))
        np.testing.assert_array_equal(read.apply(x[:n]), forest.apply(x[:n]))
