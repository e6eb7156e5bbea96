"""Files whose checksums are right and whose values are not: ``load`` refuses them by name, in
little time and memory.
"""

from __future__ import annotations

import hashlib
import json
import resource
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from fitted import fit, matrix
from model_parts import read_parts
from safetensors.numpy import save

import hbconv
from hbconv.array import Array
from hbconv.containers import (
    Add,
    Affine,
    Blocks,
    Check,
    Columns,
    Compare,
    Concat,
    Cube,
    Entries,
    Graph,
    Held,
    IsNonFinite,
    Labels,
    Map,
    MatrixList,
    Node,
    Output,
    Paths,
    Schema,
    Select,
)
from hbconv.containers.extractors import Buckets, Extractor, Terms, Texts, Tokens
from hbconv.runtime.storage import model_file as store
from hbconv.target import Target

X = Columns.of(Schema.matrix(2))


@pytest.fixture
def forest(tmp_path):
    path = tmp_path / "forest.hbc"
    hbconv.convert(fit("forest"), "reference").save(path)
    return path


def forge(path, change):
    """Write the file again, its manifest and arrays changed and its checksums right."""
    manifest, arrays = read_parts(path.read_bytes())
    change(manifest, arrays)
    data = save(arrays)
    manifest["sha256"] = {"arrays.safetensors": hashlib.sha256(data).hexdigest()}
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("manifest.json", json.dumps(manifest))
        archive.writestr("arrays.safetensors", data)


def entry(manifest, kind):
    """First value of a class in the manifest."""
    return next(e for e in manifest["model"]["shared"] if e["is"] == kind)


def field(kind, name, value):
    return lambda manifest, _: entry(manifest, kind).update({name: value})


def numbers(kind, name, value):
    """Write over an array that a field refers to."""
    return lambda manifest, arrays: arrays[entry(manifest, kind)[name]["array"]].__setitem__(
        slice(None), value
    )


def root(name, value):
    return lambda manifest, _: dict(manifest["model"]["root"]["map"])[name].update(value)


NESTED = json.loads("[" * 900 + "]" * 900)

