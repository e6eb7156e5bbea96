"""Each stage of the compiler runs when it is asked for, and no later one does."""

import numpy as np
import pytest
from fitted import fit, matrix

import hbconv
from hbconv.backends import find_backend
from hbconv.containers import Affine, Columns, Graph, Map, Output, Schema
from hbconv.errors import BackendError, OptionError
from hbconv.pipeline import Compilation, Planned
from hbconv.runtime.report.derivations import STAGES
from hbconv.target import Target


def graph():
    schema = Schema.matrix(2)
    x = Columns.of(schema)
    return Graph(schema, {"transform": Output(Affine.of(Affine.of(x, add=0.0), mul=2.0))})


def test_types_follow_the_columns():
    planned = Planned(graph(), ("float32", "float32"), Target())
    assert planned.typed.outputs["transform"].node.type.dtype == "float32"
    assert len(planned.optimized.nodes()) < len(planned.typed.nodes())


def test_stages_that_are_not_asked_for_do_not_run():
    planned = Planned(graph(), ("float64", "float64"), Target(strategy="no such strategy"))
    assert planned.optimized.nodes()
    with pytest.raises(OptionError, match="no such strategy"):
        _ = planned.plan


def test_the_last_stage_computes():
    planned = Planned(graph(), ("float64", "float64"), Target())
    artifact = Compilation(planned, ("transform",)).emitted()
    np.testing.assert_array_equal(artifact.run({"x": np.ones((3, 2))})["transform"], 2.0)


def test_what_a_backend_refuses_is_lowered_all_the_same(monkeypatch):
    backend = find_backend("reference")
    monkeypatch.setattr(type(backend), "emits", frozenset(backend.emits) - {"exp"})
    schema = Schema.matrix(1)
    refused = Graph(schema, {"transform": Output(Map(Columns.of(schema), "exp"))})
    stages = Compilation(Planned(refused, ("float64",), Target()), ("transform",))
    assert "exp" in stages.lowered.program.primitives
    with pytest.raises(BackendError, match="exp"):
        _ = stages.prepared


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("backend", ["reference", "tvm"])
def test_explain_shows_each_stage(stage, backend):
    model = hbconv.convert(fit("linear"), backend=backend, sample=matrix())
    report = model.explain(stage)
    assert report.stage == stage
    assert all(report.texts.values())
    assert f", {stage}\n" in str(report)
    shared = stage in ("parsed", "typed", "optimized", "planned")
    assert list(report.texts) == (["model"] if shared else list(model.methods))


def test_an_unknown_stage_is_refused_with_the_nearest():
    with pytest.raises(OptionError, match="Did you mean 'prepared'"):
        hbconv.convert(fit("linear"), backend="reference").explain("prepard")
