import os

import numpy as np
import pytest
from late import late

import hbconv

dd = late("dask.dataframe")
distributed = late("distributed")


@pytest.fixture(scope="module")
def cluster():
    """Two processes of a thread each, on this machine."""
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as made,
        distributed.Client(made) as client,
    ):
        yield client


def processes(client):
    return set(client.run(os.getpid).values())


def check(found, rows, source):
    assert found.index.equals(rows.index)
    assert found.id.tolist() == rows.id.tolist()
    assert found.predict.tolist() == source.predict(rows).tolist()
    chances = found[["predict_proba_goes", "predict_proba_stays"]]
    np.testing.assert_allclose(chances, source.predict_proba(rows), rtol=1e-9)


@pytest.mark.parametrize("kind", ["path", "model"])
def test_two_workers_answer_as_the_source(cluster, rows, source, kind, request):
    asked = request.getfixturevalue(kind)
    frame = dd.from_pandas(rows, npartitions=8)
    lazy = late("hbconv.engines.dask").score_frames(
        frame, asked, ["predict", "predict_proba"], keep=["id"]
    )
    found = lazy.compute()
    check(found, rows, source)
    assert lazy.dtypes.equals(found.dtypes)


def test_a_killed_worker_loses_nothing(cluster, rows, source, dying):
    before = processes(cluster)
    found = (
        late("hbconv.engines.dask")
        .score_frames(dd.from_pandas(rows, npartitions=12), dying)
        .compute()
    )
    check(found, rows, source)
    assert dying.mark.exists()
    cluster.wait_for_workers(2)
    assert processes(cluster) != before


def test_a_refused_row_ends_the_job_with_its_reason(cluster, rows, model):
    frame = dd.from_pandas(rows.assign(income=np.inf), npartitions=2)
    with pytest.raises(hbconv.InputError, match="infinity"):
        late("hbconv.engines.dask").score_frames(frame, model).compute()
