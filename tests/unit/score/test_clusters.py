"""``hbconv score --on`` on real clusters of this machine, of which each loses workers in the middle of
a job, and then the command: no row is lost, and none is there twice.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from cluster_kills import kill_both
from dying_scorer import DyingScorer
from late import late
from sklearn.linear_model import LogisticRegression

import hbconv
from hbconv.cli import main
from hbconv.errors import OptionError
from hbconv.score.answers import FIRST
from hbconv.score.clusters import open_cluster

pytestmark = pytest.mark.filterwarnings("ignore")  # the engines' own
distributed = late("distributed")
ROWS = 1_200
BAD = [5, 700, 1_199]


def require_ray() -> None:
    pytest.importorskip("ray", reason="Ray is missing: pip install 'hbconv[ray]', make engines")


def require_spark() -> None:
    pytest.importorskip(
        "pyspark", reason="Spark is missing: pip install 'hbconv[spark]', make engines"
    )
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java, which is missing: apt-get install default-jre-headless")


@pytest.fixture(scope="module")
def judge() -> Any:
    """A fitted classifier of two columns."""
    draw = np.random.default_rng(0)
    table = pd.DataFrame({"a": draw.normal(size=90), "b": draw.normal(size=90)})
    return LogisticRegression().fit(table, np.where(table.a > table.b, "yes", "no"))


@pytest.fixture
def work(judge: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of twelve files, three rows of which are bad, and a model whose worker dies once."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    hbconv.convert(judge, backend="reference").save("m.hbc")
    draw = np.random.default_rng(1)
    table = pd.DataFrame({"a": draw.normal(size=ROWS), "b": draw.normal(size=ROWS)})
    table.loc[BAD, "a"] = np.nan
    Path("in").mkdir()
    for number, rows in enumerate(np.array_split(np.arange(ROWS), 12)):
        part = table.iloc[rows].assign(id=rows)
        part.to_parquet(f"in/{number:02}.parquet", index=False, row_group_size=25)
    dying = DyingScorer(tmp_path / "m.hbc", tmp_path / "died")
    monkeypatch.setattr("hbconv.cli.score.load_scorers", lambda _: {FIRST: dying})
    return tmp_path


def check(work: Path, judge: Any, cluster: str, output: str) -> None:
    """Score on a cluster, and compare with the source."""
    argv = f"score m.hbc in -o {output} --rejects bad.jsonl --batch-rows 20 --quiet --on".split()
    assert main([*argv, cluster]) == 0
    assert (work / "died").is_dir()
    rows = pd.read_parquet("in").sort_values("id").dropna()
    found = pq.read_table(output.rstrip("/")).to_pandas()
    if output.endswith("/"):
        found = found.sort_values("id")
    assert found.id.tolist() == rows.id.tolist()
    assert found.predict.tolist() == judge.predict(rows[["a", "b"]]).tolist()
    lines = [json.loads(line) for line in Path("bad.jsonl").read_text().splitlines()]
    assert [line["values"]["id"] for line in lines] == BAD
    assert not list(work.rglob(".hbconv-*"))


OUTPUTS = ["out/", "out.parquet"]


class TestOnDask:
    @pytest.fixture(scope="class")
    def address(self) -> Any:
        """Two processes of a thread each."""
        with distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster:
            yield cluster.scheduler_address

    @pytest.mark.parametrize("output", OUTPUTS)
    def test_a_lost_worker_loses_nothing(self, work, judge, address, output):
        check(work, judge, f"dask:{address}", output)

    def test_a_scheduler_that_is_not_there(self):
        with (
            late("dask").config.set({"distributed.comm.timeouts.connect": "1s"}),
            pytest.raises(OptionError, match="the cluster does not answer"),
            open_cluster("dask:tcp://127.0.0.1:9", b"", 1),
        ):
            pass


class TestOnRay:
    @pytest.fixture(scope="class")
    def address(self) -> Any:
        """A cluster of a node of two CPUs, which this process did not start."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block"]
        command += [f"--port={port}", "--num-cpus=2", "--include-dashboard=false"]
        with pytest.MonkeyPatch.context() as patch:
            # Ray reads it as it is imported; else both sides would need one token.
            patch.setenv("RAY_AUTH_MODE", "disabled")
            patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
            require_ray()
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as head:
                assert any("Ray runtime started" in line for line in head.stdout)
                yield f"ray:127.0.0.1:{port}"
                head.terminate()

    @pytest.mark.parametrize("output", OUTPUTS)
    def test_a_lost_worker_loses_nothing(self, work, judge, address, output):
        check(work, judge, address, output)

    def test_more_threads_than_a_node_has(self, address):
        with (
            pytest.raises(OptionError, match="--threads 999: no node of the cluster has more than"),
            open_cluster(address, b"", 999),
        ):
            pass


class TestOnSpark:
    @pytest.fixture(autouse=True)
    def spark(self, monkeypatch: pytest.MonkeyPatch) -> Any:
        require_spark()
        monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)

    @pytest.mark.parametrize("output", OUTPUTS)
    def test_a_lost_worker_loses_nothing(self, work, judge, output):
        check(work, judge, "spark:local[2,4]", output)

    def test_a_python_without_hbconv_says_so(self, work, capsys, monkeypatch):
        Path("bare").mkdir()
        Path("bare/sitecustomize.py").write_text("import sys\nsys.modules['hbconv'] = None\n")
        python = work / "bare/python"
        python.write_text(
            f'#!/bin/sh\nexport PYTHONPATH={work}/bare:$PYTHONPATH\nexec {sys.executable} "$@"\n'
        )
        python.chmod(0o755)
        monkeypatch.setenv("PYSPARK_PYTHON", str(python))
        assert main(["score", "m.hbc", "in", "-o", "out/", "--on", "spark:local[2]"]) == 1
        said = capsys.readouterr().err
        assert f"{sys.executable} on " in said
        assert "does not import hbconv: " in said
        assert f"Install 'hbconv[score]=={hbconv.__version__}' there" in said
        assert "Traceback" not in said
        assert not Path("out").exists()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds workers in Linux's /proc")
@pytest.mark.parametrize(
    ("engine", "require"), [("dask", None), ("ray", require_ray), ("spark", require_spark)]
)
def test_killed_workers_and_commands_lose_nothing(tmp_path, monkeypatch, engine, require):
    """The short form of ``make cluster-kills``."""
    if require:
        require()
    monkeypatch.chdir(tmp_path)
    killed, done = kill_both(engine, files=16)
    assert killed > 0
    assert done > 0
