import json
import os
import sys

import numpy as np
import pytest
from gpu_scorer import GpuScorer

import hbconv

ray = pytest.importorskip("ray", reason="Ray is missing: pip install 'hbconv[ray]', make engines")
ray_data = pytest.importorskip("ray.data", reason="Ray Data is missing: pip install 'hbconv[ray]'")
from hbconv.engines.ray import score_dataset  # noqa: E402 - beside the skips

pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own, of what it imports
HALF = {"actors": 2, "num_cpus": 0.5}


@pytest.fixture(scope="module")
def dataset_of():
    """Make datasets of eight blocks, on a cluster of two CPUs on this machine.

    It counts one GPU, which need not be there.
    """
    paths = {"env_vars": {"PYTHONPATH": os.pathsep.join(sys.path)}}
    options = {"include_dashboard": False, "logging_level": "ERROR", "runtime_env": paths}
    ray.init("local", num_cpus=2, num_gpus=1, **options)
    yield lambda rows: ray_data.from_pandas(rows).repartition(8)
    ray.shutdown()


def check(dataset, rows, source):
    found = dataset.to_pandas().sort_values("id", ascending=False)
    assert found.id.tolist() == rows.id.tolist()
    assert found.predict.tolist() == source.predict(rows).tolist()
    chances = found[["predict_proba_goes", "predict_proba_stays"]].astype(float)
    np.testing.assert_allclose(chances, source.predict_proba(rows), rtol=1e-9)


@pytest.mark.parametrize("options", [{}, HALF], ids=["defaults", "two actors"])
def test_actors_answer_as_the_source(dataset_of, rows, source, path, options):
    asked = ["predict", "predict_proba"]
    check(score_dataset(dataset_of(rows), path, asked, ["id"], **options), rows, source)


def test_a_killed_actor_loses_nothing(dataset_of, rows, source, dying):
    check(score_dataset(dataset_of(rows), dying, batch_rows=40, **HALF), rows, source)
    assert dying.mark.exists()


def test_actors_that_keep_all_cpus_are_refused(dataset_of, rows, path):
    """Ray would wait for a CPU that no actor gives back."""
    with pytest.raises(hbconv.OptionError, match="2 actors of 1 CPUs keep 2 of the cluster's 2"):
        score_dataset(dataset_of(rows), path, actors=2)


def test_gpus_for_a_model_on_the_cpu_are_refused(dataset_of, rows, path):
    with pytest.raises(hbconv.OptionError, match="GPUs would idle"):
        score_dataset(dataset_of(rows), path, num_gpus=1)


@pytest.mark.parametrize(("num_gpus", "most"), [(1, 1), (0.5, 2)])
def test_actors_are_given_their_gpus(dataset_of, rows, source, path, tmp_path, num_gpus, most):
    """Not run on a GPU: the actors are placed, and told their device, as on one."""
    options = {"num_gpus": num_gpus, "batch_rows": 40}
    check(score_dataset(dataset_of(rows), GpuScorer(path, tmp_path), **options), rows, source)
    notes = [json.loads(note.read_text()) for note in tmp_path.iterdir()]
    assert 0 < len(notes) <= most
    assert all(note == {"gpus": [0], "visible": "0"} for note in notes)


def test_gpus_that_no_node_has_are_refused(dataset_of, rows, path, tmp_path):
    with pytest.raises(hbconv.OptionError, match="num_gpus=2, and the cluster has 1 GPUs"):
        score_dataset(dataset_of(rows), GpuScorer(path, tmp_path), num_gpus=2)


def test_a_refused_row_ends_the_job_with_its_reason(dataset_of, rows, path):
    with pytest.raises(Exception, match="infinity"):
        score_dataset(dataset_of(rows.assign(income=np.inf)), path).to_pandas()


def test_refused_rows_tell_their_reason(dataset_of, some_refused, path, check_reasons):
    options = {"reasons": "why", **HALF}
    check_reasons(
        score_dataset(dataset_of(some_refused), path, "predict", ["id"], **options).to_pandas()
    )


def test_batches_stream_while_others_are_scored(dataset_of, rows, source, path):
    """Answers come block by block: no dataset is held as a whole."""
    answers = score_dataset(dataset_of(rows), path, "predict", ["id"], **HALF)
    found = dict.fromkeys(rows.id)
    for batch in answers.iter_batches(batch_size=50, batch_format="pyarrow"):
        found |= zip(batch["id"].to_pylist(), batch["predict"].to_pylist(), strict=True)
    assert [*found.values()] == source.predict(rows).tolist()
