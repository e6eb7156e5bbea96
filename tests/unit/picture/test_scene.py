"""What a picture shows: equal members once, steps in frames, shares of the predicted time."""

from __future__ import annotations

import numpy as np
import pytest
from pictured import MODELS, X, converted
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import hbconv
from hbconv.containers import NODES
from hbconv.picture.scene import KINDS, kind_of, make_scene
from hbconv.picture.sizes import cut, width_of


def scene(name, stage="graph"):
    model = converted(name)
    graph = model.graph if stage == "graph" else model.parsed
    return make_scene(graph, model.target)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("stage", ["graph", "parsed"])
def test_lines_lead_down(name, stage):
    found = scene(name, stage)
    rank = {box: c.rank for c in found.clusters for box in c.boxes}
    home = {box: i for i, c in enumerate(found.clusters) for box in c.boxes}
    assert sorted(rank) == list(range(len(found.boxes)))
    for above, below in found.lines:
        assert rank[above] < rank[below] or home[above] == home[below]


@pytest.mark.parametrize("name", MODELS)
def test_every_answer_has_a_box(name):
    answers = [box.title for box in scene(name).boxes if box.kind == "output"]
    assert answers == list(converted(name).methods)


@pytest.mark.parametrize("name", ["heads", "stacked", "table"])
def test_the_shares_are_of_the_whole(name):
    shares = [box.share for box in scene(name).boxes]
    assert min(shares) >= 0
    assert abs(sum(shares) - 1) < 1e-9


def test_contributions_have_no_share_where_nobody_asks():
    """On a forest they would take the most of it."""
    forest = RandomForestClassifier(4, random_state=0).fit(X, X[:, 0] > 0)
    model = hbconv.convert(forest, backend="reference")
    boxes = make_scene(model.graph, model.target).boxes
    assert {box.title: box.share for box in boxes}["tree contributions"] == 0
    asked = make_scene(model.graph, model.target, methods=["contributions"])
    assert {box.title: box.share for box in asked.boxes}["tree contributions"] > 0.1


def test_heads_of_one_shape_are_drawn_once():
    found = scene("heads", "parsed")
    assert {box.count for box in found.boxes} == {1, 12}
    (cluster,) = [c for c in found.clusters if "estimators_[" in c.path]
    assert cluster.path.endswith("estimators_[0…11]")
    assert {found.boxes[box].count for box in cluster.boxes} == {12}
    assert len(found.boxes) < len(converted("heads").parsed.nodes()) / 3


def test_members_that_differ_stay_apart():
    parts = [("a", StandardScaler(with_mean=False), [0, 1]), ("b", StandardScaler(), [2, 3])]
    source = make_pipeline(ColumnTransformer(parts), Ridge()).fit(X, X[:, 0])
    model = hbconv.convert(source, "reference")
    scaled = [b for b in make_scene(model.parsed, model.target).boxes if b.title == "affine"]
    assert sorted(box.detail for box in scaled) == ["(x − a) ÷ b", "x ÷ a"]
    assert {box.count for box in scaled} == {1}


def test_inputs_tell_names_and_dtypes():
    inputs = {
        box.title: box.detail for box in scene("stacked", "parsed").boxes if box.kind == "input"
    }
    assert inputs == {"x0 … x4": "float64, 5 columns"}
    told = [box for box in scene("table").boxes if box.kind == "input"]
    assert any(box.detail.startswith("text, 3 categories") for box in told)


def test_remarks_are_told():
    model = converted("heads")
    (node,) = [n for n in model.graph.nodes() if n.name == "columns"]
    found = make_scene(model.graph, model.target, {node: "made by a rule"})
    assert [box.facts["rules"] for box in found.boxes if "rules" in box.facts] == ["made by a rule"]


def test_every_container_has_a_kind_of_its_file():
    kinds = {cls.__module__: kind_of(object.__new__(cls)) for cls in NODES.values()}
    own = {module: kind for module, kind in kinds.items() if module.startswith("hbconv.")}
    assert set(own.values()) == set(KINDS) - {"output"}
    wiring = {module.rpartition(".")[2] for module, kind in own.items() if kind == "wiring"}
    own_files = {"arithmetic", "column_wise", "conditions", "elementwise", "wiring"}
    assert wiring == own_files | {"pairs", "row_statistics"}


def test_text_is_cut_to_its_room():
    long = "a column with a very long name " * 9
    assert width_of(cut(long, 12, 150), 12) <= 150
    assert cut("short", 12, 150) == "short"
    assert np.isclose(width_of("mmmm", 20), 2 * width_of("mm", 20))