HOSTILE = {
    "roots beyond the forest": (numbers("Forest", "roots", 10**6), "a child does not exist"),
    "a cycle": (numbers("Forest", "left", 0), "reached more than once"),
    "a feature that is not there": (numbers("Forest", "feature", 6), "a test reads a feature"),
    "more features than columns": (field("Forest", "n_features", 7), "over 7 columns"),
    "an array for a number": (
        field("Forest", "n_features", {"array": "a0"}),
        "n_features is a Array",
    ),
    "a number for an array": (field("Forest", "left", 3), "left is a int"),
    "an int for a bool": (field("Forest", "strict", 1), "strict is a int"),
    "a list": (field("Forest", "strict", [1]), "holds a list"),
    "an unknown kind of value": (
        field("Forest", "strict", {"pickle": "gASVKAAAAA=="}),
        "a value of kind 'pickle'",
    ),
    "an array that is not there": (
        field("Forest", "left", {"array": "a999"}),
        "cannot be read: KeyError",
    ),
    "a node that is not there": (
        field("TreeEnsemble", "x", {"shared": 999}),
        "cannot be read: IndexError",
    ),
    "a node counted from the end": (
        field("TreeEnsemble", "x", {"shared": -1}),
        "a value of kind 'shared'",
    ),
    "a forest for a node": (
        lambda m, _: entry(m, "TreeEnsemble").update(x=entry(m, "TreeEnsemble")["forest"]),
        "x is a Forest",
    ),
    "a column that is not there": (
        numbers("Columns", "indices", -1),
        "a column that does not exist",
    ),
    "text of a gigabyte": (
        field(
            "Columns",
            "indices",
            {"text": {"tuple": ["a"] * 9}, "dtype": "<U99999999", "shape": [9]},
        ),
        "holds text of dtype",
    ),
    "another dtype of columns": (field("Columns", "dtype", "complex128"), "dtype 'complex128'"),
    "no strategy": (field("TreeEnsemble", "strategy", None), "strategy is a NoneType"),
    "a million threads": (root("target", {"threads": 1_000_000}), "asks for 1000000 threads"),
    "dtypes of other columns": (root("dtypes", {"tuple": ["float32"]}), "dtypes of other columns"),
    "shared tuples": (lambda m, _: m["model"]["shared"].append({"tuple": [1]}), "shares a tuple"),
    "a manifest nested deeply": (lambda m, _: m["model"].update(root=NESTED), "holds a list"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_values_are_refused_by_name(what, forest):
    change, says = HOSTILE[what]
    forge(forest, change)
    with pytest.raises(hbconv.StoreError, match=says):
        hbconv.load(forest)


@pytest.mark.parametrize(
    "manifest",
    [
        "[" * 100_000,
        '{"format":' * 5000,
        "1" * 5000,
        '{"format": 1e999, "versions": {}}',
        '{"format": NaN}',
        "null",
        "[]",
        '"a"',
    ],
)
def test_manifests_that_are_none(manifest, forest):
    with zipfile.ZipFile(forest, "w") as archive:
        archive.writestr("manifest.json", manifest)
    with pytest.raises(hbconv.StoreError, match="cannot be read"):
        hbconv.load(forest)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_members_of_one_name(forest):
    with zipfile.ZipFile(forest, "a") as archive:
        archive.writestr("manifest.json", "{}")
    with pytest.raises(hbconv.StoreError, match="share a name"):
        hbconv.load(forest)


def test_members_that_share_their_bytes(forest):
    """Each entry of the directory names the same bytes, which would be read a hundred times."""
    with zipfile.ZipFile(forest, "a") as archive:
        one = archive.getinfo("arrays.safetensors")
        archive.filelist += [one] * 100
        for number in range(100):
            archive.NameToInfo[f"copy{number}"] = one
        archive._didModify = True
    with pytest.raises(hbconv.StoreError, match="share a name, or bytes"):
        hbconv.load(forest)


def packed(graph: Graph) -> bytes:
    return store.pack(store.Stored(graph, Target("reference"), ("float64", "float64")))


def chain(step, depth: int) -> Node:
    node: Node = X
    for _ in range(depth):
        node = step(node)
        _ = node.type, node.key
    return node


def test_columns_beside_themselves_time_after_time():
    wide = chain(lambda x: Concat((x, x)), 60)
    with pytest.raises(hbconv.StoreError, match="more values than memory holds"):
        store.unpack(packed(Graph(X.schema, {"predict": Output(wide)})))


@pytest.mark.parametrize(
    "step",
    [lambda x: Add((x, x)), lambda x: Select(Concat((x, x)), Array(np.arange(2, dtype=np.int32)))],
)
def test_many_paths_through_few_nodes_are_walked_once(step, tmp_path):
    node = chain(step, 60)
    check = Check(IsNonFinite(node, allow_nan=False), "infinite")
    (tmp_path / "m.hbc").write_bytes(packed(Graph(X.schema, {"predict": Output(node)}, (check,))))
    assert hbconv.load(tmp_path / "m.hbc").predict(np.zeros((3, 2))).shape == (3, 2)


def test_a_graph_deeper_than_python_goes_ends_by_name(tmp_path):
    node = chain(lambda x: Map(x, "relu"), 3000)
    check = Check(IsNonFinite(node, allow_nan=False), "infinite")
    (tmp_path / "m.hbc").write_bytes(packed(Graph(X.schema, {"predict": Output(node)}, (check,))))
    with pytest.raises(hbconv.HbconvError):
        hbconv.load(tmp_path / "m.hbc").predict(np.zeros((3, 2)))


@pytest.mark.parametrize(
    "ask",
    [
        lambda model: model.kneighbors_graph(np.zeros((3, 2))),
        lambda model: model.explain(),
        lambda model: model.explain("lowered"),
        lambda model: model.explain().to_html(),
    ],
    ids=["call", "explain", "stage", "html"],
)
def test_outputs_on_demand_that_cannot_be_compiled_end_by_name(ask, tmp_path):
    """Loading does not look at them: here, at a number that no dtype holds."""
    path = tmp_path / "m.hbc"
    for absent in (0.5, 10**30):
        graph = Output(Held(Compare.of(X, "le", 0.0), X, absent), on_demand=True)
        path.write_bytes(packed(Graph(X.schema, {"predict": Output(X), "kneighbors_graph": graph})))
        model = hbconv.load(path)
        if absent == 0.5:
            assert ask(model) is not None
        else:
            with pytest.raises(hbconv.BackendError, match="is no array of numbers"):
                ask(model)


@pytest.mark.parametrize(
    ("output", "says"),
    [
        (Output(X, dtype="V99999"), "a dtype that no answer has"),
        (Output(X, dtype=""), "a dtype that no answer has"),
        (Output(X, MatrixList((5, -3))), "has parts"),
        (Output(X, Cube((-1, -2))), "has shape"),
        (Output(X, Paths(Array(np.array([1, 0])))), "paths that have no end"),
        (Output(X, Blocks(((Affine.of(X, add=1.0), None),))), "blocks of something else"),
        (Output(X, Labels(Array(["a"]), vector=False)), "codes of dtype"),
    ],
)
def test_forms_of_answers_that_are_none(output, says):
    with pytest.raises(hbconv.StoreError, match=says):
        store.unpack(packed(Graph(X.schema, {"predict": output})))


@pytest.mark.parametrize("name", ["dtypes", "save", "_method", ""])
def test_answers_to_no_method(name):
    with pytest.raises(hbconv.StoreError, match="is no method"):
        store.unpack(packed(Graph(X.schema, {name: Output(X)})))


@pytest.mark.parametrize(
    "extractor",
    [
        Extractor(Texts(pattern="("), Terms(("a",))),
        Extractor(Texts(encoding="no such"), Terms(("a",))),
        Extractor(Texts(longest=10**9), Terms(("a",))),
        Extractor(Texts(shortest=0), Terms(("a",))),
        Extractor(Tokens(), Buckets(2**40)),
        Extractor(Tokens(), Buckets(-1)),
        Extractor(Tokens(), Terms(("a",)), "string"),
    ],
    ids=str,
)
def test_texts_that_cannot_be_read(extractor):
    node = Entries(Schema.items(), 0, extractor)
    stored = store.Stored(
        Graph(node.schema, {"transform": Output(node)}), Target("reference"), ("string",)
    )
    with pytest.raises(hbconv.StoreError, match=r"are none|columns of|no count"):
        store.unpack(store.pack(stored))


def test_codes_beyond_the_labels_end_by_name(tmp_path):
    model = hbconv.convert(fit("forest"), "reference")
    model.save(tmp_path / "m.hbc")

    def cut(manifest, _):
        outputs = dict(dict(manifest["model"]["root"]["map"])["parsed"]["outputs"]["map"])
        outputs["predict"]["form"]["classes"] = {
            "text": {"tuple": ["only"]},
            "dtype": "<U6",
            "shape": [1],
        }

    forge(tmp_path / "m.hbc", cut)
    with pytest.raises(hbconv.BackendError, match="beyond the end"):
        hbconv.load(tmp_path / "m.hbc").predict(matrix())


LIMITED = """
import resource, sys, hbconv
data = int(next(l for l in open("/proc/self/status") if l.startswith("VmData")).split()[1]) << 10
resource.setrlimit(resource.RLIMIT_DATA, (data + (1 << 30),) * 2)
try:
    hbconv.load(sys.argv[1])
except hbconv.StoreError as error:
    print(error)
"""


@pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(resource, "RLIMIT_DATA"),
    reason="only Linux limits a process's own memory so",
)
def test_a_file_that_asks_for_much_memory_is_refused_within_little(tmp_path):
    encoder = fit("encoder")
    hbconv.convert(encoder, "reference").save(tmp_path / "m.hbc")
    forge(tmp_path / "m.hbc", lambda m, _: entry(m, "OneHot").update(sizes={"tuple": [2**40]}))
    ran = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path / "m.hbc")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "more values than memory holds" in ran.stdout
