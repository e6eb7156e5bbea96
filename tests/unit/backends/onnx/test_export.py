"""The ONNX file a user takes away, run by a bare session: text, labels, checks, names, shapes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

import hbconv
from hbconv import __version__
from hbconv.backends.onnx import export_onnx
from hbconv.backends.onnx.export import check_model
from hbconv.backends.onnx.writer import GraphWriter
from hbconv.containers import Graph
from hbconv.errors import BackendError, MissingPackageError
from hbconv.parse import parse
from hbconv.target import Target

TARGET = Target("onnx")


def graph_of(estimator: Any, *dtypes: str) -> Graph:
    """Columns of the given dtypes (one: all the same)."""
    graph = parse(estimator).for_rows(sparse=False)
    return graph.with_schema(
        graph.schema.with_dtypes(dtypes if len(dtypes) > 1 else dtypes * len(graph.schema.columns))
    )


def session_of(graph: Graph, target: Target = TARGET) -> onnxruntime.InferenceSession:
    """Export, check, and open as users do."""
    model = export_onnx(graph, target)
    onnx.checker.check_model(onnx.load_from_string(model), full_check=True)
    return onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])


def answers(
    session: onnxruntime.InferenceSession, feeds: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    return dict(
        zip((o.name for o in session.get_outputs()), session.run(None, dict(feeds)), strict=True)
    )


def numbers(n: int = 300) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, 4))
    return x, (x[:, 0] + x[:, 1] ** 2 > 0.7).astype(int) + (x[:, 2] > 1)


def table(n: int = 300) -> tuple[pd.DataFrame, np.ndarray]:
    """Numbers and text, with missing values in both."""
    rng = np.random.default_rng(1)
    city = rng.choice(["oslo", "zürich", "", "東京"], n).astype(object)
    deck = rng.choice(["x", "y"], n).astype(object)
    deck[rng.random(n) < 0.1] = np.nan
    age = np.where(rng.random(n) < 0.1, np.nan, rng.normal(40, 10, n))
    frame = pd.DataFrame({"age": age, "city": city, "deck": deck, "unused": rng.random(n)})
    return frame, np.where((city == "oslo") ^ (frame["age"].fillna(30) > 40), "ja", "nej")


def table_pipeline(last: Any) -> Pipeline:
    text = OneHotEncoder(handle_unknown="ignore")
    steps = [
        ("num", make_pipeline(SimpleImputer(), StandardScaler()), ["age"]),
        ("text", text, ["city", "deck"]),
    ]
    return Pipeline([("prep", ColumnTransformer(steps)), ("model", last)])


def text_feeds(frame: pd.DataFrame) -> dict[str, np.ndarray]:
    return {name: frame[[name]].to_numpy() for name in ("age", "city", "deck")}


TABLE_DTYPES = ("float64", "string", "string", "float64")


@pytest.mark.parametrize("tree_ops", ["native", "core"])
def test_text_and_labels_in_the_graph(tree_ops: Any) -> None:
    """One input for each column that is read; unknown, missing, empty and non-ASCII text;
    labels as text.
    """
    frame, y = table()
    model = table_pipeline(RandomForestClassifier(7, max_depth=4, random_state=0)).fit(frame, y)
    session = session_of(graph_of(model, *TABLE_DTYPES), TARGET.replace(tree_ops=tree_ops))
    assert [(i.name, i.type, i.shape) for i in session.get_inputs()] == [
        ("age", "tensor(double)", ["n", 1]),
        ("city", "tensor(string)", ["n", 1]),
        ("deck", "tensor(string)", ["n", 1]),
    ]
    assert [(o.name, o.type, o.shape) for o in session.get_outputs()][:2] == [
        ("predict", "tensor(string)", ["n"]),
        ("predict_proba", "tensor(double)", ["n", 2]),
    ]
    rows = frame.copy()
    rows.loc[3, "city"], rows.loc[4, "city"], rows.loc[5, "deck"] = "oslo ", "osl", "xx"
    got = answers(session, text_feeds(rows))
    assert got["predict"].tolist() == model.predict(rows).tolist()
    np.testing.assert_array_equal(got["predict_proba"], model.predict_proba(rows))


@pytest.mark.parametrize("n", [0, 1, 7])
def test_any_number_of_rows(n: int) -> None:
    frame, y = table()
    model = table_pipeline(LogisticRegression()).fit(frame, y)
    got = answers(session_of(graph_of(model, *TABLE_DTYPES)), text_feeds(frame[:n]))
    assert (got["predict"].shape, got["predict_proba"].shape, got["decision_function"].shape) == (
        (n,),
        (n, 2),
        (n,),
    )
    if n:
        assert got["predict"].tolist() == model.predict(frame[:n]).tolist()
        np.testing.assert_allclose(got["predict_proba"], model.predict_proba(frame[:n]), rtol=1e-14)


def test_missing_text_is_the_empty_text() -> None:
    """Where the empty text is no category, it stands for missing, as what a session makes of
    NaN does.
    """
    frame, y = table()
    model = table_pipeline(LogisticRegression()).fit(frame, y)
    session = session_of(graph_of(model, *TABLE_DTYPES))
    rows = frame[frame["deck"].isna()]
    want = model.predict_proba(rows)
    for missing in ("", np.nan, "nan"):
        feeds = text_feeds(rows) | {"deck": np.full((len(rows), 1), missing, object)}
        np.testing.assert_allclose(answers(session, feeds)["predict_proba"], want, rtol=1e-14)


def test_only_text() -> None:
    frame, _ = table()
    encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1).fit(
        frame[["city", "deck"]]
    )
    session = session_of(graph_of(encoder, "string", "string"))
    rows = frame[["city", "deck"]].copy()
    rows.iloc[0, 0] = "nowhere"
    got = answers(session, {name: rows[[name]].to_numpy() for name in rows})
    np.testing.assert_array_equal(got["transform"], encoder.transform(rows))


@pytest.mark.parametrize(
    ("classes", "kind"),
    [
        ([3, 7, 11], "tensor(int64)"),
        (["a", "b", "ç"], "tensor(string)"),
        (np.array(["a", "b", "ç"], object), "tensor(string)"),
        ([0.0, 1.0, 2.0], "tensor(double)"),
        ([False, True], "tensor(bool)"),
    ],
)
def test_labels_of_every_dtype(classes: Any, kind: str) -> None:
    x, codes = numbers()
    model = LogisticRegression().fit(x, np.array(classes)[np.minimum(codes, len(classes) - 1)])
    session = session_of(graph_of(model, "float64"))
    assert session.get_outputs()[0].type == kind
    assert answers(session, {"X": x})["predict"].tolist() == model.predict(x).tolist()


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_numbers_are_one_matrix(dtype: str) -> None:
    """Named columns too; the type is that of the columns."""
    x, y = numbers()
    frame = pd.DataFrame((x * 10).astype(dtype), columns=["a", "b", "c", "d"])
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(frame.astype("float64"), y)
    session = session_of(graph_of(model, dtype))
    assert [(i.name, i.shape) for i in session.get_inputs()] == [("X", ["n", 4])]
    got = answers(session, {"X": frame.to_numpy()})
    assert got["predict"].tolist() == model.predict(frame).tolist()
    np.testing.assert_allclose(
        got["predict_proba"], model.predict_proba(frame), rtol=1e-12 if dtype != "float32" else 1e-5
    )


def test_columns_of_two_dtypes_are_inputs_of_their_own() -> None:
    x, y = numbers()
    frame = pd.DataFrame(x, columns=["a", "b", "c", "d"]).astype({"b": "float32"})
    model = LinearRegression().fit(frame, y)
    got = answers(
        session_of(graph_of(model, "float64", "float32", "float64", "float64")),
        {name: frame[[name]].to_numpy() for name in frame},
    )
    np.testing.assert_allclose(got["predict"], model.predict(frame), rtol=1e-12)


def test_rows_the_source_refuses_make_the_run_fail() -> None:
    """At a node that is named after the reason; other rows pass."""
    x, y = numbers()
    session = session_of(
        graph_of(make_pipeline(StandardScaler(), LogisticRegression()).fit(x, y), "float64")
    )
    for bad, where in ((np.nan, "LogisticRegression"), (np.inf, "StandardScaler")):
        rows = x.copy()
        rows[5, 1] = bad
        with pytest.raises(Exception, match=f"Name:'Input X contains .* for {where}"):
            session.run(None, {"X": rows})
    assert len(session.run(None, {"X": x})[0]) == len(x)


def test_checks_of_one_message_are_nodes_of_their_own():
    """Runtimes refuse a graph in which two nodes have one name, and members of an ensemble have
    equal messages.
    """
    x, y = numbers()
    model = CalibratedClassifierCV(
        RandomForestClassifier(5, max_depth=3, random_state=0), cv=3, method="isotonic"
    ).fit(x, y > 0)
    session = session_of(graph_of(model, "float64"))
    np.testing.assert_array_equal(
        answers(session, {"X": x})["predict_proba"], model.predict_proba(x)
    )
    with pytest.raises(
        Exception, match=r"Name:'Input X contains infinity .* for RandomForestClassifier"
    ):
        session.run(None, {"X": np.full_like(x, np.inf)})


def test_graphs_inside_a_graph_name_no_number_of_rows() -> None:
    """ONNX Runtime gives all of "n" rows memory of one size; a branch had a row more (hunt)."""
    rows = np.random.default_rng(0).normal(size=(200, 4))
    graph = graph_of(KNeighborsClassifier().fit(rows, np.arange(200) % 2), "float32")
    model = onnx.load_from_string(export_onnx(graph, TARGET))
    inner = [a.g for node in model.graph.node for a in node.attribute if a.HasField("g")]
    values = [value for graph in inner for value in (*graph.input, *graph.output)]
    assert len(values) >= 2
    assert not any(d.dim_param for v in values for d in v.type.tensor_type.shape.dim)


def test_names_of_nodes_are_unique_whatever_they_are_given():
    w = GraphWriter()
    for _ in range(3):
        w.named_node(w.fresh("y"), "Identity", w.constant([1.0], "float64"), name="same")
    graph = w.graph("g", [], [])
    assert [node.name for node in graph.node] == ["same", "same (2)", "same (3)"]


def test_constants_that_no_node_reads_are_left_out():
    """A runtime would warn of each."""
    w = GraphWriter()
    read, _ = w.constant([1.0], "float64"), w.constant([2.0], "float64")
    w.node("Neg", read)
    assert [constant.name for constant in w.graph("g", [], []).initializer] == [read]


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint8", "int16", "uint16", "int32", "int64", "float32", "float64"]
)
def test_answers_of_every_dtype(dtype: str) -> None:
    frame, _ = table()
    encoder = OneHotEncoder(dtype=dtype, sparse_output=False).fit(frame[["city"]])
    got = answers(session_of(graph_of(encoder, "string")), {"city": frame[["city"]].to_numpy()})[
        "transform"
    ]
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, encoder.transform(frame[["city"]]))


def test_a_file_that_breaks_the_rules_of_onnx_is_not_written() -> None:
    w = GraphWriter()
    w.output(w.named_node("y", "NoSuchOperator", w.constant([1.0], "float64")), "float64", ())
    with pytest.raises(BackendError, match="breaks a rule of the format"):
        check_model(w.model("m"))


def test_a_model_without_tensors_is_refused(tmp_path: Any) -> None:
    model = hbconv.convert(NearestNeighbors().fit(numbers()[0]), "reference")
    with pytest.raises(BackendError, match="neighbors is none"):
        model.export(tmp_path / "model.onnx")


def test_unknown_text_the_source_refuses_makes_the_run_fail() -> None:
    frame, _ = table()
    encoder = OneHotEncoder().fit(frame[["city"]])
    session = session_of(graph_of(encoder, "string"))
    with pytest.raises(Exception, match="OneHotEncoder"):
        session.run(None, {"city": np.array([["oslo"], ["nowhere"]], object)})


@pytest.mark.parametrize("columns", [["predict", "b"], ["a", ""]])
def test_names_that_clash_are_refused(columns: list[str]) -> None:
    x, y = numbers()
    model = LinearRegression().fit(pd.DataFrame(x[:, :2], columns=columns), y)
    graph = graph_of(model, "float64", "float32")
    with pytest.raises(BackendError, match="empty or taken twice"):
        export_onnx(graph, TARGET)


def test_file_tells_what_it_is() -> None:
    x, y = numbers()
    graph = graph_of(LogisticRegression().fit(x, y), "float32")
    model = onnx.load_from_string(export_onnx(graph, TARGET))
    metadata = {p.key: p.value for p in model.metadata_props}
    assert (model.producer_name, model.producer_version) == ("hbconv", __version__)
    assert (metadata["hbconv_version"], metadata["estimator"], metadata["kind"]) == (
        __version__,
        "LogisticRegression",
        "classifier",
    )
    assert json.loads(metadata["features"]) == ["x0", "x1", "x2", "x3"]
    assert json.loads(metadata["methods"]) == list(graph.outputs)
    assert "LogisticRegression" in model.graph.doc_string
    assert {node.doc_string for node in model.graph.node} >= {"LogisticRegression"}


def test_runtime_that_misreads_trees_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = numbers()
    graph = graph_of(LogisticRegression().fit(x, y), "float32")
    monkeypatch.setattr(onnxruntime, "__version__", "1.23.2")
    with pytest.raises(MissingPackageError, match=r"onnxruntime 1.24 or later \(found 1.23.2\)"):
        export_onnx(graph, TARGET)


def test_fast_precision_is_float32_throughout() -> None:
    x, y = numbers()
    model = RandomForestClassifier(10, random_state=0).fit(x, y)
    graph = graph_of(model, "float32")
    session = session_of(graph, TARGET.replace(precision="fast"))
    got = answers(session, {"X": x.astype("float32")})
    assert got["predict_proba"].dtype == np.float32
    np.testing.assert_allclose(
        got["predict_proba"], model.predict_proba(x.astype("float32")), atol=1e-6
    )
